"""Traces of agents as users build them: streams, delegations and judges."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest
from judging import says
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode
from traces import Traces, attributes_of, id_of, otel_tool, set_providers, tracing_into

from alfine import Agent, DelegationPolicy, DelegationStart, StartDecision, create_rubric_scorer, tool
from alfine.testing import ScriptedModel, Turn, call


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    with tracing_into(monkeypatch) as traces:
        yield traces


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    await anyio.lowlevel.checkpoint()
    return f"found {q}"


def supervisor(delegation: DelegationPolicy | None = None) -> Agent[str]:
    """An agent with a sub-agent that has one of its own, and a judge that is satisfied the second time."""
    reader_model = ScriptedModel([Turn(tool_calls=[call("lookup", {"q": "x"})]), "read"], name="reader-model")
    reader = Agent("reader", description="Reads.", model=reader_model, tools=[lookup])
    writer_turns: list[Turn | str] = [Turn(tool_calls=[call("delegate_reader", {"prompt": "read"})]), "written"]
    writer = Agent("writer", description="Writes.", model=ScriptedModel(writer_turns, name="w"), agents=[reader])
    judge = ScriptedModel([says(a=True, b=False), says(a=True, b=True)], name="judge")
    rubric = create_rubric_scorer(
        model=judge, criteria=[{"id": "a", "description": "A"}, {"id": "b", "description": "B"}]
    )
    asks = [call("delegate_writer", {"prompt": "write"}), call("lookup", {"q": "y"})]
    return Agent(
        "lead",
        model=ScriptedModel([Turn("Wait", tool_calls=asks), "a draft", "an answer"], name="lead-model"),
        agents=[writer],
        tools=[lookup],
        delegation=delegation or DelegationPolicy(),
        is_task_complete={"scorers": [rubric]},
    )


async def test_nested_delegations_are_one_trace_without_orphans(traces: Traces) -> None:
    with trace.get_tracer("user").start_as_current_span("request"):
        result = await supervisor().run("Go", conversation_id="c7")
    assert result.complete
    known = {id_of(span) for span in traces.spans}
    assert [s.name for s in traces.spans if s.parent is None or s.parent.span_id not in known] == ["request"]
    assert traces.children(traces.span("request")) == ["invoke_agent lead"]
    assert traces.children(traces.span("execute_tool delegate_writer writer")) == ["invoke_agent writer"]
    assert traces.children(traces.span("execute_tool delegate_reader reader")) == ["invoke_agent reader"]
    runs = [attributes_of(s) for s in traces.spans if s.name.startswith("invoke_agent")]
    assert {run["gen_ai.conversation.id"] for run in runs} == {"c7"}
    by_agent = {run["gen_ai.agent.name"]: run for run in runs}
    assert by_agent["reader"]["alfine.run.parent_id"] == by_agent["writer"]["alfine.run.id"]


async def test_a_rubrics_judge_and_verdicts_are_under_its_scorer(traces: Traces) -> None:
    await supervisor().run("Go")
    first, second = (span for span in traces.spans if span.name.startswith("evaluation"))
    assert traces.children(first) == traces.children(second) == ["chat judge", "criterion a", "criterion b"]
    graded = [id_of(chat) for chat in traces.named("chat lead-model")[1:]]
    assert [event.log_record.span_id for event in traces.events] == [graded[0]] * 3 + [graded[1]] * 3


async def test_a_delegation_that_a_hook_rejects_is_an_error_without_a_run(traces: Traces) -> None:
    def reject(start: DelegationStart) -> StartDecision:
        return StartDecision(proceed=False, reason="Do it yourself")

    await supervisor(DelegationPolicy(on_start=reject)).run("Go")
    span = traces.span("execute_tool delegate_writer writer")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "delegation_rejected"
    assert traces.children(span) == []


async def test_a_stream_belongs_to_where_it_was_asked_for_and_its_reader_to_the_reader(
    traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    tracer = trace.get_tracer("user")
    with tracer.start_as_current_span("asked here"):
        stream = supervisor().stream("Go")
    with tracer.start_as_current_span("read here"):
        async with stream:
            async for event in stream:
                with tracer.start_as_current_span(f"saw {event.kind}"):
                    await anyio.lowlevel.checkpoint()
    assert traces.children(traces.span("asked here")) == ["invoke_agent lead"]
    assert {name.split()[0] for name in traces.children(traces.span("read here"))} == {"saw"}
    assert not [s for s in traces.spans if s.name.startswith("saw") and traces.children(s)]
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


async def test_a_block_that_is_left_early_leaves_nothing_current(
    traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervisor().stream("Go") as stream:
        async for event in stream:
            if event.kind == "tool_called":
                break
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert attributes_of(traces.span("invoke_agent lead"))["alfine.run.outcome"] == "cancelled"
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


async def test_the_checker_accepts_a_run_that_is_left_at_any_event(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver, check_trace = otel_tool("receiver"), otel_tool("check_trace")
    with receiver.Receiver() as received:
        tracers, exporter = TracerProvider(), OTLPSpanExporter(f"{received.url}/v1/traces")
        tracers.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=100_000))
        set_providers(monkeypatch, tracers, LoggerProvider())
        async with supervisor().stream("Go") as stream:
            total = len([event async for event in stream])
        for place in range(total):
            async with supervisor().stream("Go") as stream:
                for _ in range(place):
                    await anext(stream)
        tracers.shutdown()
        dump = received.dump()
    problems = [str(p) for p in check_trace.check(dump, loop="alfine.", content=False) if p.level != "INFO"]
    assert not problems, "\n".join(problems)
    outcomes = [s["attributes"]["alfine.run.outcome"] for s in dump["spans"] if s["name"] == "invoke_agent lead"]
    assert len(outcomes) >= total
    assert {"cancelled", "complete"} == set(outcomes)
