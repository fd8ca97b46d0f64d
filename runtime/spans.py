"""A span around a block, made so that no fault of tracing reaches the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from functools import wraps
from types import TracebackType
from typing import ParamSpec, Self

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer, set_span_in_context

from . import conventions as names
from .errors import ModelError
from .log import logger
from .messages import clean

P = ParamSpec("P")

AttributeValue = str | bool | int | float | Sequence[str]
Attributes = dict[str, AttributeValue]

_told: set[str] = set()


def warn_once(code: str, message: str, **values: object) -> None:
    """Log a warning, the same one once a process: faults of tracing come with every span."""
    if code not in _told:
        _told.add(code)
        logger().warning(message, code=code, **values)


def guarded(work: Callable[P, None]) -> Callable[P, None]:
    """Make `work` harmless: what it raises is logged once a process and goes no further.

    Samplers, span processors, exporters and loggers are the application's, and all of them run inside our calls.
    """

    @wraps(work)
    def harmless(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            work(*args, **kwargs)
        except Exception as error:
            warn_once("tracing_failed", "tracing failed; the run goes on, parts of its trace are lost", exc_info=error)

    return harmless


def error_type(error: BaseException) -> str:
    """Return what `error.type` says: the server's status, else the class; builtins without their module.

    >>> error_type(ExceptionGroup("", [ValueError()]))
    'ValueError'
    >>> error_type(ModelError("slow down", status=429))
    '429'
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, ModelError) and error.status is not None:
        return str(error.status)
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def cleaned(attributes: Attributes) -> Attributes:
    """Return attributes that any exporter can encode: one lone surrogate would lose it a whole batch.

    A number that does not fit into 64 bits is left out.
    """
    return {key: _cleaned(value) for key, value in attributes.items() if not _is_too_large(value)}


def _is_too_large(value: AttributeValue) -> bool:
    return isinstance(value, int) and value.bit_length() > 63


def _cleaned(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return clean(value)
    return [clean(item) for item in value] if isinstance(value, Sequence) else value


class SpanBlock:
    """A span that is current inside its `with` block. Without an SDK it is nothing.

    A span that cannot be started leaves its parent current, so that the spans inside keep their place in the trace.

    Attributes:
        recording: somebody looks at this span; without that no attributes are made.
        start_time, end_time: nanoseconds since the epoch; None for when the block is entered and left.
    """

    kind = SpanKind.INTERNAL

    def __init__(self, tracer: Tracer | None, *, describe_errors: bool = False) -> None:
        self.span: Span = INVALID_SPAN
        self.recording = False
        self.start_time: int | None = None
        self.end_time: int | None = None
        self._tracer = tracer
        self._describe_errors = describe_errors
        self._token: Token[Context] | None = None

    def describe(self) -> tuple[str, Attributes]:
        """Return the span's name and all that is known at its start: samplers see nothing else."""
        raise NotImplementedError

    def parent(self) -> Context:
        """Return the context that the span is started in."""
        return otel_context.get_current()

    def inside(self, context: Context) -> Context:
        """Return the context that is current inside the block."""
        return context

    def started(self) -> None:
        """Record what the span can bear only once it is there."""

    def ended(self, error: BaseException | None) -> None:
        """Record how the block was left. A cancelled block is none that failed."""
        if isinstance(error, Exception):
            self.fail(error)

    @guarded
    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        if self.recording:
            self.span.set_attributes(cleaned(attributes))

    def fail(self, error: Exception) -> None:
        """Mark the span as failed. What an exception says may quote content, and is kept only with that."""
        self.fail_as(error_type(error), str(error) if self._describe_errors else None)

    @guarded
    def fail_as(self, kind: str, description: str | None = None) -> None:
        """Mark the span as failed, with a value of `error.type`."""
        if self.recording:
            self.span.set_attribute(names.ERROR_TYPE, clean(kind))
            self.span.set_status(StatusCode.ERROR, clean(description) if description else None)

    def __enter__(self) -> Self:
        if self._tracer is not None:
            self._start(self._tracer)
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._finish(error)
        if self._tracer is not None:
            self._leave()
            self._end()

    @guarded
    def _start(self, tracer: Tracer) -> None:
        name, attributes = self.describe()
        parent = self.parent()
        self.span = tracer.start_span(clean(name), parent, self.kind, cleaned(attributes), start_time=self.start_time)
        self.recording = self.span.is_recording()
        self._token = otel_context.attach(self.inside(set_span_in_context(self.span, parent)))

    @guarded
    def _begin(self) -> None:
        self.started()

    @guarded
    def _finish(self, error: BaseException | None) -> None:
        self.ended(error)

    @guarded
    def _leave(self) -> None:
        if self._token is not None:
            otel_context.detach(self._token)

    @guarded
    def _end(self) -> None:
        self.span.end(self.end_time)
