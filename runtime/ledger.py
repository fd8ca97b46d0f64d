"""The ledger: what became of each criterion from check to check, and whether anything still moves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .check import CheckReport, ScorerResult
    from .messages import ToolCall


@dataclass(slots=True)
class LedgerRow:
    """One criterion, or one scorer that has none, over the checks.

    Attributes:
        criterion_id: None for a scorer without criteria.
        history: one entry a check: satisfied, not satisfied, or None where there was no verdict.
    """

    scorer_id: str
    position: int
    criterion_id: str | None
    description: str
    required: bool
    history: list[bool | None] = field(default_factory=list)

    @property
    def satisfied(self) -> bool | None:
        """The last verdict."""
        return next((h for h in reversed(self.history) if h is not None), None)

    @property
    def before(self) -> bool | None:
        """The verdict before the last one."""
        known = (h for h in reversed(self.history) if h is not None)
        next(known, None)
        return next(known, None)


@dataclass(frozen=True, slots=True)
class LedgerChanges:
    """What the last check changed: rows that became satisfied, that still fail, and that broke."""

    fixed: tuple[LedgerRow, ...]
    failing: tuple[LedgerRow, ...]
    broken: tuple[LedgerRow, ...]


class Ledger:
    """Every criterion's verdicts over the iterations of a run, in the order of scorers and rubrics."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str | None], LedgerRow] = {}
        self._checks = 0

    @property
    def rows(self) -> Sequence[LedgerRow]:
        """The rows, in order."""
        return sorted(self._rows.values(), key=lambda row: row.position)

    @property
    def checks(self) -> int:
        """How many checks are recorded."""
        return self._checks

    def record(self, results: Iterable[ScorerResult]) -> None:
        """Add one check."""
        verdicts: dict[tuple[int, str | None], bool | None] = {}
        for result in results:
            for key, row, satisfied in _entries(result):
                known = self._rows.setdefault(key, row)
                known.history.extend([None] * (self._checks - len(known.history)))
                verdicts[key] = satisfied
        for key, row in self._rows.items():
            row.history.append(verdicts.get(key))
        self._checks += 1

    def changes(self) -> LedgerChanges:
        """Return what the last check changed against the verdicts before it."""
        judged = [row for row in self.rows if row.history and row.history[-1] is not None]
        return LedgerChanges(
            fixed=tuple(r for r in judged if r.satisfied and r.before is False),
            failing=tuple(r for r in judged if not r.satisfied and r.before is False),
            broken=tuple(r for r in judged if not r.satisfied and r.before),
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as JSON-ready data."""
        return [
            {
                "scorer_id": row.scorer_id,
                "position": row.position,
                "criterion_id": row.criterion_id,
                "description": row.description,
                "required": row.required,
                "history": list(row.history),
            }
            for row in self.rows
        ]

    def __str__(self) -> str:
        marks = {True: "+", False: "-", None: "?"}
        lines = []
        for row in self.rows:
            note = "" if row.required else " (optional)"
            lines.append(f"{''.join(marks[h] for h in row.history)}  {row.scorer_id}: {row.description}{note}")
        return "\n".join(lines)


def _entries(result: ScorerResult) -> Iterable[tuple[tuple[int, str | None], LedgerRow, bool | None]]:
    position, scorer_id = result.position, result.scorer_id
    if result.score is not None and result.score.criteria:
        for v in result.score.criteria:
            row = LedgerRow(scorer_id, position, v.criterion_id, v.description, v.required)
            yield (position, v.criterion_id), row, v.satisfied
    elif result.score is not None or not result.has_criteria:
        row = LedgerRow(scorer_id, position, None, scorer_id, True)
        yield (position, None), row, result.passed if result.score is not None else None


class StallWatch:
    """Notices that nothing moves any more.

    The run has stalled when for `after` checks in a row the same set of criteria failed, no scorer's value rose, and no
    tool was called with new arguments in between. Wording is not compared: a model that words the same failure anew
    each time would never be caught. A scorer that gave no verdict stands where it stood.
    """

    def __init__(self, after: int | None) -> None:
        self._after = after
        self._calls: set[tuple[str, str]] = set()
        self._new_call = False
        self._row = 0
        self._failing: set[tuple[int, str | None]] = set()
        self._values: dict[int, float] = {}

    def saw(self, calls: Iterable[ToolCall]) -> None:
        """Remember tool calls; only arguments that were never seen before count as movement."""
        if self._after is None:
            return
        for call in calls:
            key = (call.name, _canonical(call.arguments))
            if key not in self._calls:
                self._calls.add(key)
                self._new_call = True

    def stalled(self, report: CheckReport) -> bool:
        """Take in a check and return whether the run has stalled with it. A pass begins the count anew."""
        if self._after is None:
            return False
        failing, rose = set(self._failing), False
        for result in report.scorers:
            if result.score is None:
                continue
            value = result.score.value
            rose = rose or value > self._values.get(result.position, value)
            self._values[result.position] = value
            failing = {key for key in failing if key[0] != result.position}
            failing.update(key for key, _, satisfied in _entries(result) if not satisfied)
        same = self._row > 0 and failing == self._failing and not rose and not self._new_call
        self._row = 0 if report.passed else self._row + 1 if same else 1
        self._failing, self._new_call = failing, False
        return self._row >= self._after


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
