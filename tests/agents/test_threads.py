"""Worker threads: bounded and counted to the end."""

from __future__ import annotations

import contextvars
import gc
import threading
import warnings
from collections.abc import Generator, Iterator

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from alfine.agents.threads import WorkerThreads, running_threads


async def free(threads: WorkerThreads) -> None:
    """Wait until the one place of `threads` is free."""
    assert threads.limit == 1
    with anyio.fail_after(5):
        await threads.run(lambda: None)


class Blocked:
    """A function that says when it has begun, and returns when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(10)
        return "done"

    async def has_begun(self) -> None:
        assert await anyio.to_thread.run_sync(self.begun.wait, 10)


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    function = Blocked()
    yield function
    function.go.set()


async def abandon(threads: WorkerThreads, function: Blocked) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(threads.run, function)
        await function.has_begun()
        group.cancel_scope.cancel()


async def test_a_function_runs_in_another_thread_and_its_value_comes_back() -> None:
    threads = WorkerThreads()
    assert await threads.run(threading.get_ident) != threading.get_ident()
    assert threads.running == 0


async def test_what_a_function_raises_comes_back() -> None:
    threads = WorkerThreads()
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert threads.running == 0


async def test_context_variables_are_seen_in_the_thread() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("seen")
    assert await WorkerThreads().run(variable.get) == "seen"


async def test_an_abandoned_thread_counts_until_its_function_returns(blocked: Blocked) -> None:
    threads = WorkerThreads(1)
    await abandon(threads, blocked)
    assert threads.running == 1
    blocked.go.set()
    await free(threads)


async def test_an_abandoned_thread_holds_its_place_against_others_until_it_returns(blocked: Blocked) -> None:
    threads = WorkerThreads(1)
    await abandon(threads, blocked)
    got: list[str] = []

    async def second() -> None:
        got.append(await threads.run(lambda: "second"))

    async with anyio.create_task_group() as group:
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert got == []
        blocked.go.set()
    assert got == ["second"]
    assert threads.running == 0


async def test_no_more_functions_run_at_once_than_allowed() -> None:
    threads = WorkerThreads(3)
    lock = threading.Lock()
    now = most = 0

    def work() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.002)
        with lock:
            now -= 1

    async with anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(threads.run, work)
    assert most == 3
    assert threads.running == 0


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_line(blocked: Blocked) -> None:
    threads = WorkerThreads(1)
    async with anyio.create_task_group() as group:
        group.start_soon(threads.run, blocked)
        await blocked.has_begun()
        with anyio.move_on_after(0.01):
            await threads.run(lambda: pytest.fail("it never had a place"))
        blocked.go.set()
    assert threads.running == 0
    assert await threads.run(lambda: "free") == "free"


async def test_a_place_given_to_a_call_that_is_cancelled_at_that_moment_goes_on_to_the_next() -> None:
    threads = WorkerThreads(1)
    await threads._acquire()
    scope = anyio.CancelScope()
    got: list[str] = []

    async def first() -> None:
        with scope:
            got.append(await threads.run(lambda: "first"))

    async def second() -> None:
        got.append(await threads.run(lambda: "second"))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        threads._release()
    assert got == ["second"]
    assert threads.running == 0


async def test_a_cancelled_caller_starts_no_function_and_keeps_no_place() -> None:
    threads = WorkerThreads()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await threads.run(lambda: pytest.fail("it must not run"))
    assert threads.running == 0


async def test_a_coroutine_that_an_abandoned_function_returns_is_closed_without_a_warning() -> None:
    threads = WorkerThreads(1)
    blocked = Blocked()

    async def later() -> None: ...

    def function() -> object:
        blocked()
        return later()

    async with anyio.create_task_group() as group:
        group.start_soon(threads.run, function)
        await blocked.has_begun()
        group.cancel_scope.cancel()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        blocked.go.set()
        await free(threads)
        gc.collect()
    assert not [w for w in caught if "never awaited" in str(w.message)]


def test_a_function_that_returns_after_its_event_loop_has_ended_makes_no_noise(
    anyio_backend_name: str, blocked: Blocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise: list[object] = []
    monkeypatch.setattr(threading, "excepthook", noise.append)
    threads = WorkerThreads(1)
    anyio.run(abandon, threads, blocked, backend=anyio_backend_name)
    assert threads.running == 1
    blocked.go.set()

    anyio.run(free, threads, backend=anyio_backend_name)
    assert threads.running == 0
    assert noise == []


def test_loops_in_several_threads_share_the_places(anyio_backend_name: str) -> None:
    threads = WorkerThreads(2)
    got: list[int] = []

    async def many() -> None:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)

    async def one(number: int) -> None:
        got.append(await threads.run(lambda: number))

    loops = [threading.Thread(target=anyio.run, args=(many,), kwargs={"backend": anyio_backend_name}) for _ in range(3)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(10)
    assert sorted(got) == sorted([*range(20)] * 3)
    assert threads.running == 0


async def test_a_generator_runs_in_one_thread_and_each_value_is_awaited_in_turn() -> None:
    idents: set[int] = set()
    seen: list[int] = []

    def numbers() -> Generator[int]:
        for number in range(3):
            idents.add(threading.get_ident())
            assert len(seen) == number
            yield number

    async def each(value: int) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(value)

    assert await WorkerThreads().run_generator(numbers, each) == 2
    assert seen == [0, 1, 2]
    assert len(idents) == 1


async def test_an_abandoned_generator_is_closed_at_its_next_yield_and_shows_nothing_more(blocked: Blocked) -> None:
    threads = WorkerThreads(1)
    seen: list[str] = []
    closed = threading.Event()

    def values() -> Generator[str]:
        try:
            yield "first"
            blocked()
            yield "second"
            pytest.fail("it goes on")
        finally:
            closed.set()

    async def each(value: str) -> None:
        seen.append(value)

    async with anyio.create_task_group() as group:
        group.start_soon(threads.run_generator, values, each)
        await blocked.has_begun()
        group.cancel_scope.cancel()
    assert threads.running == 1
    blocked.go.set()
    await free(threads)
    assert closed.is_set()
    assert seen == ["first"]


async def test_a_generator_that_is_cancelled_while_a_value_is_awaited_is_closed() -> None:
    threads = WorkerThreads(1)
    waiting = anyio.Event()
    never = anyio.Event()
    closed = threading.Event()

    def values() -> Generator[int]:
        try:
            yield 1
        finally:
            closed.set()

    async def each(value: int) -> None:
        waiting.set()
        await never.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(threads.run_generator, values, each)
        await waiting.wait()
        group.cancel_scope.cancel()
    never.set()
    await free(threads)
    assert closed.is_set()


async def test_what_a_generators_reader_raises_ends_the_generator() -> None:
    closed = threading.Event()

    def values() -> Generator[int]:
        try:
            yield 1
        finally:
            closed.set()

    async def each(value: int) -> None:
        raise LookupError(value)

    with pytest.raises(LookupError):
        await WorkerThreads().run_generator(values, each)
    assert closed.is_set()


def test_without_tools_no_thread_is_counted() -> None:
    assert running_threads() == 0
