"""The seam to tools: what the loop asks of one, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .events import ToolProgress
from .journal import ChildRun, Op
from .json_text import json_ready
from .limits import Usage
from .messages import Message, ToolCall
from .models import ToolDefinition

if TYPE_CHECKING:
    from .run import Run


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of a tool call.

    Attributes:
        text: what the model reads.
        failed: the tool did not do its work; `text` says why.
        answer: set to end the run here: this text is then the run's answer (outcome `bailed`).
        feedback: a message for the supervisor, put in after the results of the step.
        evidence: what scorers are shown; None means `text`.
    """

    text: str
    failed: bool = False
    answer: str | None = None
    feedback: str | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """What instructions, tools and hooks may know of the run that they serve.

    Attributes:
        run_id, agent: which run this is.
        request_context: the mapping that the caller gave to the run.
        step: from 1; 0 before the first step.
        messages: the conversation so far; a copy.
        usage: what was used so far, sub-runs and judges included.
        call: the tool call that is being carried out, for tools.
    """

    run_id: str
    agent: str
    request_context: Mapping[str, Any]
    step: int
    messages: Sequence[Message]
    usage: Usage
    call: ToolCall | None = None
    _run: Run | None = None
    _position: int = 0

    async def progress(self, data: Any) -> None:
        """Show the reader how far a tool is, as a `tool_progress` event. `data` is shown as JSON, or else as text.

        What comes after the call has its result, for example from an abandoned thread, is not shown.
        """
        run = self._run
        if run is not None and self.call is not None and run.awaits(self.call):
            event = ToolProgress(
                *run.head,
                step=self.step,
                position=self._position,
                call_id=self.call.id,
                name=self.call.name,
                data=json_ready(data),
            )
            await run.show(event)


@dataclass(frozen=True, slots=True)
class CallContext:
    """Where a tool call stands: the run, the step, and its place among the step's calls."""

    run: Run
    step: int
    position: int
    call: ToolCall

    @property
    def key(self) -> str:
        """The key of this call's effects in the journal."""
        return f"{self.step}/tool/{self.position}"

    def run_context(self) -> RunContext:
        """Return what the tool's function may know."""
        return self.run.context(self.call, self.position)


class Tool(Protocol):
    """What the loop needs of a tool."""

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        ...

    @property
    def target(self) -> str | None:
        """The sub-agent that the work is handed to; None for a tool that does it itself."""
        ...

    def plan(self, context: CallContext) -> ToolResult | Op[ToolResult] | ChildRun[ToolResult]:
        """Say how a call is to be carried out, without doing anything yet.

        A `ToolResult` refuses it at once, for example for bad arguments.
        """
        ...
