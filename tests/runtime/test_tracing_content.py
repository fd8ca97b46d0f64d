"""Content in traces: none unless it is asked for, and then in the conventions' form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog
from traces import FAILED, PASSED, FunctionTool, Rubric, Traces, attributes_of, run_it, toolbox, tracing_into

from alfine.runtime import spans, trace_content
from alfine.runtime.task_complete import TaskComplete
from alfine.runtime.tools import CallContext, ToolResult
from alfine.runtime.trace_content import VARIABLE, content_capture
from alfine.testing import ScriptedModel, Turn, call

SECRET = "the secret"


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    with tracing_into(monkeypatch) as traces:
        yield traces


async def secret_run() -> None:
    """A run in which every text is the secret."""

    async def tool(context: CallContext) -> ToolResult:
        return ToolResult(SECRET)

    async def broken(context: CallContext) -> ToolResult:
        raise ValueError(SECRET)

    async def judged(output: str) -> bool:
        raise RuntimeError(SECRET)

    calls = [call("tool", {"q": SECRET}), call("broken", {"q": SECRET})]
    model = ScriptedModel([Turn(SECRET, reasoning=SECRET, tool_calls=calls), SECRET, Turn(error=OSError(SECRET))])
    tools = toolbox(FunctionTool("tool", tool), FunctionTool("broken", broken))
    check = TaskComplete([Rubric([secret_score()]), judged], "all")
    await run_it(model, tools=tools, check=check, instructions=SECRET, input=SECRET, task=SECRET)


def secret_score() -> Any:
    criteria = tuple(replace(verdict, description=SECRET, reason=SECRET) for verdict in FAILED.criteria)
    return replace(FAILED, reason=SECRET, criteria=criteria)


def in_spans(traces: Traces) -> set[str]:
    """The attributes of spans that hold the secret, and `status` where a status does."""
    found = {key for span in traces.spans for key, value in attributes_of(span).items() if SECRET in str(value)}
    return found | {"status" for span in traces.spans if SECRET in (span.status.description or "")}


def in_events(traces: Traces) -> set[str]:
    """The attributes of events that hold the secret."""
    events = [dict(event.log_record.attributes or {}) for event in traces.events]
    return {key for event in events for key, value in event.items() if SECRET in str(value)}


SPANS = {
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.evaluation.explanation",
    "alfine.criterion.description",
    "status",
}
EVENTS = {
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.evaluation.explanation",
}


@pytest.mark.parametrize(
    ("mode", "on_spans", "on_events"),
    [
        pytest.param(None, set(), set(), id="not set"),
        pytest.param("NO_CONTENT", set(), set(), id="none"),
        pytest.param("true", set(), set(), id="a value that is none"),
        pytest.param("SPAN_ONLY", SPANS, set(), id="spans"),
        pytest.param("EVENT_ONLY", set(), EVENTS, id="events"),
        pytest.param("span_and_event", SPANS, EVENTS, id="both, in small letters"),
    ],
)
async def test_content_goes_only_where_it_is_wanted(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, mode: str | None, on_spans: set[str], on_events: set[str]
) -> None:
    if mode is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, mode)
    await secret_run()
    assert in_spans(traces) == on_spans
    assert in_events(traces) == on_events


def test_an_unknown_mode_is_warned_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_told", set())
    monkeypatch.setenv(VARIABLE, "true")
    with structlog.testing.capture_logs() as entries:
        assert content_capture() == content_capture() == trace_content.Capture()
    (entry,) = entries
    assert entry["value"] == "true"
    assert "SPAN_AND_EVENT" in entry["event"]


async def test_messages_have_the_conventions_form(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "SPAN_AND_EVENT")
    calls = [call("ghost", {"n": 1}, id="c1"), call("ghost", "{broken", id="c2")]
    turns: list[Turn | str] = [Turn("Wait", reasoning="Hm", tool_calls=calls), "Draft", "Done"]
    await run_it(ScriptedModel(turns), check=TaskComplete([Rubric([FAILED, PASSED])]), instructions="Be brief")
    said = attributes_of(traces.named("chat scripted")[2])
    assert json.loads(said["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief"}]
    user, assistant, first, second, draft, feedback = json.loads(said["gen_ai.input.messages"])
    assert user == {"role": "user", "parts": [{"type": "text", "content": "Go"}]}
    assert assistant == {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "Hm"},
            {"type": "text", "content": "Wait"},
            {"type": "tool_call", "id": "c1", "name": "ghost", "arguments": {"n": 1}},
            {"type": "tool_call", "id": "c2", "name": "ghost", "arguments": "{broken"},
        ],
    }
    result = "There is no tool named 'ghost'. Tools: none."
    assert first == {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": result}]}
    assert second["parts"][0]["id"] == "c2"
    assert draft == {"role": "assistant", "parts": [{"type": "text", "content": "Draft"}]}
    assert feedback["role"] == "user"
    (answer,) = json.loads(said["gen_ai.output.messages"])
    assert answer == {"role": "assistant", "parts": [{"type": "text", "content": "Done"}], "finish_reason": "stop"}
    details = [e.log_record for e in traces.events if e.log_record.event_name != "gen_ai.evaluation.result"]
    assert {record.event_name for record in details} == {"gen_ai.client.inference.operation.details"}
    structured = dict(details[0].attributes or {})["gen_ai.output.messages"]
    assert not isinstance(structured, str)


async def test_a_run_shows_its_question_and_its_answer(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "SPAN_ONLY")
    await run_it(ScriptedModel(["Draft", "Done"]), check=TaskComplete([Rubric([FAILED, PASSED])]))
    said = attributes_of(traces.span("invoke_agent supervisor"))
    assert [m["parts"][0]["content"] for m in json.loads(said["gen_ai.input.messages"])] == ["Go"]
    assert [m["parts"][0]["content"] for m in json.loads(said["gen_ai.output.messages"])] == ["Done"]


async def test_each_message_is_turned_into_json_once_a_run(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    write = trace_content.message_item

    def counted(message: Any) -> Any:
        written.append(message)
        return write(message)

    monkeypatch.setenv(VARIABLE, "SPAN_ONLY")
    monkeypatch.setattr(trace_content, "message_item", counted)
    turns: list[Turn | str] = [Turn("Wait", tool_calls=[call("ghost")])] * 20
    result = await run_it(ScriptedModel([*turns, "Done"]), max_steps=30)
    # The run's own span writes the question too; the last answer is no input any more.
    assert len(written) == len(result.messages)


async def test_without_content_nothing_is_turned_into_json(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(content: object) -> str:
        raise AssertionError("content was written")

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(trace_content, "write_json", refuse)
    monkeypatch.setattr(spans, "_told", set())
    with structlog.testing.capture_logs() as entries:
        await secret_run()
    assert not [entry for entry in entries if entry.get("code") == "tracing_failed"]
