"""`alfine run`: carry out one run, show it, and say by the exit code how it ended."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import anyio

from alfine.runtime.errors import AlfineError, ConfigError

from .faults import (
    CLOSED_PIPE,
    COMPLETE,
    ERROR,
    INTERRUPTED,
    NOT_COMPLETE,
    USAGE,
    Fault,
    UsageFault,
    describe,
)
from .options import RunOptions
from .text import one_line

if TYPE_CHECKING:
    from alfine.agents.stream import RunStream
    from alfine.runtime.run import RunResult

Show = Callable[["RunStream[Any]"], Awaitable["RunResult[Any]"]]


def run(options: RunOptions) -> int:
    """Carry out `alfine run` and return its exit code. Nothing is raised; errors are told on standard error."""
    out = sys.stdout
    _configure_log()
    try:
        with _lines_of_json(out) if options.json else nullcontext(out) as shown:
            code = _run(options, shown)
            shown.flush()
    except BrokenPipeError:
        _forget(out)
        code = CLOSED_PIPE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Fault as fault:
        code = tell(str(fault), fault.code)
    except ConfigError as error:
        code = tell(str(error), USAGE)
    except AlfineError as error:
        code = tell(str(error), ERROR)
    except Exception as error:
        code = tell(describe(error), ERROR)
    return code


@contextmanager
def _lines_of_json(out: TextIO) -> Iterator[TextIO]:
    """Give a way to standard output that is the events' alone.

    What the agent's own code prints, and what the programs that it starts write, goes to standard error meanwhile.
    """
    try:
        descriptor = out.fileno()
    except (OSError, ValueError):
        # No real file, as in tests: there is nothing that another program could write to.
        with redirect_stdout(sys.stderr):
            yield out
        return
    out.flush()
    saved = os.dup(descriptor)
    try:
        os.dup2(sys.stderr.fileno(), descriptor)
        with os.fdopen(os.dup(saved), "w", encoding="utf-8", newline="\n") as own, redirect_stdout(sys.stderr):
            yield own
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


def tell(text: str, code: int) -> int:
    """Write an error in one line on standard error; return `code`."""
    print(f"error: {one_line(text, 2000)}", file=sys.stderr)
    return code


def leave(code: int) -> int:
    """Return `code`, or end the process with it where an abandoned tool still sits in its thread and would hold it."""
    if any(t.name.startswith("AnyIO worker thread") and not t.daemon for t in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(options: RunOptions, out: TextIO) -> int:
    from .otlp import setup_otlp

    options.check()
    task = _read_task(options.task)
    agent = options.make_agent()
    start = partial(
        agent.stream,
        task,
        max_steps=options.max_steps,
        is_task_complete=options.make_check(agent),
        limits=options.make_limits(agent),
    )
    show, drawn = _show(options, out)
    shutdown = setup_otlp()
    try:
        result, interrupted = anyio.run(_interruptible, start, show)
    finally:
        if shutdown is not None:
            shutdown()
    if result.outcome == "error" and not drawn:
        tell(str(result.error), ERROR)
    return INTERRUPTED if interrupted else exit_code(result.outcome)


def exit_code(outcome: str) -> int:
    """Return the exit code for an outcome; only `complete` is complete, as in `raise_for_outcome`."""
    return COMPLETE if outcome == "complete" else ERROR if outcome == "error" else NOT_COMPLETE


def _show(options: RunOptions, out: TextIO) -> tuple[Show, bool]:
    """Return how the run is shown, and whether that is a drawing on a terminal."""
    from .view import watch, write_json

    if options.json:
        return partial(write_json, file=out), False
    if not out.isatty() or os.environ.get("TERM") == "dumb":
        return partial(watch, plain=True, file=out), False
    return watch, True


async def _interruptible(start: Callable[[], RunStream[Any]], show: Show) -> tuple[RunResult[Any], bool]:
    """Show the stream; Ctrl-C cancels the run, whose end is then shown. Return the result, and whether it did."""
    stream = start()
    result: RunResult[Any] | None = None
    failure: Exception | None = None
    interrupted = False

    async def wait_for_interrupt() -> None:
        nonlocal interrupted
        if sys.platform == "win32":
            return  # no signal receivers there; KeyboardInterrupt ends the command
        import signal

        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                break
        # The receiver is closed by now: a second Ctrl-C ends the command at once.
        interrupted = True
        stream.cancel()

    async with stream:
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_interrupt)
            try:
                result = await show(stream)
            except Exception as error:
                failure = error  # raised outside of the group, which would wrap it
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
    assert result is not None
    return result, interrupted


def _read_task(given: str) -> str:
    if given != "-":
        return given
    if sys.stdin is None:
        raise UsageFault("the task is to be read from standard input, but that is closed")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _configure_log() -> None:
    """Log to standard error. What a run warns of is an event, and shown as one; it is not told twice."""
    import structlog

    def drop_events(logger: object, method: str, entry: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if "run_id" in entry:
            raise structlog.DropEvent
        return entry

    structlog.configure(
        processors=[
            drop_events,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _forget(out: TextIO) -> None:
    """Nobody reads any more: let the interpreter's last flush go nowhere, without a word."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
    except OSError:
        return
