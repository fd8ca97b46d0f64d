"""What a conversation is made of: small immutable messages, one class per kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal

from .errors import ConfigError


def clean(text: str) -> str:
    """Return `text` with lone surrogates replaced by U+FFFD, so that it can be sent, stored and exported.

    >>> clean("a\\ud800b") == "a\\ufffdb"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Pairs that arrived as two halves become one character; only halves without a partner are replaced.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool.

    Attributes:
        id: unique within the conversation; the tool's result carries it too.
        name: the tool's name as the model wrote it.
        arguments: JSON text as the model wrote it; it may be broken.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says."""

    kind: ClassVar[Literal["user"]] = "user"
    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A model's reply: text, tool calls, or both."""

    kind: ClassVar[Literal["assistant"]] = "assistant"
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The one result of one tool call.

    Attributes:
        call_id: the id of the `ToolCall` that this answers.
        name: the tool's name.
        text: what the model reads.
        failed: the tool did not do its work; `text` says why.
    """

    kind: ClassVar[Literal["tool"]] = "tool"
    call_id: str
    name: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class FeedbackMessage:
    """A message injected by the runtime: after a failed check, or by a hook. Models see it in the user role.

    Attributes:
        text: what the model reads.
        source: `check`, `output` (the answer did not fit the output type), `on_step` or `delegation`.
        hidden: clients are asked not to show it; the model still gets it.
    """

    kind: ClassVar[Literal["feedback"]] = "feedback"
    text: str
    source: Literal["check", "output", "on_step", "delegation"] = "check"
    hidden: bool = False


Message = UserMessage | AssistantMessage | ToolMessage | FeedbackMessage

_KINDS: dict[str, type[Message]] = {
    cls.kind: cls for cls in (UserMessage, AssistantMessage, ToolMessage, FeedbackMessage)
}


def message_to_dict(message: Message) -> dict[str, Any]:
    """Return a message as plain JSON-ready data; `message_from_dict` reads it back."""
    return {"kind": message.kind, **asdict(message)}


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Read a message from what `message_to_dict` wrote. Unknown fields are ignored.

    Raises:
        ConfigError: the kind is unknown, a field is missing, or a text is none.
    """
    cls = _KINDS.get(str(data.get("kind")))
    if cls is None:
        raise ConfigError("kind", data.get("kind"), f"a message is one of {', '.join(_KINDS)}")
    known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
    try:
        if "tool_calls" in known:
            known["tool_calls"] = tuple(ToolCall(c["id"], c["name"], c["arguments"]) for c in known["tool_calls"])
        message = cls(**known)
    except (KeyError, TypeError) as error:
        raise ConfigError("message", dict(data), f"it lacks a field or has a wrong one: {error}") from error
    for part in (message, *known.get("tool_calls", ())):
        for f in fields(part):
            if f.type == "str" and not isinstance(value := getattr(part, f.name), str):
                raise ConfigError(f"the {f.name} of a message", value, "a text")
    return message


def drop_foreign_calls(messages: Iterable[Message], tools: Iterable[str]) -> list[Message]:
    """Return `messages` without calls of tools that are not in `tools`, each call together with its result.

    Model servers want each call answered once, directly after it. So a call without a result and a result without a
    call are dropped too, and a result that comes later moves to its call. An assistant message that is left with
    neither text nor calls goes as well.
    """
    messages = list(messages)
    own = set(tools)
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
    kept: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage) and message.tool_calls:
            answered = {c.id: c for c in message.tool_calls if c.name in own and c.id in results}
            calls = tuple(answered.values())
            if calls or message.text:
                kept.append(message if calls == message.tool_calls else replace(message, tool_calls=calls))
            kept.extend(results.pop(call.id) for call in calls)
        elif not isinstance(message, ToolMessage):
            kept.append(message)
    return kept


def as_messages(history: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    """Read a history: messages, or the mappings that `message_to_dict` wrote.

    Raises:
        ConfigError: an entry is neither.
    """
    out: list[Message] = []
    for entry in history:
        if isinstance(entry, UserMessage | AssistantMessage | ToolMessage | FeedbackMessage):
            out.append(entry)
        elif isinstance(entry, Mapping):
            out.append(message_from_dict(entry))
        else:
            raise ConfigError("history", entry, "a history holds messages, such as `result.messages` of an earlier run")
    return out
