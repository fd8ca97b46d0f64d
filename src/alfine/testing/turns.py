"""The script language of both test doubles: a script is a list of turns, or a function that returns one."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import anyio

from alfine.runtime.errors import ConfigError
from alfine.runtime.limits import Usage
from alfine.runtime.models import FinishReason

from .gates import Gate

if TYPE_CHECKING:
    from .faults import Fault

DEFAULT_USAGE = Usage(input_tokens=10, output_tokens=5)


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call that a scripted model makes; `call` is the short way to write one.

    >>> ScriptedCall("add", '{"a": 1').arguments  # broken, as models do it
    '{"a": 1'

    Attributes:
        name: the tool's name.
        arguments: the argument text as the model is to write it; it may be broken JSON.
        id: the call's id; None for a fresh one.
    """

    name: str
    arguments: str = "{}"
    id: str | None = None


def call(name: str, args: Mapping[str, Any] | str | None = None, id: str | None = None) -> ScriptedCall:
    """Write a tool call.

    Args:
        name: the tool's name.
        args: a mapping, sent as JSON; or a text, sent word for word, so that it can be broken; None is `{}`.
        id: the call's id; None for `call_1`, `call_2`, ...

    >>> call("add", {"a": 1})
    ScriptedCall(name='add', arguments='{"a": 1}', id=None)
    """
    return ScriptedCall(name, args if isinstance(args, str) else json.dumps(dict(args or {})), id)


@dataclass(frozen=True, slots=True)
class Turn:
    """One scripted reply of a model. A plain string in a script stands for `Turn(text)`.

    >>> Turn(deltas=["Hel", "lo"]).text
    'Hello'
    >>> Turn(tool_calls=[call("search", {"q": "anyio"})]).ends_with
    'tool_calls'

    Attributes:
        text: the reply's text, streamed in a few pieces.
        deltas: the exact pieces of the text; give these or `text`.
        tool_calls: what the model asks for.
        reasoning: streamed before the text.
        finish_reason: None for `tool_calls` where there are calls, else `stop`.
        refusal: the text is a refusal.
        usage: what the server reports; None for a server that reports nothing.
        started: opened when the request arrives.
        wait: the answer is held back until this gate is open.
        wait_after: how many pieces of the answer come before the wait; 0 holds back the whole answer.
        delay: seconds before the answer. A `wait` makes a steadier test.
        chunk_delay: seconds between two pieces.
        error: raised after what the turn says, if it says something, else instead of it. Over HTTP: the error's
            `status` where it has one, else 500; after output an error object in the stream.
        fault: what goes wrong on the wire; see `alfine.testing.faults`.
        repeat: as the last turn of a list: give it again to every further request.
    """

    text: str = ""
    _: KW_ONLY
    deltas: Sequence[str] | None = None
    tool_calls: Sequence[ScriptedCall] = ()
    reasoning: str = ""
    finish_reason: FinishReason | None = None
    refusal: bool = False
    usage: Usage | None = DEFAULT_USAGE
    started: Gate | None = None
    wait: Gate | None = None
    wait_after: int = 0
    delay: float = 0
    chunk_delay: float = 0
    error: Exception | None = None
    fault: Fault | None = None
    repeat: bool = False

    def __post_init__(self) -> None:
        if self.deltas is not None:
            joined = "".join(self.deltas)
            if self.text not in ("", joined):
                raise ConfigError("deltas", self.deltas, "give the text or its pieces, not both")
            object.__setattr__(self, "text", joined)
        for name in ("wait_after", "delay", "chunk_delay"):
            if not getattr(self, name) >= 0:
                raise ConfigError(name, getattr(self, name), "a number, at least 0")
        if self.finish_reason is not None and self.finish_reason not in get_args(FinishReason):
            raise ConfigError("finish_reason", self.finish_reason, f"one of {', '.join(get_args(FinishReason))}")
        if self.error is not None and self.fault is not None:
            raise ConfigError("fault", self.fault, "a turn has an error or a fault, not both")

    @property
    def ends_with(self) -> FinishReason:
        """The finish reason that the model gives."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")

    @property
    def pieces(self) -> list[str]:
        """The text as it is streamed: `deltas`, or the text cut into a few pieces between words."""
        return list(self.deltas) if self.deltas is not None else _cut(self.text, r"\s*\S+\s*|\s+")

    async def before_answer(self) -> None:
        """Say that the request is here, and hold back the answer as long as the turn wants."""
        if self.started:
            self.started.open()
        if self.delay:
            await anyio.sleep(self.delay)
        if self.wait and not self.wait_after:
            await self.wait.wait()

    def pauses_at(self, position: int, total: int) -> bool:
        """Whether something is to happen before piece `position` of `total`; `total` itself is the end."""
        return (position > 0 and self.chunk_delay > 0) or self._waits_at(position, total)

    async def pause(self, position: int, total: int) -> None:
        """Do what is to happen there."""
        if position and self.chunk_delay:
            await anyio.sleep(self.chunk_delay)
        if self.wait and self._waits_at(position, total):
            await self.wait.wait()

    def _waits_at(self, position: int, total: int) -> bool:
        return self.wait is not None and self.wait_after > 0 and position == min(self.wait_after, total)


Answer = Turn | str

R = TypeVar("R")
Script = Sequence[Answer] | Callable[[R], Answer | Awaitable[Answer]]


def cut_arguments(arguments: str) -> list[str]:
    """Return the argument text of a tool call in the few pieces in which it is streamed."""
    return _cut(arguments, r"(?s).{1,8}")


def _cut(text: str, unit: str, most: int = 12) -> list[str]:
    # However long the text is, it comes in at most so many pieces; who wants more gives `deltas`.
    units = re.findall(unit, text)
    size = max(1, -(-len(units) // most))
    return ["".join(units[i : i + size]) for i in range(0, len(units), size)]
