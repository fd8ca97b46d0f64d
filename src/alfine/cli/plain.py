"""A run as plain lines, for logs and pipes: one line an event that matters, no escape sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alfine.runtime.events import (
    ApprovalRequested,
    ApprovalResolved,
    CheckFinished,
    CheckStarted,
    CriterionJudged,
    DelegationFinished,
    DelegationStarted,
    Event,
    FeedbackInjected,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    ScorerFinished,
    StepFinished,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolProgress,
    ToolReturned,
    Warned,
)
from alfine.runtime.ledger import Ledger
from alfine.runtime.limits import Usage
from alfine.runtime.run import RunResult

from .text import one_line, safe

MARKS = {True: "✓", False: "✗", None: "·"}


class PlainLines:
    """Turns events into lines. Text is held back until its line is whole or its step is over."""

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}
        self._labels: dict[str, str] = {}

    def lines(self, event: Event) -> list[str]:
        """Return the lines that the event adds, without line ends."""
        lead = f"{'  ' * event.depth}[{one_line(event.agent, 40)}]"
        if isinstance(event, TextDelta | ReasoningDelta):
            return [f"{lead} {line}" for line in self._add(event)]
        ended = self._end(event.run_id)
        return [f"{lead} {line}" for line in (*ended, *_said(event))]

    def _add(self, event: TextDelta | ReasoningDelta) -> Iterator[str]:
        label = "reasoning |" if isinstance(event, ReasoningDelta) else "draft |" if event.draft else "|"
        if self._labels.get(event.run_id, label) != label:
            yield from self._end(event.run_id)
        self._labels[event.run_id] = label
        held = self._open.setdefault(event.run_id, [])
        if "\n" not in event.text:
            held.append(event.text)
            return
        whole, _, rest = event.text.rpartition("\n")
        text = "".join([*held, whole])
        self._open[event.run_id] = [rest]
        yield from _labelled(label, text)

    def _end(self, run_id: str) -> list[str]:
        text = "".join(self._open.pop(run_id, []))
        label = self._labels.pop(run_id, "|")
        return list(_labelled(label, text)) if text else []


def _labelled(label: str, text: str) -> Iterator[str]:
    for line in safe(text).split("\n"):
        yield f"{label} {line}".rstrip()


def _said(event: Event) -> list[str]:
    match event:
        case RunStarted():
            return [f"run of at most {event.max_steps} steps: {one_line(event.input)}"]
        case StepStarted():
            return [f"step {event.step}, iteration {event.iteration}"]
        case StepFinished() if event.finish_reason in ("length", "content_filter"):
            return [f"the model was cut off: {event.finish_reason}"]
        case CheckStarted():
            names = ", ".join(one_line(name, 60) for name in event.scorers)
            return [f"check {event.iteration}: {event.strategy} of {names}"]
        case CriterionJudged():
            return [f"{MARKS[event.satisfied]} {criterion_line(event)}"]
        case ScorerFinished():
            return [scorer_line(event)]
        case CheckFinished():
            return [f"check {event.iteration} {check_word(event)}"]
        case FeedbackInjected():
            return feedback_lines(event)
        case ApprovalRequested():
            return [f"approval wanted: {one_line(event.name, 60)}({one_line(event.arguments)})"]
        case ApprovalResolved():
            return [f"{'approved' if event.approved else 'denied'} {one_line(event.reason)}".rstrip()]
        case Warned():
            return [f"warning {one_line(event.code, 60)}: {one_line(event.message, 500)}"]
        case RunFinished() if event.depth:
            return [f"ended as {event.outcome}"]
    return _said_of_calls(event)


def _said_of_calls(event: Event) -> list[str]:
    match event:
        case ToolCalled():
            return [f"call {one_line(event.name, 60)} {one_line(event.arguments)}"]
        case ToolProgress():
            return [f"progress {one_line(event.name, 60)}: {one_line(str(event.data))}"]
        case DelegationStarted():
            return [f"delegate to {one_line(event.target, 60)}: {one_line(event.prompt)}"]
        case DelegationFinished() if event.rejected:
            return [f"delegation to {one_line(event.target, 60)} rejected"]
        case DelegationFinished() if event.cut_off:
            return [f"{one_line(event.target, 60)} was cut off at its limit"]
        case ToolReturned():
            return [f"{'failed' if event.failed else 'result'} {one_line(event.name, 60)}: {one_line(event.text)}"]
    return []


def criterion_line(event: CriterionJudged) -> str:
    """Return a verdict in words, without its mark; the reason only where it failed."""
    optional = "" if event.required else " (optional)"
    because = "" if event.satisfied or not event.reason else f" — {one_line(event.reason, 300)}"
    return f"{one_line(event.description or event.criterion_id)}{optional}{because}"


def scorer_line(event: ScorerFinished) -> str:
    """Return a scorer's end in words, with its mark."""
    name = one_line(event.scorer_id, 60)
    if event.value is None:
        why = "ran out of time" if event.timed_out else "gave no score"
        return f"! {name} {why}: {one_line(event.reason, 300)}".removesuffix(": ")
    return f"{MARKS[event.passed]} {name} {event.value:g} of {event.scale:g}"


def check_word(event: CheckFinished) -> str:
    """Return what came of a check."""
    return "passed" if event.passed else "undecided: only errors stood in the way" if event.errored else "failed"


def feedback_lines(event: FeedbackInjected, most: int = 30) -> list[str]:
    """Return the feedback line by line; of hidden feedback only that it was there."""
    if event.hidden:
        return ["feedback injected (hidden)"]
    lines = safe(event.text[:20_000]).split("\n")
    rest = [f"feedback | … (+{len(lines) - most} lines)"] if len(lines) > most else []
    return [*(f"feedback | {one_line(line, 1000)}".rstrip() for line in lines[:most]), *rest]


def summary_lines(result: RunResult[Any]) -> list[str]:
    """Return how a run ended: the answer, the ledger, outcome and usage."""
    lines = ["", "answer:", *safe(result.text).split("\n"), ""] if result.text else [""]
    lines += ledger_lines(result.ledger)
    return [*lines, f"outcome: {outcome_words(result)}", f"usage: {usage_words(result.usage)}"]


def ledger_lines(ledger: Ledger) -> list[str]:
    """Return the ledger as a table, a line a criterion and a column an iteration; empty without any check."""
    if not ledger.checks:
        return []
    width = len(str(ledger.checks)) + 1
    lines = ["".join(f"{n:<{width}}" for n in range(1, ledger.checks + 1)) + " criterion"]
    for row in ledger.rows:
        marks = "".join(f"{MARKS[h]:<{width}}" for h in row.history)
        optional = "" if row.required else " (optional)"
        name = one_line(row.scorer_id, 40)
        words = name if row.criterion_id is None else f"{name}: {one_line(row.description)}{optional}"
        lines.append(f"{marks} {words}")
    return [*lines, ""]


def outcome_words(result: RunResult[Any]) -> str:
    """Return the outcome, how much work it took, and the error if there was one."""
    steps, checks = len(result.steps), len(result.checks)
    words = f"{result.outcome} after {counted(steps, 'step')}"
    if checks:
        words += f", {counted(checks, 'check')}"
    return f"{words}: {one_line(str(result.error), 1000)}" if result.error is not None else words


def usage_words(usage: Usage) -> str:
    """Return the usage in words."""
    words = [
        counted(usage.requests, "request"),
        counted(usage.tool_calls, "tool call"),
        f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens",
    ]
    return ", ".join([*words, f"cost {usage.cost:.4f}"] if usage.cost else words)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
