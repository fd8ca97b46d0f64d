"""Running async code from code that is not async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.lowlevel

R = TypeVar("R")


def run_outside_of_loops(run: Callable[[], Awaitable[R]]) -> R:
    """Run an async function to its end and return what it returns, also where an event loop runs in this thread.

    That loop stands still meanwhile: the function gets a thread and a loop of its own, and sees the caller's context
    variables. A KeyboardInterrupt cancels it.
    """
    try:
        anyio.lowlevel.current_token()
    except RuntimeError:
        return anyio.run(run)
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal(name="alfine run_sync") as portal:
        return portal.call(run)
