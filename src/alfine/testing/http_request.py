"""A request as a `FakeOpenAI` received it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .gates import Gate


@dataclass(slots=True, kw_only=True, eq=False)
class HttpRequest:
    """One chat completion request over HTTP.

    >>> body = {"messages": [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hi"}]}
    >>> request = HttpRequest(model="gpt-5-mini", n=1, body=body, headers={})
    >>> request.instructions, request.texts
    ('Be kind', ['Hi'])

    Attributes:
        model: the model's name in the request.
        n: which request to this model, from 1.
        body: the parsed body.
        headers: names in lower case.
        status: the HTTP status of the answer; None before it, and where the connection was cut before the head.
        ended: opens when the server is done with the request, for whatever reason.
        disconnected: the client went away while the server waited or streamed; final once `ended` is open. An answer
            without pauses leaves in one write, so that nobody notices a client that reads only half of it.
    """

    model: str
    n: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    status: int | None = None
    ended: Gate = field(default_factory=Gate)
    disconnected: bool = False

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """The messages of the body."""
        found = self.body.get("messages")
        return [m for m in found if isinstance(m, Mapping)] if isinstance(found, list) else []

    @property
    def instructions(self) -> str:
        """The text of the system and developer messages."""
        return "\n".join(content(m) for m in self.messages if _is_instruction(m))

    @property
    def texts(self) -> list[str]:
        """The text of each message, in order, without the instructions."""
        return [content(m) for m in self.messages if not _is_instruction(m)]

    @property
    def text(self) -> str:
        """All that the model is shown, in one text: the content of messages and the arguments of tool calls."""
        shown: list[str] = []
        for message in self.messages:
            shown.append(content(message))
            shown += [str(function.get("arguments", "")) for function in _functions(message.get("tool_calls"))]
        return "\n".join(shown)

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that the model may call."""
        return [str(function.get("name", "")) for function in _functions(self.body.get("tools"))]


def content(message: Mapping[str, Any]) -> str:
    """Return the text of a message, whose content is a text or a list of parts."""
    found = message.get("content")
    if isinstance(found, list):
        return "".join(str(part.get("text", "")) for part in found if isinstance(part, Mapping))
    return found if isinstance(found, str) else ""


def _is_instruction(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("system", "developer")


def _functions(entries: object) -> Iterator[Mapping[str, Any]]:
    for entry in entries if isinstance(entries, list) else []:
        function = entry.get("function") if isinstance(entry, Mapping) else None
        if isinstance(function, Mapping):
            yield function
