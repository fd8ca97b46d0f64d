"""Finished spans as a tree of lines: names, durations, verdicts."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from alfine.runtime import conventions as names

from .otlp import resource
from .plain import MARKS
from .text import one_line

if TYPE_CHECKING:
    from rich.console import Console

_VERDICTS = (names.CRITERION_SATISFIED, names.SCORER_PASSED, names.COMPLETION_PASSED, names.ITERATION_PASSED)


@dataclass(frozen=True, slots=True)
class TreeLine:
    """One span's line. `verdict` is what it says about a criterion, a scorer, a check or an iteration, if it does."""

    branch: str
    name: str
    duration: str
    verdict: bool | None = None
    fed_back: bool = False
    error: str | None = None

    def __str__(self) -> str:
        verdict = "" if self.verdict is None else f" {MARKS[self.verdict]}"
        feedback = " ← feedback" if self.fed_back else ""
        error = f" ! {self.error}" if self.error else ""
        return f"{self.branch}{self.name}{verdict}{feedback}{error}  {self.duration}"


def record_spans() -> InMemorySpanExporter:
    """Keep all spans from now on in memory; `get_finished_spans()` of what is returned gives them.

    Call it after `setup_otlp`: it adds to a provider that is there, and else makes one.
    """
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


def trace_tree(spans: Sequence[ReadableSpan]) -> list[TreeLine]:
    """Return the lines of the trees that the spans make, in order of time. A span without its parent is a root."""
    known = {span.context.span_id for span in spans if span.context is not None}
    children: defaultdict[int | None, list[ReadableSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        parent = span.parent.span_id if span.parent is not None else None
        children[parent if parent in known else None].append(span)
    return [line for root in children[None] for line in _lines(root, children, "", "")]


def print_trace_tree(spans: Sequence[ReadableSpan], console: Console | None = None) -> None:
    """Print the tree: with colours on a console, else as plain lines on standard output."""
    lines = trace_tree(spans)
    if console is None:
        print("\n".join(map(str, lines)), file=sys.stdout)
        return
    from rich.text import Text

    for line in lines:
        text = Text(line.branch, "dim", no_wrap=True, overflow="ellipsis").append(line.name, "not dim")
        if line.verdict is not None:
            text.append(f" {MARKS[line.verdict]}", "not dim green" if line.verdict else "not dim red")
        if line.fed_back:
            text.append(" ← feedback", "not dim yellow")
        if line.error:
            text.append(f" ! {line.error}", "not dim red")
        console.print(text.append(f"  {line.duration}"))


def _lines(
    span: ReadableSpan, children: dict[int | None, list[ReadableSpan]], branch: str, below: str
) -> Iterator[TreeLine]:
    yield _line(span, branch)
    inside = children.get(span.context.span_id, []) if span.context is not None else []
    for child in inside:
        last = child is inside[-1]
        yield from _lines(child, children, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def _line(span: ReadableSpan, branch: str) -> TreeLine:
    attributes = span.attributes or {}
    verdict = next((bool(attributes[name]) for name in _VERDICTS if name in attributes), None)
    error = None
    if span.status.status_code is StatusCode.ERROR:
        error = one_line(str(attributes.get(names.ERROR_TYPE, "error")), 80)
    fed_back = bool(attributes.get(names.ITERATION_FEEDBACK_INJECTED))
    return TreeLine(branch, one_line(span.name, 100), _duration(span), verdict, fed_back, error)


def _duration(span: ReadableSpan) -> str:
    if span.start_time is None or span.end_time is None:
        return "?"
    seconds = (span.end_time - span.start_time) / 1e9
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
