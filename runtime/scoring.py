"""What grading is about: scores, verdicts, and the protocol of a scorer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import anyio.to_thread

from .errors import ConfigError, ScorerError
from .messages import Message, clean
from .models import Model, ModelRequest, Reply

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one criterion.

    Attributes:
        evidence: what the judge quoted, if it did.
        evidence_found: whether that quote stands in the graded output; None without a quote.
    """

    criterion_id: str
    description: str
    required: bool
    satisfied: bool
    reason: str
    evidence: str | None = None
    evidence_found: bool | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """What a scorer says of an output.

    Attributes:
        value: from 0 to `scale`. A finite value beyond that is kept and never passes.
        scale: the best value, above 0.
        passed: the scorer's own decision; None leaves it to the scorer's threshold.
        reason: fed back to the model word for word when the check fails.
        criteria: the verdicts behind the value, in the order of the rubric.
    """

    value: float
    scale: float = 1.0
    passed: bool | None = None
    reason: str = ""
    criteria: tuple[Verdict, ...] = ()

    @property
    def score(self) -> float:
        """The same as `value`."""
        return self.value

    @property
    def beyond_scale(self) -> bool:
        """Whether the value lies outside 0 to `scale`."""
        return not 0 <= self.value <= self.scale

    def passes(self, threshold: float = 1.0) -> bool:
        """Return whether this is a pass; `threshold` is a share of the scale, from 0 to 1."""
        if self.beyond_scale:
            return False
        return self.value / self.scale >= threshold if self.passed is None else self.passed


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a tool or a sub-agent returned in the run that is graded."""

    name: str
    arguments: str
    text: str
    failed: bool = False


AskModel = Callable[[Model, ModelRequest], Awaitable[Reply]]


async def ask_model(model: Model, request: ModelRequest) -> Reply:
    """Ask a model outside of any run and return its whole reply."""
    from .ask import stream_reply

    return await stream_reply(model, request)


def _ignore(index: int, verdict: Verdict) -> None:
    """Nobody listens to verdicts outside of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerInput:
    """What a scorer may look at.

    Attributes:
        output: the whole text that is to be graded.
        task: what the user asked for, as text.
        input: the run's input as it was given; a mapping may hold a `rubric`.
        messages: the conversation so far, the graded answer included.
        evidence: results of the run's tools and sub-agents, in order.
        request_context: the run's own.
        additional_context: what `TaskComplete(additional_context=…)` adds for scorers only.
        step, iteration: where the run stands, from 1.
        memo: the scorer's notes; one dict for all its attempts at one answer.
        ask: calls a model so that its usage and its span belong to the run.
        judged: tells the run of a verdict as soon as it stands, with the criterion's place in the rubric; not for
            worker threads.
    """

    output: str
    task: str = ""
    input: Any = None
    messages: Sequence[Message] = ()
    evidence: Sequence[Evidence] = ()
    request_context: Mapping[str, Any] = field(default_factory=dict)
    additional_context: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = ""
    step: int = 1
    iteration: int = 1
    memo: dict[str, Any] = field(default_factory=dict)
    ask: AskModel = ask_model
    judged: Callable[[int, Verdict], None] = _ignore


@runtime_checkable
class Scorer(Protocol):
    """Grades an output. Anything with an `id` and an async `score` is one.

    A `threshold` attribute (a share of the scale, default 1.0) says from where on a score without a decision of its
    own passes; a `kind` attribute (`code`, `llm_judge`, `human`, default `code`) is shown in traces.
    """

    @property
    def id(self) -> str:
        """Names the scorer in events, feedback and traces."""
        ...

    async def score(self, input: ScorerInput, /) -> Score:
        """Grade `input.output`. A plain method does too; it blocks the event loop while it runs."""
        ...


ScoreFunction = Callable[..., Any]


class FunctionScorer:
    """A plain function as a scorer.

    The function takes the output, and the `ScorerInput` too if it requires a second argument. It returns a bool, a
    number from 0 to 1, or a `Score`. A function that is not async runs in a worker thread.
    """

    kind = "code"
    threshold = 1.0

    def __init__(self, function: ScoreFunction, id: str | None = None) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004
        )
        self._takes_input = _wants_two(function)
        self.id = id or str(getattr(function, "__name__", type(function).__name__))

    async def score(self, input: ScorerInput, /) -> Score:
        """Grade by the function."""
        arguments: tuple[Any, ...] = (input.output, input) if self._takes_input else (input.output,)
        if self._is_async:
            return as_score(self.id, await self._function(*arguments))
        # Boxed, because trio lets no coroutine out of a thread.
        (value,) = await anyio.to_thread.run_sync(lambda: [self._function(*arguments)], abandon_on_cancel=True)
        return as_score(self.id, await value if inspect.isawaitable(value) else value)


def _wants_two(function: ScoreFunction) -> bool:
    # A second parameter with a default is the function's own business: `lambda text, word=word: word in text`.
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) > 1


def as_scorer(scorer: Any) -> Scorer:
    """Return a scorer for what a user gave: a scorer, or a plain function.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(scorer, Scorer) and not isinstance(scorer, type):
        if not isinstance(scorer.id, str) or not scorer.id.strip():
            raise ConfigError("scorers", scorer, "the `id` of a scorer is a text that is not blank")
        threshold = getattr(scorer, "threshold", 1.0)
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise ConfigError(f"threshold of {scorer.id}", threshold, "a share of the scale, from 0 to 1")
        if not callable(scorer.score):
            raise ConfigError("scorers", scorer, "the `score` of a scorer is an async method")
        return scorer
    if callable(scorer) and not isinstance(scorer, type):
        return FunctionScorer(scorer)
    if hasattr(scorer, "generate_score"):
        raise ConfigError("scorers", scorer, "it is unfinished: give it a score with `.generate_score(function)`")
    raise ConfigError("scorers", scorer, "a scorer has an `id` and an async `score`, or is a plain function")


def as_score(scorer_id: str, value: object) -> Score:
    """Return the score that a scorer's return value stands for, with texts that can be sent and stored.

    Raises:
        ScorerError: it is no score, no bool and no finite number, its scale is not above 0, or a part of it is of a
            wrong type.
    """
    if isinstance(value, bool | int | float):
        value = Score(value)
    if not isinstance(value, Score):
        raise ScorerError(scorer_id, f"it returned {type(value).__name__}, not a bool, a number or a Score")
    numbers = {"value": value.value, "scale": value.scale}
    for name, number in numbers.items():
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise ScorerError(scorer_id, f"its {name} is {number!r}, not a finite number")
    if value.scale <= 0:
        raise ScorerError(scorer_id, f"its scale is {value.scale!r}, not above 0")
    if value.passed is not None and not isinstance(value.passed, bool):
        raise ScorerError(scorer_id, f"its passed is {value.passed!r}, not True, False or None")
    if not isinstance(value.reason, str):
        raise ScorerError(scorer_id, f"its reason is {value.reason!r}, not a text")
    if not all(_is_verdict(verdict) for verdict in value.criteria):
        raise ScorerError(scorer_id, "its criteria are not all of them a Verdict with fields of the right types")
    return Score(
        float(value.value),
        float(value.scale),
        value.passed,
        clean(value.reason),
        tuple(clean_verdict(verdict) for verdict in value.criteria),
    )


def _is_verdict(value: object) -> bool:
    return (
        isinstance(value, Verdict)
        and isinstance(value.satisfied, bool)
        and isinstance(value.required, bool)
        and all(isinstance(text, str) for text in (value.criterion_id, value.description, value.reason))
        and isinstance(value.evidence, str | None)
    )


def clean_verdict(verdict: Verdict) -> Verdict:
    """Return `verdict` with texts that can be sent, stored and exported."""
    return replace(
        verdict,
        criterion_id=clean(verdict.criterion_id),
        description=clean(verdict.description),
        reason=clean(verdict.reason),
        evidence=None if verdict.evidence is None else clean(verdict.evidence),
    )
