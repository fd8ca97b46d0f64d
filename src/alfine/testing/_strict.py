"""What OpenAI's server refuses with HTTP 400 in a chat completion request, as far as agents get it wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_ROLES = ("system", "developer", "user", "assistant", "tool")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def problem(body: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a request's body, or None."""
    return next(_tool_problems(body), None) or next(_message_problems(body.get("messages")), None)


def _tool_problems(body: Mapping[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    if tools is None:
        yield from (f"{key} needs tools" for key in ("tool_choice", "parallel_tool_calls") if key in body)
        return
    if not isinstance(tools, list) or not tools:
        yield "tools: must be a list that is not empty"
        return
    seen: set[str] = set()
    for i, tool in enumerate(tools):
        function: object = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            yield f"tools[{i}].function.name: {name!r} does not match {_TOOL_NAME.pattern}"
            continue
        if name in seen:
            yield f"tools[{i}].function.name: {name!r} is there twice"
        seen.add(name)


def _message_problems(messages: object) -> Iterator[str]:
    if not isinstance(messages, list) or not messages:
        yield "messages: must be a list that is not empty"
        return
    open_calls: dict[str, int] = {}
    for i, message in enumerate(messages):
        at = f"messages[{i}]"
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in _ROLES:
            yield f"{at}.role: {role!r} is not one of {', '.join(_ROLES)}"
            return
        if role == "tool":
            call_id = message.get("tool_call_id")
            if open_calls.pop(str(call_id), None) is None:
                yield f"{at}: a tool message answers {call_id!r}, which no preceding tool call waits for"
        elif open_calls:
            break
        if not isinstance(message.get("content"), str | list) and not _may_lack_content(message):
            yield f"{at}.content: is missing"
        if message.get("tool_calls") is not None:
            yield from _call_problems(f"{at}.tool_calls", message["tool_calls"], open_calls, i)
    for call_id, i in open_calls.items():
        yield f"messages[{i}]: tool call {call_id!r} is not followed by a tool message that answers it"


def _may_lack_content(message: Mapping[str, Any]) -> bool:
    return message["role"] == "assistant" and bool(message.get("tool_calls") or message.get("refusal"))


def _call_problems(at: str, calls: object, open_calls: dict[str, int], i: int) -> Iterator[str]:
    """Yield what is wrong with the calls of message `i`, and note their ids in `open_calls`."""
    if not isinstance(calls, list) or not calls:
        yield f"{at}: must be a list that is not empty"
        return
    for j, wanted in enumerate(calls):
        function = wanted.get("function") if isinstance(wanted, Mapping) else None
        call_id = wanted.get("id") if isinstance(wanted, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            yield f"{at}[{j}].function.name: is missing"
        elif not _is_json(function.get("arguments")):
            yield f"{at}[{j}].function.arguments: is not valid JSON"
        if not isinstance(call_id, str) or not call_id:
            yield f"{at}[{j}].id: is missing"
        elif call_id in open_calls:
            yield f"{at}[{j}].id: {call_id!r} is there twice"
        open_calls[str(call_id)] = i


def _is_json(arguments: object) -> bool:
    if not isinstance(arguments, str):
        return False
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True
