"""The stream of a run: an `async with` block that owns the run, and what can be read inside it."""

from __future__ import annotations

from collections import defaultdict, deque
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, cast

import anyio
import anyio.abc

from ..runtime.errors import StreamError
from ..runtime.events import Event, RunFinished, StepFinished, TextDelta
from ..runtime.loop import run_loop
from ..runtime.run import Run, RunResult

T = TypeVar("T")


class RunStream(Generic[T]):
    """A run and the events that it streams.

    The run lives in a task that the `async with` block owns: leaving the block early cancels the run, its sub-runs and
    its tools. An exception raised in the block leaves as itself. If the run fails, iteration ends with `run_finished`
    and `result()` raises `RunError`; if `result()` was not awaited, the end of the block does.

    Don't `yield` inside the block: whoever needs a generator holds the block in a class of its own.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._taken: deque[Event] = deque()
        self._taking = False
        self._turn: anyio.Event | None = None
        self._reader: int | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._scope: anyio.CancelScope | None = None
        self._ended: anyio.Event | None = None
        self._state: Literal["new", "open", "left"] = "new"
        self._reported = False
        self._crash: Exception | None = None

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.spec.run_id

    async def __aenter__(self) -> RunStream[T]:
        if self._state != "new":
            raise StreamError("this stream has been entered before; each run needs a stream() of its own")
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._state = "open"
        self._group.start_soon(self._drive, self._scope, name=f"alfine run {self.run_id}")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._group is not None
        assert self._scope is not None
        self._state = "left"
        self._run.buffer.close(drop=True)
        self._taken.clear()
        if self._run.result is None:
            self._scope.cancel()
        if exc is not None and not isinstance(exc, anyio.get_cancelled_exc_class()):
            # The group never sees the block's own exception: it would wrap it in an ExceptionGroup.
            await self._group.__aexit__(None, None, None)
            return None
        swallowed = await self._group.__aexit__(exc_type, exc, traceback)
        if exc is None and not self._reported:
            self._raise_failure()
        return swallowed

    def __aiter__(self) -> RunStream[T]:
        self._must_be_open("iterate over it")
        self._reader = anyio.get_current_task().id
        return self

    async def __anext__(self) -> Event:
        if not self._taken:
            self._taken = await self._batch()
        return self._taken.popleft()

    async def _batch(self) -> deque[Event]:
        """Return all events that wait, at least one."""
        self._must_be_open("iterate over it")
        if batch := self._taken or await self._take():
            self._taken = deque()
            return batch
        raise StopAsyncIteration

    async def _take(self) -> deque[Event]:
        """Wait for events and take all that are there, none at the end. One task at a time waits for the run."""
        while self._taking:
            if self._turn is None:
                self._turn = anyio.Event()
            await self._turn.wait()
            if self._taken:
                return self._taken
        self._taking = True
        try:
            return await self._run.buffer.take()
        finally:
            self._taking = False
            if self._turn is not None:
                self._turn.set()
                self._turn = None

    def text(self, *, drafts: bool = False) -> TextStream:
        """Return the run's own text as it comes; sub-runs' text is not mixed in.

        Without `drafts` it is the accepted answer alone: joined, the pieces are `result.text`. Text is held back until
        it is certain that it is the answer: until the check has decided; without a check, until the step turns out to
        call no tools. An agent that has none of these (no check, `on_step`, output type or tools) has nothing to wait
        for, and its text comes at once. With `drafts` every piece comes at once, also of steps that call tools.
        """
        self._must_be_open("read its text")
        self._reader = anyio.get_current_task().id
        return TextStream(self, drafts=drafts)

    async def result(self) -> RunResult[T]:
        """Wait for the end of the run and return its result.

        Events that nobody has read are dropped, unless it is another task that iterates: it still gets them.
        After the block the answer is the same, also when the block was left early (outcome `cancelled`).

        Raises:
            RunError: the run failed; the exception carries the partial result.
            StreamError: the stream was never entered.
        """
        if self._state == "new":
            raise StreamError("the run has not started: enter the stream with `async with` first")
        alone = self._reader in (None, anyio.get_current_task().id)
        while self._state == "open":
            if alone:
                self._taken.clear()
            if not (taken := await self._take()):
                break
            if taken is not self._taken:
                self._taken.extend(taken)
        if alone:
            self._taken.clear()
        if self._ended is not None:
            await self._ended.wait()
        self._reported = True
        self._raise_failure()
        return cast("RunResult[T]", self._run.finish())

    def cancel(self) -> None:
        """Cancel the run, its sub-runs and its tools. Its last event still comes.

        The outcome is `cancelled`, unless a check had accepted the answer by then.
        """
        if self._scope is None:
            raise StreamError("there is nothing to cancel: the stream has not been entered")
        self._scope.cancel()

    async def _drive(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await run_loop(self._run)
        except Exception as error:
            self._crash = error
        finally:
            self._run.buffer.close()
            if self._ended is not None:
                self._ended.set()

    def _raise_failure(self) -> None:
        if self._crash is not None:
            raise self._crash
        result = self._run.finish()
        if result.outcome == "error":
            raise result.failure()

    def _must_be_open(self, what: str) -> None:
        if self._state == "new":
            raise StreamError(f"enter the stream before you {what}: `async with agent.stream(...) as stream:`")
        if self._state == "left":
            raise StreamError(f"the block of this stream has been left; you can no longer {what}")


class TextStream:
    """The text of a run, piece by piece; see `RunStream.text`."""

    def __init__(self, stream: RunStream[Any], *, drafts: bool) -> None:
        run = stream._run
        spec = run.spec
        self._stream = stream
        self._run_id = spec.run_id
        self._ready: deque[str] = deque()
        self._held: defaultdict[int, list[str]] = defaultdict(list)
        self._drafts = drafts
        self._released = False
        self._hold: Literal["never", "step", "run"]
        if drafts or not (spec.check or spec.on_step or spec.output or spec.tools):
            self._hold = "never"
        elif spec.check or spec.on_step or spec.output:
            self._hold = "run"
        else:
            self._hold = "step"

    def __aiter__(self) -> TextStream:
        return self

    async def __anext__(self) -> str:
        while not self._ready:
            for event in await self._stream._batch():
                self._take(event)
        return self._ready.popleft()

    def _take(self, event: Event) -> None:
        if event.run_id != self._run_id:
            return
        if isinstance(event, TextDelta):
            if self._hold == "never":
                self._released = True
                self._ready.append(event.text)
            else:
                self._held[event.step].append(event.text)
        elif isinstance(event, StepFinished) and self._hold == "step":
            pieces = self._held.pop(event.step, [])
            if event.tool_calls == 0:
                self._release(pieces)
        elif isinstance(event, RunFinished) and not self._drafts and not self._released:
            # The pieces are not the text where somebody else read some of them, or the model streamed none.
            pieces = self._held.get(event.answer_step or 0, [])
            self._release(pieces if "".join(pieces) == event.text else [event.text])

    def _release(self, pieces: list[str]) -> None:
        self._released = self._released or bool(pieces)
        self._ready.extend(piece for piece in pieces if piece)
