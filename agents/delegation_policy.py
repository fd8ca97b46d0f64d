"""How a supervisor delegates: what its user decides, and what the hooks are told and may decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..runtime.errors import ConfigError
from ..runtime.limits import UsageLimits
from ..runtime.messages import Message
from ..runtime.run import RunResult
from ..runtime.tools import RunContext
from .options import read_count, read_hook, read_instance


@dataclass(frozen=True, slots=True)
class DelegationStart:
    """What an `on_start` hook is told: who delegates (`context`), to whom, and with which prompt."""

    context: RunContext
    target: str
    prompt: str


@dataclass(frozen=True, slots=True)
class StartDecision:
    """What an `on_start` hook decides.

    Attributes:
        proceed: False rejects the delegation; the supervisor reads `reason` as its result.
        prompt: replaces the prompt.
        instructions: added to the sub-agent's own.
        max_steps: for the sub-run, at least 1.

    Raises:
        ConfigError: a value is not allowed.
    """

    proceed: bool = True
    reason: str = ""
    prompt: str | None = None
    instructions: str | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.proceed, bool):
            raise ConfigError("proceed", self.proceed, "True or False")
        _read_texts(self, "reason", "prompt", "instructions")
        if self.prompt is not None and not self.prompt.strip():
            raise ConfigError("prompt", self.prompt, "a text that is not blank, or None")
        if self.max_steps is not None:
            read_count("max_steps", self.max_steps)


@dataclass(frozen=True, slots=True)
class DelegationEnd:
    """What an `on_finish` hook is told.

    Attributes:
        text: the sub-agent's answer; None when the delegation failed.
        run: the sub-run's result, its messages and its usage.
    """

    context: RunContext
    target: str
    prompt: str
    text: str | None
    run: RunResult[Any]

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return self.text is None


@dataclass(frozen=True, slots=True)
class FinishDecision:
    """What an `on_finish` hook decides.

    Attributes:
        text: replaces the result that the supervisor reads.
        feedback: a message that the supervisor's next call sees.
        bail: the sub-agent's answer is the run's answer; the run ends as `bailed`. A failed delegation cannot,
            unless `text` gives it a result.

    Raises:
        ConfigError: a value is not allowed.
    """

    text: str | None = None
    feedback: str | None = None
    bail: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.bail, bool):
            raise ConfigError("bail", self.bail, "True or False")
        _read_texts(self, "text", "feedback")


OnStart = Callable[[DelegationStart], StartDecision | Awaitable[StartDecision | None] | None]
OnFinish = Callable[[DelegationEnd], FinishDecision | Awaitable[FinishDecision | None] | None]
MessageFilter = Callable[[Sequence[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationPolicy:
    """How a supervisor delegates.

    Attributes:
        on_start: may reject a delegation or change it. If it raises, the sub-agent is not called.
        on_finish: may change the result, add feedback or bail. If it raises, the result stays as it is.
        context: `prompt`: the sub-agent sees its prompt only; `conversation`: the supervisor's conversation too,
            never its instructions.
        message_filter: which of the supervisor's messages the sub-agent sees before its prompt, instead of `context`.
            If it raises, the sub-agent is not called.
        include_tool_results: what the sub-agent's tools returned is added to the result that the supervisor reads.
        limits: of each sub-run; what it uses counts on the supervisor's limits too.
        max_steps: of each sub-run, instead of the sub-agent's own.
        max_depth: how deep delegations may nest below the outermost run, at least 1. Sub-agents may lower it for what
            is below them.
        max_parallel: how many tool calls of one step, delegations included, run side by side, at least 1.
    """

    on_start: OnStart | None = None
    on_finish: OnFinish | None = None
    context: Literal["prompt", "conversation"] = "prompt"
    message_filter: MessageFilter | None = None
    include_tool_results: bool = False
    limits: UsageLimits | None = None
    max_steps: int | None = None
    max_depth: int = 5
    max_parallel: int = 8

    def __post_init__(self) -> None:
        if self.context not in ("prompt", "conversation"):
            raise ConfigError("delegation.context", self.context, "one of prompt, conversation")
        for name in ("on_start", "on_finish", "message_filter"):
            read_hook(f"delegation.{name}", getattr(self, name))
        read_instance("delegation.limits", self.limits, UsageLimits)
        for name in ("max_steps", "max_depth", "max_parallel"):
            value = getattr(self, name)
            if value is not None or name != "max_steps":
                read_count(f"delegation.{name}", value)


def _read_texts(decision: object, *names: str) -> None:
    for name in names:
        value = getattr(decision, name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(name, value, "a text")
