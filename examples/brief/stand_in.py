"""The stand-in: rules that answer where no model is at hand.

It is asked over HTTP, as a model is, and knows nothing but the request. It calls the tools that it is offered, takes
sentences from what they return, and mends exactly what the feedback names: with feedback that names nothing, it does
not know what to change, and gives the same answer again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alfine import Usage
from alfine.testing import HttpRequest, ScriptedCall, Turn, call

from .demands import Demand, understand
from .stand_in_judge import judge
from .stand_in_reader import FIND, read
from .stand_in_writer import NotePad, write

NAME = "stand-in"
PIECES = 60


@dataclass(frozen=True, slots=True)
class StandIn:
    """A script for `FakeOpenAI`.

    Attributes:
        delay, chunk_delay: seconds before an answer and between its pieces, so that a person can watch.
    """

    delay: float = 0
    chunk_delay: float = 0

    def __call__(self, request: HttpRequest) -> Turn:
        text, calls = _answer(request)
        return Turn(
            deltas=_pieces(text),
            tool_calls=calls,
            # About four characters a token.
            usage=Usage(input_tokens=len(request.text) // 4, output_tokens=(len(text) + len(str(calls))) // 4),
            delay=self.delay,
            chunk_delay=self.chunk_delay,
        )


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool returned, and what it was asked."""

    tool: str
    arguments: Mapping[str, Any]
    text: str


def _answer(request: HttpRequest) -> tuple[str, Sequence[ScriptedCall]]:
    tools = request.tool_names
    if "response_format" in request.body:
        return judge(request.texts[-1], request.body["response_format"]), ()
    if any(name.startswith("delegate_") for name in tools):
        return _supervise(request)
    if "read_document" in tools:
        return read(request.texts[0], [(r.tool, r.arguments, r.text) for r in _results(request.messages)])
    return write(request.texts[-1]), ()


def _supervise(request: HttpRequest) -> tuple[str, Sequence[ScriptedCall]]:
    """Have notes taken and a brief written; after feedback, have it mended."""
    messages = request.messages
    last_asked = max(place for place, message in enumerate(messages) if message.get("role") == "user")
    all_results = _results(messages)
    new = _results(messages[last_asked:], messages)
    task = request.texts[0]
    drafts = [r.text for r in all_results if r.tool == "delegate_writer"]
    fresh_drafts = [r.text for r in new if r.tool == "delegate_writer"]
    if fresh_drafts:
        return fresh_drafts[-1], ()
    pad = NotePad(task)
    for result in all_results:
        if result.tool == "delegate_reader":
            pad.take(result.text)
    if not drafts:
        if not pad.notes.names:
            return "The reader takes notes first.", [call("delegate_reader", {"prompt": f"Take notes.\nTask: {task}"})]
        return "Now the writer.", [call("delegate_writer", {"prompt": pad.prompt("Write a brief.")})]
    failing, holding = _criteria(str(messages[last_asked].get("content")))
    mended = [(line, demand) for line in failing if (demand := understand(line))]
    if not mended:
        return drafts[-1], ()
    said = "To mend: " + "; ".join(line for line, _ in mended)
    terms = _terms([demand for _, demand in mended])
    if terms and not any(r.tool == "delegate_reader" for r in new):
        lines = [f"Look things up.\nTask: {task}", *(f"{FIND}{term}" for term in terms)]
        return said, [call("delegate_reader", {"prompt": "\n".join(lines)})]
    pad.mend, pad.keep, pad.draft = [line for line, _ in mended], holding, drafts[-1]
    return "" if terms else said, [call("delegate_writer", {"prompt": pad.prompt("Repair the draft.")})]


_CRITERION = re.compile(r"\[([ x])\] (.+?) \((?:required|optional)\): .*")


def _criteria(feedback: str) -> tuple[list[str], list[str]]:
    """Return the criteria that a feedback message names as failing, and those that hold."""
    found = [match for line in feedback.splitlines() if (match := _CRITERION.fullmatch(line))]
    return [m[2] for m in found if m[1] == " "], [m[2] for m in found if m[1] == "x"]


def _terms(demands: Sequence[Demand]) -> list[str]:
    return list(dict.fromkeys(term for demand in demands for term in demand.terms()))


def _results(messages: Sequence[Mapping[str, Any]], calls_of: Sequence[Mapping[str, Any]] = ()) -> list[Result]:
    """Return what tools returned in `messages`, joined with the calls by their ids."""
    functions = {
        made["id"]: made["function"] for message in calls_of or messages for made in message.get("tool_calls") or ()
    }
    return [
        Result(function["name"], json.loads(function["arguments"]), str(message["content"]))
        for message in messages
        if message.get("role") == "tool"
        for function in (functions[message["tool_call_id"]],)
    ]


def _pieces(text: str) -> list[str]:
    words = re.findall(r"\s*\S+\s*", text)
    size = max(1, -(-len(words) // PIECES))
    return ["".join(words[i : i + size]) for i in range(0, len(words), size)]
