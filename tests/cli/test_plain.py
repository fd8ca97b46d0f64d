"""Plain lines: one an event that matters."""

from collections.abc import Sequence

import pytest

from alfine.cli.plain import PlainLines, feedback_lines, usage_words
from alfine.runtime.events import (
    Event,
    FeedbackInjected,
    ReasoningDelta,
    ScorerFinished,
    StepFinished,
    TextDelta,
    Warned,
)
from alfine.runtime.limits import Usage

RUN = ("run", "boss", 0)


def lines(events: Sequence[Event]) -> list[str]:
    plain = PlainLines()
    return [line for event in events for line in plain.lines(event)]


def test_a_recorded_run_reads_from_top_to_bottom(recorded: Sequence[Event]) -> None:
    assert [line for line in lines(recorded) if "feedback" not in line] == [
        "[supervisor] run of at most 10 steps: Write on tides",
        "[supervisor] step 1, iteration 1",
        "[supervisor] draft | I ask.",
        '[supervisor] call delegate_research {"prompt": "Find tides"}',
        "[supervisor] delegate to research: Find tides",
        "  [research] run of at most 10 steps: Find tides",
        "  [research] step 1, iteration 1",
        "  [research] | Let me look.",
        '  [research] call search {"query": "tides"}',
        r"  [research] result search: [bold]tides[/bold]: twice a day \x1b[31m漢字",
        "  [research] step 2, iteration 1",
        "  [research] | Tides come",
        r"  [research] | twice a day. \x07",
        "  [research] ended as complete",
        r"[supervisor] result delegate_research: Tides come twice a day. \x07",
        "[supervisor] step 2, iteration 1",
        r"[supervisor] draft | Tides [bold]come[/bold]. \x1b[2J",
        "[supervisor] check 1: all of advises",
        "[supervisor] ✓ Speaks of tides",
        "[supervisor] ✗ Gives [red]advice[/red] 漢字 — no advice is given",
        "[supervisor] ✗ advises 0 of 1",
        "[supervisor] check 1 failed",
        "[supervisor] step 3, iteration 2",
        "[supervisor] draft | Tides come.",
        "[supervisor] draft | Advice: go at noon.",
        "[supervisor] check 2: all of advises",
        "[supervisor] ✓ Speaks of tides",
        "[supervisor] ✓ Gives [red]advice[/red] 漢字",
        "[supervisor] ✓ advises 1 of 1",
        "[supervisor] check 2 passed",
    ]


def test_the_reason_is_fed_back_word_for_word(recorded: Sequence[Event]) -> None:
    assert "[supervisor] feedback | There is no advice." in lines(recorded)


def test_text_comes_in_whole_lines_and_the_rest_at_the_end_of_the_step() -> None:
    plain = PlainLines()
    said = [plain.lines(TextDelta(*RUN, 1, text, False)) for text in ("one", " line\ntwo", "\n\nthr", "ee")]
    assert said == [[], ["[boss] | one line"], ["[boss] | two", "[boss] |"], []]
    assert plain.lines(StepFinished(*RUN, 1, "stop", False, 0, 1, 1)) == ["[boss] | three"]


def test_runs_side_by_side_do_not_mix_their_lines() -> None:
    events: list[Event] = [
        TextDelta("a", "left", 1, 1, "le", False),
        TextDelta("b", "right", 1, 1, "ri", False),
        TextDelta("a", "left", 1, 1, "ft\n", False),
        TextDelta("b", "right", 1, 1, "ght\n", False),
    ]
    assert lines(events) == ["  [left] | left", "  [right] | right"]


def test_reasoning_ends_where_text_begins() -> None:
    events: list[Event] = [ReasoningDelta(*RUN, 1, "hm"), TextDelta(*RUN, 1, "yes\n", True)]
    assert lines(events) == ["[boss] reasoning | hm", "[boss] draft | yes"]


def test_ten_thousand_deltas_of_one_byte_become_one_line() -> None:
    deltas: list[Event] = [TextDelta(*RUN, 1, "x", False) for _ in range(10_000)]
    assert lines([*deltas, StepFinished(*RUN, 1, "stop", False, 0, 1, 1)]) == ["[boss] | " + "x" * 10_000]


def test_hidden_feedback_is_not_shown() -> None:
    assert feedback_lines(FeedbackInjected(*RUN, 1, 1, "check", "the secret", True)) == ["feedback injected (hidden)"]


def test_long_feedback_is_cut_with_a_note() -> None:
    shown = feedback_lines(FeedbackInjected(*RUN, 1, 1, "check", "line\n" * 50, False), most=3)
    assert shown == ["feedback | line"] * 3 + ["feedback | … (+48 lines)"]


@pytest.mark.parametrize(
    ("timed_out", "word"), [pytest.param(True, "ran out of time", id="timeout"), (False, "gave no score")]
)
def test_an_errored_scorer_is_no_failure(timed_out: bool, word: str) -> None:
    event = ScorerFinished(*RUN, 1, 1, "judge", 0, None, 1, False, "no verdict", True, timed_out)
    assert lines([event]) == [f"[boss] ! judge {word}: no verdict"]


def test_a_warning_is_one_line_without_control_characters() -> None:
    assert lines([Warned(*RUN, "on_step_raised", "it\nbroke\x1b[0m")]) == [
        r"[boss] warning on_step_raised: it broke\x1b[0m"
    ]


def test_usage_in_words_speaks_of_cost_only_where_there_is_one() -> None:
    assert usage_words(Usage(requests=1, input_tokens=1200)) == "1 request, 0 tool calls, 1,200 + 0 tokens"
    assert usage_words(Usage(cost=0.5)).endswith("cost 0.5000")
