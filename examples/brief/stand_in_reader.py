"""The stand-in as the reader: it lists, reads and searches the documents, and notes down sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from alfine.testing import ScriptedCall, call

from .notes import Notes
from .sentences import sentences

FIND = "Find: "
PAGES = 3
MOST_NOTES = 48
AROUND = 80
QUESTION_MARKS = "?？"  # noqa: RUF001

_COMMON = frozenset({"about", "after", "brief", "document", "documents", "reader", "should", "their", "these", "write"})

ToolResult = tuple[str, Mapping[str, Any], str]


def read(prompt: str, results: Sequence[ToolResult]) -> tuple[str, Sequence[ScriptedCall]]:
    """Return what the reader says, and which tools it calls: first the list, then pages and places, then its notes.

    Args:
        prompt: a task line, and a line `Find: …` for each thing to look up; with one, no pages are read.
        results: name, arguments and text of the tool calls so far.
    """
    lists = [_loads(text) for tool, _, text in results if tool == "list_documents"]
    if not lists:
        return "", [call("list_documents")]
    names = [str(entry["name"]) for entry in lists[0]]
    terms = [line.removeprefix(FIND) for line in prompt.splitlines() if line.startswith(FIND)]
    keywords = terms or _keywords(prompt)
    pages = [_loads(text) for tool, _, text in results if tool == "read_document"]
    hits = [(args["query"], _loads(text)) for tool, args, text in results if tool == "search_documents"]
    if len(results) == 1:
        wanted = [] if terms else [call("read_document", {"name": name}) for name in names]
        return "", [*wanted, *(call("search_documents", {"query": word}) for word in keywords)]
    if more := [] if terms else _next_pages(names, pages):
        return "", more
    return str(_notes(names, pages, hits, keywords)), ()


def _next_pages(names: Sequence[str], pages: Sequence[Mapping[str, Any]]) -> list[ScriptedCall]:
    calls = []
    for name in names:
        own = [page for page in pages if page["name"] == name]
        if own and len(own) < PAGES and own[-1]["end"] < own[-1]["characters"]:
            calls.append(call("read_document", {"name": name, "start": own[-1]["end"]}))
    return calls


def _notes(
    names: Sequence[str],
    pages: Sequence[Mapping[str, Any]],
    hits: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
    keywords: Sequence[str],
) -> Notes:
    notes = Notes()
    for name in names:
        text = "".join(page["text"] for page in pages if page["name"] == name)
        found = sentences(text)
        ranked = sorted(found, key=lambda sentence: _rank(sentence, keywords))
        chosen = set(ranked[: max(2, min(8, MOST_NOTES // len(names)))])
        notes.add(name, [sentence for sentence in found if sentence in chosen])
    for query, places in hits:
        for place in places:
            notes.add(place["name"], _about(place["text"], query))
    return notes


def _rank(sentence: str, keywords: Sequence[str]) -> tuple[int, int]:
    """Sentences with words of the task first, then those of a good length; sorting keeps the order of equals."""
    plain = sentence.casefold()
    return -sum(word in plain for word in keywords), 0 if 5 <= len(sentence.split()) <= 25 else 1


def _about(text: str, query: str) -> list[str]:
    """Return the sentence with the query, or what stands around it where it is in none."""
    said = sentences(text)
    if query in QUESTION_MARKS:
        return [sentence for sentence in said if sentence.endswith(tuple(QUESTION_MARKS))]
    if found := [sentence for sentence in said if query.casefold() in sentence.casefold()]:
        return found[:1]
    plain = " ".join(text.split())
    place = re.search(re.escape(query), plain, re.IGNORECASE)
    if place is None:
        return []
    start, end = max(0, place.start() - AROUND), min(len(plain), place.end() + AROUND)
    # Whole words only, where there are any.
    start = plain.rfind(" ", 0, start) + 1 if " " in plain[start : place.start()] else start
    return [plain[start:end].rpartition(" ")[0] if " " in plain[place.end() : end] else plain[start:end]]


def _keywords(prompt: str) -> list[str]:
    task = prompt.partition("Task: ")[2].splitlines()
    words = re.findall(r"\w{5,}", task[0].casefold()) if task else []
    return [word for word in dict.fromkeys(words) if word not in _COMMON][:3]


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return []  # the tool failed, and its result is a sentence
