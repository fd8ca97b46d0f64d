"""What the hooks of a delegation are told, may decide, and cost when they fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from teams import asks, delegate_once, hand, model_of, story_of, team, tool_results

from alfine import (
    Agent,
    ConfigError,
    DelegationEnd,
    DelegationPolicy,
    DelegationStart,
    FinishDecision,
    RunContext,
    StartDecision,
    ToolMessage,
    UsageLimits,
    tool,
)
from alfine.runtime.events import (
    DelegationFinished,
    DelegationStarted,
    FeedbackInjected,
    RunStarted,
    ToolReturned,
    Warned,
)
from alfine.testing import Gate, Turn, call, http_error


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def test_on_start_is_told_who_delegates_what_to_whom() -> None:
    seen: list[DelegationStart] = []

    async def on_start(start: DelegationStart) -> None:
        seen.append(start)

    story, _, sub = await delegate_once("found it", policy=DelegationPolicy(on_start=on_start))
    (start,) = seen
    assert (start.target, start.prompt, start.context.agent, start.context.step) == ("a", "do it", "lead", 1)
    assert start.context.call is not None
    assert start.context.call.name == "delegate_a"
    assert len(sub.requests) == 1
    assert story.result.complete


async def test_on_start_rejects_with_a_reason_that_the_supervisor_reads() -> None:
    policy = DelegationPolicy(on_start=lambda start: StartDecision(proceed=False, reason="NOT-NOW"))
    story, lead, sub = await delegate_once("never", policy=policy)
    assert sub.requests == []
    assert tool_results(lead) == ["NOT-NOW"]
    finished = story.one(DelegationFinished)
    assert (finished.result, finished.rejected, finished.failed, finished.child_run_id) == (
        "NOT-NOW",
        True,
        False,
        None,
    )
    assert story.all(DelegationStarted) == []


async def test_on_start_rewrites_the_prompt_adds_instructions_and_sets_max_steps() -> None:
    policy = DelegationPolicy(
        on_start=lambda start: StartDecision(prompt="other", instructions="MORE-RULES", max_steps=1), max_steps=7
    )
    story, _, sub = await delegate_once(asks(call("lookup", {"q": "x"}), text="so far"), policy=policy, tools=[lookup])
    assert sub.requests[0].texts == ["other"]
    assert sub.requests[0].instructions == "RULES-a\n\nMORE-RULES"
    assert story.one(DelegationStarted).prompt == "other"
    assert story.one(RunStarted, depth=1).max_steps == 1


async def test_instructions_are_added_to_those_of_a_function() -> None:
    async def write(context: RunContext) -> str:
        return f"for {context.agent}"

    sub_model = model_of("done")
    sub = Agent("a", model=sub_model, instructions=write)
    policy = DelegationPolicy(on_start=lambda start: StartDecision(instructions="MORE"))
    await Agent("lead", model=model_of(asks(hand("a")), "end"), agents=[sub], delegation=policy).run("Go")
    assert sub_model.requests[0].instructions == "for a\n\nMORE"


async def test_instructions_that_come_to_no_text_fail_also_with_more_added() -> None:
    sub_model = model_of("never")
    sub = Agent("a", model=sub_model, instructions=lambda context: None)  # type: ignore[arg-type,return-value]
    policy = DelegationPolicy(on_start=lambda start: StartDecision(instructions="MORE"))
    story = await story_of(Agent("lead", model=model_of(asks(hand("a")), "end"), agents=[sub], delegation=policy))
    assert sub_model.requests == []
    assert story.one(DelegationFinished).failed


def raises(*_: object) -> Any:
    raise RuntimeError("HOST-NAME is down")


def wrong_steps(start: DelegationStart) -> StartDecision:
    return StartDecision(max_steps=0)


def blank_prompt(start: DelegationStart) -> StartDecision:
    return StartDecision(prompt=" ")


GUARDS = [
    pytest.param({"on_start": raises}, "on_start_failed", id="on_start raises"),
    pytest.param({"on_start": lambda start: True}, "on_start_failed", id="on_start returns a bool"),
    pytest.param({"on_start": lambda start: {"proceed": True}}, "on_start_failed", id="on_start returns a mapping"),
    pytest.param({"on_start": wrong_steps}, "on_start_failed", id="on_start wants no steps"),
    pytest.param({"on_start": blank_prompt}, "on_start_failed", id="on_start wants a blank prompt"),
    pytest.param({"message_filter": raises}, "message_filter_failed", id="the filter raises"),
    pytest.param({"message_filter": lambda messages: None}, "message_filter_failed", id="the filter returns None"),
    pytest.param({"message_filter": lambda messages: "all"}, "message_filter_failed", id="the filter returns a text"),
    pytest.param({"message_filter": lambda messages: [5]}, "message_filter_failed", id="the filter returns no message"),
]


@pytest.mark.parametrize(("hooks", "code"), GUARDS)
async def test_a_guard_that_fails_keeps_the_sub_agent_from_being_called(hooks: dict[str, Any], code: str) -> None:
    story, lead, sub = await delegate_once("never", policy=DelegationPolicy(**hooks))
    assert sub.requests == []
    assert story.one(Warned).code == code
    assert story.one(ToolReturned).failed
    assert story.one(DelegationFinished).failed
    assert story.result.text == "the end"
    for hidden in ("HOST-NAME", "RuntimeError", "on_start", "filter", "max_steps"):
        assert hidden not in lead.requests[1].text


async def test_a_guard_that_fails_stops_no_sibling() -> None:
    def on_start(start: DelegationStart) -> None:
        if start.target == "a":
            raise RuntimeError

    lead = model_of(asks(hand("a"), hand("b")), "the end")
    await story_of(team(lead, model_of("never"), model_of("from b"), policy=DelegationPolicy(on_start=on_start)))
    assert tool_results(lead)[1] == "from b"


async def test_on_finish_is_told_the_answer_and_the_sub_run() -> None:
    seen: list[DelegationEnd] = []
    await delegate_once("found it", policy=DelegationPolicy(on_finish=seen.append))
    (end,) = seen
    assert (end.target, end.prompt, end.text, end.failed) == ("a", "do it", "found it", False)
    assert (end.run.agent, end.run.usage.requests, end.context.agent) == ("a", 1, "lead")


async def test_on_finish_replaces_the_result() -> None:
    policy = DelegationPolicy(on_finish=lambda end: FinishDecision(text="better"))
    story, lead, _ = await delegate_once("found it", policy=policy)
    assert tool_results(lead) == ["better"]
    assert story.one(DelegationFinished).result == "better"


async def test_on_finish_can_put_something_in_place_of_a_failure() -> None:
    policy = DelegationPolicy(on_finish=lambda end: FinishDecision(text="a spare answer") if end.failed else None)
    story, lead, _ = await delegate_once(http_error(500), policy=policy)
    assert tool_results(lead) == ["a spare answer"]
    assert not story.one(DelegationFinished).failed


async def test_feedback_of_on_finish_follows_the_results() -> None:
    policy = DelegationPolicy(on_finish=lambda end: FinishDecision(feedback=f"MIND {end.target}"))
    lead = model_of(asks(hand("a"), hand("b")), "the end")
    story = await story_of(team(lead, model_of("from a"), model_of("from b"), policy=policy))
    assert lead.requests[1].texts[-4:] == ["from a", "from b", "MIND a", "MIND b"]
    assert [e.source for e in story.all(FeedbackInjected)] == ["delegation", "delegation"]


async def test_bail_makes_the_sub_agents_answer_the_runs() -> None:
    story, lead, _ = await delegate_once(
        "found it", policy=DelegationPolicy(on_finish=lambda e: FinishDecision(bail=True))
    )
    assert (story.result.outcome, story.result.text, story.result.answer_step) == ("bailed", "found it", None)
    assert len(lead.requests) == 1


async def test_of_several_that_bail_the_first_in_call_order_wins() -> None:
    gate = Gate()
    lead = model_of(asks(hand("a"), hand("b")))
    a, b = model_of(Turn("from a", wait=gate)), model_of("from b")

    def on_finish(end: DelegationEnd) -> FinishDecision:
        gate.open()  # by b, which is done first
        return FinishDecision(bail=True)

    with anyio.fail_after(5):
        story = await story_of(team(lead, a, b, policy=DelegationPolicy(on_finish=on_finish)))
    assert story.result.text == "from a"
    assert [m.text for m in story.result.messages if isinstance(m, ToolMessage)] == ["from a", "from b"]


async def test_no_feedback_is_put_in_once_a_delegation_has_bailed() -> None:
    def on_finish(end: DelegationEnd) -> FinishDecision:
        return FinishDecision(bail=end.target == "b", feedback="for nobody")

    lead = model_of(asks(hand("a"), hand("b")))
    story = await story_of(team(lead, model_of("1"), model_of("2"), policy=DelegationPolicy(on_finish=on_finish)))
    assert story.result.text == "2"
    assert story.all(FeedbackInjected) == []


async def test_a_failed_delegation_cannot_bail() -> None:
    policy = DelegationPolicy(on_finish=lambda end: FinishDecision(bail=True))
    story, _, _ = await delegate_once(http_error(500), policy=policy)
    assert (story.result.outcome, story.result.text) == ("complete", "the end")


WRONG: Any = 5
OBSERVERS = [
    pytest.param(raises, "on_finish_raised", id="raises"),
    pytest.param(lambda end: "better", "on_finish_returned", id="returns a text"),
    pytest.param(lambda end: FinishDecision(text=WRONG), "on_finish_raised", id="gives a number as text"),
    pytest.param(lambda end: FinishDecision(bail=WRONG), "on_finish_raised", id="gives a number as bail"),
]


@pytest.mark.parametrize(("on_finish", "code"), OBSERVERS)
async def test_an_observer_that_fails_loses_nothing(on_finish: Callable[..., Any], code: str) -> None:
    story, lead, _ = await delegate_once("found it", policy=DelegationPolicy(on_finish=on_finish))
    assert tool_results(lead) == ["found it"]
    assert story.one(Warned).code == code


async def hangs(*_: object) -> Any:
    await anyio.sleep_forever()


@pytest.mark.parametrize("hook", ["on_start", "message_filter", "on_finish"])
async def test_the_runs_wall_time_cuts_a_hook_that_hangs(hook: str) -> None:
    hooks: dict[str, Any] = {hook: hangs}
    policy = DelegationPolicy(**hooks)
    with anyio.fail_after(5):
        story, _, _ = await delegate_once("ok", policy=policy, run={"limits": UsageLimits(wall_time=0.05)})
    assert story.result.outcome == "budget"
    assert len(story.all(DelegationFinished)) == 1
    assert story.one(DelegationFinished).failed == (hook != "on_finish")


async def test_half_characters_of_hooks_are_replaced() -> None:
    policy = DelegationPolicy(on_start=lambda start: StartDecision(proceed=False, reason="no\ud800"))
    story, lead, _ = await delegate_once("never", policy=policy)
    assert tool_results(lead) == ["no\ufffd"]
    assert all(event.to_json() for event in story.events)


BAD_POLICIES: list[dict[str, Any]] = [
    {"context": "everything"},
    {"on_start": 5},
    {"on_finish": "x"},
    {"message_filter": []},
    {"limits": {"requests": 1}},
    {"max_steps": 0},
    {"max_depth": 0},
    {"max_depth": None},
    {"max_parallel": True},
]


@pytest.mark.parametrize("options", BAD_POLICIES, ids=str)
def test_a_wrong_argument_of_a_policy_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        DelegationPolicy(**options)
    assert caught.value.argument == f"delegation.{next(iter(options))}"
