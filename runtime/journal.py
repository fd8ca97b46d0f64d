"""The five verbs through which a loop touches the world, and the journal that keeps them in memory.

The loop decides; a journal acts. It owns the clock, the concurrency and the cancel scopes, so another journal can make
the same loop durable: it records what `step` returned under the step's key and answers from its records next time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel

from .buffer import EventBuffer
from .events import Event, RunFinished

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A named time limit. The journal starts its clock at the first step that carries it."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A time limit cut the step: `name` is the deadline's, or `timeout` for the step's own."""

    name: str


@dataclass(frozen=True, slots=True)
class Failure:
    """What `gather` gives in place of a value when an item raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Op(Generic[T]):
    """A named unit of effect.

    Attributes:
        key: unique within its run and the same in every replay.
        body: does the work; may emit events while it does.
        timeout: seconds for this step, all attempts together.
        deadlines: further limits, shared with other steps.
        retry: how many more attempts are made when the body raises an `Exception`.
    """

    key: str
    body: Callable[[], Awaitable[T]]
    result_type: type[T] | None = None
    timeout: float | None = None
    deadlines: tuple[Deadline, ...] = ()
    retry: int = 0


@dataclass(frozen=True, slots=True)
class ChildRun(Generic[T]):
    """Work that itself goes through the verbs, such as a delegation. Its keys live under `key`."""

    key: str
    body: Callable[[Journal], Awaitable[T]]


Settled = Callable[[int, Any], Awaitable[None]]


class Journal(Protocol):
    """What a loop may do to the world."""

    async def step(self, op: Op[T]) -> T | LimitReached:
        """Carry out one effect. An exception of its body leaves as itself."""
        ...

    async def gather(
        self, items: Sequence[Op[T] | ChildRun[T]], *, width: int | None = None, settled: Settled | None = None
    ) -> list[T | Failure | LimitReached]:
        """Carry out several side by side, started in list order, at most `width` at once.

        All settle; failures come back as values in place. `settled` is awaited with position and value as each does.
        """
        ...

    async def emit(self, event: Event) -> None:
        """Show an event to the reader, once. A run's last event waits for nobody."""
        ...

    async def wait(self, topic: str, timeout: float | None = None) -> Any:
        """Wait for a message from outside; `LimitReached` when none comes within `timeout` seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...


class MemoryJournal:
    """The default journal: nothing is kept beyond the run, and the verbs cost next to nothing."""

    def __init__(self, buffer: EventBuffer) -> None:
        self._buffer = buffer
        self._ends: dict[str, float] = {}
        self._messages: defaultdict[str, deque[Any]] = defaultdict(deque)
        self._arrivals: dict[str, anyio.Event] = {}

    async def step(self, op: Op[T]) -> T | LimitReached:
        """Carry out one effect; see `Journal.step`."""
        if op.timeout is None and not op.deadlines:
            return await self._attempts(op)
        end, name = self._end(op)
        if anyio.current_time() >= end:
            return LimitReached(name)
        with anyio.CancelScope(deadline=end) as scope:
            value = await self._attempts(op)
        # A body that swallows the cancel and answers late has not answered.
        return LimitReached(name) if scope.cancel_called else value

    async def gather(
        self, items: Sequence[Op[T] | ChildRun[T]], *, width: int | None = None, settled: Settled | None = None
    ) -> list[T | Failure | LimitReached]:
        """Carry out several side by side; see `Journal.gather`."""
        values: dict[int, T | Failure | LimitReached] = {}
        broken: list[Exception] = []
        slots = anyio.Semaphore(width) if width is not None and width < len(items) else None

        async def carry_out(item: Op[T] | ChildRun[T]) -> T | LimitReached:
            if isinstance(item, ChildRun):
                return await item.body(self)
            return await self.step(item)

        async def settle(index: int) -> None:
            try:
                values[index] = await carry_out(items[index])
            except Exception as error:
                values[index] = Failure(error)
            if slots is not None:
                slots.release()
            if settled is not None:
                try:
                    await settled(index, values[index])
                except Exception as error:
                    broken.append(error)

        async def start(index: int, *, task_status: anyio.abc.TaskStatus[None]) -> None:
            task_status.started()
            try:
                await settle(index)
            except anyio.get_cancelled_exc_class():
                await anyio.lowlevel.checkpoint_if_cancelled()
                # Nobody cancelled us: the body awaited something that was cancelled elsewhere.
                values.setdefault(index, Failure(RuntimeError("it was cancelled from within")))
                if settled is not None:
                    await settled(index, values[index])

        try:
            # A task of its own for a single item too: only there can a cancel from within be told from one of ours.
            async with anyio.create_task_group() as group:
                for index in range(len(items)):
                    if slots is not None:
                        await slots.acquire()
                    # `start` and not `start_soon`: trio shuffles the order in which waiting tasks begin.
                    await group.start(start, index)
        except anyio.get_cancelled_exc_class():
            # Where all have settled, their values stand; the cancel comes again at the next checkpoint.
            if len(values) < len(items):
                raise
        if broken:
            raise broken[0]
        return [values[index] for index in range(len(items))]

    async def emit(self, event: Event) -> None:
        """Show an event to the reader; see `Journal.emit`."""
        if self._buffer.put(event) and type(event) is not RunFinished:
            await self._buffer.space()

    async def wait(self, topic: str, timeout: float | None = None) -> Any:
        """Wait for a message from outside; see `Journal.wait`."""
        with anyio.move_on_after(timeout):
            while not self._messages[topic]:
                await self._arrivals.setdefault(topic, anyio.Event()).wait()
            return self._messages[topic].popleft()
        return LimitReached("timeout")

    def send(self, topic: str, message: Any) -> None:
        """Deliver a message to whoever waits for `topic`, now or later."""
        self._messages[topic].append(message)
        if (arrival := self._arrivals.pop(topic, None)) is not None:
            arrival.set()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await anyio.sleep(seconds)

    async def _attempts(self, op: Op[T]) -> T:
        for attempt in range(op.retry):
            try:
                return await self._attempt(op)
            except Exception:
                await anyio.sleep(min(0.1 * 2**attempt, 5.0))
        return await self._attempt(op)

    async def _attempt(self, op: Op[T]) -> T:
        try:
            return await op.body()
        except (Exception, KeyboardInterrupt, GeneratorExit, BaseExceptionGroup, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:
            # A tool that calls sys.exit() must not take the event loop with it: the run has an end to show.
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def _end(self, op: Op[T]) -> tuple[float, str]:
        now = anyio.current_time()
        ends = [(self._ends.setdefault(d.name, now + d.seconds), d.name) for d in op.deadlines]
        if op.timeout is not None:
            ends.append((now + op.timeout, "timeout"))
        return min(ends)
