"""The events of a run: one flat, versioned list of small typed values.

They are all that a client reads. Every event says which run it belongs to (`run_id`, `agent`, `depth`); the events of
sub-runs arrive in the stream of the outermost run, where `seq` counts them all from 1. An event is written once and
then only read; it is not frozen because freezing costs more than making it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

__all__ = [
    "EVENTS_VERSION",
    "EVENT_TYPES",
    "ApprovalRequested",
    "ApprovalResolved",
    "CheckFinished",
    "CheckStarted",
    "CriterionJudged",
    "DelegationFinished",
    "DelegationStarted",
    "Event",
    "FeedbackInjected",
    "ReasoningDelta",
    "RunFinished",
    "RunStarted",
    "ScorerFinished",
    "StepFinished",
    "StepStarted",
    "TextDelta",
    "ToolCallDelta",
    "ToolCallStarted",
    "ToolCalled",
    "ToolProgress",
    "ToolReturned",
    "UnknownEvent",
    "Warned",
    "event_from_dict",
]

EVENTS_VERSION = 1


@dataclass(slots=True)
class Event:
    """What all events have in common.

    Attributes:
        run_id: the run that this is about.
        agent: the name of that run's agent.
        depth: 0 for the outermost run, 1 for its sub-runs, and so on.
        seq: position in the stream of the outermost run, from 1.
    """

    kind: ClassVar[str] = ""
    run_id: str
    agent: str
    depth: int
    seq: int = field(default=0, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-ready data with its `kind` first; `event_from_dict` reads it back."""
        return {"kind": self.kind, **{f.name: getattr(self, f.name) for f in fields(self)}}

    def to_json(self) -> str:
        """Return the event as one line of JSON."""
        from .json_text import write_json

        return write_json(self.to_dict()).decode()


@dataclass(slots=True)
class RunStarted(Event):
    """A run begins. `call_id` is the delegating tool call of a sub-run; `version` that of this list of events."""

    kind: ClassVar[str] = "run_started"
    input: str
    max_steps: int
    parent_run_id: str | None = None
    call_id: str | None = None
    version: int = EVENTS_VERSION


@dataclass(slots=True)
class StepStarted(Event):
    """A model is about to be called."""

    kind: ClassVar[str] = "step_started"
    step: int
    iteration: int


@dataclass(slots=True)
class TextDelta(Event):
    """A piece of text. `draft` while it may still be turned down: by a check, the output type, or `on_step`."""

    kind: ClassVar[str] = "text_delta"
    step: int
    text: str
    draft: bool


@dataclass(slots=True)
class ReasoningDelta(Event):
    """A piece of the model's reasoning."""

    kind: ClassVar[str] = "reasoning_delta"
    step: int
    text: str


@dataclass(slots=True)
class ToolCallStarted(Event):
    """The model begins to write a tool call."""

    kind: ClassVar[str] = "tool_call_started"
    step: int
    position: int
    call_id: str
    name: str


@dataclass(slots=True)
class ToolCallDelta(Event):
    """A piece of a tool call's arguments."""

    kind: ClassVar[str] = "tool_call_delta"
    step: int
    position: int
    call_id: str
    arguments: str


@dataclass(slots=True)
class ToolCalled(Event):
    """A tool call is complete and is now carried out, or refused. `arguments` is the text that the model wrote."""

    kind: ClassVar[str] = "tool_called"
    step: int
    position: int
    call_id: str
    name: str
    arguments: str


@dataclass(slots=True)
class ToolProgress(Event):
    """A tool says how far it is."""

    kind: ClassVar[str] = "tool_progress"
    step: int
    position: int
    call_id: str
    name: str
    data: Any


@dataclass(slots=True)
class ToolReturned(Event):
    """A tool call has its one result: `text` is what the model will read."""

    kind: ClassVar[str] = "tool_returned"
    step: int
    position: int
    call_id: str
    name: str
    text: str
    failed: bool


@dataclass(slots=True)
class DelegationStarted(Event):
    """The supervisor hands work to a sub-agent. `child_run_id` marks the events of that run."""

    kind: ClassVar[str] = "delegation_started"
    step: int
    position: int
    call_id: str
    target: str
    prompt: str
    child_run_id: str


@dataclass(slots=True)
class DelegationFinished(Event):
    """A delegation is over.

    Attributes:
        result: the sub-agent's answer or the reason of a rejection; None when it failed.
        outcome: how the sub-run ended; None when there was none.
        cut_off: the answer is what there was when the sub-run reached a limit.
    """

    kind: ClassVar[str] = "delegation_finished"
    step: int
    position: int
    call_id: str
    target: str
    child_run_id: str | None
    result: str | None
    failed: bool
    rejected: bool = False
    outcome: str | None = None
    cut_off: bool = False


@dataclass(slots=True)
class StepFinished(Event):
    """A step is over: the model's reply is complete and its tools have returned. `graded`: a check follows."""

    kind: ClassVar[str] = "step_finished"
    step: int
    finish_reason: str
    graded: bool
    tool_calls: int
    input_tokens: int
    output_tokens: int


@dataclass(slots=True)
class CheckStarted(Event):
    """The scorers begin to grade an answer."""

    kind: ClassVar[str] = "check_started"
    step: int
    iteration: int
    strategy: str
    scorers: list[str]


@dataclass(slots=True)
class CriterionJudged(Event):
    """A criterion has its verdict. `index` is its place in the rubric, `position` its scorer's place in the check."""

    kind: ClassVar[str] = "criterion_judged"
    step: int
    iteration: int
    scorer_id: str
    position: int
    index: int
    criterion_id: str
    description: str
    required: bool
    satisfied: bool
    reason: str
    evidence: str | None = None
    evidence_found: bool | None = None


@dataclass(slots=True)
class ScorerFinished(Event):
    """A scorer has its score, or failed to give one (`errored`, then `value` is None)."""

    kind: ClassVar[str] = "scorer_finished"
    step: int
    iteration: int
    scorer_id: str
    position: int
    value: float | None
    scale: float
    passed: bool
    reason: str
    errored: bool
    timed_out: bool


@dataclass(slots=True)
class CheckFinished(Event):
    """The check has decided. `errored`: only errors stood in the way; `at_limit`: no step is left after it."""

    kind: ClassVar[str] = "check_finished"
    step: int
    iteration: int
    strategy: str
    passed: bool
    errored: bool
    timed_out: bool
    at_limit: bool


@dataclass(slots=True)
class FeedbackInjected(Event):
    """A message was put into the conversation. `hidden`: clients are asked not to show it."""

    kind: ClassVar[str] = "feedback_injected"
    step: int
    iteration: int
    source: str
    text: str
    hidden: bool


@dataclass(slots=True)
class ApprovalRequested(Event):
    """A tool call waits for a person."""

    kind: ClassVar[str] = "approval_requested"
    step: int
    call_id: str
    name: str
    arguments: str


@dataclass(slots=True)
class ApprovalResolved(Event):
    """A person has decided about a tool call."""

    kind: ClassVar[str] = "approval_resolved"
    step: int
    call_id: str
    approved: bool
    reason: str = ""


@dataclass(slots=True)
class Warned(Event):
    """Something went wrong that did not change the outcome. `code` is stable, `message` is for people."""

    kind: ClassVar[str] = "warning"
    code: str
    message: str


@dataclass(slots=True)
class RunFinished(Event):
    """The run is over. The last event of its run, exactly once.

    Attributes:
        answer_step: the step whose text is `text`; None when no step's is (a sub-agent's answer, no text at all).
        usage: requests, tool_calls, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost.
        error: what failed, for people; None unless the outcome is `error`.
    """

    kind: ClassVar[str] = "run_finished"
    outcome: str
    text: str
    answer_step: int | None
    steps: int
    iterations: int
    usage: dict[str, float]
    error: str | None = None


@dataclass(slots=True)
class UnknownEvent(Event):
    """An event of a kind that this version does not know; `data` holds all of it."""

    data: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the data as it was read."""
        return dict(self.data)


EVENT_TYPES: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        RunStarted,
        StepStarted,
        TextDelta,
        ReasoningDelta,
        ToolCallStarted,
        ToolCallDelta,
        ToolCalled,
        ToolProgress,
        ToolReturned,
        DelegationStarted,
        DelegationFinished,
        StepFinished,
        CheckStarted,
        CriterionJudged,
        ScorerFinished,
        CheckFinished,
        FeedbackInjected,
        ApprovalRequested,
        ApprovalResolved,
        Warned,
        RunFinished,
    )
}


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """Read an event from what `to_dict` wrote, also from what a newer version wrote.

    Unknown fields are ignored. An unknown kind, or a known one without a field that it needs, comes back as an
    `UnknownEvent` that keeps the data.
    """
    cls = EVENT_TYPES.get(str(data.get("kind")))
    if cls is not None:
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        needed = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
        if needed <= known.keys():
            return cls(**known)
    return UnknownEvent(
        str(data.get("run_id", "")),
        str(data.get("agent", "")),
        data["depth"] if isinstance(data.get("depth"), int) else 0,
        seq=data["seq"] if isinstance(data.get("seq"), int) else 0,
        data=dict(data),
    )
