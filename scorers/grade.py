"""From verdicts to a score: pure arithmetic on a rubric, and the reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..runtime.errors import JudgeError
from ..runtime.scoring import Score, Verdict
from .criteria import Criterion


def grade(
    criteria: Sequence[Criterion],
    verdicts: Sequence[Verdict],
    *,
    scale: float = 1.0,
    summary: str = "",
    scorer_id: str = "rubric-scorer",
) -> Score:
    """Turn verdicts on a rubric into a score.

    The value is `scale` when every required criterion is satisfied, else 0.0. Without a required criterion, all of them
    count as required. What is required comes from the rubric alone.

    Args:
        criteria: the rubric, as `parse_rubric` returns it.
        verdicts: one for each criterion, in any order.
        summary: a sentence that heads the reason; it decides nothing.
        scorer_id: whose error it is when a verdict is missing.

    Raises:
        JudgeError: a criterion has no verdict, or the rubric is empty.
    """
    by_id = {v.criterion_id: v for v in verdicts}
    missing = tuple(c.id for c in criteria if c.id not in by_id)
    if missing or not criteria:
        raise JudgeError(scorer_id, missing, "" if missing else "there is no criterion to grade by")
    ordered = tuple(replace(by_id[c.id], description=c.description, required=c.required) for c in criteria)
    gating = [v for v in ordered if v.required] or ordered
    passed = all(v.satisfied for v in gating)
    return Score(scale if passed else 0.0, scale, passed, _reason(ordered, gating, summary), ordered)


def _reason(verdicts: Sequence[Verdict], gating: Sequence[Verdict], summary: str) -> str:
    satisfied = sum(v.satisfied for v in gating)
    lines = [one_line(summary), f"{satisfied} of {len(gating)} required criteria satisfied."]
    gates = {v.criterion_id for v in gating}
    lines += [_line(v, "required" if v.criterion_id in gates else "optional") for v in verdicts]
    return "\n".join(line for line in lines if line)


def _line(verdict: Verdict, need: str) -> str:
    mark = "x" if verdict.satisfied else " "
    why = one_line(verdict.reason) or "no reason given"
    doubt = " (The quoted evidence is not in the output.)" if verdict.evidence_found is False else ""
    return f"[{mark}] {one_item(verdict.description)} ({need}): {why}{doubt}"


def one_line(text: str) -> str:
    """Return `text` on one line, so that what a judge wrote cannot look like a line of ours."""
    return " ".join(text.split())


def one_item(text: str) -> str:
    """Return `text` with its further lines indented, so that it stays one item of a list."""
    return "\n    ".join(text.strip().splitlines())
