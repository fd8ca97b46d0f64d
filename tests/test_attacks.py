"""What was tried against a run, and what it does instead of breaking."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from alfine import (
    Agent,
    ConfigError,
    Price,
    RunContext,
    RunError,
    Score,
    ScorerError,
    ToolMessage,
    ToolResult,
    Usage,
    Verdict,
    create_rubric_scorer,
    tool,
)
from alfine.events import RunFinished, ToolProgress, ToolReturned, event_from_dict
from alfine.runtime.buffer import EventBuffer
from alfine.runtime.journal import Failure, LimitReached, MemoryJournal, Op
from alfine.testing import Gate, ScriptedModel, SeenRequest, Turn, call

NO = '{"verdicts": [{"id": "has-a-table", "reasoning": "no", "satisfied": false}]}'


@pytest.mark.parametrize("place", ["request_context", "input", "additional_context"])
async def test_a_tool_cannot_change_the_rubric_that_its_run_is_graded_by(place: str) -> None:
    rubric: dict[str, Any] = {"prompt": "x", "rubric": ["Has a table"]}

    @tool
    def soften() -> str:
        """Change the rubric."""
        rubric["rubric"].clear()
        rubric["rubric"] = ""
        return "ok"

    judge = ScriptedModel([Turn(NO, repeat=True)])
    model = ScriptedModel([Turn(tool_calls=[call("soften")]), "nothing"])
    agent = Agent("w", model=model, tools=[soften], max_steps=2)
    check: dict[str, Any] = {"scorers": [create_rubric_scorer(model=judge)]}
    if place == "additional_context":
        check["additional_context"] = rubric
    result = await agent.run(
        rubric if place == "input" else "x",
        is_task_complete=check,
        request_context=rubric if place == "request_context" else {},
    )
    assert (result.outcome, len(judge.requests)) == ("max_steps", 1)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict("a", "d", True, "no", "r"),  # type: ignore[arg-type]
        Verdict("a", "d", True, None, "r"),  # type: ignore[arg-type]
        Verdict("a", "d", "yes", True, "r"),  # type: ignore[arg-type]
        Verdict("a", 5, True, True, "r"),  # type: ignore[arg-type]
        Verdict("a", "d", True, True, "r", 5),  # type: ignore[arg-type]
    ],
)
async def test_a_verdict_with_a_wrong_type_is_a_scorer_error(verdict: Verdict) -> None:
    agent = Agent("w", model=ScriptedModel(["one"]))
    with pytest.raises(RunError) as caught:
        await agent.run("x", is_task_complete={"scorers": [lambda output: Score(1.0, criteria=(verdict,))]})
    assert isinstance(caught.value.__cause__, ScorerError)
    assert caught.value.result.text == "one"


@pytest.mark.parametrize("threshold", [-1, 5, float("nan"), "x", None, True])
def test_a_threshold_that_is_no_share_of_the_scale_is_refused(threshold: Any) -> None:
    class Odd:
        id = "odd"

        async def score(self, input: Any, /) -> Score:
            return Score(0.0)

    scorer = Odd()
    scorer.threshold = threshold  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="threshold of odd"):
        Agent("w", model=ScriptedModel(["a"]), is_task_complete={"scorers": [scorer]})


@pytest.mark.parametrize(
    "fields",
    [
        {"text": None},
        {"text": "ok", "evidence": {"rows": 3}},
        {"text": "ok", "answer": 5},
        {"text": "ok", "feedback": 5},
    ],
    ids=lambda fields: next(reversed(fields)),
)
async def test_a_tool_result_that_holds_no_text_is_a_failed_one(fields: dict[str, Any]) -> None:
    @tool
    def odd() -> ToolResult:
        """Return something odd."""
        return ToolResult(**fields)

    result = await Agent("w", model=ScriptedModel([Turn(tool_calls=[call("odd")]), "d"]), tools=[odd]).run("x")
    assert (result.outcome, result.text) == ("complete", "d")
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert message.failed


def circle() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    "data",
    [object(), circle(), {1: 2}, {"p": float("nan")}, {"a": {1}}, b"\xff", "\ud800"],
    ids=lambda data: type(data).__name__,
)
async def test_whatever_a_tool_reports_as_progress_can_be_written_and_read_back(data: Any) -> None:
    @tool
    async def work(context: RunContext) -> str:
        """Work."""
        await context.progress(data)
        return "ok"

    agent = Agent("w", model=ScriptedModel([Turn(tool_calls=[call("work")]), "d"]), tools=[work])
    async with agent.stream("x") as stream:
        (event,) = [event async for event in stream if isinstance(event, ToolProgress)]
    read = event_from_dict(json.loads(event.to_json()))
    assert json.loads(read.to_json()) == json.loads(event.to_json())


async def test_tools_that_run_agents_with_tools_never_wait_for_each_other() -> None:
    @tool
    def leaf() -> str:
        """Do it."""
        return "ok"

    def calls(name: str) -> Any:
        def turn(request: SeenRequest) -> Turn:
            return Turn(tool_calls=[call(name)]) if len(request.messages) == 1 else Turn("done")

        return turn

    inner = Agent("inner", model=ScriptedModel(calls("leaf")), tools=[leaf])

    @tool
    def ask_inner() -> str:
        """Ask."""
        return inner.run_sync("q").text

    outer = Agent("outer", model=ScriptedModel(calls("ask_inner")), tools=[ask_inner])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(outer.run, "x")


async def test_result_in_another_task_waits_for_the_end_of_the_run() -> None:
    started, go_on = Gate(), Gate()

    @tool
    async def pay() -> str:
        """Pay."""
        started.open()
        with anyio.CancelScope(shield=True):
            await go_on.wait()
        return "PAID"

    stream = Agent("w", model=ScriptedModel([Turn(tool_calls=[call("pay")]), "d"]), tools=[pay]).stream("x")
    async with anyio.create_task_group() as group, stream:
        group.start_soon(stream.result)
        await started.wait()
        group.start_soon(anyio.to_thread.run_sync, go_on.open)
    messages = (await stream.result()).messages
    assert [m.text for m in messages if isinstance(m, ToolMessage)] == ["PAID"]


async def test_a_value_that_comes_after_the_limit_is_no_value() -> None:
    async def stubborn() -> bool:
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        try:
            await anyio.sleep_forever()
        except BaseException:
            return True
        return False

    assert await MemoryJournal(EventBuffer()).step(Op("1/score/0/1", stubborn, timeout=0.01)) == LimitReached("timeout")


async def test_what_is_cancelled_from_within_is_a_failure_in_its_place() -> None:
    async def cancelled() -> str:
        raise anyio.get_cancelled_exc_class()

    async def fine() -> str:
        return "fine"

    if anyio.get_cancelled_exc_class().__module__.startswith("trio"):
        return  # trio lets nobody raise its Cancelled
    journal = MemoryJournal(EventBuffer())
    alone = await journal.gather([Op("1", cancelled)])
    beside = await journal.gather([Op("1", cancelled), Op("2", fine)])
    assert isinstance(alone[0], Failure)
    assert isinstance(beside[0], Failure)
    assert beside[1] == "fine"


async def test_the_verdict_of_scorers_that_have_all_finished_stands_when_the_run_is_cancelled_then() -> None:
    async def quick(output: str) -> bool:
        return True

    agent = Agent("w", model=ScriptedModel(["a"]))
    check = {"scorers": [quick, quick]}
    async with agent.stream("x", buffer_size=1, is_task_complete=check) as stream:
        finished = 0
        async for event in stream:
            finished += event.kind == "scorer_finished"
            if finished == 2:
                stream.cancel()
        result = await stream.result()
    assert (result.outcome, [report.passed for report in result.checks]) == ("complete", [True])


def test_cached_tokens_beside_the_input_never_make_a_cost_negative() -> None:
    assert Price(10, 10, 1).of(Usage(input_tokens=5, cached_tokens=100)) > 0


@pytest.mark.parametrize("name", ["run_finished", "tool_returned"])
async def test_a_tool_that_exits_leaves_each_last_event_once(name: str) -> None:
    @tool
    async def leave() -> str:
        """Leave."""
        raise SystemExit(0)

    agent = Agent("w", model=ScriptedModel([Turn(tool_calls=[call("leave")]), "d"]), tools=[leave])
    async with agent.stream("x") as stream:
        events = [event async for event in stream]
    assert [event.kind for event in events].count(name) == 1
    assert isinstance(events[-1], RunFinished)
    assert all(event.failed for event in events if isinstance(event, ToolReturned))
