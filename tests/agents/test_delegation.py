"""A supervisor hands work on: who is called with what, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from judging import says
from teams import Story, asks, hand, model_of, story_of, tool_results

from alfine import (
    Agent,
    AssistantMessage,
    ConfigError,
    DelegationEnd,
    DelegationPolicy,
    DelegationStart,
    FinishDecision,
    Message,
    Price,
    RunContext,
    Score,
    ScorerInput,
    StartDecision,
    TaskComplete,
    ToolMessage,
    UsageLimits,
    UserMessage,
    create_rubric_scorer,
    tool,
)
from alfine.runtime.events import (
    CheckFinished,
    DelegationFinished,
    DelegationStarted,
    FeedbackInjected,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolReturned,
    Warned,
)
from alfine.testing import Gate, ScriptedModel, Turn, call, http_error


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def team(
    lead: ScriptedModel, *subs: ScriptedModel, policy: DelegationPolicy | None = None, **options: Any
) -> Agent[str]:
    """A lead with sub-agents a, b, …; `options` are those of the sub-agents."""
    agents = [
        Agent(name, model=model, instructions=f"RULES-{name}", **options)
        for name, model in zip("abc", subs, strict=False)
    ]
    return Agent("lead", model=lead, instructions="LEAD-RULES", agents=agents, delegation=policy)


async def delegate_once(
    *sub: Turn | str, policy: DelegationPolicy | None = None, run: dict[str, Any] | None = None, **options: Any
) -> tuple[Story, ScriptedModel, ScriptedModel]:
    """Let a lead delegate once; return what happened, the lead's model and the sub-agent's."""
    lead, model = model_of(asks(hand("a")), "the end"), model_of(*sub)
    return await story_of(team(lead, model, policy=policy, **options), **(run or {})), lead, model


async def test_a_sub_agents_answer_is_the_result_of_the_call() -> None:
    story, lead, sub = await delegate_once("found it")
    assert story.result.text == "the end"
    assert tool_results(lead) == ["found it"]
    assert sub.requests[0].texts == ["do it"]
    assert sub.requests[0].instructions == "RULES-a"
    started, finished = story.one(DelegationStarted), story.one(DelegationFinished)
    assert (started.target, started.prompt) == ("a", "do it")
    assert (finished.result, finished.failed, finished.rejected, finished.cut_off) == ("found it", False, False, False)
    assert started.child_run_id == finished.child_run_id == story.one(RunStarted, depth=1).run_id


async def test_the_tool_tells_what_the_sub_agent_is_good_for_and_takes_a_prompt_alone() -> None:
    sub = Agent("a", model=model_of(), description="Finds facts.")
    lead = model_of("done")
    await Agent("lead", model=lead, agents={"facts": sub}).run("Go")
    (definition,) = lead.requests[0].tools
    assert definition.name == "delegate_facts"
    assert "Finds facts." in definition.description
    assert list(definition.parameters["properties"]) == ["prompt"]


async def test_delegations_of_one_step_overlap_and_results_come_in_call_order() -> None:
    first, second = Gate(), Gate()
    # Each waits until the other has begun: one after the other would hang.
    lead = model_of(asks(hand("a"), hand("b")), "the end")
    a = model_of(Turn("from a", started=first, wait=second))
    b = model_of(Turn("from b", started=second, wait=first))
    with anyio.fail_after(5):
        await story_of(team(lead, a, b))
    assert tool_results(lead) == ["from a", "from b"]


async def test_one_sub_agent_can_be_at_work_twice_at_once() -> None:
    first, second = Gate(), Gate()
    lead = model_of(asks(hand("a", "one"), hand("a", "two")), "the end")
    turns = {"one": Turn("1", started=first, wait=second), "two": Turn("2", started=second, wait=first)}
    with anyio.fail_after(5):
        await story_of(team(lead, ScriptedModel(lambda request: turns[request.texts[0]])))
    assert tool_results(lead) == ["1", "2"]


async def test_no_more_than_max_parallel_run_at_once() -> None:
    at_work, most = 0, 0

    @tool
    async def work() -> str:
        """Work."""
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await anyio.wait_all_tasks_blocked()
        at_work -= 1
        return ""

    lead = model_of(asks(*[hand("a")] * 5), "the end")
    sub = ScriptedModel(lambda request: "done" if len(request.messages) > 1 else asks(call("work")))
    story = await story_of(team(lead, sub, policy=DelegationPolicy(max_parallel=2), tools=[work]))
    assert len(story.all(DelegationFinished)) == 5
    assert most == 2


async def test_sub_agents_delegate_further() -> None:
    leaf = Agent("leaf", model=model_of("deep"))
    mid = Agent("mid", model=model_of(asks(hand("leaf")), "from mid"), agents=[leaf])
    lead = model_of(asks(hand("mid")), "the end")
    story = await story_of(Agent("lead", model=lead, agents=[mid]))
    assert tool_results(lead) == ["from mid"]
    assert [(e.agent, e.depth) for e in story.all(RunStarted)] == [("lead", 0), ("mid", 1), ("leaf", 2)]
    ids = {e.run_id: e.parent_run_id for e in story.all(RunStarted)}
    lead_id, mid_id, leaf_id = ids
    assert (ids[mid_id], ids[leaf_id]) == (lead_id, mid_id)
    assert story.result.usage.requests == 5


@pytest.mark.parametrize("bound_by", ["lead", "mid"])
async def test_nesting_ends_at_the_depth_that_anyone_above_sets(bound_by: str) -> None:
    policies = {
        "lead": DelegationPolicy(max_depth=1 if bound_by == "lead" else 5),
        "mid": DelegationPolicy(max_depth=1 if bound_by == "mid" else 5),
    }
    leaf_model = model_of("never")
    mid_model = model_of(asks(hand("leaf")), "alone")
    mid = Agent("mid", model=mid_model, agents=[Agent("leaf", model=leaf_model)], delegation=policies["mid"])
    lead = Agent("lead", model=model_of(asks(hand("mid")), "the end"), agents=[mid], delegation=policies["lead"])
    assert (await story_of(lead)).result.text == "the end"
    assert leaf_model.requests == []
    assert "1 deep" in tool_results(mid_model)[0]


async def test_an_agent_that_can_be_reached_from_itself_is_refused_when_that_can_be_seen() -> None:
    a = Agent("a", model=model_of("never"))
    b = Agent("b", model=model_of("never"), agents=[a])
    a.agents["b"] = b
    with pytest.raises(ConfigError, match="a -> b -> a"):
        await a.run("Go")
    with pytest.raises(ConfigError, match="-> ") as caught:
        Agent("lead", model=model_of(), agents=[b])
    assert caught.value.argument == "agents"


async def test_many_ways_to_one_sub_agent_are_no_cycle_and_cost_no_time() -> None:
    agent = Agent("0", model=model_of("done"))
    for level in range(1, 41):
        agent = Agent(f"{level}", model=model_of("done"), agents={"left": agent, "right": agent})
    with anyio.fail_after(5):
        assert (await agent.run("Go")).complete


async def test_an_agent_that_is_at_work_above_is_not_called_again() -> None:
    lead_model, sub_model = model_of(asks(hand("a")), "the end"), model_of(asks(hand("lead")), "alone")
    lead = team(lead_model, sub_model)
    sub = lead.agents["a"]

    def on_start(start: DelegationStart) -> None:
        # The cycle is not there before the run.
        sub.agents["lead"] = lead

    lead.delegation = DelegationPolicy(on_start=on_start)
    story = await story_of(lead)
    assert story.result.text == "the end"
    assert "already at work" in tool_results(sub_model)[0]
    assert len(lead_model.requests) == 2


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


CONVERSATION = [UserMessage("Hello"), AssistantMessage("Hi"), UserMessage("Go")]


async def test_a_sub_agent_sees_its_prompt_only() -> None:
    _, _, sub = await delegate_once("ok", run={"history": CONVERSATION[:2]})
    assert list(sub.requests[0].messages) == [UserMessage("do it")]


async def test_with_the_conversation_it_sees_that_too_and_never_the_supervisors_instructions() -> None:
    policy = DelegationPolicy(context="conversation")
    _, _, sub = await delegate_once("ok", policy=policy, run={"history": CONVERSATION[:2]})
    assert list(sub.requests[0].messages) == [*CONVERSATION, UserMessage("do it")]
    assert "LEAD-RULES" not in sub.requests[0].text


@pytest.mark.parametrize("kind", ["function", "async function", "JSON"])
async def test_a_message_filter_says_what_it_sees(kind: str) -> None:
    def last(messages: Any) -> Any:
        return messages[-1:]

    async def last_async(messages: Any) -> Any:
        return messages[-1:]

    filters: dict[str, Any] = {
        "function": last,
        "async function": last_async,
        "JSON": lambda messages: [{"kind": "user", "text": m.text} for m in messages[-1:]],
    }
    policy = DelegationPolicy(message_filter=filters[kind])
    _, _, sub = await delegate_once("ok", policy=policy, run={"history": CONVERSATION[:2]})
    assert list(sub.requests[0].messages) == [UserMessage("Go"), UserMessage("do it")]


async def test_tool_calls_that_the_sub_agent_could_not_make_are_not_shown_to_it() -> None:
    lead = model_of(asks(call("lookup", {"q": "x"}), text="Looking"), asks(hand("a")), "the end")
    sub = model_of("ok")
    policy = DelegationPolicy(context="conversation")
    await Agent("lead", model=lead, tools=[lookup], agents=[Agent("a", model=sub)], delegation=policy).run("Go")
    assert list(sub.requests[0].messages) == [UserMessage("Go"), AssistantMessage("Looking"), UserMessage("do it")]


async def test_tool_results_of_the_sub_run_are_added_when_wanted() -> None:
    _, lead, _ = await delegate_once(
        asks(call("lookup", {"q": "x"})), "ok", policy=DelegationPolicy(include_tool_results=True), tools=[lookup]
    )
    (result,) = tool_results(lead)
    assert result.startswith("ok\n\n")
    assert "found x" in result


async def test_tool_results_of_the_supervisors_own_work_are_not_added() -> None:
    lead = model_of(asks(call("lookup", {"q": "x"})), asks(hand("a")), "the end")
    policy = DelegationPolicy(context="conversation", include_tool_results=True)
    sub = Agent("a", model=model_of("ok"), tools=[lookup])
    await Agent("lead", model=lead, tools=[lookup], agents=[sub], delegation=policy).run("Go")
    assert tool_results(lead, 3) == ["ok"]


async def test_tool_results_are_not_part_of_an_answer_that_bails() -> None:
    policy = DelegationPolicy(include_tool_results=True, on_finish=lambda end: FinishDecision(bail=True))
    story, _, _ = await delegate_once(asks(call("lookup", {"q": "x"})), "ok", policy=policy, tools=[lookup])
    assert story.result.text == "ok"


async def test_limits_of_the_sub_run_end_it_and_not_the_supervisor() -> None:
    policy = DelegationPolicy(limits=UsageLimits(requests=1))
    story, lead, sub = await delegate_once(
        asks(call("lookup", {"q": "x"}), text="so far"), "never", policy=policy, tools=[lookup]
    )
    assert len(sub.requests) == 1
    assert tool_results(lead) == ["so far"]
    finished = story.one(DelegationFinished)
    assert (finished.outcome, finished.cut_off, finished.failed) == ("budget", True, False)
    assert story.result.complete


async def test_the_sub_agents_own_limits_hold_too_and_each_delegation_has_them_anew() -> None:
    lead = model_of(asks(hand("a")), asks(hand("a")), "the end")
    story = await story_of(team(lead, model_of("1", "2"), limits=UsageLimits(requests=1)))
    assert [e.outcome for e in story.all(DelegationFinished)] == ["complete", "complete"]
    assert story.result.usage.requests == 5


async def test_the_supervisors_limits_count_what_sub_agents_use() -> None:
    story, _, sub = await delegate_once(
        asks(call("lookup", {"q": "x"})), "never", tools=[lookup], run={"limits": UsageLimits(requests=2)}
    )
    assert len(sub.requests) == 1
    assert story.result.outcome == "budget"
    assert story.result.usage.requests == 2


async def test_wall_time_of_a_sub_run_cuts_it_inside_a_step() -> None:
    policy = DelegationPolicy(limits=UsageLimits(wall_time=0.05))
    with anyio.fail_after(5):
        story, lead, _ = await delegate_once(Turn("never", wait=Gate()), policy=policy)
    assert tool_results(lead) == ["The agent 'a' failed."]
    finished = story.one(DelegationFinished)
    assert (finished.outcome, finished.failed) == ("budget", True)
    assert story.result.text == "the end"


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


CUT_OFF = [
    pytest.param([asks(call("lookup", {"q": "x"}), text="so far")], {"max_steps": 1}, "max_steps", id="max_steps"),
    pytest.param(
        ["draft", "draft", "draft"],
        {"is_task_complete": {"scorers": [lambda output: Score(0, reason="no")], "stall_after": 2}},
        "stalled",
        id="stalled",
    ),
    pytest.param([Turn("half of", finish_reason="length")], {}, "complete", id="length"),
]


@pytest.mark.parametrize(("sub", "options", "outcome"), CUT_OFF)
async def test_an_answer_cut_off_at_a_limit_is_marked_by_a_field_and_its_text_untouched(
    sub: list[Any], options: dict[str, Any], outcome: str
) -> None:
    story, lead, _ = await delegate_once(*sub, tools=[lookup], **options)
    finished = story.one(DelegationFinished)
    assert (finished.outcome, finished.cut_off, finished.failed) == (outcome, True, False)
    assert tool_results(lead) == [finished.result]
    assert finished.result in ("so far", "draft", "half of")


async def test_no_text_at_the_limit_is_a_failure() -> None:
    story, lead, _ = await delegate_once(asks(call("lookup", {"q": "x"})), tools=[lookup], max_steps=1)
    finished = story.one(DelegationFinished)
    assert (finished.result, finished.failed, finished.cut_off) == (None, True, False)
    assert tool_results(lead) == ["The agent 'a' failed."]


async def test_an_empty_finished_answer_is_an_empty_result() -> None:
    story, lead, _ = await delegate_once("")
    assert tool_results(lead) == [""]
    assert not story.one(DelegationFinished).failed


async def test_arguments_that_the_tool_does_not_have_are_ignored_with_a_warning() -> None:
    lead, sub = model_of(asks(hand("a", max_steps=100, instructions="obey")), "the end"), model_of("ok")
    story = await story_of(team(lead, sub, max_steps=3))
    assert tool_results(lead) == ["ok"]
    warning = story.one(Warned)
    assert warning.code == "delegation_arguments_ignored"
    assert "instructions, max_steps" in warning.message
    assert story.one(RunStarted, depth=1).max_steps == 3
    assert "obey" not in sub.requests[0].text


BAD_ARGUMENTS = [
    "",
    "{}",
    '{"prompt": ""}',
    '{"prompt": " "}',
    '{"prompt": 5}',
    '{"prompt": null}',
    '{"task": "x"}',
    "[]",
    '"x"',
    '{"prompt": "x',
    "[" * 100_000,
]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=lambda text: text[:20] or "nothing")
async def test_a_delegation_without_a_usable_prompt_is_an_answer_to_the_model(arguments: str) -> None:
    lead, sub = model_of(asks(call("delegate_a", arguments)), "the end"), model_of("never")
    story = await story_of(team(lead, sub))
    assert sub.requests == []
    assert "prompt" in tool_results(lead)[0]
    assert story.one(ToolReturned).failed
    assert story.result.complete


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        pytest.param('{"prompt": "a\nb"}', "a\nb", id="a bare line break"),
        pytest.param(r'{"prompt": "a\ud800"}', "a\ufffd", id="half a character"),
        pytest.param(r'{"prompt": "a\u0000"}', "a\0", id="NUL"),
    ],
)
async def test_a_prompt_with_odd_characters_is_delegated(arguments: str, prompt: str) -> None:
    lead, sub = model_of(asks(call("delegate_a", arguments)), "the end"), model_of("ok")
    story = await story_of(team(lead, sub))
    assert sub.requests[0].texts == [prompt]
    assert all(event.to_json() for event in story.events)


async def test_half_characters_of_hooks_are_replaced() -> None:
    policy = DelegationPolicy(on_start=lambda start: StartDecision(proceed=False, reason="no\ud800"))
    story, lead, _ = await delegate_once("never", policy=policy)
    assert tool_results(lead) == ["no\ufffd"]
    assert all(event.to_json() for event in story.events)


async def test_a_sub_agents_failure_is_a_tool_error_and_not_its_siblings() -> None:
    lead = model_of(asks(hand("a"), hand("b"), hand("c")), "the end")
    story = await story_of(team(lead, model_of("1"), model_of(http_error(500, "HOST-NAME down")), model_of("3")))
    assert tool_results(lead) == ["1", "The agent 'b' failed.", "3"]
    assert [e.failed for e in sorted(story.all(DelegationFinished), key=lambda e: e.position)] == [False, True, False]
    assert story.result.complete
    assert "HOST-NAME" not in lead.requests[1].text
    failed = next(e for e in story.all(RunFinished) if e.agent == "b")
    assert "HOST-NAME" in (failed.error or "")


async def test_a_sub_agent_with_its_own_check_corrects_itself() -> None:
    def has_source(output: str) -> Score:
        return Score(float("[1]" in output), reason="NO-SOURCE")

    story, lead, sub = await delegate_once("draft", "with [1]", is_task_complete={"scorers": [has_source]})
    assert tool_results(lead) == ["with [1]"]
    assert "NO-SOURCE" in sub.requests[1].text
    assert "NO-SOURCE" not in lead.requests[1].text
    assert [(e.depth, e.passed) for e in story.all(CheckFinished)] == [(1, False), (1, True)]
    assert story.result.checks == ()


async def test_the_supervisors_check_and_run_time_rubric_are_not_applied_to_the_sub_run() -> None:
    judge = model_of(says(**{"ends-well": True}))
    scorer = create_rubric_scorer(model=judge)
    seen: list[Any] = []

    def look(output: str, input: ScorerInput) -> bool:
        seen.append(dict(input.request_context))
        return True

    sub = Agent("a", model=model_of("ok"), is_task_complete={"scorers": [scorer, look]})
    lead = Agent("lead", model=model_of(asks(hand("a")), "the end"), agents=[sub])
    check = TaskComplete(scorers=[scorer])
    result = await lead.run("Go", is_task_complete=check, request_context={"rubric": "Ends well", "user": "Ada"})
    assert result.complete
    assert seen == [{"user": "Ada"}]
    assert len(judge.requests) == 1


async def test_events_of_sub_runs_come_in_the_parents_stream_with_their_own_run_and_one_count() -> None:
    lead = model_of(asks(hand("a"), hand("b")), "the end")
    story = await story_of(team(lead, model_of("from a"), model_of("from b")))
    assert [e.seq for e in story.events] == list(range(1, len(story.events) + 1))
    for name in ("a", "b"):
        own = [e for e in story.events if e.agent == name]
        assert len({e.run_id for e in own}) == 1
        assert {e.depth for e in own} == {1}
        assert isinstance(own[0], RunStarted)
        assert isinstance(own[-1], RunFinished)
        assert "".join(e.text for e in own if isinstance(e, TextDelta)) == f"from {name}"
    assert isinstance(story.events[-1], RunFinished)
    assert story.events[-1].depth == 0


async def test_events_of_a_sub_run_come_while_it_is_at_work() -> None:
    gate = Gate()
    agent = team(
        model_of(asks(hand("a")), "the end"), model_of(Turn(deltas=["first", "second"], wait=gate, wait_after=1))
    )
    with anyio.fail_after(5):
        async with agent.stream("Go") as stream:
            async for event in stream:
                if isinstance(event, TextDelta) and event.depth == 1:
                    gate.open()
            assert (await stream.result()).complete


async def test_a_cancel_in_the_middle_reaches_everyone_and_answers_every_call() -> None:
    began = [Gate(), Gate()]
    leaf_model = model_of(Turn("never", started=began[0], wait=Gate()))
    mid = Agent("mid", model=model_of(asks(hand("leaf"))), agents=[Agent("leaf", model=leaf_model)])
    other_model = model_of(Turn("never", started=began[1], wait=Gate()))
    agents = [mid, Agent("other", model=other_model)]
    lead = Agent("lead", model=model_of(asks(hand("mid"), hand("other"))), agents=agents)
    with anyio.fail_after(5):
        async with lead.stream("Go") as stream:
            for gate in began:
                await gate.wait()
            stream.cancel()
            events = [event async for event in stream]
            result = await stream.result()
    story = Story(events, result)
    assert leaf_model.requests[0].disconnected
    assert other_model.requests[0].disconnected
    assert {e.agent: e.outcome for e in story.all(RunFinished)} == dict.fromkeys(
        ("leaf", "mid", "other", "lead"), "cancelled"
    )
    assert sorted(e.target for e in story.all(DelegationFinished, depth=0)) == ["mid", "other"]
    assert [m.failed for m in result.messages if isinstance(m, ToolMessage)] == [True, True]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].depth == 0


async def test_a_price_is_asked_for_each_sub_agent_before_the_run() -> None:
    lead = team(model_of("never"), model_of("never"))
    prices = {"scripted": Price(1, 1)}
    assert lead.stream("Go", limits=UsageLimits(cost=1, prices=prices))
    sub = Agent("a", model=ScriptedModel([], name="other"))
    with pytest.raises(ConfigError, match="scripted/other"):
        Agent("lead", model=model_of(), agents=[sub]).stream("Go", limits=UsageLimits(cost=1, prices=prices))


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


async def test_what_a_sub_agent_says_in_its_sub_run_stays_out_of_the_supervisors_messages() -> None:
    story, _, _ = await delegate_once(asks(call("lookup", {"q": "x"}), text="thinking"), "ok", tools=[lookup])
    texts: list[Message] = list(story.result.messages)
    assert [m.text for m in texts] == ["Go", "", "ok", "the end"]
