"""Carrying out function tools: threads, results, failures, progress, time and cancel."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import gc
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from pydantic import BaseModel
from tool_calling import Bench

from alfine.agents.threads import running_threads
from alfine.agents.tool import FunctionTool, as_tool, tool
from alfine.runtime.buffer import EventBuffer
from alfine.runtime.errors import ToolError
from alfine.runtime.events import ToolProgress, ToolReturned
from alfine.runtime.journal import Failure, LimitReached, MemoryJournal
from alfine.runtime.loop import run_loop
from alfine.runtime.messages import ToolMessage, UserMessage
from alfine.runtime.run import Run, RunResult, RunSpec
from alfine.runtime.tools import RunContext, ToolResult
from alfine.runtime.tracing import NO_SCOPE
from alfine.testing import ScriptedModel, Turn, call


class Blocked:
    """What a sync tool waits for."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.ended = threading.Event()

    def wait(self) -> None:
        self.begun.set()
        assert self.go.wait(10)
        self.ended.set()

    async def has_begun(self) -> None:
        assert await anyio.to_thread.run_sync(self.begun.wait, 10)

    async def end(self) -> None:
        """Let the tool return, and wait for its thread to be free for the next call."""
        self.go.set()
        assert await anyio.to_thread.run_sync(self.ended.wait, 10)


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    lock = Blocked()
    yield lock
    lock.go.set()


async def progress(bench: Bench) -> list[Any]:
    return [event.data for event in await bench.events() if isinstance(event, ToolProgress)]


async def run_tool(function: FunctionTool[..., Any], arguments: dict[str, Any] | str) -> RunResult[object]:
    """Run a loop whose model calls the tool once and then answers."""
    model = ScriptedModel([Turn(tool_calls=[call(function.definition.name, arguments)]), "Done."])
    buffer = EventBuffer()
    spec = RunSpec(
        run_id="r1",
        agent="worker",
        model=model,
        input="Go",
        task="Go",
        messages=[UserMessage("Go")],
        tools={function.definition.name: function},
    )
    return await run_loop(Run(spec, MemoryJournal(buffer), buffer, NO_SCOPE))


def tool_message(result: RunResult[object]) -> ToolMessage:
    [message] = [m for m in result.messages if isinstance(m, ToolMessage)]
    return message


# Where it runs.


async def test_a_sync_function_runs_in_a_thread_and_an_async_one_in_the_event_loop() -> None:
    @tool
    def sync() -> bool:
        return threading.current_thread() is here

    @tool
    async def direct() -> bool:
        return threading.current_thread() is here

    here = threading.current_thread()
    bench = Bench()
    assert await bench.text(sync) == "false"
    assert await bench.text(direct) == "true"


class Greeter:
    async def __call__(self, name: str) -> str:
        return f"Hello {name}"

    def method(self, name: str) -> str:
        return f"Hi {name}"

    @staticmethod
    def static(name: str) -> str:
        return f"Hey {name}"


async def partial_target(prefix: str, name: str) -> str:
    return prefix + name


@pytest.mark.parametrize(
    ("function", "text"),
    [
        pytest.param(Greeter(), "Hello Ada", id="callable object"),
        pytest.param(Greeter().method, "Hi Ada", id="method"),
        pytest.param(Greeter.static, "Hey Ada", id="static method"),
        pytest.param(functools.partial(partial_target, "Oh "), "Oh Ada", id="partial"),
        pytest.param(functools.partial(partial_target, prefix="Ah "), "Ah Ada", id="partial by keyword"),
    ],
)
async def test_whatever_can_be_called_can_be_a_tool(function: Any, text: str) -> None:
    assert await Bench().text(as_tool(function), '{"name": "Ada"}') == text


async def test_what_a_sync_function_returns_is_awaited_if_it_can_be() -> None:
    async def later(x: int) -> int:
        await anyio.lowlevel.checkpoint()
        return x + 1

    @tool
    def sync(x: int) -> Awaitable[int]:
        return later(x)

    assert await Bench().text(sync, '{"x": 1}') == "2"


# What the model gets.


class Colour(enum.Enum):
    RED = "red"


class Place(BaseModel):
    name: str


@dataclasses.dataclass
class Point:
    x: float


class Odd:
    def __str__(self) -> str:
        return "an odd thing"


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain\ntext", "plain\ntext"),
        ("", ""),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'),
        (Place(name="Rome"), '{"name":"Rome"}'),
        ([Point(1.5)], '[{"x":1.5}]'),
        (Colour.RED, "red"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        ((1, 2), "[1,2]"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        ([float("nan")], "[null]"),
        (Odd(), "an odd thing"),
        ({"odd": Odd()}, '{"odd":"an odd thing"}'),
        (CIRCLE, "[[...]]"),
        ([b"\xff"], r"[b'\xff']"),
        (["\ud800"], '["\ufffd"]'),
    ],
    ids=repr,
)
async def test_what_a_function_returns_becomes_text(value: object, text: str) -> None:
    @tool
    async def function() -> object:
        return value

    assert await Bench().text(function) == text


async def test_a_tool_result_is_returned_as_it_is() -> None:
    made = ToolResult("x" * 50, evidence="proof")

    @tool(max_result=10)
    async def function() -> ToolResult:
        return made

    assert await Bench().call(function) is made


async def test_a_long_result_is_cut_and_says_so() -> None:
    @tool(max_result=10)
    async def function(size: int) -> str:
        return "x" * size

    bench = Bench()
    assert await bench.text(function, '{"size": 10}') == "x" * 10
    assert await bench.text(function, '{"size": 11}') == ("xxxxxxxxxx\n[cut: the first 10 of 11 characters are shown]")


@pytest.mark.parametrize(("options", "size"), [({}, 200_000), ({"max_result": None}, 10_000_000)])
async def test_ten_megabytes_are_cut_by_default_and_whole_on_demand(options: dict[str, Any], size: int) -> None:
    def large() -> str:
        return "x" * 10_000_000

    text = tool_message(await run_tool(tool(large, **options), {})).text
    assert len(text.partition("\n")[0]) == size


async def test_a_lone_surrogate_in_a_result_reaches_the_model_as_a_replacement() -> None:
    @tool
    async def function() -> str:
        return "a\ud800b"

    assert tool_message(await run_tool(function, {})).text == "a\ufffdb"


# What goes wrong.


async def test_a_tool_error_is_the_failed_result_and_is_not_tried_again() -> None:
    calls = 0

    @tool(retries=3)
    async def function() -> str:
        nonlocal calls
        calls += 1
        raise ToolError("no such page")

    assert await Bench().call(function) == ToolResult("no such page", failed=True)
    assert calls == 1


async def test_an_exception_is_tried_again_as_often_as_told() -> None:
    calls = 0

    @tool(retries=2)
    def function() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise OSError("busy")
        return "done"

    assert await Bench().text(function) == "done"
    assert calls == 3


async def test_the_last_exception_is_told_to_the_model() -> None:
    @tool
    def function() -> str:
        raise OSError("disk full")

    value = await Bench().call(function)
    assert isinstance(value, Failure)
    assert isinstance(value.error, OSError)
    message = tool_message(await run_tool(function, {}))
    assert (message.failed, message.text) == (True, "The tool 'function' failed: OSError: disk full")


async def test_a_stop_iteration_is_an_exception_like_others() -> None:
    @tool
    def function() -> str:
        raise StopIteration

    assert isinstance(await Bench().call(function), Failure)


async def test_cut_arguments_are_told_to_the_model_and_the_tool_does_not_run() -> None:
    @tool
    async def function(a: str) -> str:
        pytest.fail("it ran")

    result = await run_tool(function, '{"a":"x')
    assert tool_message(result).failed
    assert "cut off" in tool_message(result).text
    assert result.text == "Done."


# Time and cancel.


async def test_an_async_tool_that_is_late_is_cut() -> None:
    @tool(timeout=0.02)
    async def function() -> None:
        await anyio.sleep_forever()

    assert await Bench().call(function) == LimitReached("timeout")
    assert tool_message(await run_tool(function, {})).text == "The tool 'function' did not finish in time."


async def test_a_sync_tool_that_is_late_is_abandoned_and_counted_until_it_returns(blocked: Blocked) -> None:
    before = running_threads()

    @tool(timeout=0.02)
    def function() -> str:
        blocked.wait()
        return "too late"

    bench = Bench()
    assert await bench.call(function) == LimitReached("timeout")
    assert running_threads() == before + 1
    await blocked.end()
    assert not [event for event in await _shown(bench) if isinstance(event, ToolReturned)]


async def _shown(bench: Bench) -> list[Any]:
    bench.buffer.close()
    return await bench.events()


async def test_the_time_limit_is_for_all_attempts_together() -> None:
    calls = 0

    @tool(timeout=0.25, retries=100)
    async def function() -> None:
        nonlocal calls
        calls += 1
        raise OSError

    assert await Bench().call(function) == LimitReached("timeout")
    assert 1 <= calls <= 3


async def test_a_cancelled_run_does_not_wait_for_a_sync_tool(blocked: Blocked) -> None:
    before = running_threads()

    @tool
    def function() -> str:
        blocked.wait()
        return "too late"

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(run_tool, function, {})
            await blocked.has_begun()
            group.cancel_scope.cancel()
    assert running_threads() == before + 1


async def test_a_cancelled_async_tool_can_clean_up() -> None:
    begun, cleaned = anyio.Event(), anyio.Event()

    @tool
    async def function() -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            cleaned.set()

    async with anyio.create_task_group() as group:
        group.start_soon(Bench().call, function)
        await begun.wait()
        group.cancel_scope.cancel()
    assert cleaned.is_set()


# Progress.


async def test_an_async_tool_shows_progress_through_the_context() -> None:
    @tool
    async def copy(files: int, context: RunContext) -> str:
        for number in range(files):
            await context.progress({"copied": number + 1})
        return "copied"

    bench = Bench()
    assert await bench.text(copy, '{"files": 2}') == "copied"
    first, second = await bench.events()
    assert isinstance(first, ToolProgress)
    assert (first.run_id, first.step, first.position, first.call_id, first.name) == ("r1", 1, 0, "c1", "copy")
    assert isinstance(second, ToolProgress)
    assert second.data == {"copied": 2}


async def test_a_sync_tool_shows_progress_from_its_thread() -> None:
    @tool
    def copy(context: RunContext) -> str:
        anyio.from_thread.run(context.progress, "half")
        return "copied"

    bench = Bench()
    assert await bench.text(copy) == "copied"
    assert await progress(bench) == ["half"]


@tool
async def async_steps(count: int) -> AsyncIterator[str]:
    for number in range(count):
        yield f"step {number}"


@tool
def sync_steps(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"step {number}"


@pytest.mark.parametrize("steps", [async_steps, sync_steps], ids=["async", "sync"])
async def test_a_generators_values_are_progress_and_the_last_is_the_result(steps: FunctionTool[..., Any]) -> None:
    bench = Bench()
    assert await bench.text(steps, '{"count": 3}') == "step 2"
    assert await progress(bench) == ["step 0", "step 1", "step 2"]
    assert await bench.text(steps, '{"count": 0}') == ""


async def test_progress_is_shown_in_types_that_json_has() -> None:
    @tool
    async def function() -> AsyncIterator[object]:
        yield Point(1.0)
        yield Odd()
        yield b"\xff"
        yield [Place(name="Rome")]

    bench = Bench()
    assert await bench.text(function) == '[{"name":"Rome"}]'
    assert await progress(bench) == [{"x": 1.0}, "an odd thing", "\ufffd", [{"name": "Rome"}]]


async def test_a_generator_that_raises_a_tool_error_fails_with_its_text() -> None:
    @tool
    def function() -> Iterator[int]:
        yield 1
        raise ToolError("half way")

    bench = Bench()
    assert await bench.call(function) == ToolResult("half way", failed=True)
    assert await progress(bench) == [1]


async def test_a_full_buffer_holds_a_generator_back_and_a_cancel_closes_it() -> None:
    begun, closed = anyio.Event(), anyio.Event()
    made: list[int] = []

    @tool
    async def function() -> AsyncGenerator[int]:
        try:
            for number in range(100):
                made.append(number)
                if number == 1:
                    begun.set()
                yield number
        finally:
            closed.set()

    bench = Bench(EventBuffer(size=2))
    async with anyio.create_task_group() as group:
        group.start_soon(bench.call, function)
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        assert made == [0, 1]
        group.cancel_scope.cancel()
    assert closed.is_set()
    gc.collect()


async def test_a_sync_generator_shows_nothing_after_its_tool_was_cut(blocked: Blocked) -> None:
    closed = threading.Event()

    @tool
    def function() -> Generator[str]:
        try:
            yield "before"
            blocked.wait()
            yield "after"
        finally:
            closed.set()

    bench = Bench()
    async with anyio.create_task_group() as group:
        group.start_soon(bench.call, function)
        await blocked.has_begun()
        group.cancel_scope.cancel()
    await blocked.end()
    assert await anyio.to_thread.run_sync(closed.wait, 10)
    assert await progress(bench) == ["before"]
