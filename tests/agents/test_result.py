"""What a run comes to: which text is the answer, and what is kept of a run that failed."""

from __future__ import annotations

from typing import Any

import pytest
from judging import says_list, verdict
from teams import asks, hand, model_of

from alfine import (
    Agent,
    AlfineError,
    ModelError,
    OutcomeError,
    RunError,
    Score,
    ScorerError,
    ToolMessage,
    UsageLimits,
    UserMessage,
    Verdict,
    create_rubric_scorer,
    tool,
)
from alfine.testing import Turn, call, http_error


@tool
def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


LOOK = call("lookup", {"q": "x"})


def rated(**values: float) -> Any:
    """A scorer that gives each answer its value."""

    def score(output: str) -> Score:
        return Score(values[output], reason=f"rated {values[output]}")

    return score


def judged(**satisfied: str) -> Any:
    """A scorer with three criteria: `yyn` satisfies two. An upper-case letter is an optional criterion."""

    def score(output: str) -> Score:
        marks = satisfied[output]
        verdicts = tuple(
            Verdict(f"c{i}", f"criterion {i}", mark.islower(), mark in "yY", "") for i, mark in enumerate(marks)
        )
        return Score(0, reason="no", criteria=verdicts)

    return score


BEST = [
    pytest.param([rated(a=0.2, b=0.9, c=0.5)], "b", id="the highest value"),
    pytest.param([rated(a=0.5, b=0.5, c=0.5)], "c", id="of equals the latest"),
    pytest.param([judged(a="yyn", b="nnn", c="ynn")], "a", id="most criteria satisfied"),
    pytest.param([judged(a="ynYY", b="yyNN", c="nnYY")], "b", id="optional criteria do not count"),
    pytest.param([judged(a="YYN", b="NNN", c="YNN")], "a", id="optional ones count where all are"),
    pytest.param([judged(a="ynn", b="yyn", c="ynn"), rated(a=0.9, b=0.1, c=0.9)], "b", id="criteria before values"),
    pytest.param([rated(a=0.9, b=1, c=0.9), rated(a=0.9, b=0, c=0.9)], "b", id="a scorer counts as one criterion"),
    pytest.param([rated(a=0.3, b=7.0, c=0.2)], "a", id="a value beyond the scale is none"),
]


@pytest.mark.parametrize(("scorers", "best"), BEST)
async def test_the_best_answer_is_the_text_when_none_was_accepted(scorers: list[Any], best: str) -> None:
    agent = Agent("a", model=model_of("a", "b", "c"), is_task_complete={"scorers": scorers}, max_steps=3)
    result = await agent.run("Go")
    assert result.outcome == "max_steps"
    assert (result.text, result.answer_step) == (best, "abc".index(best) + 1)


async def test_the_accepted_answer_is_the_text_also_where_another_had_more() -> None:
    scorers = [rated(a=0.9, b=0.1), lambda output: output == "b"]
    check = {"scorers": scorers, "strategy": "any"}
    result = await Agent("a", model=model_of("a", "b"), is_task_complete=check).run("Go")
    assert (result.complete, result.text) == (True, "b")


async def test_without_an_answer_the_text_is_the_last_steps() -> None:
    agent = Agent("a", model=model_of(asks(LOOK, text="first"), asks(LOOK, text="second")), tools=[lookup])
    result = await agent.run("Go", max_steps=2)
    assert (result.text, result.answer_step) == ("second", 2)


async def test_drafts_are_never_joined_together() -> None:
    check = {"scorers": [rated(a=0, b=0)]}
    result = await Agent("a", model=model_of("a", "b"), is_task_complete=check, max_steps=2).run("Go")
    assert result.text == "b"


async def test_a_result_holds_the_whole_run() -> None:
    model = model_of(asks(LOOK, text="Looking"), "draft", "good")
    agent = Agent("a", model=model, tools=[lookup], is_task_complete={"scorers": [rated(draft=0, good=1)]})
    result = await agent.run("Go", run_id="r1")
    assert (result.run_id, result.agent, result.outcome, result.complete) == ("r1", "a", "complete", True)
    assert [m.kind for m in result.messages] == ["user", "assistant", "tool", "assistant", "feedback", "assistant"]
    assert [(s.number, s.iteration, s.graded) for s in result.steps] == [(1, 1, False), (2, 1, True), (3, 2, True)]
    assert [c.passed for c in result.checks] == [False, True]
    assert (result.usage.requests, result.usage.tool_calls) == (3, 1)
    assert result.raise_for_outcome() is result


@pytest.mark.parametrize("outcome", ["max_steps", "budget"])
async def test_raise_for_outcome_raises_for_every_other_end(outcome: str) -> None:
    agent = Agent("a", model=model_of(asks(LOOK, text="so far")), tools=[lookup])
    limits = UsageLimits(requests=1) if outcome == "budget" else None
    result = await agent.run("Go", max_steps=2 if limits else 1, limits=limits)
    with pytest.raises(OutcomeError, match=outcome) as caught:
        result.raise_for_outcome()
    assert not isinstance(caught.value, RunError)
    assert (caught.value.outcome, caught.value.result) == (outcome, result)


async def test_a_failed_model_call_raises_with_what_there_was() -> None:
    model = model_of(asks(LOOK, text="Looking"), Turn("half of", error=ModelError("down", status=500)))
    agent = Agent("a", model=model, tools=[lookup])
    with pytest.raises(RunError, match="step 2") as caught:
        await agent.run("Go")
    assert isinstance(caught.value.__cause__, ModelError)
    result = caught.value.result
    assert (result.outcome, result.text, result.error) == ("error", "half of", caught.value.__cause__)
    assert [s.finish_reason for s in result.steps] == ["tool_calls", "error"]
    assert [m.text for m in result.messages] == ["Go", "Looking", "found x", "half of"]
    assert result.usage.requests == 2
    with pytest.raises(RunError):
        result.raise_for_outcome()


async def test_a_failure_before_any_answer_keeps_the_question() -> None:
    with pytest.raises(RunError) as caught:
        await Agent("a", model=model_of(http_error(401, "no key"))).run("Go")
    assert caught.value.result.messages == (UserMessage("Go"),)
    assert caught.value.result.text == ""


async def test_a_failure_after_an_answer_keeps_the_answer() -> None:
    model = model_of("a draft", http_error(500))
    with pytest.raises(RunError) as caught:
        await Agent("a", model=model, is_task_complete={"scorers": [lambda output: False]}).run("Go")
    assert caught.value.result.text == "a draft"
    assert len(caught.value.result.checks) == 1


async def test_an_undecided_check_names_the_scorer_and_keeps_the_answer() -> None:
    def broken(output: str) -> bool:
        raise RuntimeError("HOST-NAME is down")

    with pytest.raises(RunError, match="broken") as caught:
        await Agent("a", model=model_of("a draft"), is_task_complete={"scorers": [broken]}).run("Go")
    assert isinstance(caught.value.__cause__, ScorerError)
    assert (caught.value.result.outcome, caught.value.result.text) == ("error", "a draft")


async def test_all_errors_of_a_run_are_ours() -> None:
    with pytest.raises(AlfineError):
        await Agent("a", model=model_of(Turn(error=ZeroDivisionError()))).run("Go")


async def test_usage_counts_the_worker_its_sub_agents_and_the_judge_each_once() -> None:
    judge = model_of(says_list([verdict("ends-well")]))
    sub = Agent("sub", model=model_of(asks(LOOK), "ok"), tools=[lookup])
    lead = Agent("lead", model=model_of(asks(hand("sub")), "the end"), agents=[sub])
    check = {"scorers": [create_rubric_scorer(model=judge, criteria="Ends well")]}
    result = await lead.run("Go", is_task_complete=check)
    assert result.complete
    usage = result.usage
    assert (usage.requests, usage.tool_calls, usage.input_tokens, usage.output_tokens) == (5, 2, 50, 25)
    assert [m.text for m in result.messages if isinstance(m, ToolMessage)] == ["ok"]
