"""Grading outside of any run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.errors import ConfigError
from ..runtime.scoring import NOTHING, Evidence, Score, Scorer, ScorerInput, as_score


class Standalone:
    """What a scorer needs to be used by itself."""

    async def run(
        self: Scorer,
        *,
        output: str,
        task: str = "",
        input: Any = None,
        evidence: Sequence[Evidence] = (),
        request_context: Mapping[str, Any] = NOTHING,
        additional_context: Mapping[str, Any] = NOTHING,
    ) -> Score:
        """Grade an output outside of any run.

        Args:
            output: the text to grade, whole.
            task: what was asked for; when empty, an `input` that is a text stands for it.
            input: what the output was made from; a mapping may hold a `rubric`.
            evidence: what tools and sub-agents returned.
            request_context, additional_context: mappings that may hold a `rubric`.

        Raises:
            ConfigError: the output is no text, or a context is no mapping.
            ScorerError: the scorer gave no usable score. Whatever else its `score` raises leaves as it is.
        """
        if not isinstance(output, str):
            raise ConfigError("output", output, "the text to grade")
        for name, context in (("request_context", request_context), ("additional_context", additional_context)):
            if not isinstance(context, Mapping):
                raise ConfigError(name, context, "a mapping")
        given = ScorerInput(
            output=output,
            task=task or (input if isinstance(input, str) else ""),
            input=input,
            evidence=evidence,
            request_context=request_context,
            additional_context=additional_context,
        )
        return as_score(self.id, await self.score(given))
