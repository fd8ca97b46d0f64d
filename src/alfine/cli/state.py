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
    position: int
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
    _calls: dict[tuple[int, int], CallItem] = field(default_factory=dict)

    def call(self, step: int, position: int, name: str) -> CallItem:
        """Return a step's call by its place, since models repeat ids; an unheard-of one is added."""
        call = self._calls.get((step, position))
        if call is None:
            self.end_texts()
            call = self._calls[step, position] = CallItem(step, position, name)
            self.items.append(call)
        return call

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
                run.call(event.step, event.position, event.name)
            case ToolCallDelta():
                run.call(event.step, event.position, "").arguments.append(event.arguments)
            case ToolCalled():
                call = run.call(event.step, event.position, event.name)
                call.name, call.arguments = event.name, [event.arguments]
            case ToolProgress():
                run.call(event.step, event.position, event.name).progress = event.data
            case DelegationStarted():
                call = run.call(event.step, event.position, event.target)
                call.started = event
                self._parents[event.child_run_id] = call
            case DelegationFinished():
                run.call(event.step, event.position, event.target).finished = event
            case ToolReturned():
                call = run.call(event.step, event.position, event.name)
                call.returned, call.done = event, True

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
