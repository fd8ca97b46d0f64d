"""Watching a stream: as a live view in a terminal, as plain lines elsewhere, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, TypeVar

import anyio

from alfine.agents.stream import RunStream
from alfine.runtime.errors import RunError
from alfine.runtime.events import Event
from alfine.runtime.limits import Budget
from alfine.runtime.run import RunResult

from .plain import PlainLines, summary_lines

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

REFRESH_SECONDS = 0.1


async def watch(
    stream: RunStream[T], console: Console | None = None, *, plain: bool | None = None, file: IO[str] | None = None
) -> RunResult[T]:
    """Show a run until it ends, and how it ended; called inside the stream's block.

    Args:
        console: where the live view is drawn; standard output unless given.
        plain: plain lines instead; unless told, when the console is no terminal that can be redrawn.
        file: where plain lines go; the console's file unless given.

    Returns:
        The result, whatever the outcome: a run that failed is shown and raises nothing.
    """
    if console is None and not plain:
        from rich.console import Console

        console = Console(highlight=False)
    if console is not None:
        plain = (not console.is_terminal or console.is_dumb_terminal) if plain is None else plain
        file = file or console.file
    if plain or console is None:
        return await _watch_plain(stream, file or sys.stdout)
    return await _watch_live(stream, console)


async def write_json(stream: RunStream[T], file: IO[str]) -> RunResult[T]:
    """Write each event as one line of JSON; return the result, whatever the outcome."""
    async for event in stream:
        file.write(event.to_json() + "\n")
        file.flush()
    return await _result(stream)


async def _watch_plain(stream: RunStream[T], file: IO[str]) -> RunResult[T]:
    lines = PlainLines()
    async for event in stream:
        _write(file, lines.lines(event))
    result = await _result(stream)
    _write(file, summary_lines(result))
    return result


async def _watch_live(stream: RunStream[T], console: Console) -> RunResult[T]:
    from .live import LiveView

    budget = _budget(stream)
    with LiveView(console, budget.limits) as view:
        going = True
        while going:
            # One time limit for many events: a limit for each would cost more than the events.
            with anyio.move_on_after(REFRESH_SECONDS):
                going = await _take_some(stream, view.take, anyio.current_time() + REFRESH_SECONDS)
            view.usage = budget.usage
            view.refresh()
    result = await _result(stream)
    view.finish(result)
    return result


async def _take_some(stream: RunStream[Any], take: Callable[[Event], None], until: float) -> bool:
    """Take events until the time has come; return whether more may follow."""
    async for event in stream:
        take(event)
        if anyio.current_time() >= until:
            return True
    return False


async def _result(stream: RunStream[T]) -> RunResult[T]:
    try:
        return await stream.result()
    except RunError as error:
        return error.result


def _budget(stream: RunStream[Any]) -> Budget:
    # Events say what steps used, but not what judges did; the budget knows all of it while the run goes on.
    return stream._run.spec.budget


def _write(file: IO[str], lines: list[str]) -> None:
    if lines:
        file.write("\n".join(lines) + "\n")
        file.flush()
