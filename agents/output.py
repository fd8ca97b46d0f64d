"""Structured answers: asking for a type, and reading it from the answer's text."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..runtime.errors import ConfigError, text_of
from ..runtime.models import OutputSchema

_FENCE = "```"


class TypedOutput:
    """Any type that pydantic can validate, as the output of an agent."""

    def __init__(self, output_type: Any) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(output_type)
            schema = self._adapter.json_schema()
        except Exception as error:  # also what hooks of the type's own raise
            allowed = f"a type with a JSON schema ({type(error).__name__}: {text_of(error)})"
            raise ConfigError("output_type", output_type, allowed) from error
        name = getattr(output_type, "__name__", "output")
        self.schema = OutputSchema(re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "output", schema)

    def parse(self, text: str) -> Any:
        """Return the value; raise `ValueError` with what is wrong, field by field."""
        try:
            return self._adapter.validate_json(without_fence(text))
        except ValidationError as error:
            problems = [
                f"{'.'.join(str(part) for part in e['loc']) or 'the answer'}: {e['msg']}" for e in error.errors()[:10]
            ]
            raise ValueError("; ".join(problems)) from error
        except Exception as error:
            # A validator of the user's that raises what it should not.
            raise ValueError(f"it could not be validated: {type(error).__name__}: {text_of(error)}") from error


def without_fence(text: str) -> str:
    """Return what stands between the first and the last code fence; the text itself where it needs none, or has none.

    >>> without_fence('Here it is:\\n```json\\n{"a": 1}\\n```')
    '{"a": 1}'
    >>> without_fence('{"code": "```"}')
    '{"code": "```"}'
    """
    start, end = text.find(_FENCE), text.rfind(_FENCE)
    if start == end or text.lstrip()[:1] in ("{", "[", '"'):
        return text
    inner = text[start + len(_FENCE) : end]
    language, newline, rest = inner.partition("\n")
    named = newline and (language.strip().isalpha() or not language.strip())
    return (rest if named else inner).strip()
