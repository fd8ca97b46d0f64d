"""What `alfine run` was told, and the agent and the check that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .faults import UsageFault

if TYPE_CHECKING:
    from alfine.agents.agent import Agent
    from alfine.runtime.limits import UsageLimits
    from alfine.runtime.task_complete import TaskComplete


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `alfine run`; None where one was not given."""

    task: str
    agent: str | None = None
    model: str | None = None
    instructions: str | None = None
    rubric: str | None = None
    judge: str | None = None
    strategy: Literal["all", "any"] | None = None
    max_steps: int | None = None
    timeout: float | None = None
    budget_requests: int | None = None
    budget_tokens: int | None = None
    json: bool = False

    def check(self) -> None:
        """Raise UsageFault for options that do not go together."""
        if (self.agent is None) == (self.model is None):
            raise UsageFault("give either --agent module:name or --model provider/name")
        if self.instructions is not None and self.model is None:
            raise UsageFault("--instructions goes with --model; an agent has its own")
        if self.judge is not None and self.rubric is None:
            raise UsageFault("--judge goes with --rubric")

    def make_agent(self) -> Agent[Any]:
        """Return the agent that is to run.

        Raises:
            Fault: it cannot be imported or found.
            ConfigError: the model or its key is not usable.
        """
        if self.agent is not None:
            from .load import load_agent

            return load_agent(self.agent)
        from alfine.agents.agent import Agent

        assert self.model is not None
        return Agent("agent", model=self.model, instructions=self.instructions or "")

    def make_check(self, agent: Agent[Any]) -> TaskComplete | None:
        """Return the agent's check with the rubric and the strategy of the options; None where nothing changes.

        Raises:
            UsageFault: the rubric is none, or there is nothing for the strategy to decide.
            ConfigError: the judge or its key is not usable.
        """
        from alfine.runtime.task_complete import TaskComplete

        if self.rubric is None and self.strategy is None:
            return None
        own = agent.is_task_complete
        if self.rubric is None and own is None:
            raise UsageFault("--strategy has nothing to decide: the agent has no scorers and there is no --rubric")
        check = own or TaskComplete()
        if self.rubric is not None:
            from alfine.scorers.rubric import create_rubric_scorer

            text = read_rubric(self.rubric)
            scorer = create_rubric_scorer(model=self.judge or agent.model, criteria=text, id="rubric")
            if not scorer.criteria:
                raise UsageFault("the rubric holds no criterion; write one on each line")
            check = replace(check, scorers=(*check.scorers, scorer))
        return replace(check, strategy=self.strategy) if self.strategy else check

    def make_limits(self, agent: Agent[Any]) -> UsageLimits | None:
        """Return the agent's limits with those of the options; None where nothing changes."""
        from alfine.runtime.limits import UsageLimits

        limits = agent.limits or UsageLimits()
        if self.timeout is not None:
            limits = replace(limits, wall_time=self.timeout)
        if self.budget_requests is not None:
            limits = replace(limits, requests=self.budget_requests)
        if self.budget_tokens is not None:
            limits = replace(limits, total_tokens=self.budget_tokens)
        return None if limits == UsageLimits() else limits


def read_rubric(given: str) -> str:
    """Return the rubric: what the file says, if `given` is the path of one, else `given` itself.

    Raises:
        UsageFault: the file cannot be read, or `given` looks like a path and there is no such file.
    """
    if not given.strip():
        return given  # no path, though Path("") is the current directory
    path = Path(given)
    try:
        is_there = path.exists()
    except (OSError, ValueError):
        is_there = False  # too long for a path, or not possible in one
    if is_there:
        try:
            return path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageFault(f"cannot read the rubric {given}: {error}") from error
    looks_like_path = len(given.split()) == 1 and path.suffix.lower() in (".md", ".txt", ".rst", ".markdown")
    if looks_like_path:
        raise UsageFault(f"there is no rubric file {given!r}; give a file that exists, or the criteria themselves")
    return given
