"""A supervisor hands work on: who is called with what, and what comes back."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from judging import says
from teams import Story, asks, delegate_once, hand, model_of, story_of, team, tool_results

from alfine import (
    Agent,
    AssistantMessage,
    ConfigError,
    DelegationPolicy,
    DelegationStart,
    FinishDecision,
    Message,
    Price,
    Score,
    ScorerInput,
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


async def test_what_a_sub_agent_says_in_its_sub_run_stays_out_of_the_supervisors_messages() -> None:
    story, _, _ = await delegate_once(asks(call("lookup", {"q": "x"}), text="thinking"), "ok", tools=[lookup])
    texts: list[Message] = list(story.result.messages)
    assert [m.text for m in texts] == ["Go", "", "ok", "the end"]
