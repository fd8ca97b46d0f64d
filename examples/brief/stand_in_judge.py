"""The stand-in as the judge: it reads a judge's question by its documented marks, and grades by rules."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .demands import understand
from .notes import DOCUMENT

_MARK = re.compile(r"^The mark of the data blocks is (\w+)\.$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Question:
    """A judge's question in parts: descriptions by id, the output, and which documents there are."""

    criteria: Mapping[str, str]
    output: str
    names: Sequence[str]


def judge(prompt: str, response_format: Mapping[str, Any]) -> str:
    """Return verdicts as JSON. What there is no rule for is not satisfied."""
    question = read_question(prompt, _ids(response_format))
    verdicts = []
    for criterion_id, description in question.criteria.items():
        demand = understand(description)
        if demand is None:
            satisfied, why = False, "The stand-in has no rule for this criterion; only a model could judge it."
        else:
            missing = demand.missing(question.output, question.names)
            satisfied, why = missing is None, missing or "The output meets it."
        verdicts.append({"id": criterion_id, "reasoning": why, "evidence": None, "satisfied": satisfied})
    return json.dumps({"verdicts": verdicts, "summary": None}, ensure_ascii=False)


def read_question(prompt: str, ids: Sequence[str]) -> Question:
    """Take a question apart. Only what stands before the mark is about criteria; only what it fences is data."""
    found = _MARK.search(prompt)
    if found is None:
        raise ValueError("this is no judge's question")
    head, mark = prompt[: found.start()], found[1]
    criteria = {
        criterion_id: text.removeprefix(f"{criterion_id}: ").strip()
        for text in head.split("\n\n")
        for criterion_id in ids
        if text.startswith(f"{criterion_id}: ")
    }
    blocks = re.findall(rf"(?ms)^([^\n]*):\n<<<{mark}\n(.*?)\n{mark}>>>$", prompt[found.end() :])
    output = next(text for title, text in blocks if title.startswith("The output to judge"))
    reads = [text for title, text in blocks if title.startswith("Result") and text.startswith("delegate_reader(")]
    names = [line.removeprefix(DOCUMENT) for text in reads for line in text.splitlines() if line.startswith(DOCUMENT)]
    return Question(criteria, output, list(dict.fromkeys(names)))


def _ids(response_format: Mapping[str, Any]) -> list[str]:
    schema = response_format["json_schema"]["schema"]
    return list(schema["properties"]["verdicts"]["items"]["properties"]["id"]["enum"])
