"""Supervisors with sub-agents, and what happened in their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from alfine import Agent, DelegationPolicy, RunError, RunResult
from alfine.runtime.events import Event
from alfine.testing import ScriptedModel, Turn, call
from alfine.testing.turns import ScriptedCall

E = TypeVar("E", bound=Event)


def hand(target: str, prompt: str = "do it", **more: Any) -> ScriptedCall:
    """A call that delegates."""
    return call(f"delegate_{target}", {"prompt": prompt, **more})


def asks(*calls: ScriptedCall, text: str = "") -> Turn:
    """A turn that calls tools."""
    return Turn(text, tool_calls=calls)


@dataclass
class Story:
    """A run that is over: its events and its result."""

    events: list[Event]
    result: RunResult[Any]

    def all(self, kind: type[E], depth: int | None = None) -> list[E]:
        """The events of a kind, of one depth or of all."""
        return [e for e in self.events if isinstance(e, kind) and depth in (None, e.depth)]

    def one(self, kind: type[E], depth: int | None = None) -> E:
        """The only event of a kind."""
        (event,) = self.all(kind, depth)
        return event


async def story_of(agent: Agent[Any], input: Any = "Go", **options: Any) -> Story:
    """Run to the end, also where that is an error."""
    async with agent.stream(input, **options) as stream:
        events = [event async for event in stream]
        try:
            result = await stream.result()
        except RunError as error:
            result = error.result
    return Story(events, result)


def model_of(*replies: Turn | str) -> ScriptedModel:
    """A model with these replies."""
    return ScriptedModel(list(replies))


def tool_results(model: ScriptedModel, n: int = 2) -> Sequence[str]:
    """The texts of the tool results that request `n` (from 1) ends with."""
    texts = []
    for message in reversed(model.requests[n - 1].messages):
        if message.kind != "tool":
            break
        texts.append(message.text)
    return texts[::-1]


def team(
    lead: ScriptedModel, *subs: ScriptedModel, policy: DelegationPolicy | None = None, **options: Any
) -> Agent[str]:
    """A lead with sub-agents a, b, …; `options` are those of the sub-agents."""
    agents = [
        Agent(name, model=model, instructions=f"RULES-{name}", **options)
        for name, model in zip("abc", subs, strict=False)
    ]
    return Agent("lead", model=lead, instructions="LEAD-RULES", agents=agents, delegation=policy)


async def delegate_once(
    *sub: Turn | str, policy: DelegationPolicy | None = None, run: dict[str, Any] | None = None, **options: Any
) -> tuple[Story, ScriptedModel, ScriptedModel]:
    """Let a lead delegate once; return what happened, the lead's model and the sub-agent's."""
    lead, model = model_of(asks(hand("a")), "the end"), model_of(*sub)
    return await story_of(team(lead, model, policy=policy, **options), **(run or {})), lead, model
