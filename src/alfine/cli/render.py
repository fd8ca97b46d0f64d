"""Parts of a run as rich renderables. No text of a model, tool or user is ever read as markup."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from alfine.runtime.events import ApprovalRequested, ApprovalResolved, FeedbackInjected, StepStarted, Warned
from alfine.runtime.ledger import Ledger
from alfine.runtime.limits import Usage, UsageLimits

from .plain import MARKS, check_word, counted, criterion_line, feedback_lines, scorer_line
from .state import CallItem, CheckItem, Item, NoteItem, RunState, TextItem
from .text import head, one_line, tail

TEXT_SHOWN = 4_000
SUB_TEXT_SHOWN = 1_000
OPEN_TEXT_SHOWN = 2_000
OPEN_ITEMS_SHOWN = 12

_STYLES = {True: "green", False: "red", None: "dim"}


def show_item(item: Item, run: RunState) -> RenderableType:
    """Return an item; of one that is still going on, the end."""
    match item:
        case TextItem():
            return _text(item, run)
        case CallItem():
            return _call(item)
        case CheckItem():
            return _check(item)
    return _note(item)


def _text(item: TextItem, run: RunState) -> Text:
    sub = run.depth > 0
    if item.done:
        text = head("".join(item.pieces), SUB_TEXT_SHOWN if sub else TEXT_SHOWN)
    else:
        text = tail(item.pieces, OPEN_TEXT_SHOWN)
    shown = Text(no_wrap=False, overflow="fold")
    if item.reasoning:
        return shown.append("thinks ", "magenta").append(text, "dim italic")
    shown.append(f"{one_line(run.agent, 40)} ", "bold cyan")
    if item.draft:
        shown.append("draft ", "yellow")
    return shown.append(text, "dim" if sub else "")


def _call(item: CallItem) -> RenderableType:
    arguments = one_line("".join(item.arguments), 120)
    first = Text("→ ", "blue", overflow="fold")
    if item.started is not None:
        first.append(one_line(item.started.target, 60), "bold blue").append(f" {one_line(item.started.prompt, 300)}")
    else:
        first.append(one_line(item.name, 60), "bold").append(f" {arguments}", "dim")
    parts: list[RenderableType] = [first]
    if item.child is not None:
        parts.append(Padding(_sub_run(item.child, whole=item.done), (0, 0, 0, 2)))
    if item.progress is not None and not item.done:
        parts.append(Text(f"  … {one_line(str(item.progress))}", "dim", overflow="fold"))
    if (last := _call_end(item)) is not None:
        parts.append(last)
    return Group(*parts)


def _call_end(item: CallItem) -> Text | None:
    finished, returned = item.finished, item.returned
    if returned is None:
        return Text("  ✗ no result", "red") if item.done else None
    ok = not returned.failed and not (finished is not None and finished.rejected)
    text = Text(f"  {MARKS[ok]} ", _STYLES[ok], overflow="fold")
    if finished is not None and finished.rejected:
        text.append("rejected ", "red")
    if finished is not None and finished.cut_off:
        text.append("cut off ", "yellow")
    told = item.child is not None and item.child.finished is not None and item.child.finished.text == returned.text
    return text.append("answered" if told else one_line(returned.text), "dim")


def _sub_run(run: RunState, *, whole: bool) -> RenderableType:
    items = run.items if whole else run.items[-OPEN_ITEMS_SHOWN:]
    shown = [show_item(item, run) for item in items if not is_step(item)]
    if run.finished is not None and run.finished.outcome != "complete":
        shown.append(Text(f"{one_line(run.agent, 40)} ended as {run.finished.outcome}", "yellow", overflow="fold"))
    return Group(*shown)


def is_step(item: Item) -> bool:
    """Whether the item is only the start of a step."""
    return isinstance(item, NoteItem) and isinstance(item.event, StepStarted)


def _check(item: CheckItem) -> RenderableType:
    started = item.started
    title = f"check {started.iteration}: {started.strategy} of {counted(len(started.scorers), 'scorer')}"
    parts = [Text(title, "bold", overflow="fold")]
    for position, scorer_id in enumerate(started.scorers):
        score = item.score_of(position)
        for verdict in item.criteria_of(position):
            mark = Text(f"  {MARKS[verdict.satisfied]} ", _STYLES[verdict.satisfied], overflow="fold")
            parts.append(mark.append(criterion_line(verdict), "" if verdict.satisfied else "red"))
        if score is not None:
            style = "yellow" if score.value is None else _STYLES[score.passed]
            line = Text(f"  {scorer_line(score)}", style, overflow="fold")
            if score.value is not None and not score.passed and not item.criteria_of(position):
                line.append(f" — {one_line(score.reason, 300)}")
            parts.append(line)
        elif not item.done:
            parts.append(Text(f"  … {one_line(scorer_id, 60)}", "dim", overflow="fold"))
    if item.finished is not None:
        passed = item.finished.passed
        parts.append(Text(f"{MARKS[passed]} check {check_word(item.finished)}", f"bold {_STYLES[passed]}"))
    return Group(*parts)


def _note(item: NoteItem) -> RenderableType:
    event = item.event
    match event:
        case StepStarted():
            return Text(f"— step {event.step}, iteration {event.iteration}", "dim")
        case FeedbackInjected():
            return Text("\n".join(feedback_lines(event, 12)), "yellow", overflow="fold")
        case Warned():
            return Text(f"! {one_line(event.message, 500)}", "yellow", overflow="fold")
        case ApprovalRequested():
            return Text(f"? approve {one_line(event.name, 60)} {one_line(event.arguments)}", "bold", overflow="fold")
        case ApprovalResolved():
            word = "approved" if event.approved else "denied"
            return Text(f"{MARKS[event.approved]} {word} {one_line(event.reason)}", overflow="fold")


def status_line(run: RunState | None, usage: Usage, limits: UsageLimits, seconds: float) -> Text:
    """Return where the run stands and what of its budget is used, in one line."""
    words: list[str] = []
    if run is not None:
        most = f"/{run.started.max_steps}" if run.started else ""
        words = [one_line(run.agent, 20), f"step {run.step}{most}", f"iteration {run.iteration}"]
    words += [
        f"requests {_of(usage.requests, limits.requests)}",
        f"tokens {_of(usage.total_tokens, limits.total_tokens)}",
    ]
    if usage.cost or limits.cost is not None:
        words.append(f"cost {usage.cost:.4f}" + ("" if limits.cost is None else f"/{limits.cost:g}"))
    words.append(f"{seconds:.0f} s")
    return Text(" · ".join(words), "reverse", no_wrap=True, overflow="ellipsis")


def _of(used: int, limit: int | None) -> str:
    return f"{used:,}" if limit is None else f"{used:,}/{limit:,}"


def ledger_table(ledger: Ledger, width: int) -> Table:
    """Return the ledger: a row a criterion, a column an iteration; the latest ones where not all fit in `width`."""
    shown = max(1, min(ledger.checks, (width - 24) // 5))
    first = ledger.checks - shown
    table = Table(title=None, box=None, padding=(0, 1), pad_edge=False)
    table.add_column("criterion" if not first else f"criterion (since {first + 1})", overflow="fold")
    for number in range(first + 1, ledger.checks + 1):
        table.add_column(str(number), justify="center", no_wrap=True)
    for row in ledger.rows:
        optional = "" if row.required else " (optional)"
        table.add_row(Text(one_line(row.description) + optional), *_marks(row.history[first:]))
    return table


def _marks(history: Iterable[bool | None]) -> list[Text]:
    return [Text(MARKS[h], _STYLES[h]) for h in history]
