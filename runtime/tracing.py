"""The spans of a run: `trace_calls` has those of its calls, `trace_evaluation` those of its scorers.

A span is current while its block runs, so that users' own spans, HTTP instrumentation and log processors find it. Each
block belongs to one task and holds no `yield`: a span that is current across one becomes its consumer's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry._logs import get_logger
from opentelemetry.context import Context
from opentelemetry.trace import Tracer

from . import conventions as names
from .spans import Attributes, SpanBlock, guarded
from .trace_calls import ChatSpan, ToolSpan
from .trace_content import Capture, Conversation, answer_items, as_json, content_capture, instruction_items
from .trace_evaluation import EvaluationEvents, GradedChat, ScorerSpan

if TYPE_CHECKING:
    from .check import CheckReport
    from .messages import ToolCall
    from .models import Model, ModelRequest, ToolDefinition
    from .run import RunResult, RunSpec
    from .scoring import Scorer


class SpanScope:
    """The trace that a run's spans belong to, and how far it is.

    Attributes:
        tracer: None without an SDK; then there are no spans.
        graded: the run's last model call, which a check grades.
        step, iterations: how many model calls and iterations have begun.
    """

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self.events = EvaluationEvents()
        self.content = Capture()
        self.parent: Context | None = None
        self.conversation_id: str | None = None
        self.graded: GradedChat | None = None
        self.step = 0
        self.iterations = 0
        self.iteration: IterationSpan | None = None

    @classmethod
    def capture(cls, conversation_id: str | None = None) -> SpanScope:
        """Return the scope of an outermost run: its parent is the span that is current now.

        Providers and the wish for content are looked up here, once a run, since an application sets them late.
        """
        scope = cls()
        scope.conversation_id = conversation_id
        scope._look_up()
        return scope

    def child(self) -> SpanScope:
        """Return the scope of a sub-run: its parent is the span that is current where it runs."""
        scope = SpanScope()
        scope.tracer, scope.events, scope.content = self.tracer, self.events, self.content
        scope.conversation_id = self.conversation_id
        return scope

    @guarded
    def _look_up(self) -> None:
        self.content = content_capture()
        self.events = EvaluationEvents(get_logger("alfine", _version()), explain=self.content.events)
        self.parent = otel_context.get_current()
        provider = trace.get_tracer_provider()
        if not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            self.tracer = provider.get_tracer("alfine", _version())


NO_SCOPE = SpanScope()


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("alfine")
    except PackageNotFoundError:
        return ""


class RunSpan(SpanBlock):
    """`invoke_agent`: one run."""

    def __init__(self, scope: SpanScope, spec: RunSpec) -> None:
        super().__init__(scope.tracer, describe_errors=scope.content.spans)
        self._scope = scope
        self._spec = spec
        scope.conversation_id = spec.conversation_id or scope.conversation_id

    def parent(self) -> Context:
        # An empty context is a parent too: asked for outside of every span, the run begins a trace of its own.
        context = otel_context.get_current() if self._scope.parent is None else self._scope.parent
        if (tool := ToolSpan.around(context)) is not None:
            tool.has_run = True
        return context

    def describe(self) -> tuple[str, Attributes]:
        spec = self._spec
        attributes: Attributes = {
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.AGENT_NAME: spec.agent,
            names.REQUEST_MODEL: spec.model.name,
            names.RUN_ID: spec.run_id,
            names.RUN_MAX_STEPS: spec.max_steps,
        }
        if spec.description:
            attributes[names.AGENT_DESCRIPTION] = spec.description
        if spec.parent_run_id:
            attributes[names.RUN_PARENT_ID] = spec.parent_run_id
        if self._scope.conversation_id:
            attributes[names.CONVERSATION_ID] = self._scope.conversation_id
        return f"{names.INVOKE_AGENT} {spec.agent}", attributes

    def started(self) -> None:
        if self.recording and self._scope.content.spans:
            conversation = Conversation()
            conversation.update(self._spec.messages)
            self.set({names.INPUT_MESSAGES: conversation.json})
            if isinstance(self._spec.instructions, str) and self._spec.instructions:
                self.set({names.SYSTEM_INSTRUCTIONS: as_json(instruction_items(self._spec.instructions))})

    @guarded
    def finish(self, result: RunResult[object]) -> None:
        """Record what the run came to."""
        if not self.recording:
            return
        iterations, check, usage = self._scope.iterations, self._spec.check, result.usage
        attributes: Attributes = {
            names.RUN_OUTCOME: result.outcome,
            names.RUN_ITERATIONS: iterations,
            f"{names.USAGE}requests": usage.requests,
            f"{names.USAGE}tool_calls": usage.tool_calls,
            f"{names.USAGE}input_tokens": usage.input_tokens,
            f"{names.USAGE}output_tokens": usage.output_tokens,
            f"{names.USAGE}cached_tokens": usage.cached_tokens,
            f"{names.USAGE}reasoning_tokens": usage.reasoning_tokens,
        }
        if usage.cost:
            attributes[f"{names.USAGE}cost"] = float(usage.cost)
        if check is not None and check.scorers and iterations:
            attributes[names.COMPLETION_STRATEGY] = check.strategy
        if self._scope.content.spans:
            reason = result.steps[-1].finish_reason if result.steps else "error"
            attributes[names.OUTPUT_MESSAGES] = as_json(answer_items(result.text, reason))
        self.set(attributes)
        if result.error is not None:
            self.fail(result.error)


class IterationSpan(SpanBlock):
    """`iteration N`: the steps up to and including a check."""

    def __init__(self, scope: SpanScope, number: int, fed_back: bool) -> None:
        super().__init__(scope.tracer, describe_errors=scope.content.spans)
        self._scope = scope
        self._number = number
        self._fed_back = fed_back
        self._first_step = scope.step
        scope.iterations += 1
        scope.iteration = self

    def describe(self) -> tuple[str, Attributes]:
        return f"{names.ITERATION} {self._number}", {
            names.ITERATION_NUMBER: self._number,
            names.ITERATION_FEEDBACK_INJECTED: self._fed_back,
        }

    def finish(self, report: CheckReport, *, continued: bool) -> None:
        """Record that a hook went on after a pass."""
        if continued:
            self.set({names.ITERATION_CONTINUED_BY: "on_step"})

    def ended(self, error: BaseException | None) -> None:
        super().ended(error)
        if self._scope.step == self._first_step and not isinstance(error, Exception):
            # A limit or a cancel came first: the iteration did nothing of what it was there for.
            self.fail_as(names.NO_MODEL_CALL)


class CheckSpan(SpanBlock):
    """`is_task_complete`: the scorers at work on one answer."""

    def __init__(self, scope: SpanScope, strategy: str, scorers: int) -> None:
        super().__init__(scope.tracer, describe_errors=scope.content.spans)
        self._scope = scope
        self._strategy = strategy
        self._scorers = scorers

    def describe(self) -> tuple[str, Attributes]:
        return names.IS_TASK_COMPLETE, {
            names.COMPLETION_STRATEGY: self._strategy,
            names.COMPLETION_TOTAL_SCORERS: self._scorers,
        }

    @guarded
    def finish(self, report: CheckReport) -> None:
        """Record what the check found, on the iteration too."""
        passed = sum(result.passed for result in report.scorers)
        self.set({names.COMPLETION_PASSED: report.passed, names.COMPLETION_PASSED_SCORERS: passed})
        if self._scope.iteration is not None:
            self._scope.iteration.set({names.ITERATION_PASSED: report.passed})


def run_span(scope: SpanScope, spec: RunSpec) -> RunSpan:
    """Return the span of a run, for a `with` block in the task that runs it."""
    return RunSpan(scope, spec)


def iteration_span(scope: SpanScope, number: int, *, fed_back: bool) -> IterationSpan:
    """Return the span of iteration `number`, from 1."""
    return IterationSpan(scope, number, fed_back)


def chat_span(scope: SpanScope, model: Model, request: ModelRequest) -> ChatSpan:
    """Return the span of a model call; outside of any run it hangs under what is current."""
    return ChatSpan(SpanScope.capture() if scope is NO_SCOPE else scope, model, request)


def tool_span(
    scope: SpanScope, agent: str, call: ToolCall, definition: ToolDefinition | None, target: str | None
) -> ToolSpan:
    """Return the span of a tool call; `definition` is None for an unknown tool, `target` unless it delegates."""
    return ToolSpan(scope, agent, call, definition, target)


def check_span(scope: SpanScope, strategy: str, scorers: int) -> CheckSpan:
    """Return the span of a check."""
    return CheckSpan(scope, strategy, scorers)


def scorer_span(scope: SpanScope, scorer: Scorer) -> ScorerSpan:
    """Return the span of a scorer; its `scope` is for what the scorer itself asks a model."""
    return ScorerSpan(scope, scope.child(), scorer)
