"""The bounded buffer between a run and its reader."""

from __future__ import annotations

from collections import deque

import anyio

from .events import Event


class EventBuffer:
    """Events on their way from a run and its sub-runs to one reader.

    A reader that wakes takes all that is there; a full buffer pauses the runs. Memory streams would hand over one event
    at a time, which costs several times as much per token.

    Args:
        size: how many events may wait, at least 1. A run's last event is never held up.
    """

    def __init__(self, size: int = 512) -> None:
        self._size = size
        self._waiting: deque[Event] = deque()
        self._readable: anyio.Event | None = None
        self._writable: anyio.Event | None = None
        self._seq = 0
        self._closed = False

    def put(self, event: Event) -> bool:
        """Number the event and append it. Return whether the buffer is now full: then `await space()`."""
        self._seq += 1
        event.seq = self._seq
        if self._closed:
            return False
        self._waiting.append(event)
        if self._readable is not None:
            self._readable.set()
            self._readable = None
        return len(self._waiting) >= self._size

    async def space(self) -> None:
        """Wait until there is room, or nobody reads any more."""
        while len(self._waiting) >= self._size and not self._closed:
            if self._writable is None:
                self._writable = anyio.Event()
            await self._writable.wait()

    async def take(self) -> deque[Event]:
        """Wait for events and take all that are there; an empty answer means that no more will come."""
        while not self._waiting and not self._closed:
            if self._readable is None:
                self._readable = anyio.Event()
            await self._readable.wait()
        taken, self._waiting = self._waiting, deque()
        self._wake_writers()
        return taken

    def close(self, *, drop: bool = False) -> None:
        """Say that no more events will come; with `drop`, forget those that nobody has taken."""
        self._closed = True
        if drop:
            self._waiting.clear()
        if self._readable is not None:
            self._readable.set()
            self._readable = None
        self._wake_writers()

    def _wake_writers(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None
