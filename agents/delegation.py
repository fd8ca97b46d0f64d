"""Delegation: a supervisor hands work to a sub-agent through a tool call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..runtime.errors import ConfigError
from ..runtime.events import DelegationFinished, DelegationStarted
from ..runtime.hooks import call_hook
from ..runtime.journal import ChildRun, Journal, Op
from ..runtime.limits import UsageLimits
from ..runtime.loop import run_loop
from ..runtime.messages import AssistantMessage, Message, ToolMessage, as_messages, clean, drop_foreign_calls
from ..runtime.models import ToolDefinition
from ..runtime.run import Run, RunResult
from ..runtime.tools import CallContext, RunContext, ToolResult

if TYPE_CHECKING:
    from .agent import Agent


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
    """

    proceed: bool = True
    reason: str = ""
    prompt: str | None = None
    instructions: str | None = None
    max_steps: int | None = None


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
        bail: the sub-agent's answer is the run's answer; the run ends as `bailed`. A failed delegation cannot.
    """

    text: str | None = None
    feedback: str | None = None
    bail: bool = False


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
        max_depth: how deep delegations may nest below the outermost run, at least 1.
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
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"delegation.{name}", getattr(self, name), "a function, or None")
        for name in ("max_steps", "max_depth", "max_parallel"):
            value = getattr(self, name)
            if value is None and name == "max_steps":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"delegation.{name}", value, "a whole number, at least 1")


class _Refused(Exception):
    """The delegation does not take place; the text is what the supervisor reads."""

    def __init__(self, text: str, *, rejected: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.rejected = rejected


class DelegationTool:
    """The tool through which a supervisor calls one sub-agent. The model may give the prompt, and nothing else."""

    def __init__(self, name: str, agent: Agent[Any], policy: DelegationPolicy) -> None:
        self.agent = agent
        self.target = agent.name
        self.policy = policy
        about = agent.description or f"The agent {agent.name!r}."
        self.definition = ToolDefinition(
            name,
            f"Hand a task to the agent {agent.name!r} and get its answer. {about}",
            {
                "type": "object",
                "properties": {
                    "prompt": {
                        "type": "string",
                        "description": "The task, with everything that the agent has to know to do it.",
                    }
                },
                "required": ["prompt"],
                "additionalProperties": False,
            },
        )

    def plan(self, context: CallContext) -> ChildRun[ToolResult]:
        """Say how the delegation is carried out."""

        async def body(journal: Journal) -> ToolResult:
            return await _Delegation(self, context, journal).carry_out()

        return ChildRun(context.key, body)


@dataclass(slots=True)
class _Delegation:
    """One delegation on its way."""

    tool: DelegationTool
    context: CallContext
    journal: Journal
    prompt: str = ""
    started: bool = False
    child_run_id: str = field(init=False)

    def __post_init__(self) -> None:
        run = self.context.run
        self.child_run_id = f"{run.spec.run_id}.{self.context.step}.{self.context.position}"

    async def carry_out(self) -> ToolResult:
        try:
            child = await self._prepare()
        except _Refused as refusal:
            await self._finished(refusal.text if refusal.rejected else None, None, rejected=refusal.rejected)
            return ToolResult(refusal.text, failed=not refusal.rejected)
        run, context = self.context.run, self.context
        await run.emit(
            DelegationStarted(
                *run.head,
                context.step,
                context.position,
                context.call.id,
                self.tool.target,
                self.prompt,
                self.child_run_id,
            )
        )
        self.started = True
        try:
            result: RunResult[Any] = await run_loop(child)
        except BaseException:
            run.show_now(self._finished_event(None, child.finish()))
            raise
        return await self._conclude(result)

    async def _prepare(self) -> Run:
        """Return the sub-run, or raise `_Refused`."""
        run, policy, agent = self.context.run, self.tool.policy, self.tool.agent
        self.prompt = await self._read_prompt()
        if agent in run.spec.lineage:
            raise _Refused(f"The agent {agent.name!r} is already at work above this one; it cannot be called again.")
        if run.spec.depth >= policy.max_depth:
            raise _Refused(f"Delegations may nest {policy.max_depth} deep; do the work yourself.")
        decision = await self._ask_on_start()
        if not decision.proceed:
            raise _Refused(decision.reason or "The delegation was rejected.", rejected=True)
        if decision.prompt is not None:
            self.prompt = decision.prompt
        history = await self._seen_messages()
        spec = agent.child_spec(
            run.spec,
            prompt=clean(self.prompt),
            history=history,
            run_id=self.child_run_id,
            call_id=self.context.call.id,
            limits=policy.limits,
            max_steps=decision.max_steps or policy.max_steps,
            more_instructions=decision.instructions,
        )
        return Run(spec, self.journal, run.buffer, run.spans.child())

    async def _read_prompt(self) -> str:
        call = self.context.call
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError as error:
            raise _Refused(f'The arguments are not JSON ({error}). Give {{"prompt": "…"}}.') from error
        if not isinstance(arguments, dict):
            raise _Refused('The arguments have to be an object: {"prompt": "…"}.')
        prompt = arguments.pop("prompt", None)
        if not isinstance(prompt, str) or not prompt.strip():
            raise _Refused("prompt: a text that is not empty is required.")
        if arguments:
            names = ", ".join(sorted(arguments))
            await self.context.run.warn(
                "delegation_arguments_ignored", f"{call.name} has no arguments {names}; they were ignored"
            )
        return prompt

    async def _ask_on_start(self) -> StartDecision:
        hook = self.tool.policy.on_start
        if hook is None:
            return StartDecision()
        start = DelegationStart(self.context.run_context(), self.tool.target, self.prompt)
        decision = await self._guard("on_start", "start", hook, start)
        if decision is None:
            return StartDecision()
        if not isinstance(decision, StartDecision):
            await self._guard_failed("on_start", f"returned {decision!r}, not a StartDecision or None")
        assert isinstance(decision, StartDecision)
        return decision

    async def _seen_messages(self) -> list[Message]:
        policy, run = self.tool.policy, self.context.run
        if policy.message_filter is None and policy.context == "prompt":
            return []
        # The reply that asks for this delegation is still unanswered; nobody else can make sense of it.
        seen: Sequence[Message] = tuple(run.messages[:-1])
        if policy.message_filter is not None:
            kept = await self._guard("message_filter", "filter", policy.message_filter, seen)
            if not isinstance(kept, Sequence) or isinstance(kept, str):
                await self._guard_failed("message_filter", f"returned {kept!r}, not a list of messages")
            try:
                seen = as_messages(kept)
            except ConfigError as error:
                await self._guard_failed("message_filter", str(error))
        return drop_foreign_calls(seen, self.tool.agent.tool_names)

    async def _guard(self, name: str, key: str, hook: Callable[..., Any], argument: Any) -> Any:
        """Call a guard; if it raises, the sub-agent is not called."""
        try:
            return await self.journal.step(Op(f"{self.context.key}/{key}", lambda: call_hook(hook, argument)))
        except Exception as error:
            await self._guard_failed(name, f"raised {type(error).__name__}: {error}")

    async def _guard_failed(self, name: str, what: str) -> None:
        """Say to people what happened and to the model only that the delegation did not take place."""
        target = self.tool.target
        await self.context.run.warn(f"{name}_failed", f"{name} {what}; the agent {target!r} was not called")
        raise _Refused(f"The agent {target!r} could not be called.")

    async def _conclude(self, result: RunResult[Any]) -> ToolResult:
        run, target = self.context.run, self.tool.target
        text = _answer_of(result)
        decision = await self._ask_on_finish(result, text)
        if decision.text is not None:
            text = clean(decision.text)
        await self._finished(text, result)
        if text is None:
            return ToolResult(f"The agent {target!r} failed.", failed=True, feedback=decision.feedback)
        shown = text
        if self.tool.policy.include_tool_results:
            shown = "\n\n".join([text, *_tool_results(result)])
        if decision.bail and run.outcome is None:
            return ToolResult(shown, answer=text, feedback=decision.feedback)
        return ToolResult(shown, feedback=decision.feedback)

    async def _ask_on_finish(self, result: RunResult[Any], text: str | None) -> FinishDecision:
        hook, run = self.tool.policy.on_finish, self.context.run
        if hook is None:
            return FinishDecision()
        end = DelegationEnd(self.context.run_context(), self.tool.target, self.prompt, text, result)
        op = Op(f"{self.context.key}/finish", lambda: run.observe("on_finish", hook, end))
        decision = await self.journal.step(op)
        if decision is None or isinstance(decision, FinishDecision):
            return decision or FinishDecision()
        await run.warn(
            "on_finish_returned", f"on_finish returned {decision!r}; it has to return a FinishDecision or None"
        )
        return FinishDecision()

    async def _finished(self, text: str | None, result: RunResult[Any] | None, *, rejected: bool = False) -> None:
        await self.context.run.emit(self._finished_event(text, result, rejected=rejected))

    def _finished_event(
        self, text: str | None, result: RunResult[Any] | None, *, rejected: bool = False
    ) -> DelegationFinished:
        run, context = self.context.run, self.context
        return DelegationFinished(
            *run.head,
            context.step,
            context.position,
            context.call.id,
            self.tool.target,
            self.child_run_id if self.started else None,
            text,
            text is None,
            rejected,
            result.outcome if result else None,
            result is not None and text is not None and result.outcome in ("max_steps", "stalled", "budget"),
        )


def _answer_of(result: RunResult[Any]) -> str | None:
    """Return the sub-agent's answer; None when the delegation has failed.

    What there is at a limit is an answer that was cut off, unless there is nothing.
    """
    if result.outcome in ("error", "cancelled", "suspended"):
        return None
    if result.outcome in ("max_steps", "stalled", "budget") and not result.text:
        return None
    return result.text


def _tool_results(result: RunResult[Any]) -> list[str]:
    calls = {c.id: c for m in result.messages if isinstance(m, AssistantMessage) for c in m.tool_calls}
    lines = [
        f"{m.name}({calls[m.call_id].arguments}) returned:\n{m.text}"
        for m in result.messages
        if isinstance(m, ToolMessage) and m.call_id in calls
    ]
    return [f"Results of the tools of {result.agent!r}:", *lines] if lines else []


def delegation_tools(agents: Mapping[str, Agent[Any]], policy: DelegationPolicy) -> list[DelegationTool]:
    """Return a tool for each sub-agent, named after its key."""
    return [DelegationTool(f"delegate_{tool_name(key)}", agent, policy) for key, agent in agents.items()]


def tool_name(key: str) -> str:
    """Return `key` with everything that a tool's name may not hold replaced by an underscore."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in key)[:50]
