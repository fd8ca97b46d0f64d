"""What a viewer of a run knows, built from its events alone: no clock, no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from alfine.runtime.events import (
    ApprovalRequested,
    ApprovalResolved,
    CheckFinished,
    CheckStarted,
    CriterionJudged,
    DelegationFinished,
    DelegationStarted,
    Event,
    FeedbackInjected,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    ScorerFinished,
    StepFinished,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    ToolCalled,
    ToolCallStarted,
    ToolProgress,
    ToolReturned,
    Warned,
)


@dataclass(slots=True)
class TextItem:
    """A step's text or reasoning. `draft` while a check is still to decide about it."""

    step: int
    reasoning: bool
    draft: bool
    pieces: list[str] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class CallItem:
    """A tool call, from its first letter to its result; with the sub-run, where it delegates."""

    step: int
    call_id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    progress: Any = None
    started: DelegationStarted | None = None
    child: RunState | None = None
    finished: DelegationFinished | None = None
    returned: ToolReturned | None = None
    done: bool = False


@dataclass(slots=True)
class CheckItem:
    """A check: its verdicts and scores as they come in."""

    started: CheckStarted
    criteria: list[CriterionJudged] = field(default_factory=list)
    scores: list[ScorerFinished] = field(default_factory=list)
    finished: CheckFinished | None = None
    done: bool = False

    def criteria_of(self, position: int) -> list[CriterionJudged]:
        """Return the verdicts of the scorer at `position`, in the rubric's order."""
        return sorted((c for c in self.criteria if c.position == position), key=lambda c: c.index)

    def score_of(self, position: int) -> ScorerFinished | None:
        """Return the score of the scorer at `position`, once it is there."""
        return next((s for s in self.scores if s.position == position), None)


@dataclass(slots=True)
class NoteItem:
    """What is complete when it comes: a step's start, feedback, a warning, an approval."""

    event: StepStarted | FeedbackInjected | Warned | ApprovalRequested | ApprovalResolved
    done: bool = True


Item = TextItem | CallItem | CheckItem | NoteItem


@dataclass(slots=True)
class RunState:
    """A run or a sub-run as far as it is known."""

    run_id: str
    agent: str
    depth: int
    started: RunStarted | None = None
    finished: RunFinished | None = None
    step: int = 0
    iteration: int = 1
    items: list[Item] = field(default_factory=list)

    def call(self, call_id: str) -> CallItem | None:
        """Return the latest call with that id."""
        return next((i for i in reversed(self.items) if isinstance(i, CallItem) and i.call_id == call_id), None)

    def check(self) -> CheckItem | None:
        """Return the check that is going on."""
        return next((i for i in reversed(self.items) if isinstance(i, CheckItem) and not i.done), None)

    def end_texts(self) -> None:
        """Nothing more will be added to the texts that are open."""
        for item in self._open():
            if isinstance(item, TextItem):
                item.done = True

    def end_all(self) -> None:
        """Nothing more will happen in this run."""
        for item in self.items:
            item.done = True

    def _open(self) -> Iterator[Item]:
        for item in reversed(self.items):
            if isinstance(item, NoteItem) and isinstance(item.event, StepStarted):
                return
            if not item.done:
                yield item


class ViewState:
    """All runs of a stream; `apply` takes in one event after the other, of any kind and also of unknown ones.

    Attributes:
        root: the outermost run, once its first event is there.
    """

    def __init__(self) -> None:
        self.root: RunState | None = None
        self._runs: dict[str, RunState] = {}
        self._parents: dict[str, CallItem] = {}

    def apply(self, event: Event) -> None:
        """Take in an event."""
        run = self._run(event)
        match event:
            case RunStarted():
                run.started = event
            case RunFinished():
                run.finished = event
                run.end_all()
            case StepStarted():
                run.step, run.iteration = event.step, event.iteration
                run.items.append(NoteItem(event))
            case TextDelta() | ReasoningDelta():
                _add_text(run, event)
            case StepFinished():
                run.end_texts()
            case FeedbackInjected() | Warned() | ApprovalRequested() | ApprovalResolved():
                run.items.append(NoteItem(event))
            case CheckStarted():
                run.end_texts()
                run.items.append(CheckItem(event))
            case CriterionJudged() | ScorerFinished() | CheckFinished():
                _add_verdict(run, event)
            case _:
                self._apply_call(run, event)

    def _apply_call(self, run: RunState, event: Event) -> None:
        match event:
            case ToolCallStarted():
                run.end_texts()
                run.items.append(CallItem(event.step, event.call_id, event.name))
            case ToolCallDelta():
                if (call := run.call(event.call_id)) is not None:
                    call.arguments.append(event.arguments)
            case ToolCalled():
                self._called(run, event)
            case ToolProgress():
                if (call := run.call(event.call_id)) is not None:
                    call.progress = event.data
            case DelegationStarted():
                if (call := run.call(event.call_id)) is not None:
                    call.started = event
                    self._parents[event.child_run_id] = call
            case DelegationFinished():
                if (call := run.call(event.call_id)) is not None:
                    call.finished = event
            case ToolReturned():
                if (call := run.call(event.call_id)) is not None:
                    call.returned, call.done = event, True

    def _called(self, run: RunState, event: ToolCalled) -> None:
        run.end_texts()
        call = run.call(event.call_id)
        if call is None or call.done or call.step != event.step:
            # A model that repeats an id gets a fresh one for the call itself; the streamed beginning kept the old one.
            call = _unnamed(run, event) or CallItem(event.step, event.call_id, event.name)
            if call not in run.items:
                run.items.append(call)
        call.call_id, call.arguments = event.call_id, [event.arguments]

    def _run(self, event: Event) -> RunState:
        run = self._runs.get(event.run_id)
        if run is None:
            run = RunState(event.run_id, event.agent, event.depth)
            self._runs[event.run_id] = run
            parent = self._parents.get(event.run_id)
            if parent is not None:
                parent.child = run
            elif self.root is None:
                self.root = run
        return run


def _add_text(run: RunState, event: TextDelta | ReasoningDelta) -> None:
    reasoning = isinstance(event, ReasoningDelta)
    last = run.items[-1] if run.items else None
    if not (isinstance(last, TextItem) and not last.done and last.reasoning == reasoning and last.step == event.step):
        run.end_texts()
        last = TextItem(event.step, reasoning, isinstance(event, TextDelta) and event.draft)
        run.items.append(last)
    last.pieces.append(event.text)


def _add_verdict(run: RunState, event: CriterionJudged | ScorerFinished | CheckFinished) -> None:
    check = run.check()
    if check is None:
        return
    if isinstance(event, CriterionJudged):
        check.criteria.append(event)
    elif isinstance(event, ScorerFinished):
        check.scores.append(event)
    else:
        check.finished, check.done = event, True


def _unnamed(run: RunState, event: ToolCalled) -> CallItem | None:
    """Return the streamed beginning of a call that is carried out under another id."""
    for item in run.items:
        if isinstance(item, CallItem) and item.step == event.step and not item.done and item.name == event.name:
            known = "".join(item.arguments)
            if known == event.arguments and item.call_id != event.call_id and item.started is None:
                return item
    return None
