"""Reading a judge's reply: which criteria it settles, and nothing beyond that."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime.messages import clean
from ..runtime.models import Reply


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """What a judge said of one criterion; its types are checked."""

    id: str
    satisfied: bool
    reasoning: str = ""
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedVerdicts:
    """What one reply is worth.

    Attributes:
        settled: one verdict for each criterion that the reply settles.
        unknown: the reply speaks of something that is not in the rubric, so that none of it can be trusted.
        summary: the judge's sentence about the whole, empty without one.
    """

    settled: Mapping[str, JudgeVerdict]
    unknown: bool = False
    summary: str = ""


NOTHING_SETTLED = JoinedVerdicts({})


def read_reply(reply: Reply, known: Collection[str], asked: Collection[str]) -> JoinedVerdicts:
    """Return what a judge's reply settles.

    A refusal, a reply that was cut off, a text without a verdict list and one with several that differ settle nothing.

    Args:
        known: the ids of the whole rubric.
        asked: the ids that the judge was asked about; verdicts on others of `known` are left aside.
    """
    if reply.refusal or reply.finish_reason not in ("stop", "tool_calls"):
        return NOTHING_SETTLED
    found = find_verdicts(reply.text)
    return NOTHING_SETTLED if found is None else join_verdicts(found, known, asked)


def find_verdicts(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object with the verdict list that `text` holds; code fences and prose around it are skipped.

    From the first brace to the last it has to be that one object. A judge may quote a forged list, in prose or in JSON
    that its quoting breaks: whatever is not read as a whole is not read at all.

    >>> find_verdicts('Here you are: {"verdicts": []}')
    {'verdicts': []}
    >>> find_verdicts('It says {"verdicts": []}. {"verdicts": []}')
    """
    try:
        value = _DECODER.decode(text[text.find("{") : text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("verdicts"), list) else None


def join_verdicts(reply: Mapping[str, Any], known: Collection[str], asked: Collection[str]) -> JoinedVerdicts:
    """Join a reply's verdicts to criteria by id.

    An entry of a wrong type and entries that disagree settle nothing for their criterion; an agreeing repeat changes
    nothing. After an entry without a known id nothing is settled at all.

    >>> join_verdicts({"verdicts": [{"id": "a", "satisfied": "true"}, {"id": "b", "satisfied": True}]}, "ab", "ab")
    JoinedVerdicts(settled={'b': JudgeVerdict(id='b', satisfied=True, reasoning='', evidence=None)}, unknown=False, \
summary='')
    """
    settled: dict[str, JudgeVerdict] = {}
    spoiled: set[str] = set()
    for entry in reply["verdicts"]:
        entry_id = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(entry_id, str) or entry_id not in known:
            return JoinedVerdicts({}, unknown=True)
        verdict = _verdict(entry_id, entry)
        if verdict is None or settled.setdefault(entry_id, verdict).satisfied is not verdict.satisfied:
            spoiled.add(entry_id)
    good = {i: v for i, v in settled.items() if i in asked and i not in spoiled}
    summary = reply.get("summary")
    return JoinedVerdicts(good, summary=clean(summary).strip() if isinstance(summary, str) else "")


def find_quotes(quotes: Collection[str], output: str) -> frozenset[str]:
    """Return the quotes that stand in the output; white space and quote marks do not count.

    >>> sorted(find_quotes(["so  called", "made up"], "It is here: so\\n'called'"))
    ['so  called']
    """
    found = {quote for quote in quotes if quote in output}
    if len(found) < len(set(quotes)):
        plain_output = _plain(output)
        found.update(quote for quote in quotes if _plain(quote) in plain_output)
    return frozenset(found)


def _verdict(entry_id: str, entry: Mapping[str, Any]) -> JudgeVerdict | None:
    satisfied, reasoning, evidence = entry.get("satisfied"), entry.get("reasoning"), entry.get("evidence")
    if not isinstance(satisfied, bool):
        return None
    if not isinstance(reasoning, str | None) or not isinstance(evidence, str | None):
        return None
    quote = clean(evidence or "").strip()
    return JudgeVerdict(entry_id, satisfied, clean(reasoning or "").strip(), quote if _plain(quote) else None)


_QUOTE_MARKS = re.compile("[\"'`´“”„‟‘’‚‛«»‹›「」『』]+")  # noqa: RUF001


def _plain(text: str) -> str:
    return " ".join(_QUOTE_MARKS.sub("", text).split())


_AMBIGUOUS = object()


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its members; a key that stands there twice gets a value of no allowed type."""
    out: dict[str, Any] = {}
    for key, value in pairs:
        out[key] = _AMBIGUOUS if key in out else value
    return out


# Not strict: models do write line breaks into strings.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_once)
