"""The message that a failed check puts into the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .check import CheckReport
    from .ledger import LedgerRow


def write_feedback(report: CheckReport) -> str:
    """Return the feedback of a failed check, for the model to read.

    It holds every scorer's reason word for word, failing scorers first, and what changed since the last check. It holds
    no times, so that a replay and a prompt cache see the same text.
    """
    parts = [f"[Completion check {report.iteration}] The task is not complete yet. {_demand(report)}"]
    for result in sorted(report.scorers, key=lambda r: (r.passed, r.errored)):
        if result.score is None:
            parts.append(f"{result.scorer_id}: could not be graded this time.")
            continue
        mark = "passed" if result.passed else "failed"
        reason = result.score.reason or "no reason given"
        parts.append(f"{result.scorer_id} ({mark}, {result.score.value:g} of {result.score.scale:g}):\n{reason}")
    changes = report.changes
    lines = [
        _line("Fixed since the last check", changes.fixed),
        _line("Still failing", changes.failing),
        _line("Satisfied before, failing now", changes.broken),
    ]
    if any(lines):
        parts.append("\n".join(line for line in lines if line))
    parts.append("Keep what holds, mend what fails, and answer again in full.")
    return "\n\n".join(parts)


def _demand(report: CheckReport) -> str:
    passed = sum(r.passed for r in report.scorers)
    wanted = "all scorers must pass" if report.strategy == "all" else "one scorer must pass"
    return f"{passed} of {len(report.scorers)} passed; {wanted}."


def _line(head: str, rows: tuple[LedgerRow, ...]) -> str:
    return f"{head}: {'; '.join(_name(row) for row in rows)}" if rows else ""


def _name(row: LedgerRow) -> str:
    return row.description if row.required else f"{row.description} (optional)"
