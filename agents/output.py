"""Structured answers: asking for a type, and reading it from the answer's text."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from ..runtime.errors import ConfigError
from ..runtime.models import OutputSchema

_FENCED = re.compile(r"\A\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


class TypedOutput:
    """Any type that pydantic can validate, as the output of an agent."""

    def __init__(self, output_type: Any) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(output_type)
            schema = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise ConfigError("output_type", output_type, f"a type with a JSON schema ({error})") from error
        name = getattr(output_type, "__name__", "output")
        self.schema = OutputSchema(re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "output", schema)

    def parse(self, text: str) -> Any:
        """Return the value; raise `ValueError` with what is wrong, field by field."""
        fenced = _FENCED.match(text)
        try:
            return self._adapter.validate_json(fenced.group(1) if fenced else text)
        except ValidationError as error:
            problems = [
                f"{'.'.join(str(part) for part in e['loc']) or 'the answer'}: {e['msg']}" for e in error.errors()[:10]
            ]
            raise ValueError("; ".join(problems)) from error
