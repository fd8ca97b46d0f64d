"""Worker threads for sync tools: bounded, and counted until the function has really returned.

A thread cannot be stopped. When a call is cancelled its thread is abandoned: nobody waits for it, its result is
dropped, and it keeps its place in the count. anyio's own limiter forgets an abandoned thread on asyncio, so the places
here are given back by the thread itself. On asyncio an abandoned function also keeps the interpreter from exiting.
"""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from contextvars import ContextVar
from typing import Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

T = TypeVar("T")

MAX_THREADS = 40


class _Waiter:
    """A call that waits for a place; `wake` may be called from any thread."""

    def __init__(self) -> None:
        self.granted = False
        self.event = anyio.Event()
        loop = anyio.lowlevel.current_token().native_token
        # asyncio's and trio's names for the same thing: anyio's own calls from a thread wait for the loop's answer,
        # and so for ever when the loop stops in between.
        self._soon = getattr(loop, "call_soon_threadsafe", None) or getattr(loop, "run_sync_soon", None)

    def wake(self) -> bool:
        """Tell the waiting task that the place is its own; False when its event loop is gone."""
        assert self._soon is not None
        try:
            self._soon(self.event.set)
        except RuntimeError:
            return False
        self.granted = True
        return True


_in_a_tool: ContextVar[bool] = ContextVar("alfine_in_a_tool", default=False)


class WorkerThreads:
    """Runs sync functions in threads, at most `limit` at once in the whole process, abandoned ones included.

    Who finds no place waits in line; any number of event loops may share one instance.
    """

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self.limit = limit
        self.running = 0
        self._waiting: deque[_Waiter] = deque()
        # Reentrant, because a garbage collection inside the lock may close a task that waits.
        self._lock = threading.RLock()

    async def run(self, function: Callable[[], T]) -> T:
        """Call `function` in a thread and return what it returns.

        The caller's context variables are seen in the thread. A cancel abandons the thread.
        """
        await self._acquire()
        job = _Job(function, self)
        try:
            # A limiter of its own, so that anyio's default one neither holds a tool up nor is used up by tools.
            [value] = await anyio.to_thread.run_sync(job, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        except BaseException:
            job.drop()
            raise
        return value

    async def run_generator(
        self, start: Callable[[], Generator[T, None, None]], each: Callable[[T], Awaitable[None]]
    ) -> T | None:
        """Drive a sync generator in one thread, awaiting `each` value in the event loop; return the last value.

        A cancel abandons the thread; the generator is closed there as soon as it yields again.
        """
        left = False

        async def show(value: T) -> None:
            if not left:
                await each(value)

        def drive() -> T | None:
            last: T | None = None
            with closing(start()) as values:
                for value in values:
                    if left:
                        break
                    anyio.from_thread.run(show, value)
                    last = value
            return last

        try:
            return await self.run(drive)
        finally:
            left = True

    async def _acquire(self) -> None:
        with self._lock:
            # What a tool's own thread calls never waits in line: all the places could be held by those who wait for it.
            if self.running < self.limit or _in_a_tool.get():
                self.running += 1
                return
            waiter = _Waiter()
            self._waiting.append(waiter)
        try:
            await waiter.event.wait()
        except BaseException:
            with self._lock:
                if waiter.granted:
                    self._release()
                else:
                    self._waiting.remove(waiter)
            raise

    def _release(self) -> None:
        """Hand the place to the next in line, or give it back. Called from any thread, after the loop's end too."""
        with self._lock:
            while self._waiting:
                if self._waiting.popleft().wake():
                    return
            self.running -= 1


class _Job(Generic[T]):
    """A function on its way through a thread; it holds its place from `run` until it has returned."""

    def __init__(self, function: Callable[[], T], threads: WorkerThreads) -> None:
        self._function = function
        self._threads = threads
        self._lock = threading.Lock()
        self._started = False
        self._dropped = False

    def __call__(self) -> tuple[T]:
        with self._lock:
            if self._dropped:
                raise RuntimeError("the call was cancelled before its thread began")
            self._started = True
        _in_a_tool.set(True)
        try:
            result = self._function()
            if self._dropped and inspect.iscoroutine(result):
                result.close()
            # In a tuple, because trio refuses a thread's function whose value is a coroutine.
            return (result,)
        finally:
            self._threads._release()

    def drop(self) -> None:
        """Nobody waits any more. A function that has not begun never will, and its place is free."""
        with self._lock:
            self._dropped = True
            if self._started:
                return
        self._threads._release()


TOOL_THREADS = WorkerThreads()


def running_threads() -> int:
    """Return how many threads tools hold now, those included that were abandoned and have not returned yet."""
    return TOOL_THREADS.running
