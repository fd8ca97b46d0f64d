"""What both doubles do with a script: find the turn for a request, and spell a turn out in parts."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from alfine.runtime.errors import ConfigError, ModelError
from alfine.runtime.models import ReasoningPart, TextPart, ToolCallPart

from .turns import Answer, R, Script, Turn, cut_arguments

OutputPart = TextPart | ReasoningPart | ToolCallPart


class Player(Generic[R]):
    """Hands out the turns of one script, in the order in which requests come."""

    def __init__(self, script: Script[R]) -> None:
        self._function = script if callable(script) else None
        self._turns: list[Turn] = []
        if not callable(script):
            if isinstance(script, str | bytes) or not isinstance(script, Sequence):
                raise ConfigError("script", script, "a list of turns and texts, or a function of the request")
            self._turns = [_as_turn(answer) for answer in script]
        self._asked = 0

    async def turn(self, request: R, model: str) -> Turn:
        """Return the turn that answers `request`.

        Raises:
            ModelError: the script has no turn left.
            ConfigError: a function returned something that is not a turn.
        """
        if self._function is not None:
            answer = self._function(request)
            return _as_turn(await answer if inspect.isawaitable(answer) else answer)
        self._asked += 1
        if self._asked <= len(self._turns):
            return self._turns[self._asked - 1]
        if self._turns and self._turns[-1].repeat:
            return self._turns[-1]
        raise ModelError(
            f"script exhausted: request {self._asked} to {model!r}, but the script has {len(self._turns)} turn(s)",
            model=model,
            status=400,
        )


def _as_turn(answer: Answer) -> Turn:
    if isinstance(answer, str):
        return Turn(answer)
    if not isinstance(answer, Turn):
        raise ConfigError("script", answer, "each answer is a Turn or a text")
    return answer


def call_ids() -> Callable[[], str]:
    """Return a source of ids: `call_1`, `call_2`, ..."""
    numbers = itertools.count(1)
    return lambda: f"call_{next(numbers)}"


def parts(turn: Turn, new_id: Callable[[], str]) -> Iterator[OutputPart]:
    """Spell out what a turn says: reasoning, text, then each call, begun by a part without arguments."""
    if turn.reasoning:
        yield ReasoningPart(turn.reasoning)
    for piece in turn.pieces:
        yield TextPart(piece)
    for position, wanted in enumerate(turn.tool_calls):
        call_id = wanted.id if wanted.id is not None else new_id()
        yield ToolCallPart(position, call_id, wanted.name, "")
        for piece in cut_arguments(wanted.arguments):
            yield ToolCallPart(position, call_id, wanted.name, piece)
