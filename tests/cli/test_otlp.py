"""Exporting to a collector, in processes of their own: providers can be set once only."""

import http.server
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

Alfine = Callable[..., "subprocess.CompletedProcess[str]"]


@contextmanager
def collector(paths: list[str]) -> Iterator[str]:
    """A server that takes everything and notes the paths."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


SPAN = """
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber, get_logger
from alfine.cli.otlp import setup_otlp
shutdown = setup_otlp()
with trace.get_tracer("t").start_as_current_span("s"):
    get_logger("t").emit(LogRecord(event_name="e", severity_number=SeverityNumber.INFO))
print("exports" if shutdown else "does not export", flush=True)
if shutdown:
    shutdown()
"""


def run_script(command: list[str], environment: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command[0], "-c", SPAN], env=environment | variables, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("suffix", "path", "expected"),
    [
        pytest.param("", "", ["/v1/logs", "/v1/traces"], id="the common variable exports both"),
        pytest.param("_TRACES", "/v1/traces", ["/v1/traces"], id="that of traces only traces"),
        pytest.param("_LOGS", "/v1/logs", ["/v1/logs"], id="that of logs only logs"),
    ],
)
def test_what_is_exported_follows_the_standard_variables(
    command: list[str], environment: dict[str, str], suffix: str, path: str, expected: list[str]
) -> None:
    paths: list[str] = []
    with collector(paths) as url:
        done = run_script(command, environment, **{f"OTEL_EXPORTER_OTLP{suffix}_ENDPOINT": url + path})
    assert (done.stdout, done.stderr) == ("exports\n", "")
    assert sorted(set(paths)) == expected


def test_without_the_variable_nothing_is_exported(command: list[str], environment: dict[str, str]) -> None:
    assert run_script(command, environment).stdout == "does not export\n"


def test_a_signal_can_be_switched_off(command: list[str], environment: dict[str, str]) -> None:
    paths: list[str] = []
    with collector(paths) as url:
        run_script(command, environment, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_LOGS_EXPORTER="none")
    assert set(paths) == {"/v1/traces"}


def test_a_dead_collector_does_not_hold_the_command(alfine: Alfine) -> None:
    begun = time.monotonic()
    done = alfine("run", "Hi", "--agent", "team:good", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 0
    assert time.monotonic() - begun < 20


def test_without_the_extra_a_line_says_how_to_install_it(command: list[str], environment: dict[str, str]) -> None:
    code = "import alfine.cli.otlp as o; o.find_spec = lambda name: None; print(o.setup_otlp())"
    done = subprocess.run(
        [command[0], "-c", code],
        env=environment | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "None\n"
    assert done.stderr.count("\n") == 1
    assert "pip install 'alfine[otlp]'" in done.stderr
