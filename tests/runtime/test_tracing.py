"""The span tree of a run: what its spans are called, what they say, and whose children they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode
from traces import (
    FAILED,
    PASSED,
    Delegate,
    FunctionTool,
    Rubric,
    Traces,
    attributes_of,
    make_run,
    run_it,
    toolbox,
    tracing_into,
)

from alfine.runtime.errors import ModelError
from alfine.runtime.limits import Usage
from alfine.runtime.loop import run_loop
from alfine.runtime.messages import UserMessage
from alfine.runtime.models import ModelRequest, ModelSettings
from alfine.runtime.run import StepDecision
from alfine.runtime.scoring import ask_model
from alfine.runtime.task_complete import TaskComplete
from alfine.runtime.tools import CallContext, ToolResult
from alfine.runtime.tracing import SpanScope
from alfine.testing import Gate, ScriptedModel, Turn, call, http_error


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    with tracing_into(monkeypatch) as traces:
        yield traces


async def found(context: CallContext) -> ToolResult:
    return ToolResult("found")


async def test_a_run_is_a_tree_of_iterations_calls_and_checks(traces: Traces) -> None:
    model = ScriptedModel([Turn(tool_calls=[call("search")]), "Draft", "Done"])
    check = TaskComplete([Rubric([FAILED, PASSED])])
    await run_it(model, tools=toolbox(FunctionTool("search", found)), check=check)
    run = traces.span("invoke_agent supervisor")
    assert run.parent is None
    assert traces.children(run) == ["iteration 1", "iteration 2"]
    assert traces.children(traces.span("iteration 1")) == [
        "chat scripted",
        "execute_tool search",
        "chat scripted",
        "is_task_complete",
    ]
    first, second = traces.named("is_task_complete")
    assert traces.children(first) == traces.children(second) == ["evaluation rubric"]
    assert traces.children(traces.named("evaluation rubric")[0]) == ["criterion analysis", "criterion sources"]


async def test_a_run_says_what_it_came_to(traces: Traces) -> None:
    usage = Usage(input_tokens=7, output_tokens=3, cached_tokens=2)
    model = ScriptedModel([Turn("a", usage=usage), Turn("b", usage=usage)])
    spec = {"run_id": "r7", "parent_run_id": "r1", "conversation_id": "c1", "description": "Leads"}
    await run_it(model, check=TaskComplete([Rubric([FAILED, FAILED])], "any"), max_steps=2, **spec)
    run = traces.span("invoke_agent supervisor")
    assert run.kind is SpanKind.INTERNAL
    assert attributes_of(run) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "supervisor",
        "gen_ai.agent.description": "Leads",
        "gen_ai.request.model": "scripted",
        "gen_ai.conversation.id": "c1",
        "alfine.run.id": "r7",
        "alfine.run.parent_id": "r1",
        "alfine.run.max_steps": 2,
        "alfine.run.iterations": 2,
        "alfine.run.outcome": "max_steps",
        "alfine.completion.strategy": "any",
        "alfine.usage.requests": 2,
        "alfine.usage.tool_calls": 0,
        "alfine.usage.input_tokens": 14,
        "alfine.usage.output_tokens": 6,
        "alfine.usage.cached_tokens": 4,
        "alfine.usage.reasoning_tokens": 0,
    }
    assert attributes_of(traces.named("chat scripted")[0])["gen_ai.conversation.id"] == "c1"


async def test_a_model_call_says_how_it_was_asked_and_what_came_back(traces: Traces) -> None:
    class Served(ScriptedModel):
        base_url = "https://key@models.example/v1"
        settings = ModelSettings(temperature=1, max_tokens=50)

    usage = Usage(input_tokens=9, output_tokens=4, cached_tokens=3, reasoning_tokens=2)
    model = Served([Turn("Done", usage=usage, finish_reason="length")], name="large", provider="mistral")
    settings = ModelSettings(temperature=0, top_p=1, seed=3, stop=["END"], reasoning_effort="low")
    await run_it(model, settings=settings)
    chat = traces.span("chat large")
    said = attributes_of(chat)
    assert chat.kind is SpanKind.CLIENT
    assert 0 <= said.pop("gen_ai.response.time_to_first_chunk") < 60
    assert isinstance(said["gen_ai.request.temperature"], float)
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "large",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.seed": 3,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.response.id": "large-1",
        "gen_ai.response.model": "large",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "server.address": "models.example",
        "server.port": 443,
        "alfine.step.number": 1,
    }


async def test_a_server_that_reports_no_usage_gets_none(traces: Traces) -> None:
    await run_it(ScriptedModel([Turn("Done", usage=None)]))
    assert not [key for key in attributes_of(traces.span("chat scripted")) if "usage" in key]


async def test_a_reply_with_tool_calls_ends_with_the_conventions_word(traces: Traces) -> None:
    await run_it(ScriptedModel([Turn(tool_calls=[call("search")]), "Done"]))
    chat = traces.named("chat scripted")[0]
    assert attributes_of(chat)["gen_ai.response.finish_reasons"] == ("tool_call",)


async def test_a_tool_call_says_what_was_called_and_by_whom(traces: Traces) -> None:
    model = ScriptedModel([Turn(tool_calls=[call("search", {"q": "secret"}, id="c9")]), "Done"])
    await run_it(model, tools=toolbox(FunctionTool("search", found)))
    tool = traces.span("execute_tool search")
    assert tool.status.status_code is StatusCode.UNSET
    assert attributes_of(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Does search",
        "gen_ai.tool.call.id": "c9",
        "gen_ai.agent.name": "supervisor",
        "alfine.step.number": 1,
    }


async def test_a_delegation_holds_the_run_that_it_started(traces: Traces) -> None:
    research = Delegate("research", ScriptedModel(["Researched"]))
    await run_it(ScriptedModel([Turn(tool_calls=[call("delegate_research")]), "Done"]), tools=toolbox(research))
    tool = traces.span("execute_tool delegate_research research")
    assert attributes_of(tool)["gen_ai.transfer.mode"] == "return_to_caller"
    assert attributes_of(tool)["gen_ai.transfer.target.name"] == "research"
    assert tool.status.status_code is StatusCode.UNSET
    assert traces.children(tool) == ["invoke_agent research"]
    assert attributes_of(traces.span("invoke_agent research"))["alfine.run.parent_id"] == "run-1"


@pytest.mark.parametrize(
    ("delegate", "error"),
    [
        pytest.param(Delegate("r", ScriptedModel([]), refusal="No"), "delegation_rejected", id="rejected"),
        pytest.param(Delegate("r", ScriptedModel([Turn(error=ValueError())])), "tool_error", id="failed"),
    ],
)
async def test_a_delegation_without_a_result_is_an_error(traces: Traces, delegate: Delegate, error: str) -> None:
    await run_it(ScriptedModel([Turn(tool_calls=[call("delegate_r")]), "Done"]), tools=toolbox(delegate))
    tool = traces.span("execute_tool delegate_r r")
    assert tool.status.status_code is StatusCode.ERROR
    assert attributes_of(tool)["error.type"] == error


async def test_tools_that_fail_are_errors_and_the_run_is_none(traces: Traces) -> None:
    async def raises(context: CallContext) -> ToolResult:
        raise ExceptionGroup("many", [KeyError("secret")])

    async def fails(context: CallContext) -> ToolResult:
        return ToolResult("No such page", failed=True)

    tools = toolbox(FunctionTool("raises", raises), FunctionTool("fails", fails))
    await run_it(ScriptedModel([Turn(tool_calls=[call("raises"), call("fails"), call("ghost")]), "Done"]), tools=tools)
    errors = {s.name: attributes_of(s)["error.type"] for s in traces.spans if s.status.status_code is StatusCode.ERROR}
    assert errors == {
        "execute_tool raises": "KeyError",
        "execute_tool fails": "tool_error",
        "execute_tool ghost": "unknown_tool",
    }
    assert traces.span("execute_tool raises").status.description is None
    assert not traces.span("execute_tool raises").events


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        pytest.param(http_error(429, "slow down"), "429", id="the server's status"),
        pytest.param(Turn(error=ModelError("cut")), "alfine.runtime.errors.ModelError", id="our own class"),
        pytest.param(Turn(error=OSError("gone")), "OSError", id="a builtin class"),
    ],
)
async def test_a_failed_model_call_marks_all_that_failed_with_it(traces: Traces, turn: Turn, error: str) -> None:
    result = await run_it(ScriptedModel([turn]))
    assert result.outcome == "error"
    assert [(s.name, attributes_of(s)["error.type"], s.status.description) for s in traces.spans] == [
        ("chat scripted", error, None),
        ("iteration 1", error, None),
        ("invoke_agent supervisor", error, None),
    ]


async def test_a_cancelled_run_is_no_error(traces: Traces) -> None:
    reached, never = Gate(), Gate()
    model = ScriptedModel([Turn("a", started=reached, wait=never)])
    async with anyio.create_task_group() as group:
        group.start_soon(run_loop, make_run(model))
        await reached.wait()
        group.cancel_scope.cancel()
    assert {s.status.status_code for s in traces.spans} == {StatusCode.UNSET}
    assert [s.name for s in traces.spans] == ["chat scripted", "iteration 1", "invoke_agent supervisor"]
    assert attributes_of(traces.span("invoke_agent supervisor"))["alfine.run.outcome"] == "cancelled"


async def test_iterations_say_how_they_began_and_ended(traces: Traces) -> None:
    def hook(info: Any) -> StepDecision | None:
        return StepDecision("go_on") if info.step.number == 2 else None

    await run_it(ScriptedModel(["a", "b", "c"]), check=TaskComplete([Rubric([FAILED, PASSED, PASSED])]), on_step=hook)
    prefix = "alfine.iteration."
    said = [attributes_of(traces.span(f"iteration {n}")) for n in (1, 2, 3)]
    assert said == [
        {f"{prefix}number": 1, f"{prefix}feedback_injected": False, f"{prefix}passed": False},
        {
            f"{prefix}number": 2,
            f"{prefix}feedback_injected": True,
            f"{prefix}passed": True,
            f"{prefix}continued_by": "on_step",
        },
        {f"{prefix}number": 3, f"{prefix}feedback_injected": True, f"{prefix}passed": True},
    ]


async def test_samplers_see_names_and_what_the_spans_are_about(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[str]] = {}

    class Watching(Sampler):
        def should_sample(
            self,
            parent_context: Any,
            trace_id: int,
            name: str,
            kind: Any = None,
            attributes: Any = None,
            *_: Any,
            **__: Any,
        ) -> SamplingResult:
            seen[name] = set(attributes or {})
            return SamplingResult(Decision.DROP)

        def get_description(self) -> str:
            return "watching"

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=Watching()))
    model = ScriptedModel([Turn(tool_calls=[call("search")]), "Done"])
    await run_it(model, tools=toolbox(FunctionTool("search", found)), check=TaskComplete([Rubric([PASSED])]))
    assert {"gen_ai.operation.name", "gen_ai.agent.name", "alfine.run.id"} <= seen["invoke_agent supervisor"]
    assert {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"} <= seen["chat scripted"]
    assert {"gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.agent.name"} <= seen["execute_tool search"]
    assert "alfine.iteration.number" in seen["iteration 1"]
    assert "alfine.completion.strategy" in seen["is_task_complete"]
    assert {"gen_ai.operation.name", "alfine.scorer.id"} <= seen["evaluation rubric"]


async def test_a_run_that_is_not_sampled_keeps_its_spans_out_of_other_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=ALWAYS_OFF))
    current: list[trace.Span] = []

    async def look(context: CallContext) -> ToolResult:
        current.append(trace.get_current_span())
        return ToolResult("")

    model = ScriptedModel([Turn(tool_calls=[call("look")]), "Done"])
    await run_it(model, tools=toolbox(FunctionTool("look", look)))
    assert current[0].get_span_context().is_valid
    assert not current[0].is_recording()


async def test_without_an_sdk_there_are_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    spans: list[trace.Span] = []

    async def look(output: str) -> bool:
        spans.append(trace.get_current_span())
        return True

    assert (await run_it(ScriptedModel(["a"]), check=TaskComplete([look]))).complete
    assert spans == [trace.INVALID_SPAN]


async def test_the_parent_is_what_was_current_when_the_run_was_asked_for(traces: Traces) -> None:
    tracer = trace.get_tracer("user")
    with tracer.start_as_current_span("asked here"):
        scope = SpanScope.capture()
    with tracer.start_as_current_span("driven here"):
        await run_loop(make_run(ScriptedModel(["a"]), scope))
    assert traces.children(traces.span("asked here")) == ["invoke_agent supervisor"]
    assert traces.children(traces.span("driven here")) == []


async def test_a_run_that_was_asked_for_outside_of_every_span_is_a_trace_of_its_own(traces: Traces) -> None:
    scope = SpanScope.capture()
    with trace.get_tracer("user").start_as_current_span("driven here"):
        await run_loop(make_run(ScriptedModel(["a"]), scope))
    assert traces.span("invoke_agent supervisor").parent is None


async def test_users_spans_hang_under_the_call_that_they_are_made_in(traces: Traces) -> None:
    tracer = trace.get_tracer("user")

    async def tool(context: CallContext) -> ToolResult:
        with tracer.start_as_current_span("in tool"):
            return ToolResult("")

    def scorer(output: str) -> bool:
        with tracer.start_as_current_span("in scorer"):
            return True

    model = ScriptedModel([Turn(tool_calls=[call("tool"), call("tool")]), "Done"])
    await run_it(model, tools=toolbox(FunctionTool("tool", tool)), check=TaskComplete([scorer]))
    assert [traces.children(s) for s in traces.named("execute_tool tool")] == [["in tool"], ["in tool"]]
    assert traces.children(traces.span("evaluation scorer")) == ["in scorer"]


async def test_spans_of_the_reader_are_not_the_runs_children(traces: Traces, caplog: pytest.LogCaptureFixture) -> None:
    tracer = trace.get_tracer("user")
    run = make_run(ScriptedModel(["a b c"]))

    async def produce() -> None:
        await run_loop(run)
        run.buffer.close()

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        while events := await run.buffer.take():
            for event in events:
                with tracer.start_as_current_span(f"saw {event.kind}"):
                    await anyio.lowlevel.checkpoint()
    assert {s.name for s in traces.spans if s.parent is None} >= {"invoke_agent supervisor", "saw text_delta"}
    assert len([s for s in traces.spans if s.parent is not None]) == 2
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert not caplog.records


async def test_two_runs_side_by_side_stay_apart(traces: Traces) -> None:
    first, second = Gate(), Gate()
    one = ScriptedModel([Turn("a", started=first, wait=second), "b"], name="one")
    two = ScriptedModel([Turn("a", started=second, wait=first), "b"], name="two")
    async with anyio.create_task_group() as group:
        for model in (one, two):
            run = make_run(model, agent=model.name, check=TaskComplete([Rubric([FAILED, PASSED])]))
            group.start_soon(run_loop, run)
    by_trace: dict[int, set[str]] = {}
    for span in traces.spans:
        assert span.context is not None
        by_trace.setdefault(span.context.trace_id, set()).add(span.name)
    shapes: Sequence[set[str]] = list(by_trace.values())
    assert len(shapes) == 2
    assert sum("chat one" in shape for shape in shapes) == sum("chat two" in shape for shape in shapes) == 1
    assert not any({"chat one", "chat two"} <= shape for shape in shapes)


async def test_a_model_that_is_asked_outside_of_a_run_has_a_span_too(traces: Traces) -> None:
    with trace.get_tracer("user").start_as_current_span("mine"):
        await ask_model(ScriptedModel(["a"]), ModelRequest([UserMessage("Hi")]))
    assert traces.children(traces.span("mine")) == ["chat scripted"]
    assert "alfine.step.number" not in attributes_of(traces.span("chat scripted"))
