"""A gate that code in any thread and on any backend can open and wait at."""

from __future__ import annotations

import socket
import threading

import anyio
from anyio.lowlevel import checkpoint


class Gate:
    """Closed at first; once opened it stays open. It puts events in order in a test, without sleeping.

    A gate may be opened in one thread and waited at in another, under asyncio, trio or no event loop at all. So one
    kind of gate serves a `ScriptedModel` and the server thread of a `FakeOpenAI` alike.

    >>> import anyio
    >>> gate = Gate()
    >>> gate.is_open
    False
    >>> gate.open()
    >>> anyio.run(gate.wait)
    >>> gate.wait_sync(timeout=1)
    True
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waiters: set[socket.socket] = set()

    @property
    def is_open(self) -> bool:
        """Whether the gate has been opened."""
        return self._event.is_set()

    def open(self) -> None:
        """Let everyone through, now and later. It never blocks, and opening an open gate changes nothing."""
        with self._lock:
            if not self._event.is_set():
                self._event.set()
                for waiter in self._waiters:
                    waiter.send(b"\0")

    async def wait(self) -> None:
        """Wait until the gate is open. It can be cancelled."""
        # A socket is what every event loop can wait for and every thread can write to.
        with self._lock:
            pair = None if self._event.is_set() else socket.socketpair()
            if pair:
                self._waiters.add(pair[1])
        if pair is None:
            await checkpoint()
            return
        reader, writer = pair
        try:
            reader.setblocking(False)
            await anyio.wait_readable(reader)
        finally:
            with self._lock:
                self._waiters.discard(writer)
            reader.close()
            writer.close()

    def wait_sync(self, timeout: float | None = None) -> bool:
        """Block the calling thread until the gate is open, or for `timeout` seconds; return whether it is open."""
        return self._event.wait(timeout)
