"""What a scripted judge says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from alfine.runtime.scoring import ScorerInput, Verdict


def says(summary: str | None = None, /, **satisfied: object) -> str:
    """Return a judge's reply: each id with what it says of `satisfied`."""
    return says_list([verdict(id, value) for id, value in satisfied.items()], summary)


def says_list(verdicts: Sequence[object], summary: str | None = None) -> str:
    """Return a judge's reply with these entries."""
    reply: dict[str, object] = {"verdicts": list(verdicts)}
    if summary is not None:
        reply["summary"] = summary
    return json.dumps(reply)


def verdict(id: object, satisfied: object = True, reasoning: object = "", **more: object) -> Mapping[str, object]:
    """Return one entry of a verdict list."""
    return {"id": id, "reasoning": reasoning or f"why {id}", "satisfied": satisfied, **more}


def given(output: str = "the answer", **more: Any) -> ScorerInput:
    """Return what a scorer looks at."""
    return ScorerInput(output=output, **more)


def passed(verdicts: Sequence[Verdict]) -> dict[str, bool]:
    """Return the decisions by id."""
    return {v.criterion_id: v.satisfied for v in verdicts}
