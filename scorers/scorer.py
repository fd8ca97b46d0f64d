"""Scorers of one's own, built of named steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

import anyio.to_thread

from ..runtime.errors import ConfigError, ScorerError
from ..runtime.scoring import Score, ScorerInput, as_score
from .standalone import Standalone


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerStep:
    """What a step's function gets.

    Attributes:
        input: all that the scorer may look at.
        results: what the steps before returned, by their names (`preprocess`, `analyze`).
        score: the score, once `generate_score` has run.
    """

    input: ScorerInput
    results: Mapping[str, Any] = field(default_factory=dict)
    score: Score | None = None

    @property
    def output(self) -> str:
        """The text to grade."""
        return self.input.output


StepFunction = Callable[[ScorerStep], Any]


@dataclass(frozen=True, kw_only=True)
class ScorerDraft:
    """A scorer that lacks its `generate_score`. Every method returns a new object; this one stays as it is.

    Each function is sync (it runs in a worker thread) or async, and gets a `ScorerStep`. A step that is given again
    replaces the former one.
    """

    id: str
    description: str = ""
    threshold: float = 1.0
    steps: Mapping[str, StepFunction] = field(default_factory=dict, repr=False)

    def preprocess(self, function: StepFunction) -> Self:
        """Run `function` first; later steps find its result under `preprocess`."""
        return replace(self, steps=self._with("preprocess", function))

    def analyze(self, function: StepFunction) -> Self:
        """Run `function` second; later steps find its result under `analyze`."""
        return replace(self, steps=self._with("analyze", function))

    def generate_score(self, function: StepFunction) -> StepScorer:
        """Return the finished scorer: `function` returns a bool, a number from 0 to 1, or a `Score`."""
        steps = self._with("generate_score", function)
        return StepScorer(id=self.id, description=self.description, threshold=self.threshold, steps=steps)

    def generate_reason(self, function: StepFunction) -> Self:
        """Take the score's reason from `function`, which returns a text and finds the score in its step."""
        return replace(self, steps=self._with("generate_reason", function))

    def _with(self, name: str, function: StepFunction) -> Mapping[str, StepFunction]:
        if not callable(function):
            raise ConfigError(name, function, "a function of the ScorerStep")
        return MappingProxyType({**self.steps, name: function})


@dataclass(frozen=True, kw_only=True)
class StepScorer(ScorerDraft, Standalone):
    """A scorer built of steps."""

    kind = "code"

    async def score(self, input: ScorerInput, /) -> Score:
        """Grade `input.output` by the steps.

        Raises:
            ScorerError: the score or the reason has a wrong type.
        """
        results: dict[str, Any] = {}
        step = ScorerStep(input=input, results=MappingProxyType(results))
        for name in ("preprocess", "analyze"):
            if name in self.steps:
                results[name] = await _call(self.steps[name], step)
        score = as_score(self.id, await _call(self.steps["generate_score"], step))
        if "generate_reason" not in self.steps:
            return score
        reason = await _call(self.steps["generate_reason"], replace(step, score=score))
        if not isinstance(reason, str):
            raise ScorerError(self.id, f"generate_reason returned {type(reason).__name__}, not a text")
        return replace(score, reason=reason)


def create_scorer(*, id: str, description: str = "", threshold: float = 1.0) -> ScorerDraft:
    """Begin a scorer of one's own; it is finished by `generate_score`.

    >>> scorer = create_scorer(id="short").generate_score(lambda step: len(step.output) < 80)

    Args:
        id: names the scorer in events, feedback and traces.
        threshold: the share of the scale from which on a score without a decision of its own passes, from 0 to 1.

    Raises:
        ConfigError: an argument is not allowed.
    """
    if not isinstance(id, str) or not id.strip():
        raise ConfigError("id", id, "a text that names the scorer")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise ConfigError("threshold", threshold, "a number from 0 to 1")
    return ScorerDraft(id=id, description=description, threshold=threshold)


async def _call(function: StepFunction, step: ScorerStep) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(step)
    # In a list, since trio lets no coroutine out of a thread.
    (value,) = await anyio.to_thread.run_sync(lambda: [function(step)], abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value
