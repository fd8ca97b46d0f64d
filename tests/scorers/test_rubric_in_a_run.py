"""The rubric scorer at work in a run."""

from __future__ import annotations

from typing import Any

import pytest
from judging import says, says_list, verdict

from alfine import Agent, ModelError, RunError, TaskComplete, UsageLimits, create_rubric_scorer, create_scorer
from alfine.runtime.events import CriterionJudged
from alfine.testing import ScriptedModel, Turn, http_error


def supervised(
    worker: list[Any], judge: list[Any], criteria: Any = "a\nb", **options: Any
) -> tuple[Agent[str], ScriptedModel, ScriptedModel]:
    worker_model, judge_model = ScriptedModel(worker), ScriptedModel(judge)
    scorer = create_rubric_scorer(model=judge_model, criteria=criteria, **options)
    agent = Agent(
        "writer", model=worker_model, instructions="THE-RULES", is_task_complete=TaskComplete(scorers=[scorer])
    )
    return agent, worker_model, judge_model


async def test_the_reason_of_a_failed_criterion_is_in_the_next_request() -> None:
    agent, worker, judge = supervised(
        ["draft", "better"], [says_list([verdict("a"), verdict("b", False, "WHY-B")]), says(a=True, b=True)]
    )
    result = await agent.run("Write")
    assert (result.outcome, result.text) == ("complete", "better")
    assert "WHY-B" in worker.requests[1].text
    assert all("WHY-B" not in r.text and "THE-RULES" not in r.text for r in judge.requests)


async def test_a_judge_that_never_fits_ends_the_run_after_three_calls() -> None:
    agent, worker, judge = supervised(["draft"], [Turn("PROSE for ever", repeat=True)])
    with pytest.raises(RunError, match="rubric-scorer") as caught:
        await agent.run("Write", max_steps=20)
    assert caught.value.result.text == "draft"
    assert (len(worker.requests), len(judge.requests)) == (1, 3)


@pytest.mark.parametrize("status", [401, 503])
async def test_a_judge_that_fails_for_ever_ends_the_run_after_three_calls(status: int) -> None:
    error = Turn(error=ModelError("HOST-NAME is down", status=status), repeat=True)
    agent, worker, judge = supervised(["draft"], [error])
    with pytest.raises(RunError) as caught:
        await agent.run("Write", max_steps=20)
    assert (caught.value.result.outcome, caught.value.result.text) == ("error", "draft")
    assert (len(worker.requests), len(judge.requests)) == (1, 3)


async def test_the_text_of_a_judges_failure_reaches_no_model() -> None:
    judge = [Turn(error=ModelError("HOST-NAME is down", status=503)), says(a=True, b=False), says(a=True, b=True)]
    agent, worker, judge_model = supervised(["draft", "better"], judge)
    assert (await agent.run("Write")).complete
    assert all("HOST-NAME" not in r.text for r in worker.requests + judge_model.requests)


async def test_calls_are_shared_by_failures_and_useless_replies() -> None:
    agent, _, judge = supervised(["draft"], [says(a=True), http_error(503), says(b=True)])
    result = await agent.run("Write")
    assert result.complete
    assert len(judge.requests) == 3


async def test_a_second_run_without_a_rubric_asks_no_judge() -> None:
    agent, _, judge = supervised(["one", "two"], [says(a=True)], criteria=None)
    first = await agent.run("Write", request_context={"rubric": "a"})
    assert (await agent.run("Again", history=first.messages)).complete
    assert len(judge.requests) == 1


async def test_a_run_time_rubric_that_is_none_ends_the_run_as_an_error() -> None:
    agent, _, judge = supervised(["draft"], [], criteria=None)
    with pytest.raises(RunError, match="rubric"):
        await agent.run("Write", request_context={"rubric": 5})
    assert judge.requests == []


async def test_judge_calls_count_in_the_runs_usage_and_budget() -> None:
    agent, _, _ = supervised(["draft"], [says(a=True), says(b=True)])
    result = await agent.run("Write")
    assert result.usage.requests == 3
    agent, _, judge = supervised(["draft"], [says(a=True), says(b=True)])
    result = await agent.run("Write", limits=UsageLimits(requests=2))
    assert (result.outcome, len(judge.requests)) == ("budget", 1)


@pytest.mark.parametrize("mode", ["together", "each"])
async def test_each_verdict_is_one_event(mode: str) -> None:
    replies = [says(a=True), says(b=True)]  # for both modes: one re-ask, or one question each
    agent, _, _ = supervised(["draft"], replies, mode=mode)
    async with agent.stream("Write") as stream:
        judged = [event async for event in stream if isinstance(event, CriterionJudged)]
    assert sorted((e.criterion_id, e.index) for e in judged) == [("a", 0), ("b", 1)]


async def test_a_scorer_of_steps_works_in_a_check() -> None:
    scorer = (
        create_scorer(id="short")
        .generate_score(lambda step: len(step.output) < 10)
        .generate_reason(lambda step: "TOO-LONG")
    )
    worker = ScriptedModel(["a long draft", "short"])
    agent = Agent("writer", model=worker, is_task_complete=TaskComplete(scorers=[scorer]))
    assert (await agent.run("Write")).text == "short"
    assert "TOO-LONG" in worker.requests[1].text
