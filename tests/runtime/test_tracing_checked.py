"""Traces over real OTLP/HTTP, held to the conventions and to the loop's own shape by the trace checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from traces import FAILED, PASSED, Delegate, FunctionTool, Rubric, make_run, otel_tool, run_it, set_providers, toolbox

from alfine.runtime.errors import ModelError
from alfine.runtime.limits import Budget, UsageLimits
from alfine.runtime.loop import run_loop
from alfine.runtime.messages import UserMessage
from alfine.runtime.models import ModelRequest, ModelSettings
from alfine.runtime.run import StepDecision
from alfine.runtime.scoring import Score, ScorerInput, Verdict
from alfine.runtime.task_complete import TaskComplete
from alfine.runtime.tools import CallContext, ToolResult
from alfine.testing import Gate, ScriptedModel, Turn, call, http_error

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

Checked = Callable[..., list[str]]


@pytest.fixture(params=["NO_CONTENT", "SPAN_AND_EVENT"])
def checked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Checked]:
    """Returns a function that gives the names of the spans, after the checker had nothing against them."""
    receiver, check_trace = otel_tool("receiver"), otel_tool("check_trace")
    monkeypatch.setenv(CONTENT, request.param)
    with receiver.Receiver() as received:
        tracers, loggers = TracerProvider(), LoggerProvider()
        spans, logs = OTLPSpanExporter(f"{received.url}/v1/traces"), OTLPLogExporter(endpoint=f"{received.url}/v1/logs")
        tracers.add_span_processor(SimpleSpanProcessor(spans))
        loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
        set_providers(monkeypatch, tracers, loggers)

        def check(*, cut: bool = False) -> list[str]:
            # Exporters leave out what they cannot encode, and say so only in their log.
            assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]
            # What was cut off has no output to record, so content can be wanted only of what ended by itself.
            content: bool | None = False if request.param == "NO_CONTENT" else None if cut else True
            dump = received.dump()
            problems = check_trace.check(dump, loop="alfine.", content=content)
            bad = [str(p) for p in problems if p.level != "INFO"]
            assert not bad, "\n".join([*bad, check_trace.tree(dump)])
            operations = Counter(s["attributes"].get("gen_ai.operation.name") for s in dump["spans"])
            events = Counter(r["event_name"] for r in dump["logs"])
            assert events["gen_ai.evaluation.result"] == operations["evaluation"]
            whole = sum("gen_ai.output.messages" in s["attributes"] for s in dump["spans"] if s["kind"] == "CLIENT")
            assert events["gen_ai.client.inference.operation.details"] == whole
            return sorted(s["name"] for s in dump["spans"])

        yield check
        tracers.shutdown()
        loggers.shutdown()


def rubric(*script: Score | Exception, **options: Any) -> TaskComplete:
    return TaskComplete([Rubric(list(script))], **options)


async def answered(context: CallContext) -> ToolResult:
    return ToolResult("found")


async def test_an_answer_that_passes_at_once(checked: Checked) -> None:
    await run_it(ScriptedModel(["Done"]), check=rubric(PASSED))
    assert checked() == [
        "chat scripted",
        "criterion analysis",
        "criterion sources",
        "evaluation rubric",
        "invoke_agent supervisor",
        "is_task_complete",
        "iteration 1",
    ]


async def test_an_answer_that_is_corrected(checked: Checked) -> None:
    result = await run_it(ScriptedModel(["Draft", "Done"]), check=rubric(FAILED, PASSED), instructions="Be brief")
    assert result.complete
    assert "iteration 2" in checked()


async def test_a_run_without_a_check(checked: Checked) -> None:
    await run_it(ScriptedModel(["Done"]))
    assert checked() == ["chat scripted", "invoke_agent supervisor", "iteration 1"]


async def test_a_check_without_scorers(checked: Checked) -> None:
    assert (await run_it(ScriptedModel(["Done"]), check=TaskComplete())).complete
    checked()


async def test_a_run_that_uses_up_its_steps(checked: Checked) -> None:
    result = await run_it(ScriptedModel(["a", "b"]), check=rubric(FAILED, FAILED), max_steps=2)
    assert result.outcome == "max_steps"
    checked()


async def test_several_tools_side_by_side(checked: Checked) -> None:
    async def broken(context: CallContext) -> ToolResult:
        raise ValueError("no such file")

    wanted = [call("search", {"q": "a"}), call("search", {"q": "b"}), call("read"), call("nothing"), call("read", "{")]
    tools = toolbox(FunctionTool("search", answered), FunctionTool("read", broken))
    await run_it(ScriptedModel([Turn("Let me see", tool_calls=wanted), "Done"]), tools=tools, check=rubric(PASSED))
    assert checked().count("execute_tool search") == 2


async def test_delegations_side_by_side_and_one_in_another(checked: Checked) -> None:
    deepest = Delegate("reader", ScriptedModel(["Read"]), spec={"check": rubric(FAILED, PASSED), "max_steps": 1})
    research = Delegate(
        "research",
        ScriptedModel([Turn(tool_calls=[call("delegate_reader")]), "Researched"]),
        spec={"tools": toolbox(deepest)},
    )
    writer = Delegate("writer", ScriptedModel(["bad", "Written"]), spec={"check": rubric(FAILED, PASSED)})
    model = ScriptedModel([Turn(tool_calls=[call("delegate_research"), call("delegate_writer")]), "Done"])
    await run_it(model, tools=toolbox(research, writer), check=rubric(PASSED))
    names = checked()
    assert "execute_tool delegate_research research" in names
    assert "invoke_agent reader" in names


async def test_delegations_that_are_rejected_or_fail(checked: Checked) -> None:
    refused = Delegate("writer", ScriptedModel([]), refusal="Not allowed")
    broken = Delegate("research", ScriptedModel([http_error(503)]))
    model = ScriptedModel([Turn(tool_calls=[call("delegate_writer"), call("delegate_research")]), "Done"])
    await run_it(model, tools=toolbox(refused, broken))
    checked()


async def test_a_model_that_fails(checked: Checked) -> None:
    result = await run_it(ScriptedModel(["a", http_error(503)]), check=rubric(FAILED))
    assert isinstance(result.error, ModelError)
    checked()


async def test_instructions_that_fail_before_the_first_call(checked: Checked) -> None:
    def write(context: object) -> str:
        raise LookupError("no text")

    assert (await run_it(ScriptedModel([]), instructions=write, check=rubric(PASSED))).outcome == "error"
    assert checked() == ["invoke_agent supervisor"]


async def test_feedback_that_cannot_be_written(checked: Checked) -> None:
    def write(report: object) -> str:
        raise LookupError("no text")

    assert (await run_it(ScriptedModel(["a"]), check=rubric(FAILED, feedback=write))).outcome == "error"
    checked()


async def test_a_scorer_that_fails_again_and_again(checked: Checked) -> None:
    errors = [RuntimeError("down")] * 3
    assert (await run_it(ScriptedModel(["a"]), check=rubric(*errors))).outcome == "error"
    assert checked().count("evaluation rubric") == 3


async def test_a_scorer_that_fails_once(checked: Checked) -> None:
    assert (await run_it(ScriptedModel(["a"]), check=rubric(RuntimeError("down"), PASSED))).complete
    checked()


async def test_a_scorer_that_runs_out_of_time(checked: Checked) -> None:
    async def slow(output: str) -> bool:
        await anyio.sleep_forever()
        raise AssertionError

    check = TaskComplete([slow, Rubric([FAILED, PASSED])], strategy="any", timeout=0.05)
    assert (await run_it(ScriptedModel(["a", "b"]), check=check)).complete
    checked()


@pytest.mark.parametrize("parallel", [True, False], ids=["side by side", "one after the other"])
async def test_scorers_under_any(checked: Checked, parallel: bool) -> None:
    check = TaskComplete([Rubric([FAILED], "first"), lambda output: True, Rubric([PASSED], "last")], "any", parallel)
    assert (await run_it(ScriptedModel(["a"]), check=check)).complete
    checked()


async def test_a_judge_that_asks_a_model(checked: Checked) -> None:
    judge = ScriptedModel(["yes"], name="judge")

    async def judged(output: str, given: ScorerInput) -> Score:
        await given.ask(judge, ModelRequest([UserMessage("Is it good?")], "You judge"))
        return PASSED

    await run_it(ScriptedModel(["a"]), check=TaskComplete([judged]))
    assert "chat judge" in checked()


async def test_a_hook_that_goes_on_after_a_pass(checked: Checked) -> None:
    def hook(info: Any) -> StepDecision | None:
        return StepDecision("go_on", "Once more") if info.step.number == 1 else None

    assert (await run_it(ScriptedModel(["a", "b"]), check=rubric(PASSED, PASSED), on_step=hook)).complete
    checked()


async def test_a_budget_that_ends_the_run_before_a_call(checked: Checked) -> None:
    budget = Budget(UsageLimits(requests=1))
    assert (await run_it(ScriptedModel(["a"]), check=rubric(FAILED), budget=budget)).outcome == "budget"
    checked()


async def test_numbers_that_no_exporter_can_encode(checked: Checked) -> None:
    turn = Turn(tool_calls=[call("ghost", {"n": 10**30})])
    await run_it(ScriptedModel([turn, "Done"]), settings=ModelSettings(seed=2**64))
    assert checked().count("chat scripted") == 2


async def test_text_that_is_no_unicode(checked: Checked) -> None:
    half = "a\ud800b"
    turn = Turn(half, tool_calls=[call(half, '{"q": "\\ud800"}')])
    criteria = (Verdict(half, half, True, True, half),)
    check = TaskComplete([Rubric([RuntimeError(half), Score(1, reason=half, criteria=criteria)], id=half)])
    await run_it(ScriptedModel([turn, half], name=half), agent=half, instructions=half, run_id=half, check=check)
    assert {"invoke_agent a\ufffdb", "chat a\ufffdb", "execute_tool a\ufffdb", "criterion a\ufffdb"} <= set(checked())


@pytest.mark.parametrize("where", ["model", "tool", "sub-run", "scorer"])
async def test_a_run_that_is_cancelled(checked: Checked, where: str) -> None:
    reached, never = Gate(), Gate()

    async def wait(*_: object) -> Any:
        reached.open()
        await never.wait()

    held = Turn("a b c", started=reached, wait=never, wait_after=1)
    turns: dict[str, Turn | str] = {
        "model": held,
        "tool": Turn(tool_calls=[call("wait"), call("search")]),
        "sub-run": Turn(tool_calls=[call("delegate_research"), call("search")]),
    }
    tools = toolbox(
        FunctionTool("wait", wait), FunctionTool("search", answered), Delegate("research", ScriptedModel([held]))
    )
    check = TaskComplete([wait, Rubric([PASSED])])
    async with anyio.create_task_group() as group:
        group.start_soon(run_loop, make_run(ScriptedModel([turns.get(where, "a")]), tools=tools, check=check))
        await reached.wait()
        group.cancel_scope.cancel()
    checked(cut=True)
