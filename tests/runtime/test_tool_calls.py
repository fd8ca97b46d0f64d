"""Carrying out the tool calls of one reply."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from playing import Says, of, play, worker

from alfine import (
    Agent,
    AssistantMessage,
    DelegationEnd,
    DelegationPolicy,
    FinishDecision,
    FunctionTool,
    RunContext,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolMessage,
    ToolResult,
    tool,
)
from alfine.runtime.events import (
    FeedbackInjected,
    RunFinished,
    ToolCallDelta,
    ToolCalled,
    ToolCallStarted,
    ToolProgress,
    ToolReturned,
)
from alfine.runtime.journal import Op
from alfine.runtime.tool_calls import take_id, with_unique_ids
from alfine.runtime.tools import CallContext
from alfine.testing import ScriptedModel, Turn, call


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def break_down() -> str:
    """Break down."""
    raise RuntimeError("the pump is dry")


@tool
async def refuse() -> str:
    """Refuse."""
    raise ToolError("try the other door")


def results_of(messages: Any) -> list[str]:
    return [m.text for m in messages if isinstance(m, ToolMessage)]


async def test_calls_run_side_by_side_and_their_results_stand_in_call_order() -> None:
    second_is_done = anyio.Event()

    @tool
    async def first() -> str:
        """Wait for the second."""
        await second_is_done.wait()
        return "1"

    @tool
    async def second() -> str:
        """Go ahead."""
        second_is_done.set()
        return "2"

    agent, model = worker([Turn(tool_calls=[call("first"), call("second")]), "done"], tools=[first, second])
    _, events = await play(agent)
    assert [m.text for m in model.requests[1].messages[-2:]] == ["1", "2"]
    assert [e.text for e in of(events, ToolReturned)] == ["2", "1"]
    assert [e.name for e in of(events, ToolCalled)] == ["first", "second"]


async def test_at_most_max_parallel_calls_run_at_once() -> None:
    at_once, most = 0, 0

    @tool
    async def work() -> str:
        """Work."""
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        at_once -= 1
        return ""

    agent = Agent(
        "worker",
        model=ScriptedModel([Turn(tool_calls=[call("work")] * 7), "done"]),
        tools=[work],
        delegation=DelegationPolicy(max_parallel=3),
    )
    result, _ = await play(agent)
    assert (most, len(results_of(result.messages))) == (3, 7)


async def test_bad_arguments_unknown_tools_and_exceptions_are_answers_to_the_model() -> None:
    calls = [
        call("add", {"a": "one", "b": 2}),
        call("add", "{broken"),
        call("nope"),
        call("break_down"),
        call("refuse"),
    ]
    agent, model = worker([Turn(tool_calls=calls), "done"], tools=[add, break_down, refuse])
    result, events = await play(agent)
    assert result.outcome == "complete"
    texts = results_of(model.requests[1].messages)
    assert "a" in texts[0]
    assert "integer" in texts[0]
    assert "nope" in texts[2]
    assert "add, break_down, refuse" in texts[2]
    assert texts[3] == "The tool 'break_down' failed: RuntimeError: the pump is dry"
    assert texts[4] == "try the other door"
    assert [e.failed for e in of(events, ToolReturned)] == [True] * 5


async def test_a_tool_that_is_too_late_is_answered_so_and_the_run_goes_on() -> None:
    @tool(timeout=0.01)
    async def hang() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    agent, _ = worker([Turn(tool_calls=[call("hang"), call("add", {"a": 1, "b": 2})]), "done"], tools=[hang, add])
    result, _ = await play(agent)
    assert result.outcome == "complete"
    assert results_of(result.messages) == ["The tool 'hang' did not finish in time.", "3"]


class OwnTool:
    """A tool that a user wrote against the protocol."""

    target = None
    definition = ToolDefinition("own", "Own.", {"type": "object"})

    def __init__(self, result: ToolResult | Exception) -> None:
        self.result = result

    def plan(self, context: CallContext) -> ToolResult | Op[ToolResult]:
        if isinstance(self.result, Exception):
            raise self.result
        result = self.result

        async def body() -> ToolResult:
            return result

        return Op(context.key, body, ToolResult)


async def test_a_tool_that_cannot_plan_its_call_is_an_answer_to_the_model() -> None:
    agent, _ = worker([Turn(tool_calls=[call("own")]), "done"], tools=[OwnTool(KeyError("plan"))])
    result, _ = await play(agent)
    assert (result.outcome, results_of(result.messages)) == ("complete", ["The tool 'own' failed: KeyError: 'plan'"])


async def test_a_result_may_end_the_run_with_an_answer() -> None:
    agent, model = worker(
        [Turn(tool_calls=[call("own")])],
        tools=[OwnTool(ToolResult("shown", answer="final \ud800", feedback="never seen"))],
        is_task_complete={"scorers": [Says(0.0)]},
    )
    result, events = await play(agent)
    assert (result.outcome, result.text, len(model.requests)) == ("bailed", "final \ufffd", 1)
    assert of(events, RunFinished)[0].answer_step is None
    assert not of(events, FeedbackInjected)


async def test_the_first_of_several_bails_in_call_order_is_the_answer() -> None:
    def on_finish(end: DelegationEnd) -> FinishDecision:
        return FinishDecision(bail=True)

    subs = [Agent(name, model=ScriptedModel([f"by {name}"])) for name in ("a", "b")]
    calls = [call("delegate_a", {"prompt": "x"}), call("delegate_b", {"prompt": "x"})]
    model = ScriptedModel([Turn(tool_calls=calls)])
    lead = Agent("lead", model=model, agents=subs, delegation=DelegationPolicy(on_finish=on_finish))
    result, _ = await play(lead)
    assert (result.outcome, result.text) == ("bailed", "by a")
    assert len(results_of(result.messages)) == 2


async def test_feedback_of_a_delegation_follows_the_results() -> None:
    def on_finish(end: DelegationEnd) -> FinishDecision:
        return FinishDecision(feedback="mind the source")

    sub = Agent("sub", model=ScriptedModel(["part"]))
    calls = [call("delegate_sub", {"prompt": "x"}), call("add", {"a": 1, "b": 2})]
    model = ScriptedModel([Turn(tool_calls=calls), "done"])
    lead = Agent("lead", model=model, agents=[sub], tools=[add], delegation=DelegationPolicy(on_finish=on_finish))
    _, events = await play(lead)
    assert [m.kind for m in model.requests[1].messages] == ["user", "assistant", "tool", "tool", "feedback"]
    assert [e.source for e in of(events, FeedbackInjected)] == ["delegation"]


async def test_scorers_see_what_tools_returned_failures_marked_as_such() -> None:
    seen: list[tuple[str, bool]] = []

    def scorer(output: str, given: Any) -> bool:
        seen.extend((e.text, e.failed) for e in given.evidence)
        return True

    tools = [add, refuse, OwnTool(ToolResult("short", evidence="the long \ud800 version"))]
    calls = [call("add", {"a": 1, "b": 2}), call("refuse"), call("own")]
    agent, _ = worker([Turn(tool_calls=calls), "done"], tools=tools, is_task_complete={"scorers": [scorer]})
    await play(agent)
    assert seen == [("3", False), ("try the other door", True), ("the long \ufffd version", False)]


async def test_ids_that_a_server_repeats_become_unique_in_every_event_and_message() -> None:
    turn = Turn(tool_calls=[call("add", {"a": 1, "b": 2}, id="call_0")])
    twice = Turn(tool_calls=[call("add", {"a": n, "b": 2}, id="call_0") for n in (1, 2)])
    agent, model = worker([turn, twice, "done"], tools=[add])
    result, events = await play(agent)
    ids = [c.id for m in result.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert ids == ["call_0", "call_0_2", "call_0_3"]
    assert [m.call_id for m in result.messages if isinstance(m, ToolMessage)] == ids
    assert [e.call_id for e in of(events, ToolCallStarted)] == ids
    assert [e.call_id for e in of(events, ToolCalled)] == ids
    assert [e.call_id for e in of(events, ToolReturned)] == ids
    assert {e.call_id for e in of(events, ToolCallDelta)} == set(ids)
    assert len(model.requests) == 3


def test_missing_and_repeated_ids_are_replaced_and_texts_are_clean() -> None:
    used = {"call"}
    calls = [ToolCall("", "t", "{}"), ToolCall("x", "t\ud800", '{"a": "\ud800"}'), ToolCall("x", "t", "{}")]
    unique = with_unique_ids(calls, used, {2: "streamed"})
    assert [c.id for c in unique] == ["call_2", "x", "streamed"]
    assert (unique[1].name, unique[1].arguments) == ("t\ufffd", '{"a": "\ufffd"}')
    assert take_id("x", used) == "x_2"


async def test_progress_after_the_result_is_not_shown() -> None:
    kept: list[RunContext] = []

    @tool
    async def report(context: RunContext) -> str:
        """Report."""
        kept.append(context)
        await context.progress({"done": 1})
        return "ok"

    agent, _ = worker([Turn(tool_calls=[call("report")]), "done"], tools=[report])
    async with agent.stream("Do it") as stream:
        events = []
        async for event in stream:
            events.append(event)
            if isinstance(event, ToolReturned | RunFinished):
                await kept[0].progress("too late")
    assert [e.data for e in of(events, ToolProgress)] == [{"done": 1}]
    assert type(events[-1]) is RunFinished


@pytest.mark.parametrize("failing", ["raises", "unknown"])
async def test_a_failing_call_does_not_touch_its_siblings(failing: str) -> None:
    name = "break_down" if failing == "raises" else "nope"
    calls = [call("add", {"a": 1, "b": 1}), call(name), call("add", {"a": 2, "b": 2})]
    agent, _ = worker([Turn(tool_calls=calls), "done"], tools=[add, break_down])
    result, _ = await play(agent)
    texts = results_of(result.messages)
    assert (texts[0], texts[2]) == ("2", "4")


class Odd(BaseException):
    """No exception that anyone is meant to catch."""


@tool
def exits_in_a_thread() -> str:
    """Exit."""
    raise SystemExit(3)


@tool
async def exits() -> str:
    """Exit."""
    raise SystemExit(3)


@tool
async def is_odd() -> str:
    """Be odd."""
    raise Odd("very")


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("exiting", [exits, exits_in_a_thread, is_odd], ids=lambda tool: tool.definition.name)
async def test_a_tool_that_exits_is_a_failed_result(exiting: FunctionTool[..., str], beside: bool) -> None:
    calls = [call(exiting.definition.name) for _ in range(1 + beside)]
    agent = Agent("worker", model=ScriptedModel([Turn(tool_calls=calls), "done"]), tools=[exiting])
    async with agent.stream("Go") as stream:
        events = [event async for event in stream]
        result = await stream.result()
    assert (result.outcome, result.text) == ("complete", "done")
    returned = [e for e in events if isinstance(e, ToolReturned)]
    assert [e.failed for e in returned] == [True] * len(calls)
    assert "SystemExit: 3" in returned[0].text or "Odd: very" in returned[0].text
