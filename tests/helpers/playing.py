"""Running an agent in a test, and reading what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio

from alfine import Agent, RunError, RunResult, Score, ScorerInput
from alfine.runtime.events import Event
from alfine.testing import ScriptedModel, Turn

E = TypeVar("E", bound=Event)


async def play(agent: Agent[Any], prompt: str = "Do it", **options: Any) -> tuple[RunResult[Any], list[Event]]:
    """Run to the end; return the result, also of a run that failed, and all events."""
    with anyio.fail_after(20):
        async with agent.stream(prompt, **options) as stream:
            events = [event async for event in stream]
            try:
                result: RunResult[Any] = await stream.result()
            except RunError as error:
                result = error.result
    return result, events


def worker(script: Sequence[Turn | str], **options: Any) -> tuple[Agent[str], ScriptedModel]:
    """Return an agent on a scripted model."""
    model = ScriptedModel(script)
    return Agent("worker", model=model, **options), model


def of(events: Sequence[Event], kind: type[E], depth: int = 0) -> list[E]:
    """Return the events of one kind and one depth."""
    return [e for e in events if isinstance(e, kind) and e.depth == depth]


class Says:
    """A scorer that answers its n-th call with the n-th of its grades; the last one repeats."""

    def __init__(self, *grades: object, id: str = "says", threshold: float = 1.0) -> None:
        self.id = id
        self.threshold = threshold
        self.grades = grades
        self.outputs: list[str] = []

    async def score(self, input: ScorerInput, /) -> Score:
        self.outputs.append(input.output)
        grade = self.grades[min(len(self.outputs), len(self.grades)) - 1]
        if isinstance(grade, BaseException):
            raise grade
        return grade  # type: ignore[return-value]  # what is no score is the point of some tests


def wants(word: str, reason: str | None = None) -> Callable[[str], Score]:
    """Return a scorer that passes when `word` is in the output."""

    def scorer(output: str) -> Score:
        return Score(float(word in output), reason=reason or f"{word} is missing")

    return scorer
