"""Calling one tool as the loop would, without a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio

from alfine.agents.tool import FunctionTool
from alfine.runtime.buffer import EventBuffer
from alfine.runtime.events import Event
from alfine.runtime.journal import Failure, LimitReached, MemoryJournal, Op
from alfine.runtime.loop import run_loop
from alfine.runtime.messages import ToolCall, ToolMessage, UserMessage
from alfine.runtime.run import OpenCall, Run, RunResult, RunSpec
from alfine.runtime.tools import CallContext, Tool, ToolResult
from alfine.runtime.tracing import NO_SCOPE
from alfine.testing import ScriptedModel, Turn, call


@dataclass
class Bench:
    """A run that stands still, in whose first step tools can be called."""

    buffer: EventBuffer = field(default_factory=EventBuffer)

    def __post_init__(self) -> None:
        spec = RunSpec(
            run_id="r1",
            agent="worker",
            model=ScriptedModel([]),
            input="Go",
            task="Go",
            messages=[UserMessage("Go")],
            request_context={"user": "Ada"},
        )
        self.journal = MemoryJournal(self.buffer)
        self.run = Run(spec, self.journal, self.buffer, NO_SCOPE)
        self.run.step = 1

    def plan(self, tool: Tool, arguments: str) -> ToolResult | Op[ToolResult]:
        """Return what the tool wants to do."""
        call = ToolCall("c1", tool.definition.name, arguments)
        self.run.open_calls = [OpenCall(call)]
        plan = tool.plan(CallContext(self.run, 1, 0, call))
        assert isinstance(plan, ToolResult | Op)
        return plan

    async def call(self, tool: Tool, arguments: str = "{}") -> ToolResult | Failure | LimitReached:
        """Carry the call out; give back whatever comes of it."""
        plan = self.plan(tool, arguments)
        if isinstance(plan, ToolResult):
            return plan
        [value] = await self.journal.gather([plan])
        return value

    async def text(self, tool: Tool, arguments: str = "{}") -> str:
        """Carry the call out; it has to succeed."""
        value = await self.call(tool, arguments)
        assert isinstance(value, ToolResult), value
        assert not value.failed, value.text
        return value.text

    async def events(self) -> list[Event]:
        """Return the events so far."""
        with anyio.fail_after(5):
            return list(await self.buffer.take())


def refusal(tool: Tool, arguments: str) -> str:
    """Return why a tool does not take these arguments."""
    plan = Bench().plan(tool, arguments)
    assert isinstance(plan, ToolResult), f"{arguments[:100]} is taken"
    assert plan.failed
    return plan.text


async def run_tool(function: FunctionTool[..., Any], arguments: dict[str, Any] | str) -> RunResult[object]:
    """Run a loop whose model calls the tool once and then answers."""
    model = ScriptedModel([Turn(tool_calls=[call(function.definition.name, arguments)]), "Done."])
    buffer = EventBuffer()
    spec = RunSpec(
        run_id="r1",
        agent="worker",
        model=model,
        input="Go",
        task="Go",
        messages=[UserMessage("Go")],
        tools={function.definition.name: function},
    )
    return await run_loop(Run(spec, MemoryJournal(buffer), buffer, NO_SCOPE))


def tool_message(result: RunResult[object]) -> ToolMessage:
    """Return the one tool result of the conversation."""
    [message] = [m for m in result.messages if isinstance(m, ToolMessage)]
    return message
