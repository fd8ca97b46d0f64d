"""Exporting traces and evaluation events over OTLP, where the standard variables say so."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec

from opentelemetry import trace
from opentelemetry._logs import get_logger_provider, set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

FLUSH_SECONDS = 5.0

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def setup_otlp() -> Callable[[], None] | None:
    """Export to the collector that the environment names; an application's own providers are left as they are.

    `OTEL_EXPORTER_OTLP_ENDPOINT` names it for both, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and `…_LOGS_ENDPOINT` for one
    of them; `OTEL_TRACES_EXPORTER=none` and `OTEL_LOGS_EXPORTER=none` switch one off. Without the extra `otlp` a line
    on standard error says how to install it.

    Returns:
        A function that sends what is left, within `FLUSH_SECONDS` also when the collector is dead; None where nothing
        is exported.
    """
    spans, logs = _wanted("TRACES"), _wanted("LOGS")
    if not spans and not logs:
        return None
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        text = "warning: nothing is exported over OTLP, the exporter is missing: pip install 'alfine[otlp]'"
        print(text, file=sys.stderr)
        return None
    shutdowns = [*(_export_spans() if spans else ()), *(_export_logs() if logs else ())]
    return (lambda: _within(FLUSH_SECONDS, shutdowns)) if shutdowns else None


def resource() -> Resource:
    """Return who the telemetry is from: what the environment says, else `alfine`."""
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if named else {"service.name": "alfine"})


def _wanted(signal: str) -> bool:
    endpoint = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(_ENDPOINT)
    return bool(endpoint) and os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() != "none"


def _export_spans() -> list[Callable[[], None]]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return []
    provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return [provider.shutdown]


def _export_logs() -> list[Callable[[], None]]:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    if isinstance(get_logger_provider(), LoggerProvider):
        return []
    provider = LoggerProvider(resource=resource(), shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    set_logger_provider(provider)
    return [provider.shutdown]


def _within(seconds: float, shutdowns: list[Callable[[], None]]) -> None:
    """Call all of them side by side and wait for at most so long: an exporter may retry for minutes."""
    threads = [threading.Thread(target=shutdown, name="alfine otlp", daemon=True) for shutdown in shutdowns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds / len(threads))
    if any(thread.is_alive() for thread in threads):
        print("warning: the OTLP collector did not take everything in time", file=sys.stderr)
