"""A run: what it is asked to do, how far it is, and what it comes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from . import tracing
from .ask import stream_reply
from .buffer import EventBuffer
from .check import CheckReport
from .errors import text_of
from .events import Event, FeedbackInjected, RunFinished, ToolCalled, ToolReturned, Warned
from .hooks import call_hook
from .journal import Deadline, Journal, LimitReached, Op
from .ledger import Ledger, StallWatch
from .limits import Budget, Usage
from .log import logger
from .messages import AssistantMessage, FeedbackMessage, Message, ToolCall, ToolMessage, clean
from .models import Model, ModelRequest, ModelSettings, OutputSchema, Reply
from .result import Answer, Outcome, StepInfo, StepRecord
from .result import RunResult as RunResult
from .result import StepDecision as StepDecision
from .scoring import NOTHING, Evidence, Scorer, ScorerInput, Verdict, as_scorer
from .task_complete import TaskComplete
from .tools import RunContext, Tool, ToolResult

T = TypeVar("T")


class OutputType(Protocol):
    """How a structured answer is asked for and read."""

    @property
    def schema(self) -> OutputSchema:
        """What the model is held to."""
        ...

    def parse(self, text: str) -> Any:
        """Return the value that `text` stands for, or raise `ValueError` with what is wrong, for the model to read."""
        ...


Instructions = str | Callable[[RunContext], str | Awaitable[str]]
OnStep = Callable[[StepInfo], StepDecision | None | Awaitable[StepDecision | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a run is asked to do. It shapes the loop's sequence and does not change while the run lasts."""

    run_id: str
    agent: str
    model: Model
    input: Any
    task: str
    messages: Sequence[Message]
    description: str = ""
    instructions: Instructions = ""
    settings: ModelSettings = field(default_factory=ModelSettings)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    check: TaskComplete | None = None
    output: OutputType | None = None
    max_steps: int = 10
    on_step: OnStep | None = None
    budget: Budget = field(default_factory=Budget)
    deadlines: tuple[Deadline, ...] = ()
    request_context: Mapping[str, Any] = field(default_factory=dict)
    max_parallel: int = 8
    depth: int = 0
    parent_run_id: str | None = None
    call_id: str | None = None
    lineage: tuple[object, ...] = ()
    conversation_id: str | None = None

    @property
    def may_reject(self) -> bool:
        """Whether an answer may still be turned down: by the check, the output type, or the hook."""
        return bool(self.check or self.output or self.on_step)


@dataclass(slots=True)
class OpenCall:
    """A call of the last reply whose result is not in the conversation yet, and the events that tell of it."""

    call: ToolCall
    called: ToolCalled | None = None
    result: ToolResult | None = None
    returned: ToolReturned | None = None


NOT_CARRIED_OUT = ToolResult("Not carried out: the run ended before this call had a result.", failed=True)


def frozen(value: Any) -> Any:
    """Return a copy of mappings and lists, all the way down; other values are returned as they are."""
    if isinstance(value, Mapping):
        return {key: frozen(item) for key, item in value.items()}
    return [frozen(item) for item in value] if isinstance(value, list) else value


class Run:
    """How far a run is. The loop moves it on; `result` is what it comes to."""

    def __init__(self, spec: RunSpec, journal: Journal, buffer: EventBuffer, spans: tracing.SpanScope) -> None:
        self.spec = spec
        self.journal = journal
        self.spans = spans
        self.head = (spec.run_id, spec.agent, spec.depth)
        self.messages: list[Message] = list(spec.messages)
        self.step = 0
        self.iteration = 1
        self.steps: list[StepRecord] = []
        self.checks: list[CheckReport] = []
        self.answers: list[Answer] = []
        self.evidence: list[Evidence] = []
        self.ledger = Ledger()
        self.stall = StallWatch(spec.check.stall_after if spec.check else None)
        self.scorers: tuple[Scorer, ...] = tuple(as_scorer(s) for s in spec.check.scorers) if spec.check else ()
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self.closing = False
        self.over_limit: str | None = None
        self.instructions = ""
        self.asked = False
        self.reply: Reply | None = None
        self.draft: list[str] = []
        self.result: RunResult[Any] | None = None
        self.draft_ids: dict[int, str] = {}
        self.open_calls: list[OpenCall] = []
        self.remarks: list[str] = []
        self.call_ids: set[str] = {
            call.id for m in self.messages if isinstance(m, AssistantMessage) for call in m.tool_calls
        }
        self.buffer = buffer
        self._bailed_with: str | None = None
        # What a run is graded by is settled when it starts; nothing that runs can change it.
        self._rubric = {key: frozen(value) for key, value in spec.request_context.items() if key == "rubric"}
        self._input = frozen(spec.input)
        self._additional_context = frozen(dict(spec.check.additional_context)) if spec.check else NOTHING
        self._memo: dict[str, Any] = {}

    # What the loop and its helpers say to the outside.

    async def emit(self, event: Event) -> None:
        """Show an event, from the loop."""
        await self.journal.emit(event)

    async def show(self, event: Event) -> None:
        """Show an event, from inside a step's body."""
        if self.buffer.put(event):
            await self.buffer.space()

    def show_now(self, event: Event) -> None:
        """Show an event from where nothing can be awaited."""
        self.buffer.put(event)

    async def warn(self, code: str, message: str) -> None:
        """Tell the reader and the log, from the loop, of something that does not change the outcome."""
        await self.emit(self._warning(code, message))

    async def observe(self, name: str, hook: Callable[..., Any], *arguments: Any) -> Any:
        """Call an observer, inside a step's body; what it raises becomes a warning and loses nothing."""
        try:
            return await call_hook(hook, *arguments)
        except Exception as error:
            text = f"{name} raised {type(error).__name__}: {text_of(error)}"
            await self.show(self._warning(f"{name}_raised", text))
            return None

    def _warning(self, code: str, message: str) -> Warned:
        logger().warning(message, code=code, run_id=self.spec.run_id, agent=self.spec.agent)
        return Warned(*self.head, code, clean(message))

    async def act(self, key: str, body: Callable[[], Awaitable[T]], result_type: type[T] | None = None) -> T | None:
        """Carry out one effect within the run's time. None once that is used up; `over_limit` says so."""
        value = await self.journal.step(Op(key, body, result_type, deadlines=self.spec.deadlines))
        if isinstance(value, LimitReached):
            self.over_limit = "wall_time"
            return None
        return value

    # What a step needs.

    def request(self) -> ModelRequest:
        """Return the next question to the model."""
        spec = self.spec
        return ModelRequest(
            self.messages,
            self.instructions,
            tuple(tool.definition for tool in spec.tools.values()),
            spec.settings,
            spec.output.schema if spec.output else None,
            self._memo,
        )

    def context(self, call: ToolCall | None = None, position: int = 0) -> RunContext:
        """Return what user code may know of the run."""
        spec = self.spec
        return RunContext(
            spec.run_id,
            spec.agent,
            spec.request_context,
            self.step,
            tuple(self.messages),
            spec.budget.usage,
            call,
            self,
            position,
        )

    def scorer_input(
        self,
        output: str,
        *,
        memo: dict[str, Any],
        judged: Callable[[int, Verdict], None],
        spans: tracing.SpanScope,
    ) -> ScorerInput:
        """Return what a scorer may look at."""
        spec = self.spec

        async def ask(model: Model, request: ModelRequest) -> Reply:
            return await stream_reply(model, request, budget=spec.budget, spans=spans)

        return ScorerInput(
            output=output,
            task=spec.task,
            input=self._input,
            messages=tuple(self.messages),
            evidence=tuple(self.evidence),
            request_context={k: v for k, v in spec.request_context.items() if k != "rubric"} | self._rubric,
            additional_context=self._additional_context,
            run_id=spec.run_id,
            step=self.step,
            iteration=self.iteration,
            memo=memo,
            ask=ask,
            judged=judged,
        )

    # How it moves on.

    @property
    def accepted(self) -> bool:
        """Whether the check of this step has passed, so that its answer stands even if the run is cancelled now."""
        return bool(self.checks) and self.checks[-1].passed and self.checks[-1].step == self.step

    @property
    def is_last(self) -> bool:
        """Whether no step may follow this one."""
        return self.closing or self.step >= self.spec.max_steps

    def awaits(self, call: ToolCall) -> bool:
        """Whether `call` still has to get its result."""
        return any(o.call is call and o.result is None for o in self.open_calls)

    def graded(self, text: str, report: CheckReport) -> None:
        """Record a check of `text`, before anyone is told of it: what was decided stays decided."""
        self.checks.append(report)
        self.answers.append(Answer(self.step, text, report))

    def end(self, outcome: Outcome) -> None:
        """End the run; the first outcome stays."""
        if self.outcome is None:
            self.outcome = outcome

    def bail(self, text: str) -> None:
        """End the run with a sub-agent's answer as its own."""
        if self.outcome is None:
            self._bailed_with = clean(text)
            self.outcome = "bailed"

    def fail(self, error: Exception) -> None:
        """End the run as failed."""
        if self.outcome is None:
            self.error = error
            self.outcome = "error"

    async def inject(self, text: str, source: Literal["check", "output", "on_step", "delegation"]) -> None:
        """Put feedback into the conversation; a blank text is none."""
        if not text.strip():
            return
        hidden = source == "check" and self.spec.check is not None and self.spec.check.hide_feedback
        message = FeedbackMessage(clean(text), source, hidden)
        self.messages.append(message)
        await self.emit(FeedbackInjected(*self.head, self.step, self.iteration, source, message.text, hidden))

    def answer_open_calls(self) -> None:
        """Append the results of the calls that the last assistant message made, in call order, each exactly once.

        A call that was announced and has no result yet gets its event here too.
        """
        for position, open_call in enumerate(self.open_calls):
            call, result = open_call.call, open_call.result or NOT_CARRIED_OUT
            self.messages.append(ToolMessage(call.id, call.name, result.text, result.failed))
            if open_call.result is not None:
                text = result.text if result.evidence is None else clean(result.evidence)
                self.evidence.append(Evidence(call.name, call.arguments, text, result.failed))
            if _is_shown(open_call.called) and not _is_shown(open_call.returned):
                self.show_now(
                    ToolReturned(*self.head, self.step, position, call.id, call.name, result.text, result.failed)
                )
        self.open_calls.clear()

    def finish(self) -> RunResult[Any]:
        """Close what is open and say what the run came to. Every later call gives the same."""
        if self.result is not None:
            return self.result
        self.answer_open_calls()
        if self.asked and self.step > len(self.steps):
            self._record_open_step()
        text, step = self._text()
        self.result = RunResult(
            self.spec.run_id,
            self.spec.agent,
            self.outcome or "cancelled",
            text,
            self._output(text),
            tuple(self.messages),
            tuple(self.steps),
            tuple(self.checks),
            self.ledger,
            self.spec.budget.usage,
            step,
            self.error,
        )
        return self.result

    def finished_event(self) -> RunFinished:
        """Return the run's last event."""
        result = self.finish()
        usage = result.usage
        return RunFinished(
            *self.head,
            result.outcome,
            result.text,
            result.answer_step,
            len(result.steps),
            self.iteration,
            {
                "requests": usage.requests,
                "tool_calls": usage.tool_calls,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached_tokens": usage.cached_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
                "cost": usage.cost,
            },
            None if self.error is None else clean(text_of(self.error)),
        )

    def _record_open_step(self) -> None:
        """Keep what there is of a step that did not come to its end."""
        reason = "error" if self.outcome == "error" else "cancelled"
        if (reply := self.reply) is not None:
            self.steps.append(
                StepRecord(self.step, self.iteration, reply.text, reply.tool_calls, reason, False, reply.usage)
            )
            return
        text = clean("".join(self.draft))
        self.steps.append(StepRecord(self.step, self.iteration, text, (), reason, False, Usage()))
        if text:
            self.messages.append(AssistantMessage(text))

    def _text(self) -> tuple[str, int | None]:
        if self._bailed_with is not None:
            return self._bailed_with, None
        if not self.answers:
            last = self.steps[-1] if self.steps else None
            return (last.text, last.number) if last and last.text else ("", None)
        last_answer = self.answers[-1]
        if self.outcome == "complete" or all(a.report is None for a in self.answers):
            return last_answer.text, last_answer.step
        # max() keeps the first of equals and the latest shall win, so the step is part of the key.
        best = max(self.answers, key=lambda a: (a.report.rank if a.report else (False, -1, 0.0), a.step))
        return best.text, best.step

    def _output(self, text: str) -> Any:
        if self.spec.output is None:
            return None
        try:
            return self.spec.output.parse(text)
        except Exception:
            # When the text came as an answer, this was a complaint to the model or the end of the run.
            return None


def _is_shown(event: Event | None) -> bool:
    return event is not None and event.seq > 0
