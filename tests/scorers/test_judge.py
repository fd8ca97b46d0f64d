"""Asking a judge until every criterion has a verdict."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from judging import given, passed, says, says_list, verdict

from alfine.runtime.errors import BudgetError, JudgeError, ModelError
from alfine.runtime.models import Model, ModelRequest, Reply
from alfine.runtime.scoring import ScorerInput, Verdict, ask_model
from alfine.scorers.criteria import parse_rubric
from alfine.scorers.judge import WIDTH, Judge, judge_each, judge_together
from alfine.testing import Gate, ScriptedModel, SeenRequest, Turn, http_error

RUBRIC = parse_rubric("a\nb")


def asked_about(request: SeenRequest) -> list[str]:
    """The ids in the criteria of a question."""
    criteria = request.texts[0].partition("The mark of the data blocks is")[0]
    return [line.partition(":")[0] for line in criteria.splitlines()[1:] if line]


async def together(model: Model, input: ScorerInput | None = None) -> dict[str, bool]:
    return passed((await judge_together(Judge(model), RUBRIC, input or given(), "rubric")).verdicts)


async def each(model: Model, input: ScorerInput | None = None) -> dict[str, bool]:
    return passed((await judge_each(Judge(model), RUBRIC, input or given(), "rubric")).verdicts)


async def test_one_clear_reply_is_one_call() -> None:
    model = ScriptedModel([says(a=True, b=False)])
    assert await together(model) == {"a": True, "b": False}
    assert len(model.requests) == 1


async def test_a_missing_verdict_is_asked_again_alone() -> None:
    model = ScriptedModel([says(a=True), says(b=True)])
    assert await together(model) == {"a": True, "b": True}
    assert [asked_about(r) for r in model.requests] == [["a", "b"], ["b"]]


async def test_a_settled_verdict_is_not_changed_by_a_later_reply() -> None:
    model = ScriptedModel([says(a=False), says(a=True, b=True)])
    assert await together(model) == {"a": False, "b": True}


async def test_after_an_unknown_id_everything_is_asked_again() -> None:
    model = ScriptedModel([says(a=True), says(b=True, z=True), says(a=False, b=True)])
    assert await together(model) == {"a": False, "b": True}
    assert [asked_about(r) for r in model.requests] == [["a", "b"], ["b"], ["a", "b"]]


BAD_TURNS: list[Any] = [
    pytest.param("I think SECRET is fine.", id="prose"),
    pytest.param("", id="empty"),
    pytest.param('{"verdicts": [], "overall": true, "summary": "SECRET"}', id="empty list"),
    pytest.param(says("SECRET", a="true", b="true"), id="wrong types"),
    pytest.param(says("SECRET", z=True), id="unknown id"),
    pytest.param(says_list([verdict(i, s, "SECRET") for i in "ab" for s in (True, False)]), id="disagreeing"),
    pytest.param(Turn(says("SECRET", a=True, b=True), finish_reason="length"), id="cut"),
    pytest.param(Turn(says("SECRET", a=True, b=True), refusal=True), id="refusal"),
]


@pytest.mark.parametrize("bad", BAD_TURNS)
async def test_a_useless_reply_is_asked_again_without_a_word_of_it(bad: str | Turn) -> None:
    model = ScriptedModel([bad, says("Fine.", a=True, b=True)])
    judged = await judge_together(Judge(model), RUBRIC, given(), "rubric")
    assert (passed(judged.verdicts), judged.summary) == ({"a": True, "b": True}, "Fine.")
    assert [asked_about(r) for r in model.requests] == [["a", "b"], ["a", "b"]]
    assert all(len(r.messages) == 1 and "SECRET" not in r.text for r in model.requests)


@pytest.mark.parametrize("bad", BAD_TURNS)
async def test_three_useless_replies_end_as_an_error_that_names_what_is_missing(bad: str | Turn) -> None:
    model = ScriptedModel([bad, bad, bad])
    with pytest.raises(JudgeError, match="'rubric'") as caught:
        await together(model)
    assert caught.value.missing == ("a", "b")
    assert len(model.requests) == 3


async def test_the_error_names_only_what_is_still_missing() -> None:
    model = ScriptedModel([says(a=True), "prose", says(a=True)])
    with pytest.raises(JudgeError) as caught:
        await together(model)
    assert caught.value.missing == ("b",)


async def test_another_attempt_at_the_same_answer_has_no_calls_of_its_own() -> None:
    model, memo = ScriptedModel(["prose"] * 3), dict[str, Any]()
    for _ in range(3):
        with pytest.raises(JudgeError):
            await together(model, given(memo=memo))
    assert len(model.requests) == 3


async def test_another_attempt_goes_on_where_a_failed_call_stopped_it() -> None:
    model, memo = ScriptedModel([says(a=True), http_error(503), says(b=True)]), dict[str, Any]()
    with pytest.raises(ModelError):
        await together(model, given(memo=memo))
    assert await together(model, given(memo=memo)) == {"a": True, "b": True}
    assert [asked_about(r) for r in model.requests] == [["a", "b"], ["b"], ["b"]]


async def test_a_failed_last_call_leaves_as_itself_and_stands_behind_the_next_error() -> None:
    model, memo = ScriptedModel(["prose", "prose", http_error(503)]), dict[str, Any]()
    with pytest.raises(ModelError) as first:
        await together(model, given(memo=memo))
    with pytest.raises(JudgeError) as second:
        await together(model, given(memo=memo))
    assert second.value.__cause__ is first.value
    assert len(model.requests) == 3


async def test_a_cancelled_call_is_counted() -> None:
    started, never = Gate(), Gate()
    model, memo = ScriptedModel([Turn(started=started, wait=never), "prose", "prose"]), dict[str, Any]()
    async with anyio.create_task_group() as group:
        group.start_soon(together, model, given(memo=memo))
        await started.wait()
        group.cancel_scope.cancel()
    with pytest.raises(JudgeError):
        await together(model, given(memo=memo))
    assert len(model.requests) == 3


async def test_a_new_answer_has_three_new_calls() -> None:
    model = ScriptedModel(["prose", "prose", "prose", says(a=True, b=True)])
    with pytest.raises(JudgeError):
        await together(model, given("first"))
    assert await together(model, given("second")) == {"a": True, "b": True}


async def test_no_retries_are_one_call() -> None:
    model = ScriptedModel(["prose"])
    with pytest.raises(JudgeError):
        await judge_together(Judge(model, retries=0), RUBRIC, given(), "rubric")
    assert len(model.requests) == 1


@pytest.mark.parametrize("judge", [together, each])
async def test_a_used_up_budget_leaves_as_itself(judge: Any) -> None:
    async def ask(model: Model, request: ModelRequest) -> Reply:
        raise BudgetError("requests", "3 of 3")

    with pytest.raises(BudgetError):
        await judge(ScriptedModel([]), given(ask=ask))


@pytest.mark.parametrize("judge", [together, each])
async def test_every_call_goes_through_the_run(judge: Any) -> None:
    asked: list[Model] = []

    async def ask(model: Model, request: ModelRequest) -> Reply:
        asked.append(model)
        return await ask_model(model, request)

    model = ScriptedModel(lambda seen: says_list([verdict(id) for id in asked_about(seen)]))
    await judge(model, given(ask=ask))
    assert asked == [model] * len(model.requests)


async def test_verdicts_are_told_in_the_order_of_the_rubric_once_all_stand() -> None:
    told: list[tuple[int, str]] = []
    model = ScriptedModel([says(b=True), says(a=True)])
    await together(model, given(judged=lambda index, v: told.append((index, v.criterion_id))))
    assert told == [(0, "a"), (1, "b")]


async def test_a_quote_is_checked_against_the_output() -> None:
    reply = says_list([verdict("a", evidence="the  “answer”"), verdict("b", evidence="made up")])
    judged = await judge_together(Judge(ScriptedModel([reply])), RUBRIC, given("This is the answer."), "rubric")
    assert [(v.evidence, v.evidence_found) for v in judged.verdicts] == [("the  “answer”", True), ("made up", False)]


@pytest.mark.parametrize("evidence", [None, "", " ", '""'])
async def test_an_empty_quote_is_none(evidence: str | None) -> None:
    reply = says_list([verdict("a", evidence=evidence), verdict("b")])
    judged = await judge_together(Judge(ScriptedModel([reply])), RUBRIC, given(), "rubric")
    assert [(v.evidence, v.evidence_found) for v in judged.verdicts] == [(None, None), (None, None)]


# One question for each criterion.


async def test_each_criterion_has_a_question_of_its_own() -> None:
    model = ScriptedModel(lambda seen: says_list([verdict(id, id == "a") for id in asked_about(seen)]))
    assert await each(model) == {"a": True, "b": False}
    assert sorted(asked_about(r) for r in model.requests) == [["a"], ["b"]]


async def test_questions_run_side_by_side_and_are_told_as_each_settles() -> None:
    told: list[str] = []
    b_told = Gate()

    def judged(index: int, verdict: Verdict) -> None:
        told.append(verdict.criterion_id)
        if verdict.criterion_id == "b":
            b_told.open()

    def reply(seen: SeenRequest) -> Turn:
        (id,) = asked_about(seen)
        return Turn(says_list([verdict(id)]), wait=b_told if id == "a" else None)

    assert await each(ScriptedModel(reply), given(judged=judged)) == {"a": True, "b": True}
    assert told == ["b", "a"]


async def test_a_failure_of_one_question_keeps_the_verdicts_of_the_others() -> None:
    memo: dict[str, Any] = {}
    told: list[str] = []
    failures = [http_error(503)]

    def reply(seen: SeenRequest) -> Turn:
        (id,) = asked_about(seen)
        return failures.pop() if id == "a" and failures else Turn(says_list([verdict(id)]))

    model = ScriptedModel(reply)
    with pytest.raises(ModelError):
        await each(model, given(memo=memo, judged=lambda index, v: told.append(v.criterion_id)))
    assert told == ["b"]
    assert await each(model, given(memo=memo)) == {"a": True, "b": True}
    assert sorted(asked_about(r) for r in model.requests) == [["a"], ["a"], ["b"]]


async def test_each_question_has_three_calls_and_one_error_names_all_that_is_missing() -> None:
    model = ScriptedModel([Turn("prose", repeat=True)])
    with pytest.raises(JudgeError) as caught:
        await each(model)
    assert caught.value.missing == ("a", "b")
    assert len(model.requests) == 6


async def test_a_failed_call_is_reported_before_a_used_up_question() -> None:
    model = ScriptedModel(lambda seen: "prose" if asked_about(seen) == ["a"] else http_error(503))
    with pytest.raises(ModelError):
        await each(model)


async def test_no_more_questions_run_at_once_than_the_width() -> None:
    running, most = 0, 0
    full = Gate()

    async def ask(model: Model, request: ModelRequest) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == WIDTH:
            full.open()
        await full.wait()
        await checkpoint()
        running -= 1
        return await ask_model(model, request)

    rubric = parse_rubric([f"criterion {n}" for n in range(3 * WIDTH)])
    model = ScriptedModel(lambda seen: says_list([verdict(id) for id in asked_about(seen)]))
    judged = await judge_each(Judge(model), rubric, given(ask=ask), "rubric")
    assert most == WIDTH
    assert [v.criterion_id for v in judged.verdicts] == [c.id for c in rubric]
