"""Tools in time: time limits, cancel, and progress as it is made."""

from __future__ import annotations

import datetime
import gc
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from decimal import Decimal
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from tool_calling import Bench, run_tool, tool_message

from alfine.agents.threads import WorkerThreads, running_threads
from alfine.agents.tool import FunctionTool, tool
from alfine.runtime.buffer import EventBuffer
from alfine.runtime.errors import ToolError
from alfine.runtime.events import ToolProgress
from alfine.runtime.journal import LimitReached
from alfine.runtime.tools import RunContext, ToolResult


class Blocked:
    """What a sync tool waits for, in threads of its own."""

    def __init__(self) -> None:
        self.threads = WorkerThreads(1)
        self.begun = threading.Event()
        self.go = threading.Event()

    def wait(self) -> None:
        self.begun.set()
        assert self.go.wait(10)

    async def has_begun(self) -> None:
        assert await anyio.to_thread.run_sync(self.begun.wait, 10)

    async def end(self) -> None:
        """Let the tool return, and wait until it has."""
        self.go.set()
        with anyio.fail_after(10):
            await self.threads.run(lambda: None)


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocked]:
    made = Blocked()
    monkeypatch.setattr("alfine.agents.threads.TOOL_THREADS", made.threads)
    yield made
    made.go.set()


async def progress(bench: Bench) -> list[Any]:
    return [event.data for event in await bench.events() if isinstance(event, ToolProgress)]


# Time and cancel.


async def test_an_async_tool_that_is_late_is_cut() -> None:
    @tool(timeout=0.02)
    async def function() -> None:
        await anyio.sleep_forever()

    assert await Bench().call(function) == LimitReached("timeout")
    assert tool_message(await run_tool(function, {})).text == "The tool 'function' did not finish in time."


async def test_a_sync_tool_that_is_late_is_abandoned_and_counted_until_it_returns(blocked: Blocked) -> None:
    @tool(timeout=0.5)
    def function() -> str:
        blocked.wait()
        return "too late"

    bench = Bench()
    assert await bench.call(function) == LimitReached("timeout")
    assert running_threads() == 1
    await blocked.end()
    assert running_threads() == 0


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
    @tool
    def function() -> str:
        blocked.wait()
        return "too late"

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(run_tool, function, {})
            await blocked.has_begun()
            group.cancel_scope.cancel()
    assert running_threads() == 1


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
        yield Decimal("1.5")
        yield b"\xff"
        yield [{"on": datetime.date(2024, 2, 29)}]

    bench = Bench()
    assert await bench.text(function) == '[{"on":"2024-02-29"}]'
    assert await progress(bench) == ["1.5", "\ufffd", [{"on": "2024-02-29"}]]


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
    assert closed.is_set()
    assert await progress(bench) == ["before"]
