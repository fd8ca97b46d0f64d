"""The same with the OpenTelemetry SDK on (batched, in memory) and structlog at info: what traces and logs cost."""

from __future__ import annotations

import logging
import os

import structlog
from alfine_d import IMPORT, VERSION, Driver

os.environ.pop("OTEL_SDK_DISABLED", None)

from opentelemetry import trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, InMemoryLogRecordExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
trace.set_tracer_provider(spans)
logs = LoggerProvider()
logs.add_log_record_processor(BatchLogRecordProcessor(InMemoryLogRecordExporter()))
set_logger_provider(logs)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))

__all__ = ["IMPORT", "VERSION", "Driver"]
