"""An agent's sub-agents, theirs, and so on: what has to hold of them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..runtime.errors import ConfigError
from ..runtime.limits import UsageLimits

if TYPE_CHECKING:
    from .agent import Agent

    Agents = Sequence[Agent[Any]] | Mapping[str, Agent[Any]]


def read_agents(agents: Agents) -> dict[str, Agent[Any]]:
    """Return sub-agents under their keys; in a list, an agent's key is its name.

    Raises:
        ConfigError: one is no agent, a key is blank, or two have the same key.
    """
    from .agent import Agent

    if isinstance(agents, str | bytes) or not isinstance(agents, Sequence | Mapping):
        raise ConfigError("agents", agents, "a list of agents, or a mapping of keys to agents")
    pairs = list(agents.items()) if isinstance(agents, Mapping) else [(getattr(a, "name", ""), a) for a in agents]
    named: dict[str, Agent[Any]] = {}
    for key, agent in pairs:
        if not isinstance(agent, Agent):
            raise ConfigError("agents", agent, "each one is an Agent")
        if not isinstance(key, str) or not key.strip():
            raise ConfigError("agents", key, "each key is a text that is not blank")
        if key in named:
            raise ConfigError("agents", key, "each agent needs a name, or a key in a mapping, of its own")
        named[key] = agent
    return named


def refuse_cycles(agent: Agent[Any]) -> None:
    """Raise if an agent can be reached from itself."""
    done: set[int] = set()

    def walk(at: Agent[Any], above: tuple[Agent[Any], ...]) -> None:
        if at in above:
            path = " -> ".join(a.name for a in (*above[above.index(at) :], at))
            raise ConfigError("agents", path, "an agent cannot be its own sub-agent, also not through others")
        if id(at) in done:
            return
        for sub in at.agents.values():
            walk(sub, (*above, at))
        done.add(id(at))

    walk(agent, ())


def refuse_unpriced(agent: Agent[Any], limits: UsageLimits | None) -> None:
    """Raise if a cost is limited that a model of the family has no price for.

    Args:
        limits: those of the run; those of its delegations are looked at too.
    """
    for argument, each, members in (
        ("limits", limits, _family([agent])),
        ("delegation.limits", agent.delegation.limits, _family(list(agent.agents.values()))),
    ):
        if each is None or each.cost is None:
            continue
        for member in members:
            provider, name = member.model.provider, member.model.name
            if each.price(provider, name) is None:
                allowed = f"a price for {provider}/{name}, since cost is limited"
                raise ConfigError(f"{argument}.prices", sorted(each.prices), allowed)


def _family(agents: list[Agent[Any]]) -> Iterator[Agent[Any]]:
    """Yield agents and all that are under them, each once."""
    seen: set[int] = set()
    while agents:
        at = agents.pop()
        if id(at) not in seen:
            seen.add(id(at))
            yield at
            agents.extend(at.agents.values())
