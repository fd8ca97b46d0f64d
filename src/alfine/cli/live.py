"""A run in a terminal: what is over scrolls up as a log, what goes on is redrawn below, with a status line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from alfine.runtime.events import Event
from alfine.runtime.limits import Usage, UsageLimits
from alfine.runtime.run import RunResult

from .plain import outcome_words, usage_words
from .render import TEXT_SHOWN, is_step, ledger_table, show_item, status_line
from .state import TextItem, ViewState
from .text import one_line, safe

WORD_WRAPPED = 20_000


class LiveView:
    """Draws a run while it goes on. Used as a context manager; `refresh` draws, `take` only remembers.

    Args:
        limits: shown beside what is used.
    """

    def __init__(self, console: Console, limits: UsageLimits) -> None:
        self.usage = Usage()
        self._console = console
        self._limits = limits
        self._state = ViewState()
        self._printed = 0
        self._begun = console.get_time()
        self._live = Live(self, console=console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        # What is left open (the run was cut from outside) is shown as far as it came.
        try:
            self._print_done(also_open=True)
        finally:
            self._live.stop()

    def take(self, event: Event) -> None:
        """Take in an event."""
        self._state.apply(event)

    def refresh(self) -> None:
        """Draw what is new."""
        self._print_done()
        self._live.refresh()

    def finish(self, result: RunResult[Any]) -> None:
        """Print how the run ended: the answer, the ledger, outcome and usage. The view has been left before."""
        console = self._console
        if result.text and not self._shows_whole(result):
            console.print(Text("\nanswer", "bold"))
            _print_whole(console, result.text)
        if result.ledger.checks:
            console.print()
            console.print(ledger_table(result.ledger, console.width))
        style = "bold green" if result.complete else "bold red" if result.outcome == "error" else "bold yellow"
        console.print(Text("\n" + outcome_words(result), style, overflow="fold"))
        console.print(Text(usage_words(result.usage), "dim", overflow="fold"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        root = self._state.root
        room = max(console.height - 2, 1)
        if root is not None:
            items = [item for item in root.items[self._printed :] if not is_step(item)]
            each = max(room // max(len(items), 1), 1)
            for item in items[:room]:
                for line in _clipped(console.render_lines(show_item(item, root), options, pad=False), each):
                    yield from line
                    yield Segment.line()
        yield status_line(root, self.usage, self._limits, console.get_time() - self._begun)

    def _print_done(self, *, also_open: bool = False) -> None:
        root = self._state.root
        if root is None:
            return
        first = self._printed
        while self._printed < len(root.items) and (also_open or root.items[self._printed].done):
            self._printed += 1
        shown = [show_item(item, root) for item in root.items[first : self._printed]]
        if shown and first == 0 and root.started is not None:
            task = Text("task ", "bold cyan", overflow="fold")
            shown.insert(0, task.append(one_line(root.started.input, 500)))
        if shown:
            self._console.print(Group(*shown))

    def _shows_whole(self, result: RunResult[Any]) -> bool:
        """Whether the log has just shown the answer, whole and not as a draft."""
        root = self._state.root
        texts = [i for i in root.items if isinstance(i, TextItem) and not i.reasoning] if root is not None else []
        last = texts[-1] if texts else None
        return (
            last is not None
            and not last.draft
            and last.step == result.answer_step
            and len(result.text) <= TEXT_SHOWN
            and "".join(last.pieces) == result.text
        )


def _clipped(lines: Sequence[list[Segment]], most: int) -> Sequence[list[Segment]]:
    """Return the first line and as many of the last ones as there is room for."""
    if len(lines) <= most:
        return lines
    return lines[-1:] if most == 1 else [lines[0], *lines[-(most - 1) :]]


def _print_whole(console: Console, text: str) -> None:
    if len(text) <= WORD_WRAPPED:
        console.print(Text(safe(text), overflow="fold"))
    else:
        # Wrapping by words takes seconds for megabytes; the terminal wraps by itself.
        console.file.write(safe(text) + "\n")
