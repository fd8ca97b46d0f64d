"""The agent: a model with instructions, tools and sub-agents, and the ways to run it."""

from __future__ import annotations

import contextvars
import difflib
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Generic, TypeVar, overload

import anyio
import anyio.lowlevel

from ..runtime import tracing
from ..runtime.buffer import EventBuffer
from ..runtime.check import TaskComplete
from ..runtime.errors import ConfigError
from ..runtime.hooks import call_hook
from ..runtime.journal import Deadline, MemoryJournal
from ..runtime.limits import Budget, UsageLimits
from ..runtime.loop import run_loop
from ..runtime.messages import Message, UserMessage, as_messages, clean, drop_foreign_calls
from ..runtime.models import Model, ModelSettings
from ..runtime.models.providers import resolve_model
from ..runtime.run import Instructions, OnStep, Run, RunResult, RunSpec
from ..runtime.scoring import NOTHING
from ..runtime.tools import RunContext, Tool
from .delegation import DelegationPolicy, delegation_tools
from .output import TypedOutput
from .stream import RunStream
from .tool import as_tool

T = TypeVar("T")
R = TypeVar("R")

Input = str | Mapping[str, Any] | Sequence[Message]
Check = TaskComplete | Mapping[str, Any]
ToolLike = Tool | Callable[..., Any]


class Agent(Generic[T]):
    """A model with instructions, tools and sub-agents.

    Args:
        name: shown to models, people and traces; not blank.
        model: `"openai/gpt-5-mini"`, `"<provider>/<name>"`, or any `Model`.
        instructions: the system prompt, or a function of the `RunContext` that returns it (sync or async).
        description: what the agent is good for; a supervisor's model reads it.
        tools: tools, or typed functions.
        agents: sub-agents to delegate to, as a list or under keys of your own.
        output_type: a type that the answer has to fit; `result.output` holds the value.
        settings: how the model is asked.
        max_steps: how many steps a run may take, at least 1.
        is_task_complete: when a run counts as done; a `TaskComplete` or a mapping with the same keys.
        limits: of each run, its sub-runs and its judges together.
        delegation: how it delegates.
        on_step: a hook after each step.

    Raises:
        ConfigError: an argument is not allowed.
    """

    @overload
    def __init__(
        self: Agent[str],
        name: str,
        *,
        model: str | Model,
        instructions: Instructions = "",
        description: str = "",
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Agent[Any]] | Mapping[str, Agent[Any]] = (),
        output_type: None = None,
        settings: ModelSettings | None = None,
        max_steps: int = 10,
        is_task_complete: Check | None = None,
        limits: UsageLimits | None = None,
        delegation: DelegationPolicy | None = None,
        on_step: OnStep | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        instructions: Instructions = "",
        description: str = "",
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Agent[Any]] | Mapping[str, Agent[Any]] = (),
        output_type: type[T],
        settings: ModelSettings | None = None,
        max_steps: int = 10,
        is_task_complete: Check | None = None,
        limits: UsageLimits | None = None,
        delegation: DelegationPolicy | None = None,
        on_step: OnStep | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        instructions: Instructions = "",
        description: str = "",
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Agent[Any]] | Mapping[str, Agent[Any]] = (),
        output_type: Any = None,
        settings: ModelSettings | None = None,
        max_steps: int = 10,
        is_task_complete: Check | None = None,
        limits: UsageLimits | None = None,
        delegation: DelegationPolicy | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError("name", name, "a name that is not blank")
        if not isinstance(instructions, str) and not callable(instructions):
            raise ConfigError("instructions", instructions, "a text, or a function of the run context")
        self.name = clean(name)
        self.model = resolve_model(model)
        self.instructions = clean(instructions) if isinstance(instructions, str) else instructions
        self.description = clean(description)
        self.settings = settings or ModelSettings()
        self.max_steps = _steps(max_steps)
        self.is_task_complete = as_check(is_task_complete)
        self.limits = limits
        self.delegation = delegation or DelegationPolicy()
        self.on_step = _hook("on_step", on_step)
        self.agents = _sub_agents(agents)
        self._output = TypedOutput(output_type) if output_type is not None else None
        self._tools = _tools([*map(as_tool, tools), *delegation_tools(self.agents, self.delegation)])
        _refuse_cycles(self)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, model={self.model.provider}/{self.model.name})"

    @property
    def tool_names(self) -> Sequence[str]:
        """The names of the agent's tools, delegations included."""
        return tuple(self._tools)

    def stream(
        self,
        input: Input,
        *,
        history: Sequence[Message | Mapping[str, Any]] = (),
        max_steps: int | None = None,
        is_task_complete: Check | None = None,
        request_context: Mapping[str, Any] = NOTHING,
        limits: UsageLimits | None = None,
        settings: ModelSettings | None = None,
        on_step: OnStep | None = None,
        run_id: str | None = None,
        conversation_id: str | None = None,
        buffer_size: int = 512,
    ) -> RunStream[T]:
        """Return the stream of one run; it starts when the stream is entered with `async with`.

        Args:
            input: what the user asks: a text that is not blank; a mapping with `prompt` and whatever else scorers read,
                such as `rubric`; or messages of which the last one is the user's.
            history: the conversation before, such as `result.messages` of an earlier run.
            max_steps, is_task_complete, limits, on_step: instead of the agent's own.
            settings: over the agent's own, field by field.
            request_context: what scorers, tools, hooks and instructions may read; `rubric` is the run-time rubric.
            run_id: unique; made up unless given.
            conversation_id: joins the traces of the runs of one conversation.
            buffer_size: how many events may wait for a slow reader before the run pauses, at least 1.

        Raises:
            ConfigError: an argument is not allowed. No model has been called then.
        """
        run = self._new_run(
            input,
            EventBuffer(_count("buffer_size", buffer_size)),
            history=history,
            max_steps=max_steps,
            is_task_complete=is_task_complete,
            request_context=request_context,
            limits=limits,
            settings=settings,
            on_step=on_step,
            run_id=run_id,
            conversation_id=conversation_id,
        )
        return RunStream(run)

    async def run(
        self,
        input: Input,
        *,
        history: Sequence[Message | Mapping[str, Any]] = (),
        max_steps: int | None = None,
        is_task_complete: Check | None = None,
        request_context: Mapping[str, Any] = NOTHING,
        limits: UsageLimits | None = None,
        settings: ModelSettings | None = None,
        on_step: OnStep | None = None,
        run_id: str | None = None,
        conversation_id: str | None = None,
    ) -> RunResult[T]:
        """Run to the end and return the result; the arguments are those of `stream`.

        Raises:
            ConfigError: an argument is not allowed. No model has been called then.
            RunError: the run failed; the exception carries the partial result.
        """
        buffer = EventBuffer()
        buffer.close()
        run = self._new_run(
            input,
            buffer,
            history=history,
            max_steps=max_steps,
            is_task_complete=is_task_complete,
            request_context=request_context,
            limits=limits,
            settings=settings,
            on_step=on_step,
            run_id=run_id,
            conversation_id=conversation_id,
        )
        result: RunResult[Any] = await run_loop(run)
        if result.outcome == "error":
            raise result.failure()
        return result

    def run_sync(
        self,
        input: Input,
        *,
        history: Sequence[Message | Mapping[str, Any]] = (),
        max_steps: int | None = None,
        is_task_complete: Check | None = None,
        request_context: Mapping[str, Any] = NOTHING,
        limits: UsageLimits | None = None,
        settings: ModelSettings | None = None,
        on_step: OnStep | None = None,
        run_id: str | None = None,
        conversation_id: str | None = None,
    ) -> RunResult[T]:
        """Run to the end from code that is not async, such as a script or a notebook; the arguments are `stream`'s.

        Under a running event loop the run gets a thread and a loop of its own; this loop stands still meanwhile.

        Raises:
            ConfigError: an argument is not allowed. No model has been called then.
            RunError: the run failed; the exception carries the partial result.
        """
        run = partial(
            self.run,
            input,
            history=history,
            max_steps=max_steps,
            is_task_complete=is_task_complete,
            request_context=request_context,
            limits=limits,
            settings=settings,
            on_step=on_step,
            run_id=run_id,
            conversation_id=conversation_id,
        )
        return _outside_of_loops(run)

    def child_spec(
        self,
        parent: RunSpec,
        *,
        prompt: str,
        history: Sequence[Message],
        run_id: str,
        call_id: str,
        limits: UsageLimits | None,
        max_steps: int | None,
        more_instructions: str | None,
    ) -> RunSpec:
        """Return what a delegated run is asked to do. It counts on the parent's limits and on those given here."""
        context = {key: value for key, value in parent.request_context.items() if key != "rubric"}
        own, extra = self.limits, limits
        budget, deadlines = parent.budget, parent.deadlines
        for place, limit in (("agent", own), ("delegation", extra)):
            budget = Budget(limit, budget) if limit or place == "delegation" else budget
            deadlines = (*deadlines, *_deadlines(f"{run_id}/{place}", limit))
        return RunSpec(
            run_id=run_id,
            agent=self.name,
            description=self.description,
            model=self.model,
            input=prompt,
            task=prompt,
            messages=(*history, UserMessage(prompt)),
            instructions=_joined(self.instructions, more_instructions),
            settings=self.settings,
            tools=self._tools,
            check=self.is_task_complete,
            output=self._output,
            max_steps=max_steps or self.max_steps,
            on_step=self.on_step,
            budget=budget,
            deadlines=deadlines,
            # The run-time rubric is about the supervisor's task, not about what it hands on.
            request_context=context,
            max_parallel=self.delegation.max_parallel,
            depth=parent.depth + 1,
            parent_run_id=parent.run_id,
            call_id=call_id,
            lineage=(*parent.lineage, self),
            conversation_id=parent.conversation_id,
        )

    def _new_run(
        self,
        input: Input,
        buffer: EventBuffer,
        *,
        history: Sequence[Message | Mapping[str, Any]],
        max_steps: int | None,
        is_task_complete: Check | None,
        request_context: Mapping[str, Any],
        limits: UsageLimits | None,
        settings: ModelSettings | None,
        on_step: OnStep | None,
        run_id: str | None,
        conversation_id: str | None,
    ) -> Run:
        _refuse_cycles(self)
        if not isinstance(request_context, Mapping):
            raise ConfigError("request_context", request_context, "a mapping")
        limits = limits or self.limits
        _refuse_unpriced(self, limits)
        run_id = run_id or uuid.uuid4().hex
        task, asked = _read_input(input)
        check = self.is_task_complete if is_task_complete is None else as_check(is_task_complete)
        spec = RunSpec(
            run_id=run_id,
            agent=self.name,
            description=self.description,
            model=self.model,
            input=input,
            task=task,
            messages=drop_foreign_calls([*as_messages(history), *asked], self._tools),
            instructions=self.instructions,
            settings=settings.over(self.settings) if settings else self.settings,
            tools=self._tools,
            check=check,
            output=self._output,
            max_steps=self.max_steps if max_steps is None else _steps(max_steps),
            on_step=_hook("on_step", on_step) or self.on_step,
            budget=Budget(limits),
            deadlines=_deadlines(run_id, limits),
            request_context=request_context,
            max_parallel=self.delegation.max_parallel,
            lineage=(self,),
            conversation_id=conversation_id,
        )
        return Run(spec, MemoryJournal(buffer), buffer, tracing.SpanScope.capture(conversation_id))


def as_check(check: Check | None) -> TaskComplete | None:
    """Return the check that a user configured; None when every answer is complete.

    Raises:
        ConfigError: it is neither a `TaskComplete` nor a mapping with its keys.
    """
    if check is None:
        return None
    if isinstance(check, Mapping):
        known = [f.name for f in fields(TaskComplete)]
        for key in check:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ConfigError("is_task_complete", key, f"{hint}its keys are {', '.join(known)}")
        check = TaskComplete(**check)
    if not isinstance(check, TaskComplete):
        raise ConfigError("is_task_complete", check, "a TaskComplete, or a mapping with the same keys")
    return check if check.scorers else None


def _read_input(input: Input) -> tuple[str, list[Message]]:
    """Return the task as text, and the messages that put it to the model."""
    if isinstance(input, Mapping):
        prompt = input.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise ConfigError("input", dict(input), "a mapping with a `prompt` that is not blank")
        return clean(prompt), [UserMessage(clean(prompt))]
    if isinstance(input, str):
        if not input.strip():
            raise ConfigError("input", input, "a prompt that is not blank")
        return clean(input), [UserMessage(clean(input))]
    messages = as_messages(input)
    if not messages or not isinstance(messages[-1], UserMessage) or not messages[-1].text.strip():
        raise ConfigError("input", input, "messages of which the last one is the user's and not blank")
    return messages[-1].text, messages


def _sub_agents(agents: Sequence[Agent[Any]] | Mapping[str, Agent[Any]]) -> dict[str, Agent[Any]]:
    if isinstance(agents, Agent) or not isinstance(agents, Sequence | Mapping) or isinstance(agents, str):
        raise ConfigError("agents", agents, "a list of agents, or a mapping of keys to agents")
    pairs = list(agents.items()) if isinstance(agents, Mapping) else [(getattr(a, "name", ""), a) for a in agents]
    for _, agent in pairs:
        if not isinstance(agent, Agent):
            raise ConfigError("agents", agent, "each one is an Agent")
    names = [key for key, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("agents", name, "each agent needs a name, or a key in a mapping, of its own")
    return dict(pairs)


def _tools(tools: Sequence[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        name = tool.definition.name
        if name in named:
            raise ConfigError("tools", name, "each tool and each sub-agent needs a name of its own")
        named[name] = tool
    return named


def _refuse_cycles(agent: Agent[Any]) -> None:
    """Raise if an agent can be reached from itself."""

    def walk(at: Agent[Any], above: tuple[Agent[Any], ...]) -> None:
        if at in above:
            path = " -> ".join(a.name for a in (*above[above.index(at) :], at))
            raise ConfigError("agents", path, "an agent cannot be its own sub-agent, also not through others")
        for sub in at.agents.values():
            walk(sub, (*above, at))

    walk(agent, ())


def _refuse_unpriced(agent: Agent[Any], limits: UsageLimits | None) -> None:
    if limits is None or limits.cost is None:
        return
    for each in _tree(agent):
        if not limits.price(each.model.provider, each.model.name):
            name = f"{each.model.provider}/{each.model.name}"
            raise ConfigError("limits.prices", sorted(limits.prices), f"a price for {name}, since cost is limited")


def _tree(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    yield agent
    for sub in agent.agents.values():
        yield from _tree(sub)


def _deadlines(name: str, limits: UsageLimits | None) -> tuple[Deadline, ...]:
    if limits is None or limits.wall_time is None:
        return ()
    return (Deadline(f"{name}/wall_time", limits.wall_time),)


def _joined(instructions: Instructions, more: str | None) -> Instructions:
    if not more:
        return instructions
    if isinstance(instructions, str):
        return f"{instructions}\n\n{more}" if instructions else more

    async def both(context: RunContext) -> str:
        return f"{await call_hook(instructions, context)}\n\n{more}"

    return both


def _steps(value: int) -> int:
    return _count("max_steps", value)


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(name, value, "a whole number, at least 1")
    return value


def _hook(name: str, hook: OnStep | None) -> OnStep | None:
    if hook is not None and not callable(hook):
        raise ConfigError(name, hook, "a function, or None")
    return hook


def _outside_of_loops(run: Callable[[], Awaitable[R]]) -> R:
    """Run an async function to its end, whether or not an event loop is running in this thread."""
    try:
        anyio.lowlevel.current_token()
    except RuntimeError:
        return anyio.run(run)
    values: list[R] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            values.append(context.run(anyio.run, run))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="alfine run_sync")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return values[0]
