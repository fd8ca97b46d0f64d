"""Content in traces: whether it is wanted, and conversations in the form that the conventions give them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from .conventions import finish_reason
from .json_text import write_json
from .messages import AssistantMessage, Message, ToolCall, ToolMessage, clean
from .models import ModelRequest, Reply, ToolDefinition
from .spans import warn_once

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_MEMO = "trace_content"

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Capture:
    """Where content may be recorded."""

    spans: bool = False
    events: bool = False


_MODES = {
    "NO_CONTENT": Capture(),
    "SPAN_ONLY": Capture(spans=True),
    "EVENT_ONLY": Capture(events=True),
    "SPAN_AND_EVENT": Capture(spans=True, events=True),
}


def content_capture() -> Capture:
    """Return what the environment asks for; a value that it does not know is warned about and means no content."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return _MODES["NO_CONTENT"]
    mode = _MODES.get(wanted.strip().upper())
    if mode is None:
        warn_once("capture_mode", f"{VARIABLE} is none of {', '.join(_MODES)}; no content is recorded", value=wanted)
        return _MODES["NO_CONTENT"]
    return mode


@dataclass(slots=True)
class Conversation:
    """A conversation that grows, with each message turned into JSON once."""

    messages: list[Message] = field(default_factory=list)
    fragments: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, request: ModelRequest) -> Conversation:
        """Return the conversation of the request's run, brought up to date."""
        conversation: Conversation = request.memo.setdefault(_MEMO, cls())
        conversation.update(request.messages)
        return conversation

    def update(self, messages: Sequence[Message]) -> None:
        """Take in the messages that are new, or all of them if it is not the list that grew."""
        known = len(self.messages)
        if known > len(messages) or not all(map(is_, self.messages, messages)):
            self.messages.clear()
            self.fragments.clear()
            known = 0
        for message in messages[known:]:
            self.fragments.append(as_json(message_item(message)))
            self.messages.append(message)

    @property
    def json(self) -> str:
        """The conversation as JSON text."""
        return f"[{','.join(self.fragments)}]"


def as_json(content: Item | Sequence[Item]) -> str:
    """Return content as JSON text: on spans backends read nothing else."""
    return write_json(content).decode()


def as_data(text: str) -> Any:
    """Return content as data, as log events want it. Whole numbers that may not fit into 64 bits become texts."""
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 19 else digits)


def message_item(message: Message) -> Item:
    """Return a message in the conventions' form."""
    if isinstance(message, AssistantMessage):
        return _assistant(message.text, message.tool_calls, message.reasoning)
    if isinstance(message, ToolMessage):
        response = {"type": "tool_call_response", "id": clean(message.call_id), "response": clean(message.text)}
        return {"role": "tool", "parts": [response]}
    return {"role": "user", "parts": [_text(message.text)]}


def reply_items(reply: Reply) -> list[Item]:
    """Return a model's reply as output messages."""
    return [output_item(_assistant(reply.text, reply.tool_calls, reply.reasoning), reply.finish_reason)]


def answer_items(text: str, reason: str) -> list[Item]:
    """Return a run's answer as output messages."""
    return [output_item(_assistant(text), reason)]


def output_item(item: Item, reason: str) -> Item:
    """Return `item` as an output; backends drop an output that says no finish reason."""
    return {**item, "finish_reason": finish_reason(reason)}


def instruction_items(text: str) -> list[Item]:
    """Return a system prompt in the conventions' form."""
    return [_text(text)]


def tool_items(tools: Sequence[ToolDefinition]) -> list[Item]:
    """Return the tools that a model may call, by name."""
    return [{"type": "function", "name": clean(tool.name)} for tool in tools]


def _assistant(text: str, calls: Sequence[ToolCall] = (), reasoning: str = "") -> Item:
    parts: list[Item] = []
    if reasoning:
        parts.append({"type": "reasoning", "content": clean(reasoning)})
    if text:
        parts.append(_text(text))
    parts += [
        {"type": "tool_call", "id": clean(c.id), "name": clean(c.name), "arguments": _arguments(c.arguments)}
        for c in calls
    ]
    return {"role": "assistant", "parts": parts}


def _text(text: str) -> Item:
    return {"type": "text", "content": clean(text)}


def _arguments(text: str) -> Any:
    """Return arguments as an object where they are one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return clean(text)
    return value if isinstance(value, dict) else clean(text)
