"""A model request as the bytes of a Chat Completions request. What a run sends again and again is written once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from ..errors import ConfigError
from ..json_text import is_json_object, write_json
from ..messages import AssistantMessage, Message, ToolCall, ToolMessage, clean
from .endpoints import Renames
from .protocol import ModelRequest, ModelSettings, OutputSchema, ToolDefinition

_MEMO = "chat_completions"
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
_NOT_IN_A_SCHEMA_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_STRICT_KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"),
    *("description", "title", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minItems", "maxItems"),
}


@dataclass(slots=True)
class WireMemo:
    """What a run has turned into bytes so far. `call_ids` are the ids of the calls in `messages`."""

    messages: list[Message] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    instructions: str = ""
    system: bytes = b""
    tools: Sequence[ToolDefinition] = ()
    tools_json: bytes = b""

    @classmethod
    def of(cls, request: ModelRequest) -> WireMemo:
        """Return the memo of the request's run, brought up to date with its messages, instructions and tools."""
        memo: WireMemo = request.memo.setdefault(_MEMO, cls())
        memo._update(request)
        return memo

    def _update(self, request: ModelRequest) -> None:
        known = len(self.messages)
        if known > len(request.messages) or not all(map(is_, self.messages, request.messages)):
            # Not the list that grew: another conversation, or a message was replaced.
            self.messages.clear()
            self.encoded.clear()
            self.call_ids.clear()
            known = 0
        for message in request.messages[known:]:
            self.messages.append(message)
            self.encoded.append(write_json(message_body(message)))
            if isinstance(message, AssistantMessage):
                self.call_ids.update(call.id for call in message.tool_calls)
        if request.instructions != self.instructions:
            self.instructions = request.instructions
            self.system = write_json({"role": "system", "content": clean(request.instructions)})
        if len(request.tools) != len(self.tools) or not all(map(is_, self.tools, request.tools)):
            self.tools = tuple(request.tools)
            self.tools_json = write_json([_tool_body(tool) for tool in self.tools])


def request_body(request: ModelRequest, memo: WireMemo, model: str, settings: ModelSettings, renames: Renames) -> bytes:
    """Return the body of a streaming Chat Completions request.

    Args:
        renames: fields that the server calls otherwise, or refuses (None).

    Raises:
        ConfigError: `extra_body` or the output's schema cannot be written as JSON.
    """
    fields = _fields(request, model, settings, renames)
    parts: list[bytes] = []
    for name, value in fields.items():
        try:
            parts.append(b"%s:%s" % (write_json(name), write_json(value)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"settings.{name}", value, "what can be written as JSON") from error
    if request.tools and "tools" not in fields:
        parts.append(b'"tools":%s' % memo.tools_json)
    if "messages" not in fields:
        messages = [memo.system, *memo.encoded] if request.instructions else memo.encoded
        parts.append(b'"messages":[%s]' % b",".join(messages))
    return b"{%s}" % b",".join(parts)


def message_body(message: Message) -> dict[str, Any]:
    """Return a message in the shape of Chat Completions."""
    if isinstance(message, AssistantMessage):
        if not message.tool_calls:
            return {"role": "assistant", "content": clean(message.text)}
        calls = [_call_body(call) for call in message.tool_calls]
        return {"role": "assistant", "content": clean(message.text) or None, "tool_calls": calls}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": clean(message.call_id), "content": clean(message.text)}
    return {"role": "user", "content": clean(message.text)}


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether servers accept `schema` for strict output: closed objects, all fields required, known keywords only."""
    return schema.get("type") == "object" and _is_strict(schema)


def _fields(request: ModelRequest, model: str, settings: ModelSettings, renames: Renames) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_tokens,
        "seed": settings.seed,
        "stop": list(settings.stop) if settings.stop else None,
        "reasoning_effort": settings.reasoning_effort,
        "response_format": _response_format(request.output) if request.output else None,
    }
    if request.tools:
        # Servers refuse these two where there are no tools.
        fields["tool_choice"] = _tool_choice(settings.tool_choice)
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    for name, other in renames.items():
        value = fields.pop(name, None)
        if other is not None:
            fields[other] = value
    return {name: value for name, value in fields.items() if value is not None} | dict(settings.extra_body or {})


def _call_body(call: ToolCall) -> dict[str, Any]:
    function = {"name": _function_name(call.name), "arguments": _call_arguments(call.arguments)}
    return {"id": clean(call.id), "type": "function", "function": function}


def _function_name(name: str) -> str:
    # A model may have called a tool by a name that servers refuse in a history.
    return _NOT_IN_A_NAME.sub("_", name)[:64] or "unknown"


def _call_arguments(text: str) -> str:
    """Return arguments that every server accepts. Strict ones answer 400 to broken JSON, and would for ever."""
    if not text.strip():
        return "{}"
    if is_json_object(text):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    # Readable, yet not by the letter: half characters or NaN.
    return write_json(value if isinstance(value, dict) else {"invalid_arguments": clean(text)}).decode()


def _tool_body(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": clean(tool.description), "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _tool_choice(choice: str | None) -> object:
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _response_format(output: OutputSchema) -> dict[str, Any]:
    name = _NOT_IN_A_SCHEMA_NAME.sub("_", output.name)[:64] or "output"
    body: dict[str, Any] = {"name": name, "schema": dict(output.schema)}
    if is_strict(output.schema):
        body["strict"] = True
    return {"type": "json_schema", "json_schema": body}


def _is_strict(schema: object) -> bool:
    if not isinstance(schema, Mapping) or not _STRICT_KEYWORDS.issuperset(schema):
        return False
    properties = schema.get("properties") or {}
    if (properties or schema.get("type") == "object") and (
        schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != set(properties)
    ):
        return False
    inner = [*properties.values(), *(schema.get("$defs") or {}).values(), *(schema.get("anyOf") or ())]
    if "items" in schema:
        inner.append(schema["items"])
    return all(map(_is_strict, inner))
