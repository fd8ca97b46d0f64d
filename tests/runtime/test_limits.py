"""Limits on usage and time, shared by a run, its sub-runs and its judges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from judging import says
from playing import Says, of, play, wants, worker

from alfine import (
    Agent,
    BudgetError,
    ConfigError,
    DelegationPolicy,
    Price,
    ToolMessage,
    Usage,
    UsageLimits,
    create_rubric_scorer,
    tool,
)
from alfine.runtime.events import FeedbackInjected, RunFinished, StepStarted, ToolReturned
from alfine.runtime.limits import Budget
from alfine.testing import Gate, ScriptedModel, Turn, call


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def looks(*queries: str) -> Turn:
    return Turn(tool_calls=[call("lookup", {"q": q}) for q in queries])


def delegates(times: int = 1) -> Turn:
    return Turn(tool_calls=[call("delegate_sub", {"prompt": f"part {n}"}) for n in range(times)])


async def test_requests_are_never_overshot() -> None:
    agent, model = worker([looks("a"), looks("b"), "never"], tools=[lookup], limits=UsageLimits(requests=2))
    result, events = await play(agent)
    assert (result.outcome, len(model.requests), result.usage.requests) == ("budget", 2, 2)
    assert len(of(events, StepStarted)) == len(result.steps) == 2


async def test_no_feedback_is_given_for_a_step_that_the_budget_has_no_room_for() -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [wants("b")]}, limits=UsageLimits(requests=1))
    result, events = await play(agent)
    assert (result.outcome, result.text) == ("budget", "a")
    assert not of(events, FeedbackInjected)


async def test_an_answer_that_passes_with_the_last_request_is_complete() -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [wants("a")]}, limits=UsageLimits(requests=1))
    assert (await play(agent))[0].outcome == "complete"


async def test_without_any_request_the_run_ends_before_the_model_and_without_a_step() -> None:
    agent, model = worker(["never"], limits=UsageLimits(requests=0))
    result, events = await play(agent)
    assert (result.outcome, len(model.requests), result.steps, result.text) == ("budget", 0, (), "")
    assert of(events, RunFinished)[0].steps == 0


async def test_tool_calls_are_reserved_and_the_rest_of_a_reply_gets_an_answer() -> None:
    ran: list[str] = []

    @tool
    async def note(text: str) -> str:
        """Note."""
        ran.append(text)
        return text

    calls = [call("note", {"text": str(n)}) for n in range(5)]
    agent, _ = worker([Turn(tool_calls=calls)], tools=[note], limits=UsageLimits(tool_calls=3))
    result, events = await play(agent)
    assert (result.outcome, sorted(ran), result.usage.tool_calls) == ("budget", ["0", "1", "2"], 3)
    results = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert [m.failed for m in results] == [False, False, False, True, True]
    assert len(of(events, ToolReturned)) == 5


async def test_calls_that_are_not_carried_out_do_not_count() -> None:
    bad = Turn(tool_calls=[call("nope"), call("lookup", "{broken"), call("lookup", {"q": "x"})])
    agent, _ = worker([bad, "done"], tools=[lookup], limits=UsageLimits(tool_calls=1))
    result, _ = await play(agent)
    assert (result.outcome, result.usage.tool_calls) == ("complete", 1)


async def test_parallel_sub_runs_never_overshoot_the_requests_they_share() -> None:
    sub_model = ScriptedModel([Turn("part", repeat=True)])
    lead_model = ScriptedModel([delegates(5), "never"])
    lead = Agent("lead", model=lead_model, agents=[Agent("sub", model=sub_model)], limits=UsageLimits(requests=3))
    result, events = await play(lead)
    assert (result.outcome, len(sub_model.requests), result.usage.requests) == ("budget", 2, 3)
    assert len(of(events, RunFinished, depth=1)) == 5
    results = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert sorted(m.failed for m in results) == [False, False, True, True, True]


async def test_judges_share_the_requests_of_the_run() -> None:
    judge = ScriptedModel([Turn(says(c1=False), repeat=True)])
    rubric = create_rubric_scorer(model=judge, criteria=[{"id": "c1", "description": "is good"}])
    agent, model = worker(
        [Turn("a", repeat=True)], is_task_complete={"scorers": [rubric]}, limits=UsageLimits(requests=4)
    )
    result, _ = await play(agent)
    assert len(model.requests) + len(judge.requests) == result.usage.requests == 4
    assert result.outcome == "budget"


async def test_a_scorer_that_finds_no_room_ends_the_run_as_budget_and_not_as_error() -> None:
    judge = ScriptedModel([])
    agent, _ = worker(
        ["a"],
        is_task_complete={"scorers": [create_rubric_scorer(model=judge, criteria="- is good")]},
        limits=UsageLimits(requests=1),
    )
    result, _ = await play(agent)
    assert (result.outcome, result.text, len(judge.requests)) == ("budget", "a", 0)


async def test_usage_counts_worker_sub_agents_and_judges_each_once() -> None:
    def used(text: str, n: int, **more: Any) -> Turn:
        return Turn(text, usage=Usage(input_tokens=n, output_tokens=1, cached_tokens=1, reasoning_tokens=1), **more)

    sub = Agent("sub", model=ScriptedModel([used("part", 10)]))
    judge = ScriptedModel([used(says(c1=True), 100)])
    scorer = create_rubric_scorer(model=judge, criteria=[{"id": "c1", "description": "is good"}])
    calls = delegates().tool_calls
    lead = ScriptedModel([used("", 1000, tool_calls=calls), used("done", 10_000)])
    agent = Agent("lead", model=lead, agents=[sub], is_task_complete={"scorers": [scorer]})
    result, events = await play(agent)
    assert result.outcome == "complete", result.error
    expected = Usage(
        requests=4, tool_calls=1, input_tokens=11_110, output_tokens=4, cached_tokens=4, reasoning_tokens=4
    )
    assert result.usage == expected
    assert of(events, RunFinished)[0].usage["input_tokens"] == 11_110


@pytest.mark.parametrize(
    "limits",
    [
        UsageLimits(input_tokens=20),
        UsageLimits(output_tokens=10),
        UsageLimits(total_tokens=30),
        UsageLimits(cost=20e-6 + 20e-6, prices={"scripted": Price(1.0, 2.0)}),
    ],
    ids=["input", "output", "total", "cost"],
)
async def test_tokens_and_cost_end_the_run_when_they_are_reported(limits: UsageLimits) -> None:
    agent, model = worker([looks("a"), looks("b"), looks("c"), "d"], tools=[lookup], limits=limits)
    result, _ = await play(agent)
    assert (result.outcome, len(model.requests)) == ("budget", 2)


async def test_cost_follows_the_price_table() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=500_000)
    prices = {"other/scripted": Price(99, 99), "scripted/scripted": Price(2.0, 4.0, cached=0.5)}
    agent, _ = worker([Turn("a", usage=usage)], limits=UsageLimits(prices=prices))
    result, _ = await play(agent)
    assert result.usage.cost == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 4)


def test_a_limited_cost_needs_a_price_for_the_model() -> None:
    limits = UsageLimits(cost=1.0, prices={"other": Price(1, 1)})
    agent, _ = worker(["a"])
    with pytest.raises(ConfigError, match="scripted/scripted"):
        agent.stream("Do it", limits=limits)


def test_a_sub_budget_counts_on_every_budget_above() -> None:
    top = Budget(UsageLimits(requests=2))
    left, right = Budget(UsageLimits(requests=5), top), Budget(None, top)
    left.reserve_request("p", "m")
    right.reserve_request("p", "m")
    with pytest.raises(BudgetError) as caught:
        left.reserve_request("p", "m")
    assert (caught.value.limit, left.used_up, top.used_up) == ("requests", "requests", "requests")
    assert (left.usage.requests, right.usage.requests, top.usage.requests) == (1, 1, 2)


def test_a_refused_reservation_counts_nowhere() -> None:
    top = Budget()
    low = Budget(UsageLimits(tool_calls=0), top)
    with pytest.raises(BudgetError):
        low.reserve_tool_call()
    assert top.usage == low.usage == Usage()


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "3"], ids=repr)
@pytest.mark.parametrize("name", ["requests", "total_tokens", "cost", "wall_time"])
def test_a_wrong_limit_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        UsageLimits(**{name: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda: UsageLimits(cost=1.0),
        lambda: UsageLimits(prices={"m": (1, 2)}),  # type: ignore[dict-item]
        lambda: Price(math.nan, 1),
        lambda: Price(1, -1),
        lambda: Price(1, 1, cached="free"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_price_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="price"):
        make()


SOON = UsageLimits(wall_time=0.05)


async def test_wall_time_ends_a_run_inside_a_step_and_keeps_what_was_said() -> None:
    agent, model = worker([Turn(deltas=["half ", "more"], wait=Gate(), wait_after=1)], limits=SOON)
    result, _ = await play(agent)
    assert (result.outcome, result.text) == ("budget", "half ")
    assert model.requests[0].disconnected


async def test_wall_time_ends_a_run_inside_its_tools_and_every_call_has_its_result() -> None:
    closed: list[int] = []

    @tool
    async def hang(n: int) -> str:
        """Hang."""
        try:
            await anyio.sleep_forever()
        finally:
            closed.append(n)
        return ""

    calls = [call("hang", {"n": 1}), call("lookup", {"q": "x"}), call("hang", {"n": 2})]
    agent, model = worker([Turn(tool_calls=calls), "never"], tools=[hang, lookup], limits=SOON)
    result, events = await play(agent)
    assert (result.outcome, sorted(closed), len(model.requests)) == ("budget", [1, 2], 1)
    results = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert [m.failed for m in results] == [True, False, True]
    assert len(of(events, ToolReturned)) == 3


@pytest.mark.parametrize("timeout", [None, 600.0])
async def test_wall_time_ends_a_run_inside_a_scorer(timeout: float | None) -> None:
    async def hang(output: str) -> bool:
        await anyio.sleep_forever()
        return True

    agent, model = worker(["a", "never"], is_task_complete={"scorers": [hang], "timeout": timeout}, limits=SOON)
    result, _ = await play(agent)
    assert (result.outcome, result.text, len(model.requests)) == ("budget", "a", 1)
    assert [r.timed_out for r in result.checks[0].scorers] == [False]


async def test_wall_time_ends_a_run_inside_a_judge() -> None:
    judge = ScriptedModel([Turn("never", wait=Gate())])
    rubric = create_rubric_scorer(model=judge, criteria="- is good")
    agent, _ = worker(["a"], is_task_complete={"scorers": [rubric]}, limits=SOON)
    result, _ = await play(agent)
    assert (result.outcome, judge.requests[0].disconnected) == ("budget", True)


async def test_wall_time_ends_a_run_inside_a_sub_run() -> None:
    sub_model = ScriptedModel([Turn("never", wait=Gate())])
    lead_model = ScriptedModel([delegates(), "never"])
    lead = Agent("lead", model=lead_model, agents=[Agent("sub", model=sub_model)], limits=SOON)
    result, events = await play(lead)
    assert (result.outcome, len(lead_model.requests)) == ("budget", 1)
    assert [e.outcome for e in of(events, RunFinished, depth=1)] == ["budget"]
    assert type(events[-1]) is RunFinished


@pytest.mark.parametrize("place", ["instructions", "feedback", "on_complete"])
async def test_wall_time_ends_a_run_inside_a_users_function(place: str) -> None:
    async def hang(_: object) -> str:
        await anyio.sleep_forever()
        return ""

    check = {"scorers": [Says(0.0)], **({place: hang} if place != "instructions" else {})}
    options: dict[str, Any] = {"instructions": hang} if place == "instructions" else {}
    agent, model = worker(["a", "never"], is_task_complete=check, limits=SOON, **options)
    result, _ = await play(agent)
    assert result.outcome == "budget"
    assert len(model.requests) == (0 if place == "instructions" else 1)


async def test_a_delegations_own_limit_ends_the_sub_run_and_not_the_supervisor() -> None:
    sub_model = ScriptedModel([looks("a"), looks("b"), "never"])
    sub = Agent("sub", model=sub_model, tools=[lookup])
    lead_model = ScriptedModel([delegates(), "done without"])
    policy = DelegationPolicy(limits=UsageLimits(requests=2))
    result, events = await play(Agent("lead", model=lead_model, agents=[sub], delegation=policy))
    assert (result.outcome, result.text, len(sub_model.requests)) == ("complete", "done without", 2)
    assert [e.outcome for e in of(events, RunFinished, depth=1)] == ["budget"]
    assert result.usage.requests == 4
