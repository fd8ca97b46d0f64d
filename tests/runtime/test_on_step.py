"""The hook after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from playing import Says, of, play, wants, worker

from alfine import Agent, StepDecision, StepInfo, UsageLimits, tool
from alfine.runtime.events import CheckFinished, FeedbackInjected, StepStarted, Warned
from alfine.testing import ScriptedModel, Turn, call

LOOKUP = Turn("Looking", tool_calls=[call("lookup", {"q": "x"})])
GO_ON, STOP = StepDecision("go_on"), StepDecision("stop")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def hook(*wishes: object) -> Callable[[StepInfo], Any]:
    """Answer the n-th step with the n-th wish, later ones with None."""

    def on_step(info: StepInfo) -> object:
        wish = wishes[info.step.number - 1] if info.step.number <= len(wishes) else None
        if isinstance(wish, Exception):
            raise wish
        return wish

    return on_step


async def test_it_runs_after_each_step_and_after_its_check() -> None:
    seen: list[tuple[int, bool | None, bool]] = []

    async def on_step(info: StepInfo) -> None:
        seen.append((info.step.number, info.check.passed if info.check else None, info.is_last))

    agent, _ = worker(
        [LOOKUP, "one", "two"], tools=[lookup], is_task_complete={"scorers": [wants("two")]}, on_step=on_step
    )
    await play(agent, max_steps=3)
    assert seen == [(1, None, False), (2, False, False), (3, True, True)]


async def test_go_on_continues_after_a_pass() -> None:
    agent, model = worker(["one", "two"], is_task_complete={"scorers": [Says(1.0)]}, on_step=hook(GO_ON))
    result, events = await play(agent)
    assert (result.outcome, result.text, len(model.requests)) == ("complete", "two", 2)
    assert [e.iteration for e in of(events, CheckFinished)] == [1, 2]


async def test_go_on_continues_after_an_answer_that_nobody_grades() -> None:
    agent, model = worker(["one", "two"], on_step=hook(GO_ON))
    result, _ = await play(agent)
    assert (result.outcome, result.text) == ("complete", "two")
    assert model.requests[1].messages[-1].kind == "feedback"


async def test_after_go_on_an_accepted_answer_stays_the_best() -> None:
    agent, _ = worker(
        ["good", "worse"],
        is_task_complete={"scorers": [Says(1.0, 0.0), Says(0.0, 0.9)], "strategy": "any"},
        on_step=hook(GO_ON),
    )
    result, _ = await play(agent, max_steps=2)
    assert (result.outcome, result.text) == ("max_steps", "good")


async def test_go_on_at_the_last_step_after_a_pass_is_complete() -> None:
    agent, _ = worker(["one"], is_task_complete={"scorers": [Says(1.0)]}, on_step=hook(GO_ON))
    assert (await play(agent, max_steps=1))[0].outcome == "complete"


async def test_go_on_keeps_a_stalled_run_going() -> None:
    check = {"scorers": [wants("c")], "stall_after": 2}
    agent, _ = worker(["a", "b", "c"], is_task_complete=check, on_step=hook(None, GO_ON))
    assert (await play(agent))[0].outcome == "complete"


@pytest.mark.parametrize(
    ("grade", "outcome"), [pytest.param(0.0, "stopped", id="failed"), pytest.param(1.0, "complete", id="passed")]
)
async def test_stop_ends_the_run_as_stopped_unless_the_check_had_passed(grade: float, outcome: str) -> None:
    agent, model = worker(["one"], is_task_complete={"scorers": [Says(grade)]}, on_step=hook(STOP))
    result, events = await play(agent)
    assert (result.outcome, result.text, len(model.requests)) == (outcome, "one", 1)
    assert not of(events, FeedbackInjected)


async def test_stop_after_a_tool_step_leaves_the_results_in_the_history() -> None:
    agent, model = worker([LOOKUP], tools=[lookup], on_step=hook(STOP))
    result, _ = await play(agent)
    assert (result.outcome, result.messages[-1].text, len(model.requests)) == ("stopped", "found x", 1)


@pytest.mark.parametrize("script", [[LOOKUP, "two"], ["one", "two"]], ids=["a tool step", "an answer"])
async def test_feedback_is_seen_by_the_next_call(script: list[Turn | str]) -> None:
    agent, model = worker(
        script,
        tools=[lookup],
        is_task_complete={"scorers": [wants("two")]},
        on_step=hook(StepDecision(feedback="mind the \ud800 step")),
    )
    result, events = await play(agent)
    assert result.outcome == "complete"
    assert model.requests[1].texts[-1] == "mind the \ufffd step"
    assert [e.source for e in of(events, FeedbackInjected)][-1] == "on_step"


@pytest.mark.parametrize(
    ("grades", "outcome", "text"),
    [
        pytest.param([0.0, 0.0], "stopped", "two", id="never passed"),
        pytest.param([0.0, 1.0], "complete", "two", id="passed at last"),
        pytest.param([1.0, 0.0], "stopped", "one", id="had passed"),
    ],
)
async def test_stop_with_feedback_gives_one_last_step_that_sees_it(
    grades: list[float], outcome: str, text: str
) -> None:
    wish = StepDecision("stop", "wrap up")
    agent, model = worker(["one", "two"], is_task_complete={"scorers": [Says(*grades)]}, on_step=hook(wish, wish))
    result, events = await play(agent)
    assert (result.outcome, result.text, len(model.requests)) == (outcome, text, 2)
    assert model.requests[1].texts[-1] == "wrap up"
    assert [e.at_limit for e in of(events, CheckFinished)] == [False, True]


async def test_stop_with_feedback_at_the_last_step_just_stops() -> None:
    agent, _ = worker([LOOKUP], tools=[lookup], on_step=hook(StepDecision("stop", "wrap up")))
    result, events = await play(agent, max_steps=1)
    assert result.outcome == "stopped"
    assert not of(events, FeedbackInjected)


async def test_it_cannot_make_an_undecided_check_a_pass() -> None:
    agent, _ = worker(["one"], is_task_complete={"scorers": [Says(RuntimeError("x"))]}, on_step=hook(GO_ON))
    assert (await play(agent))[0].outcome == "error"


@pytest.mark.parametrize("wish", [RuntimeError("observer"), "stop", 5], ids=repr)
async def test_a_hook_that_raises_or_answers_nonsense_is_a_warning_and_loses_nothing(wish: object) -> None:
    agent, _ = worker(["one", "two"], is_task_complete={"scorers": [wants("two")]}, on_step=hook(wish))
    result, events = await play(agent)
    assert (result.outcome, result.text) == ("complete", "two")
    assert [e.code for e in of(events, Warned)] in (["on_step_raised"], ["on_step_returned"])


@pytest.mark.parametrize(("action", "feedback"), [("continue", None), (True, None), ("stop", 5)])
def test_a_decision_that_is_none_is_refused_where_it_is_made(action: Any, feedback: Any) -> None:
    with pytest.raises(ValueError, match=r"action|feedback"):
        StepDecision(action, feedback)


async def test_a_hook_that_hangs_is_cut_by_the_runs_time() -> None:
    async def on_step(info: StepInfo) -> None:
        await anyio.sleep_forever()

    agent, _ = worker([LOOKUP, "never"], tools=[lookup], on_step=on_step, limits=UsageLimits(wall_time=0.1))
    assert (await play(agent))[0].outcome == "budget"


async def test_a_pass_whose_hook_is_cut_is_still_complete() -> None:
    async def on_step(info: StepInfo) -> None:
        await anyio.sleep_forever()

    agent, _ = worker(["one"], on_step=on_step, limits=UsageLimits(wall_time=0.1))
    assert (await play(agent))[0].outcome == "complete"


async def test_a_delegations_feedback_is_not_given_where_the_hook_stops_the_run() -> None:
    from alfine import DelegationEnd, DelegationPolicy, FinishDecision

    def on_finish(end: DelegationEnd) -> FinishDecision:
        return FinishDecision(feedback="check it")

    sub = Agent("sub", model=ScriptedModel(["written"]))
    lead = ScriptedModel([Turn(tool_calls=[call("delegate_sub", {"prompt": "write"})])])
    agent = Agent(
        "lead", model=lead, agents=[sub], delegation=DelegationPolicy(on_finish=on_finish), on_step=hook(STOP)
    )
    result, events = await play(agent)
    assert result.outcome == "stopped"
    assert not of(events, FeedbackInjected)
    assert len(of(events, StepStarted)) == 1
