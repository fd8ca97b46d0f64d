"""Delegation: a supervisor hands work to a sub-agent through a tool call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ..runtime.errors import ConfigError, text_of
from ..runtime.events import DelegationFinished, DelegationStarted
from ..runtime.hooks import call_hook
from ..runtime.journal import ChildRun, Journal, LimitReached, Op
from ..runtime.loop import run_loop
from ..runtime.messages import AssistantMessage, Message, ToolMessage, as_messages, clean, drop_foreign_calls
from ..runtime.models import ToolDefinition
from ..runtime.run import Run, RunResult
from ..runtime.tools import CallContext, ToolResult
from .delegation_policy import DelegationEnd, DelegationPolicy, DelegationStart, FinishDecision, StartDecision

if TYPE_CHECKING:
    from .agent import Agent


class _Refused(Exception):
    """The delegation does not take place; the text is what the supervisor reads."""

    def __init__(self, text: str, *, rejected: bool = False) -> None:
        super().__init__(text)
        self.text = clean(text)
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
    started: DelegationStarted | None = None
    finished: DelegationFinished | None = None
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
        self.started = DelegationStarted(
            *run.head,
            context.step,
            context.position,
            context.call.id,
            self.tool.target,
            self.prompt,
            self.child_run_id,
        )
        try:
            await run.emit(self.started)
            result: RunResult[Any] = await run_loop(child)
            return await self._conclude(child, result)
        except BaseException:
            if self.started.seq and not (self.finished and self.finished.seq):
                run.show_now(self._finished_event(None, child.finish()))
            raise

    async def _prepare(self) -> Run:
        """Return the sub-run, or raise `_Refused`."""
        run, policy, agent = self.context.run, self.tool.policy, self.tool.agent
        self.prompt = await self._read_prompt()
        if agent in run.spec.lineage:
            raise _Refused(f"The agent {agent.name!r} is already at work above this one; it cannot be called again.")
        deepest = min(above.delegation.max_depth for above in cast("tuple[Agent[Any], ...]", run.spec.lineage))
        if run.spec.depth >= deepest:
            raise _Refused(f"Delegations may nest {deepest} deep; do the work yourself.")
        decision = await self._ask_on_start()
        if not decision.proceed:
            raise _Refused(decision.reason or "The delegation was rejected.", rejected=True)
        if decision.prompt is not None:
            self.prompt = clean(decision.prompt)
        history = await self._seen_messages()
        spec = agent.child_spec(
            run.spec,
            prompt=self.prompt,
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
            # Not strict: models do write line breaks into strings.
            arguments = json.loads(call.arguments.strip() or "{}", strict=False)
        except (ValueError, RecursionError) as error:
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
        return clean(prompt)

    async def _ask_on_start(self) -> StartDecision:
        hook = self.tool.policy.on_start
        if hook is None:
            return StartDecision()
        start = DelegationStart(self.context.run_context(), self.tool.target, self.prompt)
        decision = await self._guard("on_start", "start", hook, start)
        if isinstance(decision, StartDecision | None):
            return decision or StartDecision()
        raise await self._guard_failed("on_start", f"returned {decision!r}, not a StartDecision or None")

    async def _seen_messages(self) -> list[Message]:
        policy, run = self.tool.policy, self.context.run
        if policy.message_filter is None and policy.context == "prompt":
            return []
        # The reply that asks for this delegation is still unanswered; nobody else can make sense of it.
        seen: Sequence[Message] = tuple(run.messages[:-1])
        if policy.message_filter is not None:
            kept = await self._guard("message_filter", "filter", policy.message_filter, seen)
            if not isinstance(kept, Sequence) or isinstance(kept, str):
                raise await self._guard_failed("message_filter", f"returned {kept!r}, not a list of messages")
            try:
                seen = as_messages(kept)
            except ConfigError as error:
                raise await self._guard_failed("message_filter", str(error)) from error
        return drop_foreign_calls(seen, self.tool.agent.tool_names)

    async def _guard(self, name: str, key: str, hook: Callable[..., Any], argument: Any) -> Any:
        """Call a guard; if it raises or takes too long, the sub-agent is not called."""
        try:
            value = await self._act(key, lambda: call_hook(hook, argument))
        except Exception as error:
            raise await self._guard_failed(name, f"raised {type(error).__name__}: {text_of(error)}") from error
        if isinstance(value, LimitReached):
            raise await self._guard_failed(name, "was cut: the run's time is used up")
        return value

    async def _guard_failed(self, name: str, what: str) -> _Refused:
        """Say to people what happened; return what says to the model only that the delegation did not take place."""
        target = self.tool.target
        await self.context.run.warn(f"{name}_failed", f"{name} {what}; the agent {target!r} was not called")
        return _Refused(f"The agent {target!r} could not be called.")

    async def _act(self, key: str, body: Callable[[], Awaitable[Any]]) -> Any:
        """Carry out an effect within the run's time; `LimitReached` once that is used up."""
        deadlines = self.context.run.spec.deadlines
        return await self.journal.step(Op(f"{self.context.key}/{key}", body, deadlines=deadlines))

    async def _conclude(self, child: Run, result: RunResult[Any]) -> ToolResult:
        target = self.tool.target
        text = _answer_of(result)
        decision = await self._ask_on_finish(result, text)
        if decision.text is not None:
            text = clean(decision.text)
        await self._finished(text, result)
        if text is None:
            return ToolResult(f"The agent {target!r} failed.", failed=True, feedback=decision.feedback)
        shown = text
        if self.tool.policy.include_tool_results:
            # What the sub-agent was shown of the supervisor's conversation is not its own work.
            shown = "\n\n".join([text, *_tool_results(result.agent, result.messages[len(child.spec.messages) :])])
        return ToolResult(shown, answer=text if decision.bail else None, feedback=decision.feedback)

    async def _ask_on_finish(self, result: RunResult[Any], text: str | None) -> FinishDecision:
        hook, run = self.tool.policy.on_finish, self.context.run
        if hook is None:
            return FinishDecision()
        end = DelegationEnd(self.context.run_context(), self.tool.target, self.prompt, text, result)
        decision = await self._act("finish", lambda: run.observe("on_finish", hook, end))
        if isinstance(decision, LimitReached):
            await run.warn("on_finish_cut", "on_finish was cut: the run's time is used up; the result stays as it is")
            return FinishDecision()
        if isinstance(decision, FinishDecision | None):
            return decision or FinishDecision()
        await run.warn(
            "on_finish_returned", f"on_finish returned {decision!r}; it has to return a FinishDecision or None"
        )
        return FinishDecision()

    async def _finished(self, text: str | None, result: RunResult[Any] | None, *, rejected: bool = False) -> None:
        self.finished = self._finished_event(text, result, rejected=rejected)
        await self.context.run.emit(self.finished)

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
            result is not None and text is not None and _is_cut_off(result),
        )


_LIMITS = ("max_steps", "stalled", "budget")


def _answer_of(result: RunResult[Any]) -> str | None:
    """Return the sub-agent's answer; None when the delegation has failed.

    What there is at a limit is an answer that was cut off, unless there is nothing.
    """
    if result.outcome in ("error", "cancelled", "suspended"):
        return None
    if not result.text and _is_cut_off(result):
        return None
    return result.text


def _is_cut_off(result: RunResult[Any]) -> bool:
    """Whether a limit of the run, or of the length of its answer, came before the end."""
    cut_steps = [step.number for step in result.steps if step.finish_reason == "length"]
    return result.outcome in _LIMITS or (result.answer_step or len(result.steps)) in cut_steps


def _tool_results(agent: str, messages: Sequence[Message]) -> list[str]:
    calls = {c.id: c for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls}
    lines = [
        f"{m.name}({calls[m.call_id].arguments}) returned:\n{m.text}"
        for m in messages
        if isinstance(m, ToolMessage) and m.call_id in calls
    ]
    return [f"Results of the tools of {agent!r}:", *lines] if lines else []


def delegation_tools(agents: Mapping[str, Agent[Any]], policy: DelegationPolicy) -> list[DelegationTool]:
    """Return a tool for each sub-agent, named after its key in the letters that servers allow."""
    tools: dict[str, DelegationTool] = {}
    for key, agent in agents.items():
        name = wanted = f"delegate_{tool_name(key)}"
        count = 1
        while name in tools:
            count += 1
            name = f"{wanted}_{count}"
        tools[name] = DelegationTool(name, agent, policy)
    return list(tools.values())


def tool_name(key: str) -> str:
    """Return `key` with everything that a tool's name may not hold replaced by an underscore.

    >>> tool_name("Fact finder"), tool_name("研究")
    ('Fact_finder', 'agent')
    """
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in key)[:50]
    return name if name.strip("_-") else "agent"
