"""The reducer: from events to what a viewer knows."""

from collections.abc import Sequence

from alfine.cli.state import CallItem, CheckItem, NoteItem, RunState, TextItem, ViewState
from alfine.runtime.events import (
    CheckStarted,
    CriterionJudged,
    DelegationStarted,
    Event,
    FeedbackInjected,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolCallStarted,
    ToolProgress,
    UnknownEvent,
)

RUN = ("run", "boss", 0)


def apply(events: Sequence[Event]) -> RunState:
    state = ViewState()
    for event in events:
        state.apply(event)
    assert state.root is not None
    return state.root


def test_a_recorded_run_becomes_a_tree(recorded: Sequence[Event]) -> None:
    root = apply(recorded)
    kinds = [type(item).__name__ for item in root.items]
    first = ["NoteItem", "TextItem", "CallItem"]
    assert kinds == [*first, "NoteItem", "TextItem", "CheckItem", "NoteItem", "NoteItem", "TextItem", "CheckItem"]
    assert all(item.done for item in root.items)
    assert root.finished is not None
    assert root.finished.outcome == "complete"


def test_a_sub_run_lies_inside_the_call_that_asked_for_it(recorded: Sequence[Event]) -> None:
    call = next(item for item in apply(recorded).items if isinstance(item, CallItem))
    assert call.child is not None
    assert (call.child.agent, call.child.depth) == ("research", 1)
    (inner,) = [item for item in call.child.items if isinstance(item, CallItem)]
    assert (inner.name, "".join(inner.arguments)) == ("search", '{"query": "tides"}')
    assert inner.returned is not None
    assert inner.returned.text.startswith("[bold]tides")


def test_verdicts_are_kept_in_the_rubrics_order_as_they_come() -> None:
    def judged(index: int) -> CriterionJudged:
        return CriterionJudged(*RUN, 1, 1, "s", 0, index, f"c{index}", f"Criterion {index}", True, index == 0, "so")

    root = apply([StepStarted(*RUN, 1, 1), CheckStarted(*RUN, 1, 1, "all", ["s"]), judged(1), judged(0)])
    check = root.items[-1]
    assert isinstance(check, CheckItem)
    assert [c.index for c in check.criteria_of(0)] == [0, 1]
    assert check.score_of(0) is None
    assert not check.done


def test_reasoning_and_text_are_items_of_their_own() -> None:
    deltas: list[Event] = [ReasoningDelta(*RUN, 1, "hm"), ReasoningDelta(*RUN, 1, "m"), TextDelta(*RUN, 1, "yes", True)]
    thought, text = (item for item in apply(deltas).items if isinstance(item, TextItem))
    assert (thought.pieces, thought.done, thought.reasoning) == (["hm", "m"], True, True)
    assert (text.pieces, text.done, text.draft) == (["yes"], False, True)


def test_calls_of_one_step_are_told_apart_by_their_place_also_when_ids_repeat() -> None:
    root = apply(
        [
            StepStarted(*RUN, 1, 1),
            ToolCallStarted(*RUN, 1, 0, "same", "a"),
            ToolCallStarted(*RUN, 1, 1, "same", "b"),
            ToolCalled(*RUN, 1, 0, "same", "a", "{}"),
            ToolCalled(*RUN, 1, 1, "same_2", "b", '{"x": 1}'),
            ToolProgress(*RUN, 1, 1, "same_2", "b", "half"),
        ]
    )
    first, second = (item for item in root.items if isinstance(item, CallItem))
    assert (first.name, first.arguments, first.progress) == ("a", ["{}"], None)
    assert (second.name, second.arguments, second.progress) == ("b", ['{"x": 1}'], "half")


def test_everything_is_over_when_the_run_is() -> None:
    root = apply(
        [
            RunStarted(*RUN, "task", 3),
            StepStarted(*RUN, 1, 1),
            ToolCalled(*RUN, 1, 0, "c", "wait", "{}"),
            RunFinished(*RUN, "cancelled", "", None, 1, 1, {}),
        ]
    )
    assert [item.done for item in root.items] == [True, True]


def test_events_out_of_place_and_of_unknown_kinds_are_survived() -> None:
    root = apply(
        [
            UnknownEvent(*RUN, data={"kind": "new"}),
            CriterionJudged(*RUN, 1, 1, "s", 0, 0, "c", "C", True, True, ""),
            DelegationStarted(*RUN, 1, 0, "c", "helper", "go", "child"),
            FeedbackInjected(*RUN, 1, 1, "check", "again", False),
            StepStarted("stranger", "nobody", 1, 1, 1),
        ]
    )
    assert [type(item) for item in root.items] == [CallItem, NoteItem]
