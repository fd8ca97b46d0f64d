"""Scores in traces: a span for each scorer and each criterion, and a log event for each at the call that was graded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import Logger, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, Tracer, format_span_id, set_span_in_context

from . import conventions as names
from .spans import Attributes, SpanBlock, cleaned, error_type, guarded

if TYPE_CHECKING:
    from .scoring import Score, Scorer, Verdict
    from .tracing import SpanScope

_APART = 2_000
"""Nanoseconds between the starts of two criterion spans: backends sort by start, and some keep only microseconds."""


@dataclass(frozen=True, slots=True)
class GradedChat:
    """The model call whose text is graded. Without a span there is no context, and the response's id has to do."""

    context: Context | None
    response_id: str | None

    @classmethod
    def of(cls, span: Span, response_id: str | None) -> GradedChat:
        """Return what events about the call need, without the span's own weight."""
        context = span.get_span_context()
        return cls(set_span_in_context(NonRecordingSpan(context)) if context.is_valid else None, response_id)


class EvaluationEvents:
    """Emits log events.

    Args:
        explain: whether explanations, which quote the answer, are wanted.
    """

    def __init__(self, logger: Logger | None = None, *, explain: bool = False) -> None:
        self.explain = explain
        self._logger = logger

    def result(self, attributes: Attributes, explanation: str | None, graded: GradedChat | None) -> None:
        """Emit one evaluation's result, at the call that was graded."""
        if explanation is not None and self.explain:
            attributes = {**attributes, names.EVALUATION_EXPLANATION: explanation}
        if graded is not None and graded.response_id:
            attributes = {**attributes, names.RESPONSE_ID: graded.response_id}
        self.emit(names.EVALUATION_RESULT, cleaned(attributes), graded.context if graded else None)

    @guarded
    def emit(self, name: str, attributes: Mapping[str, Any], context: Context | None) -> None:
        """Emit an event; without a context, at the current span."""
        if self._logger is not None:
            self._logger.emit(
                event_name=name,
                attributes=attributes,
                context=context,
                timestamp=time.time_ns(),
                severity_number=SeverityNumber.INFO,
            )


class ScorerSpan(SpanBlock):
    """`evaluation <scorer>`: one scorer at work.

    Attributes:
        scope: for the scorer's own model calls, so that they are not taken for the graded one.
    """

    def __init__(self, graded_scope: SpanScope, scope: SpanScope, scorer: Scorer) -> None:
        super().__init__(graded_scope.tracer, describe_errors=graded_scope.content.spans)
        self.scope = scope
        self._events = graded_scope.events
        self._explain = graded_scope.content.spans
        self._graded = graded_scope.graded
        self._scorer = scorer
        self._judged_at = 0

    def describe(self) -> tuple[str, Attributes]:
        scorer_id = self._scorer.id
        return f"{names.EVALUATION} {scorer_id}", {
            names.OPERATION_NAME: names.EVALUATION,
            names.EVALUATION_NAME: scorer_id,
            names.SCORER_ID: scorer_id,
            names.SCORER_KIND: str(getattr(self._scorer, "kind", "code")),
            names.SCORER_SAMPLED: True,  # a check runs every scorer; sampling is for scores of finished runs
        }

    @guarded
    def finish(self, score: Score, passed: bool) -> None:
        """Record the score, and a span for each verdict behind it."""
        self._judged_at = time.time_ns()
        for index, verdict in enumerate(score.criteria):
            self._criterion(index, verdict)
        grade: Attributes = {names.SCORER_PASSED: passed, **_grade(score.value, passed)}
        if score.scale != 1:
            grade[names.SCORER_SCALE] = float(score.scale)
        self.set({**grade, names.EVALUATION_EXPLANATION: score.reason} if self._explain else grade)
        self._events.result({**self._identity(), **grade}, score.reason, self._graded)

    def ended(self, error: BaseException | None) -> None:
        """A scorer that is cut gives no score either: for a check, that is an error."""
        if error is None:
            return
        if isinstance(error, Exception):
            kind = error_type(error)
            self.fail(error)
        else:
            kind = names.CANCELLED
            self.fail_as(kind)
        self._events.result({**self._identity(), names.ERROR_TYPE: kind}, None, self._graded)

    def _criterion(self, index: int, verdict: Verdict) -> None:
        with CriterionSpan(self._tracer, index, verdict, start=self._judged_at, explain=self._explain) as block:
            pass
        attributes = block.facts()
        if span_id := block.span.get_span_context().span_id:
            attributes[names.CRITERION_SPAN_ID] = format_span_id(span_id)
        attributes[names.SCORER_ID] = self._scorer.id
        self._events.result(attributes, verdict.reason, self._graded)

    def _identity(self) -> Attributes:
        attributes: Attributes = {names.EVALUATION_NAME: self._scorer.id, names.SCORER_ID: self._scorer.id}
        if span_id := self.span.get_span_context().span_id:
            attributes[names.SCORER_SPAN_ID] = format_span_id(span_id)
        return attributes


class CriterionSpan(SpanBlock):
    """`criterion <id>`: one verdict. A judge gives its verdicts together, so they are instants one after the other.

    Args:
        start: when the first verdict was given, in nanoseconds since the epoch.
    """

    def __init__(self, tracer: Tracer | None, index: int, verdict: Verdict, *, start: int, explain: bool) -> None:
        super().__init__(tracer)
        self._index = index
        self._verdict = verdict
        self._explain = explain
        self.start_time = start + index * _APART
        self.end_time = self.start_time + _APART // 2

    def facts(self) -> Attributes:
        """Return what is safe to record: no text of a judge."""
        verdict = self._verdict
        return {
            names.EVALUATION_NAME: verdict.criterion_id,
            names.CRITERION_ID: verdict.criterion_id,
            names.CRITERION_INDEX: self._index,
            names.CRITERION_REQUIRED: verdict.required,
            names.CRITERION_SATISFIED: verdict.satisfied,
            **_grade(float(verdict.satisfied), verdict.satisfied),
        }

    def describe(self) -> tuple[str, Attributes]:
        attributes: Attributes = {names.OPERATION_NAME: names.EVALUATION, **self.facts()}
        if self._explain:
            attributes[names.CRITERION_DESCRIPTION] = self._verdict.description
            attributes[names.EVALUATION_EXPLANATION] = self._verdict.reason
        return f"{names.CRITERION} {self._verdict.criterion_id}", attributes


def _grade(value: float, passed: bool) -> Attributes:
    return {names.EVALUATION_SCORE_VALUE: float(value), names.EVALUATION_SCORE_LABEL: "pass" if passed else "fail"}
