"""What tests of traces stand on: runs without an agent, and providers that keep what they are given."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import _internal as otel_logs
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from alfine.runtime.buffer import EventBuffer
from alfine.runtime.journal import ChildRun, Journal, MemoryJournal, Op
from alfine.runtime.loop import run_loop
from alfine.runtime.messages import UserMessage
from alfine.runtime.models import Model, ToolDefinition
from alfine.runtime.run import Run, RunResult, RunSpec
from alfine.runtime.scoring import Score, Verdict
from alfine.runtime.tools import CallContext, ToolResult
from alfine.runtime.tracing import SpanScope


@dataclass
class Traces:
    """Finished spans and log events, in memory."""

    spans_exporter: InMemorySpanExporter
    logs_exporter: InMemoryLogRecordExporter

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """All spans, in the order in which they ended."""
        return self.spans_exporter.get_finished_spans()

    @property
    def events(self) -> Sequence[ReadableLogRecord]:
        """All log events."""
        return self.logs_exporter.get_finished_logs()

    def span(self, name: str) -> ReadableSpan:
        """The only span of that name."""
        (span,) = self.named(name)
        return span

    def named(self, name: str) -> list[ReadableSpan]:
        """All spans of that name, by start."""
        return sorted((s for s in self.spans if s.name == name), key=start_of)

    def children(self, parent: ReadableSpan) -> list[str]:
        """The names of a span's children, by start."""
        spans = [s for s in self.spans if s.parent is not None and s.parent.span_id == id_of(parent)]
        return [s.name for s in sorted(spans, key=start_of)]


def start_of(span: ReadableSpan) -> int:
    """When a span started."""
    assert span.start_time is not None
    return span.start_time


def id_of(span: ReadableSpan) -> int:
    """A span's own id."""
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes."""
    return dict(span.attributes or {})


@contextmanager
def tracing_into(monkeypatch: pytest.MonkeyPatch, *processors: SpanProcessor) -> Iterator[Traces]:
    """Set providers that keep everything; `processors` come before the one that keeps."""
    logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK's constructor has no annotations
    traces = Traces(InMemorySpanExporter(), logs)
    tracers, loggers = TracerProvider(), LoggerProvider()
    for processor in (*processors, SimpleSpanProcessor(traces.spans_exporter)):
        tracers.add_span_processor(processor)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(traces.logs_exporter))
    set_providers(monkeypatch, tracers, loggers)
    yield traces
    tracers.shutdown()
    loggers.shutdown()


def set_providers(monkeypatch: pytest.MonkeyPatch, tracers: trace.TracerProvider, loggers: LoggerProvider) -> None:
    """Set the process's providers for one test; the API itself sets them only once."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
    monkeypatch.setattr(otel_logs, "_LOGGER_PROVIDER", loggers)


def make_run(model: Model, scope: SpanScope | None = None, **spec: Any) -> Run:
    """Return a run that waits for no reader."""
    buffer = EventBuffer(1_000_000)
    spec = {"run_id": "run-1", "agent": "supervisor", "input": "Go", "task": "Go", **spec}
    settled = RunSpec(model=model, messages=[UserMessage("Go")], **spec)
    return Run(settled, MemoryJournal(buffer), buffer, scope or SpanScope.capture())


async def run_it(model: Model, **spec: Any) -> RunResult[Any]:
    """Run to the end."""
    return await run_loop(make_run(model, **spec))


@dataclass
class FunctionTool:
    """A tool that carries out an async function."""

    name: str
    function: Callable[[CallContext], Awaitable[ToolResult]]
    target: str | None = None

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return ToolDefinition(self.name, f"Does {self.name}", {"type": "object"})

    def plan(self, context: CallContext) -> Op[ToolResult]:
        """Call the function."""
        return Op(context.key, lambda: self.function(context), ToolResult)


@dataclass
class Delegate:
    """A tool that hands work to a sub-run, unless it refuses."""

    target: str
    model: Model
    refusal: str | None = None
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return ToolDefinition(f"delegate_{self.target}", "Delegates", {"type": "object"})

    def plan(self, context: CallContext) -> ChildRun[ToolResult]:
        """Start the sub-run."""

        async def body(journal: Journal) -> ToolResult:
            if self.refusal is not None:
                return ToolResult(self.refusal, failed=True)
            above = context.run
            spec = RunSpec(
                run_id=f"{above.spec.run_id}/{context.call.id}",
                parent_run_id=above.spec.run_id,
                agent=self.target,
                model=self.model,
                input="Do",
                task="Do",
                messages=[UserMessage("Do")],
                depth=above.spec.depth + 1,
                **self.spec,
            )
            result = await run_loop(Run(spec, journal, above.buffer, above.spans.child()))
            return ToolResult(result.text, failed=result.outcome == "error")

        return ChildRun(context.key, body)


def toolbox(*tools: FunctionTool | Delegate) -> dict[str, FunctionTool | Delegate]:
    """Return tools by name, as a run wants them."""
    return {tool.definition.name: tool for tool in tools}


def verdict(criterion_id: str, satisfied: bool, *, required: bool = True) -> Verdict:
    """Return a verdict that is easy to recognise."""
    return Verdict(criterion_id, f"What {criterion_id} is", required, satisfied, f"Because of {criterion_id}")


@dataclass
class Rubric:
    """A scorer that gives the scores of a list, one a check; an exception in the list is raised."""

    script: list[Score | Exception]
    id: str = "rubric"
    kind: str = "llm_judge"

    async def score(self, input: Any, /) -> Score:
        """Give the next score."""
        score = self.script.pop(0)
        if isinstance(score, Exception):
            raise score
        return score


FAILED = Score(0, reason="No sources", criteria=(verdict("analysis", True), verdict("sources", False)))
PASSED = Score(1, reason="All there", criteria=(verdict("analysis", True), verdict("sources", True)))


def otel_tool(name: str) -> Any:
    """Load a module of the trace tools: the folder that `ALFINE_OTEL_TOOLS` names, else a sibling of the project."""
    folder = Path(os.environ.get("ALFINE_OTEL_TOOLS") or Path(__file__).parents[3] / "shared" / "otel")
    path = folder / f"{name}.py"
    if not path.is_file():
        missing = f"no {path.name} in {folder}: set ALFINE_OTEL_TOOLS to the folder of the trace tools"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    found = importlib.util.spec_from_file_location(f"otel_tools_{name}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    # A dataclass looks up the module that it stands in.
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module
