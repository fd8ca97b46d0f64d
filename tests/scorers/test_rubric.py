"""The rubric scorer by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from judging import says, says_list, verdict

from alfine.runtime.errors import ConfigError, JudgeError, ModelError
from alfine.runtime.models import ModelSettings
from alfine.runtime.scoring import Evidence, Score, Scorer
from alfine.scorers import Criterion, RubricScorer, create_rubric_scorer
from alfine.testing import ScriptedModel, http_error


def rubric_scorer(*replies: Any, **options: Any) -> tuple[RubricScorer, ScriptedModel]:
    model = ScriptedModel(list(replies))
    return create_rubric_scorer(model=model, **options), model


async def test_an_output_that_meets_the_rubric_passes() -> None:
    scorer, _ = rubric_scorer(says("Good.", a=True, b=True), criteria="a\nb")
    score = await scorer.run(output="the answer", task="the task")
    assert (score.value, score.passed) == (1.0, True)
    assert (
        score.reason == "Good.\n2 of 2 required criteria satisfied.\n[x] a (required): why a\n[x] b (required): why b"
    )


async def test_an_output_that_misses_a_criterion_fails_with_the_judges_reason() -> None:
    scorer, _ = rubric_scorer(says_list([verdict("a"), verdict("b", False, "no source")]), criteria="a\nb")
    score = await scorer.run(output="the answer")
    assert (score.value, score.passed) == (0.0, False)
    assert "[ ] b (required): no source" in score.reason


async def test_the_judge_cannot_make_a_criterion_optional() -> None:
    reply = says_list([verdict("a"), verdict("b", False, required=False)])
    scorer, _ = rubric_scorer(reply, criteria="a\nb")
    assert not (await scorer.run(output="the answer")).passed


@pytest.mark.parametrize("mode", ["together", "each"])
async def test_both_modes_give_the_verdicts_in_the_order_of_the_rubric(mode: str) -> None:
    scorer, _ = rubric_scorer(
        *([says(a=True, b=False)] if mode == "together" else [says(a=True), says(b=False)]),
        criteria=[Criterion("A", id="a"), Criterion("B", required=False, id="b")],
        mode=mode,
    )
    score = await scorer.run(output="the answer")
    assert score.passed
    assert [(v.criterion_id, v.required, v.satisfied) for v in score.criteria] == [
        ("a", True, True),
        ("b", False, False),
    ]


async def test_scale_two_passes_with_two() -> None:
    scorer, _ = rubric_scorer(says(a=True), criteria="a", scale=2)
    score = await scorer.run(output="the answer")
    assert (score.value, score.scale, score.passes(scorer.threshold)) == (2, 2, True)


# Where the rubric comes from.

REQUEST, ADDITIONAL, INPUT = ({"rubric": f"- {name}"} for name in "bcd")


@pytest.mark.parametrize(
    ("criteria", "request_context", "additional_context", "input", "graded"),
    [
        ("- a", REQUEST, ADDITIONAL, INPUT, "a"),
        (None, REQUEST, ADDITIONAL, INPUT, "b"),
        (" \n-\n", REQUEST, ADDITIONAL, INPUT, "b"),
        (None, {"rubric": "  "}, ADDITIONAL, INPUT, "c"),
        (None, {"rubric": None}, ADDITIONAL, INPUT, "c"),
        (None, {}, {"rubric": "---"}, INPUT, "d"),
        (None, {}, {}, INPUT, "d"),
    ],
)
async def test_the_first_rubric_that_is_not_blank_is_used(
    criteria: str | None,
    request_context: Mapping[str, Any],
    additional_context: Mapping[str, Any],
    input: Mapping[str, Any],
    graded: str,
) -> None:
    scorer, _ = rubric_scorer(says(**{graded: True}), criteria=criteria)
    score = await scorer.run(
        output="the answer", input=input, request_context=request_context, additional_context=additional_context
    )
    assert [v.criterion_id for v in score.criteria] == [graded]


@pytest.mark.parametrize("input", [None, "a text\n- with lines", {"rubric": " "}, ["rubric"], {"other": 1}])
async def test_without_a_rubric_everything_passes_and_no_model_is_called(input: Any) -> None:
    scorer, model = rubric_scorer(scale=2)
    score = await scorer.run(output="the answer", input=input)
    assert score == Score(2, 2, True, "There is no rubric, so nothing was judged.")
    assert model.requests == []


@pytest.mark.parametrize("rubric", [5, True, {"description": "a"}, ["a", ""], [{"describtion": "a"}]])
@pytest.mark.parametrize("place", ["request_context", "additional_context", "input"])
async def test_a_run_time_rubric_that_is_none_is_an_error_and_no_pass(rubric: Any, place: str) -> None:
    scorer, model = rubric_scorer()
    arguments: dict[str, Any] = {place: {"rubric": rubric}}
    with pytest.raises(ConfigError) as caught:
        await scorer.run(output="the answer", **arguments)
    assert caught.value.argument.startswith(f"{place}['rubric']")
    assert model.requests == []


async def test_one_scorer_grades_by_the_rubric_of_each_run() -> None:
    scorer, model = rubric_scorer(says(a=True), says(b=False))
    first = await scorer.run(output="x", request_context={"rubric": "a"})
    second = await scorer.run(output="x", request_context={"rubric": "b"})
    third = await scorer.run(output="x")
    assert (first.passed, second.passed, third.passed) == (True, False, True)
    assert len(model.requests) == 2


# The judge.


async def test_the_judge_sees_task_evidence_and_answer() -> None:
    scorer, model = rubric_scorer(says(a=True), criteria="a", instructions="Be kind.", settings=ModelSettings(seed=1))
    await scorer.run(output="THE-ANSWER", input="THE-TASK", evidence=[Evidence("search", "{}", "THE-RESULT")])
    (request,) = model.requests
    assert all(text in request.text for text in ("THE-ANSWER", "THE-TASK", "THE-RESULT", "Be kind."))
    assert request.settings == ModelSettings(seed=1)
    assert request.output is not None


@pytest.mark.parametrize("reply", [says_list([]), says(a=True), '{"overall": true, "verdicts": []}'])
async def test_criteria_without_a_verdict_never_pass(reply: str) -> None:
    scorer, model = rubric_scorer(reply, reply, reply, criteria="a\nb\nc")
    with pytest.raises(JudgeError) as caught:
        await scorer.run(output="the answer")
    assert caught.value.scorer_id == "rubric-scorer"
    assert len(model.requests) == 3


async def test_a_failed_judge_call_leaves_as_itself() -> None:
    scorer, _ = rubric_scorer(http_error(401), criteria="a")
    with pytest.raises(ModelError):
        await scorer.run(output="the answer")


async def test_retries_bound_the_calls() -> None:
    scorer, model = rubric_scorer("prose", says(a=True), criteria="a", retries=1)
    assert (await scorer.run(output="the answer")).passed
    assert len(model.requests) == 2


def test_it_is_a_scorer_of_the_kind_that_asks_a_model() -> None:
    scorer, _ = rubric_scorer(id="mine")
    assert isinstance(scorer, Scorer)
    assert (scorer.id, scorer.kind, scorer.has_criteria, scorer.threshold) == ("mine", "llm_judge", True, 1.0)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"model": "gpt-5-mini"}, "model"),
        ({"model": 5}, "model"),
        ({"criteria": 5}, "criteria"),
        ({"criteria": ["a", ""]}, "criteria[1].description"),
        ({"id": " "}, "id"),
        ({"scale": 0}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"scale": True}, "scale"),
        ({"mode": "all"}, "mode"),
        ({"instructions": None}, "instructions"),
        ({"retries": -1}, "retries"),
        ({"retries": 1.5}, "retries"),
        ({"settings": {"seed": 1}}, "settings"),
    ],
)
def test_wrong_arguments_are_named_at_construction(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ConfigError) as caught:
        create_rubric_scorer(**{"model": ScriptedModel([]), **options})
    assert caught.value.argument == argument
