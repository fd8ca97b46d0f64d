"""The ledger of criteria, and the watch for a run in which nothing moves."""

from __future__ import annotations

import json

import pytest
from playing import Says, play, worker

from alfine import CheckReport, Ledger, RunResult, Score, ScorerResult, ToolCall, Verdict, tool
from alfine.runtime.ledger import StallWatch
from alfine.testing import Turn, call


def result(position: int = 0, value: float = 0.0, reason: str = "", **satisfied: bool) -> ScorerResult:
    verdicts = tuple(Verdict(k, f"is {k}", k != "o", v, reason) for k, v in satisfied.items())
    return ScorerResult(f"s{position}", position, Score(value, reason=reason, criteria=verdicts), value == 1.0)


def errored(position: int = 0, *, has_criteria: bool = False) -> ScorerResult:
    return ScorerResult(f"s{position}", position, None, error=RuntimeError("x"), has_criteria=has_criteria)


def report(*results: ScorerResult, passed: bool = False) -> CheckReport:
    return CheckReport(1, 1, "all", passed, results)


def test_a_row_holds_one_entry_a_check_and_none_where_there_was_no_verdict() -> None:
    ledger = Ledger()
    ledger.record([result(a=False)])
    ledger.record([errored(has_criteria=True)])
    ledger.record([result(a=True, b=False)])
    assert [(row.criterion_id, row.history) for row in ledger.rows] == [
        ("a", [False, None, True]),
        ("b", [None, None, False]),
    ]
    assert ledger.checks == 3


def test_changes_are_against_the_last_verdict_across_a_check_without_one() -> None:
    ledger = Ledger()
    ledger.record([result(a=False, b=True, c=False, d=True)])
    ledger.record([errored(has_criteria=True)])
    ledger.record([result(a=True, b=False, c=False, d=True)])
    changes = ledger.changes()
    named = [[row.criterion_id for row in rows] for rows in (changes.fixed, changes.failing, changes.broken)]
    assert named == [["a"], ["c"], ["b"]]


def test_a_check_without_a_verdict_changes_nothing() -> None:
    ledger = Ledger()
    ledger.record([result(a=False)])
    ledger.record([errored(has_criteria=True)])
    changes = ledger.changes()
    assert (changes.fixed, changes.failing, changes.broken) == ((), (), ())


def test_rows_stand_in_the_order_of_scorers_and_rubrics() -> None:
    ledger = Ledger()
    ledger.record([result(1, b=True)])
    ledger.record([result(0, z=True, a=True), result(1, b=True)])
    assert [row.criterion_id for row in ledger.rows] == ["z", "a", "b"]


def test_the_ledger_is_data_and_text() -> None:
    ledger = Ledger()
    ledger.record([result(a=False, o=True), ScorerResult("plain", 1, Score(1.0), True)])
    assert json.loads(json.dumps(ledger.to_dict()))[0]["history"] == [False]
    assert str(ledger).splitlines() == ["-  s0: is a", "+  s0: is o (optional)", "+  plain: plain"]


def stalls(*checks: CheckReport, after: int = 2) -> list[bool]:
    watch = StallWatch(after)
    return [watch.stalled(check) for check in checks]


def test_the_same_failures_in_other_words_stall() -> None:
    assert stalls(report(result(reason="one", a=False)), report(result(reason="two", a=False))) == [False, True]


def test_it_takes_as_many_checks_in_a_row_as_asked_for() -> None:
    assert stalls(*[report(result(a=False))] * 4, after=3) == [False, False, True, True]


def test_another_set_of_failures_is_movement() -> None:
    assert stalls(report(result(a=False, b=True)), report(result(a=False, b=False))) == [False, False]


def test_a_value_that_rose_is_movement_and_one_that_fell_is_none() -> None:
    assert stalls(report(result(value=0.2, a=False)), report(result(value=0.3, a=False))) == [False, False]
    assert stalls(report(result(value=0.3, a=False)), report(result(value=0.2, a=False))) == [False, True]


def test_a_value_that_rose_across_an_error_is_movement() -> None:
    checks = [report(result(value=0.2, a=False)), report(errored()), report(result(value=0.5, a=False))]
    assert stalls(*checks, after=3) == [False, False, False]


def test_a_scorer_in_error_stands_where_it_stood() -> None:
    failing, other = result(0, a=False), result(1, b=False)
    assert stalls(report(failing, other), report(failing, errored(1)), after=2) == [False, True]


def test_a_pass_in_between_begins_the_count_anew() -> None:
    failing, passing = report(result(a=False)), report(result(value=1.0, a=True), passed=True)
    assert stalls(failing, passing, failing, failing) == [False, False, False, True]


@pytest.mark.parametrize(
    ("arguments", "moved"),
    [
        pytest.param('{"b": 2, "a": 1}', False, id="the same in another order"),
        pytest.param('{"a": 1, "b": 3}', True, id="new"),
        pytest.param("{broken", True, id="broken"),
        pytest.param("[" * 200_000, True, id="nested without end"),
    ],
)
def test_only_a_call_with_new_arguments_is_movement(arguments: str, moved: bool) -> None:
    watch = StallWatch(2)
    watch.saw([ToolCall("1", "t", '{"a": 1, "b": 2}')])
    assert not watch.stalled(report(result(a=False)))
    watch.saw([ToolCall("2", "t", arguments)])
    assert watch.stalled(report(result(a=False))) is not moved


def test_without_stall_after_nothing_stalls() -> None:
    watch = StallWatch(None)
    assert not any(watch.stalled(report(result(a=False))) for _ in range(20))


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def searching(*queries: str) -> list[Turn | str]:
    turns: list[Turn | str] = []
    for n, query in enumerate(queries):
        turns += [Turn(tool_calls=[call("lookup", {"q": query})]), f"answer {n}"]
    return turns


async def run_with(script: list[Turn | str]) -> RunResult[str]:
    grades = [Score(0.5, reason=f"reason number {n}") for n in range(10)]
    agent, _ = worker(script, tools=[lookup], is_task_complete={"scorers": [Says(*grades)], "stall_after": 3})
    outcome, _ = await play(agent, max_steps=20)
    return outcome


async def test_a_run_whose_texts_and_reasons_vary_still_stalls() -> None:
    outcome = await run_with(["first", "quite another", "a third one", "never asked for"])
    assert (outcome.outcome, len(outcome.checks), outcome.text) == ("stalled", 3, "a third one")


async def test_a_run_that_repeats_its_searches_stalls_and_one_that_tries_new_ones_does_not() -> None:
    assert (await run_with(searching("x", "x", "x", "x"))).outcome == "stalled"
    outcome = await run_with(searching("a", "b", "c", "d"))
    assert (outcome.outcome, len(outcome.checks)) == ("error", 4), "the script was used up: nothing stopped it before"
