"""The parts of the live view, drawn on a terminal in memory."""

import io
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from alfine.cli.render import ledger_table, show_item, status_line
from alfine.cli.state import RunState, ViewState
from alfine.runtime.check import ScorerResult
from alfine.runtime.events import Event, FeedbackInjected, StepStarted, TextDelta, ToolCalled, ToolReturned
from alfine.runtime.ledger import Ledger
from alfine.runtime.limits import Usage, UsageLimits
from alfine.runtime.scoring import Score, Verdict

RUN = ("run", "boss", 0)


def draw(events: Sequence[Event], width: int = 80, *, colour: bool = False) -> str:
    state = ViewState()
    for event in events:
        state.apply(event)
    assert state.root is not None
    return drawn(state.root, width, colour=colour)


def drawn(run: RunState, width: int, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None)
    for item in run.items:
        console.print(show_item(item, run))
    return out.getvalue()


def test_a_recorded_run_is_drawn_as_a_tree(recorded: Sequence[Event]) -> None:
    lines = [line.rstrip() for line in draw(recorded).splitlines()]
    assert lines[1:8] == [
        "supervisor draft I ask.",
        "→ research Find tides",
        "  research Let me look.",
        '  → search {"query": "tides"}',
        r"    ✓ [bold]tides[/bold]: twice a day \x1b[31m漢字",
        "  research Tides come",
        r"  twice a day. \x07",
    ]
    assert "  ✗ Gives [red]advice[/red] 漢字 — no advice is given" in lines
    assert "✗ check failed" in lines
    assert lines[-1] == "✓ check passed"


@pytest.mark.parametrize("width", [10, 20, 60, 120])
def test_no_line_is_wider_than_the_terminal(recorded: Sequence[Event], width: int) -> None:
    assert all(cell_len(line) <= width for line in draw(recorded, width).splitlines())


def test_control_characters_of_a_model_never_reach_the_terminal(recorded: Sequence[Event]) -> None:
    shown = draw(recorded, colour=True)
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown


def test_the_text_of_a_sub_agent_is_dimmed(recorded: Sequence[Event]) -> None:
    shown = draw(recorded, colour=True)
    assert "\x1b[2mLet me look." in shown
    assert "\x1b[2mI ask." not in shown


def test_of_an_open_text_the_end_is_shown() -> None:
    events: list[Event] = [TextDelta(*RUN, 1, f"piece {n} ", False) for n in range(10_000)]
    shown = draw(events)
    assert "piece 9999" in " ".join(shown.split())
    assert len(shown) < 5_000


def test_huge_results_are_cut() -> None:
    events: list[Event] = [
        StepStarted(*RUN, 1, 1),
        ToolCalled(*RUN, 1, 0, "c", "read", "{}" * 10_000),
        ToolReturned(*RUN, 1, 0, "c", "read", "x" * 10_000_000, False),
    ]
    shown = draw(events)
    assert len(shown) < 1_000
    assert "(+9,999,800)" in shown


def test_hidden_feedback_is_not_drawn() -> None:
    shown = draw([FeedbackInjected(*RUN, 1, 1, "check", "the secret", True)])
    assert shown.strip() == "feedback injected (hidden)"


def test_the_status_line_says_what_of_the_budget_is_used() -> None:
    limits = UsageLimits(requests=9, total_tokens=5_000)
    line = status_line(None, Usage(requests=3, input_tokens=1_000, output_tokens=200), limits, 4.2)
    assert line.plain == "requests 3/9 · tokens 1,200/5,000 · 4 s"


@pytest.mark.parametrize(
    ("width", "columns"), [pytest.param(120, 12, id="all iterations"), pytest.param(40, 3, id="the latest ones")]
)
def test_the_ledger_shows_as_many_iterations_as_fit(width: int, columns: int) -> None:
    ledger = Ledger()
    for number in range(12):
        verdict = Verdict("c", "Is [long] " + "x" * 100, True, number == 11, "")
        ledger.record([ScorerResult("s", 0, Score(0, criteria=(verdict,)))])
    table = ledger_table(ledger, width)
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    assert len(table.columns) == columns + 1
    assert out.getvalue().count("✗") == columns - 1
    assert out.getvalue().count("✓") == 1
    assert all(cell_len(line) <= width for line in out.getvalue().splitlines())
