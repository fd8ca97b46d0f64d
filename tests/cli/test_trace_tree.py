"""Finished spans as a tree."""

import io
from collections.abc import Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

from alfine.cli.trace_tree import print_trace_tree, trace_tree

MS = 1_000_000


@pytest.fixture
def spans() -> Sequence[ReadableSpan]:
    """A run of two iterations; the first one's criterion failed."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")

    def span(name: str, parent: trace.Span | None, start: int, end: int, **attributes: bool | str) -> trace.Span:
        context = trace.set_span_in_context(parent) if parent is not None else None
        named = {key.replace("__", "."): value for key, value in attributes.items()}
        made = tracer.start_span(name, context, start_time=start * MS, attributes=named)
        made.end(end * MS)
        return made

    root = span("invoke_agent boss", None, 1, 2501)
    first = span("iteration 1", root, 2, 1000)
    check = span("is_task_complete", first, 500, 900, alfine__completion__passed=False)
    span("criterion [red]c[/red]\x1b", check, 600, 601, alfine__criterion__satisfied=False)
    second = span("iteration 2", root, 1001, 2000, alfine__iteration__feedback_injected=True)
    failed = tracer.start_span("chat m", trace.set_span_in_context(second), start_time=1002 * MS)
    failed.set_attribute("error.type", "429")
    failed.set_status(trace.StatusCode.ERROR)
    failed.end(1003 * MS)
    return exporter.get_finished_spans()


EXPECTED = r"""
invoke_agent boss  2.50 s
├─ iteration 1  998.0 ms
│  └─ is_task_complete ✗  400.0 ms
│     └─ criterion [red]c[/red]\x1b ✗  1.0 ms
└─ iteration 2 ← feedback  999.0 ms
   └─ chat m ! 429  1.0 ms
"""


def test_the_tree_shows_names_verdicts_feedback_errors_and_durations(spans: Sequence[ReadableSpan]) -> None:
    assert "\n".join(map(str, trace_tree(spans))) == EXPECTED.strip()


def test_the_tree_looks_the_same_on_a_console(spans: Sequence[ReadableSpan]) -> None:
    console = Console(file=io.StringIO(), width=100)
    print_trace_tree(spans, console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().strip() == EXPECTED.strip()


def test_without_a_console_the_tree_is_printed_plainly(
    spans: Sequence[ReadableSpan], capsys: pytest.CaptureFixture[str]
) -> None:
    print_trace_tree(spans)
    assert capsys.readouterr().out.strip() == EXPECTED.strip()


def test_a_span_whose_parent_is_missing_is_a_root(spans: Sequence[ReadableSpan]) -> None:
    without_root = [s for s in spans if s.parent is not None]
    assert [line.branch for line in trace_tree(without_root) if line.name.startswith("iteration")] == ["", ""]


def test_no_spans_make_no_tree() -> None:
    assert trace_tree([]) == []
