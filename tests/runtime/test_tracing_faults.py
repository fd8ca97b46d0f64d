"""What breaks in tracing never reaches the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from traces import (
    FAILED,
    PASSED,
    FunctionTool,
    Rubric,
    attributes_of,
    make_run,
    run_it,
    set_providers,
    toolbox,
    tracing_into,
)

from alfine.runtime import spans, trace_calls
from alfine.runtime.loop import run_loop
from alfine.runtime.run import RunResult
from alfine.runtime.task_complete import TaskComplete
from alfine.runtime.tools import CallContext, ToolResult
from alfine.testing import ScriptedModel, Turn, call


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The package's log, as if nothing had been warned about before."""
    monkeypatch.setattr(spans, "_told", set())
    with structlog.testing.capture_logs() as entries:
        yield entries


async def whole_run() -> RunResult[Any]:
    """A run with every kind of span."""

    async def found(context: CallContext) -> ToolResult:
        return ToolResult("found")

    model = ScriptedModel([Turn(tool_calls=[call("search"), call("search")]), "Draft", "Done"])
    check = TaskComplete([Rubric([FAILED, PASSED]), lambda output: True])
    return await run_it(model, tools=toolbox(FunctionTool("search", found)), check=check)


class RaisesAt(SpanProcessor):
    """Raises where it is told to, for spans whose names begin so."""

    def __init__(self, where: str, name: str) -> None:
        self.where = where
        self.name = name

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.where == "start" and span.name.startswith(self.name):
            raise RuntimeError("processor is broken")

    def on_end(self, span: ReadableSpan) -> None:
        if self.where == "end" and span.name.startswith(self.name):
            raise RuntimeError("processor is broken")


KINDS = ["invoke_agent", "iteration", "chat", "execute_tool", "is_task_complete", "evaluation", "criterion", ""]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("where", ["start", "end"])
async def test_a_span_processor_that_raises_leaves_the_run_unharmed(
    monkeypatch: pytest.MonkeyPatch, warnings: list[Any], where: str, name: str
) -> None:
    with tracing_into(monkeypatch, RaisesAt(where, name)):
        result = await whole_run()
        assert trace.get_current_span() is trace.INVALID_SPAN
    assert result.complete
    assert result.text == "Done"
    assert [entry["code"] for entry in warnings] == ["tracing_failed"]
    assert warnings[0]["log_level"] == "warning"


@pytest.mark.parametrize("lost", ["iteration", "is_task_complete", "evaluation"])
async def test_the_children_of_a_span_that_cannot_start_stay_in_the_trace(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    with tracing_into(monkeypatch, RaisesAt("start", lost)) as traces:
        await whole_run()
    known = {span.context.span_id for span in traces.spans if span.context}
    orphans = [span.name for span in traces.spans if span.parent is None or span.parent.span_id not in known]
    assert orphans == ["invoke_agent supervisor"]
    assert len(traces.named("chat scripted")) == 3


async def test_a_processor_that_raises_at_one_span_loses_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with tracing_into(monkeypatch, RaisesAt("end", "chat")) as traces:
        await whole_run()
    assert not traces.named("chat scripted")
    assert traces.children(traces.span("iteration 2")) == ["is_task_complete"]
    assert attributes_of(traces.span("invoke_agent supervisor"))["alfine.run.outcome"] == "complete"
    assert len(traces.events) == 2 * 4


async def test_a_sampler_that_raises_leaves_the_run_unharmed(
    monkeypatch: pytest.MonkeyPatch, warnings: list[Any]
) -> None:
    class Broken(Sampler):
        def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
            raise RuntimeError("sampler is broken")

        def get_description(self) -> str:
            return "broken"

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=Broken()))
    assert (await whole_run()).complete
    assert len(warnings) == 1


async def test_a_provider_that_raises_leaves_the_run_unharmed(
    monkeypatch: pytest.MonkeyPatch, warnings: list[Any]
) -> None:
    class Broken(TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("provider is broken")

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Broken())
    assert (await whole_run()).complete
    assert len(warnings) == 1


async def test_a_span_that_takes_nothing_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch, warnings: list[Any]
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("span is broken")

    for method in ("set_attribute", "set_attributes", "set_status"):
        monkeypatch.setattr(Span, method, refuse)
    with tracing_into(monkeypatch) as traces:
        assert (await whole_run()).complete
    assert traces.children(traces.span("invoke_agent supervisor")) == ["iteration 1", "iteration 2"]
    assert len(warnings) == 1


async def test_a_logger_that_raises_loses_only_its_events(monkeypatch: pytest.MonkeyPatch, warnings: list[Any]) -> None:
    class Broken(LoggerProvider):
        def get_logger(self, *_: Any, **__: Any) -> Any:
            class Logger:
                def emit(self, *_: Any, **__: Any) -> None:
                    raise RuntimeError("logger is broken")

            return Logger()

    with tracing_into(monkeypatch) as traces:
        set_providers(monkeypatch, trace.get_tracer_provider(), Broken())
        assert (await whole_run()).complete
    assert len(traces.named("criterion sources")) == 2
    assert len(warnings) == 1


async def test_a_model_that_cannot_say_where_it_is_served_is_asked_all_the_same(
    monkeypatch: pytest.MonkeyPatch, warnings: list[Any]
) -> None:
    class Odd(ScriptedModel):
        @property
        def base_url(self) -> str:
            raise RuntimeError("no idea")

    with tracing_into(monkeypatch):
        assert (await run_it(Odd(["a"]))).text == "a"
    assert len(warnings) == 1


async def test_content_that_cannot_be_written_leaves_the_run_unharmed(
    monkeypatch: pytest.MonkeyPatch, warnings: list[Any]
) -> None:
    def refuse(reply: object) -> None:
        raise TypeError("no JSON")

    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_AND_EVENT")
    monkeypatch.setattr(trace_calls, "reply_items", refuse)
    with tracing_into(monkeypatch) as traces:
        assert (await whole_run()).complete
    assert len(traces.named("chat scripted")) == 3
    assert len(warnings) == 1


async def test_an_error_of_the_run_is_not_swallowed_with_those_of_tracing(
    monkeypatch: pytest.MonkeyPatch, warnings: list[Any]
) -> None:
    error = OSError("gone")
    with tracing_into(monkeypatch, RaisesAt("start", ""), RaisesAt("end", "")):
        result = await run_loop(make_run(ScriptedModel([Turn(error=error)])))
    assert result.outcome == "error"
    assert result.error is error
