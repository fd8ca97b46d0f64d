"""The completion check: strategies, order, time, and errors that are not verdicts."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest
from playing import Says, of, play, wants, worker

from alfine import CheckReport, ConfigError, Score, ScorerError, ScorerInput, ScorerResult, TaskComplete, Verdict
from alfine.runtime.check import decide
from alfine.runtime.events import (
    CheckFinished,
    CheckStarted,
    CriterionJudged,
    FeedbackInjected,
    RunFinished,
    ScorerFinished,
    Warned,
)
from alfine.testing import Gate


def result(passed: bool | None) -> ScorerResult:
    """A result that passed, failed, or (None) gave no verdict."""
    return ScorerResult("s", 0, None if passed is None else Score(float(passed)), bool(passed))


@pytest.mark.parametrize(
    ("strategy", "results", "expected"),
    [
        ("all", [True, True], True),
        ("all", [True, False], False),
        ("all", [False, None], False),
        ("all", [True, None], None),
        ("all", [], True),
        ("any", [False, True], True),
        ("any", [False, False], False),
        ("any", [None, True], True),
        ("any", [None, False], False),
        ("any", [None, None], None),
        ("any", [], True),
    ],
)
def test_a_strategy_decides(strategy: str, results: list[bool | None], expected: bool | None) -> None:
    assert decide(strategy, [result(r) for r in results]) is expected


@pytest.mark.parametrize("results", [[True, None], [None]])
def test_an_error_that_counts_as_failed_decides_too(results: list[bool | None]) -> None:
    assert decide("all", [result(r) for r in results], errors_fail=True) is False


async def test_without_scorers_every_answer_is_complete() -> None:
    agent, model = worker(["a"], is_task_complete={"scorers": [], "strategy": "any"})
    outcome, events = await play(agent)
    assert (outcome.complete, len(model.requests)) == (True, 1)
    assert not of(events, CheckStarted)


@pytest.mark.parametrize(
    ("score", "threshold", "passes"),
    [
        pytest.param(Score(10, 10), 1.0, True, id="the whole scale"),
        pytest.param(Score(9.9, 10), 1.0, False, id="just below"),
        pytest.param(Score(7, 10), 0.7, True, id="at a threshold of the share"),
        pytest.param(Score(0, 10, True), 1.0, True, id="its own decision"),
        pytest.param(Score(10, 10, False), 1.0, False, id="its own refusal"),
        pytest.param(Score(11, 10, True), 1.0, False, id="beyond the scale"),
        pytest.param(Score(-1, 10, True), 1.0, False, id="below zero"),
    ],
)
async def test_a_scorer_passes_at_its_normalised_threshold(score: Score, threshold: float, passes: bool) -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [Says(score, threshold=threshold)]}, max_steps=1)
    outcome, _ = await play(agent)
    assert outcome.complete is passes


async def test_a_value_beyond_the_scale_is_kept_and_warned_about() -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [Says(Score(11, 10))]}, max_steps=1)
    outcome, events = await play(agent)
    assert [e.code for e in of(events, Warned)] == ["score_beyond_scale"]
    assert [e.value for e in of(events, ScorerFinished)] == [11]
    assert outcome.outcome == "max_steps"


async def test_scorers_may_share_an_id_and_position_tells_them_apart() -> None:
    scorers = [Says(1.0, id="same"), Says(0.0, id="same")]
    agent, _ = worker(["a"], is_task_complete={"scorers": scorers}, max_steps=1)
    outcome, events = await play(agent)
    assert [(r.scorer_id, r.position, r.passed) for r in outcome.checks[0].scorers] == [
        ("same", 0, True),
        ("same", 1, False),
    ]
    assert {(e.position, e.passed) for e in of(events, ScorerFinished)} == {(0, True), (1, False)}
    assert [(row.position, row.satisfied) for row in outcome.ledger.rows] == [(0, True), (1, False)]


async def test_scorers_run_side_by_side() -> None:
    here, there = anyio.Event(), anyio.Event()

    async def first(output: str) -> bool:
        here.set()
        await there.wait()
        return True

    async def second(output: str) -> bool:
        there.set()
        await here.wait()
        return True

    agent, _ = worker(["a"], is_task_complete={"scorers": [first, second]})
    assert (await play(agent))[0].complete


@pytest.mark.parametrize(
    ("strategy", "grades", "ran"),
    [
        ("all", [1.0, 0.0, 1.0], [1, 1, 0]),
        ("any", [0.0, 1.0, 0.0], [1, 1, 0]),
        ("all", [1.0, 1.0, 1.0], [1, 1, 1]),
    ],
)
async def test_one_after_the_other_they_stop_as_soon_as_the_strategy_is_decided(
    strategy: str, grades: list[float], ran: list[int]
) -> None:
    scorers = [Says(grade) for grade in grades]
    check = {"scorers": scorers, "strategy": strategy, "parallel": False}
    agent, _ = worker(["a"], is_task_complete=check, max_steps=1)
    outcome, _ = await play(agent)
    assert [len(s.outputs) for s in scorers] == ran
    assert len(outcome.checks[0].scorers) == sum(ran)


async def test_one_after_the_other_an_error_does_not_decide() -> None:
    scorers = [Says(RuntimeError("x"), 1.0), Says(1.0)]
    agent, model = worker(["a"], is_task_complete={"scorers": scorers, "parallel": False})
    assert (await play(agent))[0].complete
    assert [len(s.outputs) for s in scorers] == [2, 1]
    assert len(model.requests) == 1


BAD_SCORES = [
    pytest.param(Score(math.nan), "nan", id="NaN"),
    pytest.param(Score(math.inf), "inf", id="infinite"),
    pytest.param(math.nan, "nan", id="a bare NaN"),
    pytest.param(None, "NoneType", id="None"),
    pytest.param("yes", "str", id="a text"),
    pytest.param(Score("1"), "'1'", id="a text as value"),  # type: ignore[arg-type]
    pytest.param(Score(1, 0), "scale", id="scale 0"),
    pytest.param(Score(1, -1), "scale", id="a negative scale"),
    pytest.param(Score(1, reason=None), "reason", id="no text as reason"),  # type: ignore[arg-type]
    pytest.param(Score(1, passed="no"), "passed", id="a text as decision"),  # type: ignore[arg-type]
    pytest.param(Score(1, criteria=("c",)), "criteria", id="criteria that are none"),  # type: ignore[arg-type]
    pytest.param(10**400, "OverflowError", id="a number that no float holds"),
    pytest.param(RuntimeError("broken scorer"), "broken scorer", id="raising"),
]


@pytest.mark.parametrize(("grade", "named"), BAD_SCORES)
async def test_a_scorer_without_a_usable_score_is_an_error_and_never_a_pass(grade: object, named: str) -> None:
    scorer = Says(grade, id="odd")
    agent, model = worker(["a"], is_task_complete={"scorers": [scorer]})
    outcome, events = await play(agent)
    assert (outcome.outcome, outcome.text, len(model.requests)) == ("error", "a", 1)
    assert len(scorer.outputs) == 3
    assert isinstance(outcome.error, ScorerError)
    assert outcome.error.scorer_id == "odd"
    assert named in str(outcome.error)
    assert [(e.errored, e.value, e.passed) for e in of(events, ScorerFinished)] == [(True, None, False)]
    assert not of(events, FeedbackInjected)


@pytest.mark.parametrize("grade", [True, 1, 1.0, Score(1), Score(True)], ids=repr)
async def test_a_bool_or_a_number_is_a_score(grade: object) -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [Says(grade)]})
    outcome, events = await play(agent)
    assert outcome.complete
    assert [repr(e.value) for e in of(events, ScorerFinished)] == ["1.0"]


async def test_an_errored_scorer_is_tried_again_on_the_same_answer_without_calling_the_model() -> None:
    flaky, sound = Says(RuntimeError("x"), RuntimeError("x"), 1.0), Says(1.0)
    agent, model = worker(["a"], is_task_complete={"scorers": [flaky, sound]})
    outcome, events = await play(agent)
    assert (outcome.outcome, len(model.requests)) == ("complete", 1)
    assert (flaky.outputs, sound.outputs) == (["a"] * 3, ["a"])
    assert sorted(e.position for e in of(events, ScorerFinished)) == [0, 1]


async def test_a_real_failure_beside_an_error_goes_on_with_its_reason() -> None:
    agent, model = worker(
        ["one", "two"], is_task_complete={"scorers": [wants("two", "say two"), Says(RuntimeError("SECRET"), 1.0)]}
    )
    outcome, events = await play(agent)
    assert outcome.complete
    assert "say two" in model.requests[1].text
    assert "SECRET" not in model.requests[1].text
    assert [e.code for e in of(events, Warned)] == ["scorer_failed"]
    assert "SECRET" in of(events, Warned)[0].message


async def test_an_error_counts_as_failed_where_that_is_asked_for() -> None:
    scorer = Says(RuntimeError("SECRET"), 1.0)
    agent, model = worker(["one", "two"], is_task_complete={"scorers": [scorer], "on_scorer_error": "fail"})
    outcome, _ = await play(agent)
    assert (outcome.outcome, len(model.requests), len(scorer.outputs)) == ("complete", 2, 2)
    assert "SECRET" not in model.requests[1].text


async def test_under_any_another_pass_wins_over_an_error() -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [Says(RuntimeError("x")), Says(1.0)], "strategy": "any"})
    assert (await play(agent))[0].complete


async def test_two_scorers_that_stay_in_error_are_both_named() -> None:
    scorers = [Says(RuntimeError("first"), id="a"), Says(RuntimeError("second"), id="b")]
    agent, _ = worker(["x"], is_task_complete={"scorers": scorers})
    outcome, _ = await play(agent)
    assert all(part in str(outcome.error) for part in ("a", "b", "first", "second"))


async def test_the_checks_timeout_cuts_all_its_scorers_and_counts_as_an_error() -> None:
    closed = Gate()

    async def hang(output: str) -> bool:
        try:
            await anyio.sleep_forever()
        finally:
            closed.open()
        return True

    agent, _ = worker(["a"], is_task_complete={"scorers": [hang, Says(1.0)], "timeout": 0.01})
    outcome, events = await play(agent)
    assert (outcome.outcome, closed.is_open) == ("error", True)
    assert [e.timed_out for e in of(events, CheckFinished)] == [True]
    assert "0.01 seconds" in str(outcome.error)


async def test_one_after_the_other_the_timeout_is_shared() -> None:
    async def hang(output: str) -> bool:
        await anyio.sleep_forever()
        return True

    late = Says(1.0)
    agent, _ = worker(["a"], is_task_complete={"scorers": [hang, late], "timeout": 0.01, "parallel": False})
    outcome, _ = await play(agent)
    assert outcome.outcome == "error"
    assert late.outputs == []


async def test_on_complete_sees_each_report_and_a_raise_becomes_a_warning() -> None:
    seen: list[bool] = []

    async def on_complete(report: CheckReport) -> None:
        seen.append(report.passed)
        raise RuntimeError("observer")

    agent, _ = worker(["a", "b"], is_task_complete={"scorers": [wants("b")], "on_complete": on_complete})
    outcome, events = await play(agent)
    assert (outcome.outcome, seen) == ("complete", [False, True])
    assert [e.code for e in of(events, Warned)] == ["on_complete_raised"] * 2


async def test_scorers_see_the_run_and_the_additional_context() -> None:
    seen: list[ScorerInput] = []

    def scorer(output: str, given: ScorerInput) -> bool:
        seen.append(given)
        return True

    check = {"scorers": [scorer], "additional_context": {"k": 1}}
    agent, _ = worker(["a"], is_task_complete=check)
    await play(agent, "The task", request_context={"user": "Ada"})
    (given,) = seen
    assert (given.output, given.task, given.step, given.iteration) == ("a", "The task", 1, 1)
    assert (given.additional_context, given.request_context) == ({"k": 1}, {"user": "Ada"})
    assert [m.text for m in given.messages] == ["The task", "a"]


class Judging:
    """A scorer that tells of its verdicts while it works, changes its mind, and then keeps talking."""

    id = "judging"

    def __init__(self) -> None:
        self.late: Any = None

    async def score(self, input: ScorerInput, /) -> Score:
        first = Verdict("c", "is c", True, False, "not yet \ud800", "quote \ud800")
        input.judged(0, first)
        input.judged(0, first)
        self.late = input.judged
        return Score(1.0, criteria=(Verdict("c", "is c", True, True, "now it is"),))


async def test_a_verdict_is_an_event_once_and_again_only_when_it_changed() -> None:
    scorer = Judging()
    agent, _ = worker(["a"], is_task_complete={"scorers": [scorer]})
    _, events = await play(agent)
    judged = of(events, CriterionJudged)
    assert [(e.satisfied, e.reason) for e in judged] == [(False, "not yet \ufffd"), (True, "now it is")]
    assert judged[0].evidence == "quote \ufffd"
    assert scorer.late is not None


async def test_a_verdict_after_the_scorer_has_ended_is_not_shown() -> None:
    scorer = Judging()
    agent, _ = worker(["a", "b"], is_task_complete={"scorers": [scorer, wants("b")]})
    async with agent.stream("Do it") as stream:
        events = []
        async for event in stream:
            events.append(event)
            if isinstance(event, CheckFinished):
                scorer.late(0, Verdict("late", "", True, True, ""))
        assert (await stream.result()).complete
    assert type(events[-1]) is RunFinished
    assert "late" not in [e.criterion_id for e in of(events, CriterionJudged)]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("scorers", "text"),
        ("scorers", [5]),
        ("scorers", [Says]),
        ("scorers", [Says(1.0, id=5)]),  # type: ignore[arg-type]
        ("strategy", "most"),
        ("when", "never"),
        ("on_scorer_error", "ignore"),
        ("timeout", 0),
        ("timeout", math.nan),
        ("timeout", True),
        ("stall_after", 1),
        ("stall_after", 2.5),
        ("stall_after", True),
        ("feedback", "text"),
        ("on_complete", 5),
        ("additional_context", 5),
    ],
    ids=repr,
)
def test_a_wrong_argument_is_named_at_construction(argument: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=argument):
        TaskComplete(**{argument: value})
