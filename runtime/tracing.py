"""Spans of a run (stub until the real one lands)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .check import CheckReport
    from .messages import ToolCall
    from .models import Model, ModelRequest, Reply, ToolDefinition
    from .run import RunResult, RunSpec
    from .scoring import Score, Scorer
    from .tools import ToolResult


class SpanScope:
    """The trace that a run's spans belong to."""

    @classmethod
    def capture(cls, conversation_id: str | None = None) -> SpanScope:
        return cls()

    def child(self) -> SpanScope:
        return self


NO_SCOPE = SpanScope()


class RunSpan:
    def finish(self, result: RunResult[object], iterations: int) -> None: ...


class IterationSpan:
    def finish(self, report: CheckReport, *, continued: bool) -> None: ...


class ChatSpan:
    waiting = False

    def first_part(self) -> None: ...
    def finish(self, reply: Reply) -> None: ...


class ToolSpan:
    def finish(self, result: ToolResult) -> ToolResult:
        return result


class CheckSpan:
    def finish(self, report: CheckReport) -> None: ...


class ScorerSpan:
    scope = NO_SCOPE

    def finish(self, score: Score, passed: bool) -> None: ...


@contextmanager
def run_span(scope: SpanScope, spec: RunSpec) -> Iterator[RunSpan]:
    yield RunSpan()


@contextmanager
def iteration_span(scope: SpanScope, number: int, *, fed_back: bool) -> Iterator[IterationSpan]:
    yield IterationSpan()


@contextmanager
def chat_span(scope: SpanScope, model: Model, request: ModelRequest) -> Iterator[ChatSpan]:
    yield ChatSpan()


@contextmanager
def tool_span(
    scope: SpanScope, agent: str, call: ToolCall, definition: ToolDefinition | None, target: str | None
) -> Iterator[ToolSpan]:
    yield ToolSpan()


@contextmanager
def check_span(scope: SpanScope, strategy: str, scorers: int) -> Iterator[CheckSpan]:
    yield CheckSpan()


@contextmanager
def scorer_span(scope: SpanScope, scorer: Scorer) -> Iterator[ScorerSpan]:
    yield ScorerSpan()
