"""The agent: a model with instructions, tools and sub-agents, and the ways to run it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from ..runtime import tracing
from ..runtime.buffer import EventBuffer
from ..runtime.errors import ConfigError
from ..runtime.hooks import call_hook
from ..runtime.journal import Deadline, MemoryJournal
from ..runtime.limits import Budget, UsageLimits
from ..runtime.loop import run_loop
from ..runtime.messages import Message, UserMessage, clean, drop_foreign_calls
from ..runtime.models import Model, ModelSettings
from ..runtime.models.providers import resolve_model
from ..runtime.run import Instructions, OnStep, OutputType, Run, RunResult, RunSpec
from ..runtime.scoring import NOTHING
from ..runtime.tools import RunContext, Tool
from .delegation import delegation_tools
from .delegation_policy import DelegationPolicy
from .family import read_agents, refuse_cycles, refuse_unpriced
from .input import Input, read_history, read_input
from .options import Check, RunOptions, as_check, read_count, read_hook, read_instance, read_options, read_text
from .stream import RunStream
from .sync import run_outside_of_loops
from .tool import as_tool

if TYPE_CHECKING:
    from .family import Agents

T = TypeVar("T")

ToolLike = Tool | Callable[..., Any]


class Agent(Generic[T]):
    """A model with instructions, tools and sub-agents.

    Args:
        name: shown to models, people and traces; not blank.
        model: `"openai/gpt-5-mini"`, `"<provider>/<name>"`, or any `Model`.
        instructions: the system prompt, or a function of the `RunContext` that returns it (sync or async).
        description: what the agent is good for; a supervisor's model reads it.
        tools: tools, or typed functions.
        agents: sub-agents to delegate to, as a list or under keys of your own; `agent.agents` holds them by key, and
            what is added there counts from the next run on.
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
        agents: Agents = (),
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
        agents: Agents = (),
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
        agents: Agents = (),
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
        self.description = clean(read_text("description", description))
        self.settings = read_instance("settings", settings, ModelSettings) or ModelSettings()
        self.max_steps = read_count("max_steps", max_steps)
        self.is_task_complete = as_check(is_task_complete)
        self.limits = read_instance("limits", limits, UsageLimits)
        self.delegation = read_instance("delegation", delegation, DelegationPolicy) or DelegationPolicy()
        self.on_step = read_hook("on_step", on_step)
        self.agents = read_agents(agents)
        self._output = _typed(output_type)
        self._own_tools = _as_tools(tools)
        self._tools()
        refuse_cycles(self)
        refuse_unpriced(self, self.limits)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, model={self.model.provider}/{self.model.name})"

    @property
    def tool_names(self) -> Sequence[str]:
        """The names of the agent's tools, delegations included."""
        return tuple(self._tools())

    def stream(self, input: Input, *, buffer_size: int = 512, **options: Unpack[RunOptions]) -> RunStream[T]:
        """Return the stream of one run; it starts when the stream is entered with `async with`.

        Args:
            input: what the user asks: a text that is not blank; a mapping with `prompt` and whatever else scorers read,
                such as `rubric`; or messages of which the last one is the user's.
            buffer_size: how many events may wait for a slow reader before the run pauses, at least 1.
            options: see `RunOptions`.

        Raises:
            ConfigError: an argument is not allowed. No model has been called then.
        """
        return RunStream(self._new_run(input, EventBuffer(read_count("buffer_size", buffer_size)), options))

    async def run(self, input: Input, **options: Unpack[RunOptions]) -> RunResult[T]:
        """Run to the end and return the result; the arguments are those of `stream`.

        Raises:
            ConfigError: an argument is not allowed. No model has been called then.
            RunError: the run failed; the exception carries the partial result.
        """
        buffer = EventBuffer()
        buffer.close()
        result: RunResult[Any] = await run_loop(self._new_run(input, buffer, options))
        if result.outcome == "error":
            raise result.failure()
        return result

    def run_sync(self, input: Input, **options: Unpack[RunOptions]) -> RunResult[T]:
        """Run to the end from code that is not async, such as a script or a notebook; the arguments are `stream`'s.

        Under a running event loop the run gets a thread and a loop of its own; this loop stands still meanwhile.

        Raises:
            ConfigError: an argument is not allowed. No model has been called then.
            RunError: the run failed; the exception carries the partial result.
        """
        return run_outside_of_loops(partial(self.run, input, **options))

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
            tools=self._tools(),
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

    def _new_run(self, input: Input, buffer: EventBuffer, options: RunOptions) -> Run:
        options = read_options(**options)
        own = self._tools()
        refuse_cycles(self)
        limits = options.get("limits") or self.limits
        refuse_unpriced(self, limits)
        run_id = options.get("run_id") or uuid.uuid4().hex
        conversation_id = options.get("conversation_id")
        task, asked = read_input(input)
        history = read_history(options.get("history") or ())
        check, settings = options.get("is_task_complete"), options.get("settings")
        context = options.get("request_context")
        spec = RunSpec(
            run_id=run_id,
            agent=self.name,
            description=self.description,
            model=self.model,
            input=input,
            task=task,
            messages=drop_foreign_calls([*history, *asked], own),
            instructions=self.instructions,
            settings=settings.over(self.settings) if settings else self.settings,
            tools=own,
            check=self.is_task_complete if check is None else as_check(check),
            output=self._output,
            max_steps=options.get("max_steps") or self.max_steps,
            on_step=options.get("on_step") or self.on_step,
            budget=Budget(limits),
            deadlines=_deadlines(run_id, limits),
            request_context=NOTHING if context is None else context,
            max_parallel=self.delegation.max_parallel,
            lineage=(self,),
            conversation_id=conversation_id,
        )
        return Run(spec, MemoryJournal(buffer), buffer, tracing.SpanScope.capture(conversation_id))

    def _tools(self) -> dict[str, Tool]:
        """Return the tools by name. `agents` may have changed since the last run."""
        named: dict[str, Tool] = {}
        for tool in (*self._own_tools, *delegation_tools(self.agents, self.delegation)):
            name = tool.definition.name
            if name in named:
                raise ConfigError("tools", name, "each tool and each sub-agent needs a name of its own")
            named[name] = tool
        return named


def _as_tools(tools: Sequence[ToolLike]) -> list[Tool]:
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
        raise ConfigError("tools", tools, "a list of tools and typed functions")
    return [as_tool(tool) for tool in tools]


def _deadlines(name: str, limits: UsageLimits | None) -> tuple[Deadline, ...]:
    if limits is None or limits.wall_time is None:
        return ()
    return (Deadline(f"{name}/wall_time", limits.wall_time),)


def _joined(instructions: Instructions, more: str | None) -> Instructions:
    """Return instructions with more of them below."""
    if not more:
        return instructions
    if isinstance(instructions, str):
        return f"{instructions}\n\n{more}" if instructions else more

    async def both(context: RunContext) -> str:
        # What is no text stays what it is: the loop says so.
        text: Any = await call_hook(instructions, context)
        return f"{text}\n\n{more}" if isinstance(text, str) else text

    return both


def _typed(output_type: Any) -> OutputType | None:
    if output_type is None:
        return None
    # Loaded when first wanted: pydantic's schemas cost more than all the rest of this package.
    from .output import TypedOutput

    return TypedOutput(output_type)
