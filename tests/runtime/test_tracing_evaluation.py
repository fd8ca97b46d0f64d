"""Scores in traces: spans of scorers and criteria, and the log events at the call that was graded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.trace import StatusCode, format_span_id
from traces import (
    FAILED,
    PASSED,
    Rubric,
    Traces,
    attributes_of,
    id_of,
    run_it,
    start_of,
    tracing_into,
    verdict,
)

from alfine.runtime.messages import UserMessage
from alfine.runtime.models import ModelRequest
from alfine.runtime.scoring import Score, ScorerInput
from alfine.runtime.task_complete import TaskComplete
from alfine.testing import ScriptedModel


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    with tracing_into(monkeypatch) as traces:
        yield traces


def said(event: ReadableLogRecord) -> dict[str, Any]:
    return dict(event.log_record.attributes or {})


async def test_a_scorer_says_its_score(traces: Traces) -> None:
    await run_it(ScriptedModel(["a"]), check=TaskComplete([Rubric([Score(8, scale=10, passed=True, reason="secret")])]))
    assert attributes_of(traces.span("evaluation rubric")) == {
        "gen_ai.operation.name": "evaluation",
        "gen_ai.evaluation.name": "rubric",
        "gen_ai.evaluation.score.value": 8.0,
        "gen_ai.evaluation.score.label": "pass",
        "alfine.scorer.id": "rubric",
        "alfine.scorer.kind": "llm_judge",
        "alfine.scorer.sampled": True,
        "alfine.scorer.passed": True,
        "alfine.scorer.scale": 10.0,
    }


async def test_a_check_counts_the_scorers_that_passed(traces: Traces) -> None:
    check = TaskComplete([Rubric([FAILED]), Rubric([PASSED]), lambda output: True], "any")
    await run_it(ScriptedModel(["a"]), check=check)
    assert attributes_of(traces.span("is_task_complete")) == {
        "alfine.completion.strategy": "any",
        "alfine.completion.total_scorers": 3,
        "alfine.completion.passed": True,
        "alfine.completion.passed_scorers": 2,
    }


async def test_each_criterion_is_a_span_in_the_order_of_the_rubric(traces: Traces) -> None:
    ids = [f"c{n}" for n in range(50)]
    score = Score(0, criteria=tuple(verdict(name, name != "c7", required=name != "c9") for name in ids))
    await run_it(ScriptedModel(["a"]), check=TaskComplete([Rubric([score])]), max_steps=1)
    scorer = traces.span("evaluation rubric")
    assert traces.children(scorer) == [f"criterion {name}" for name in ids]
    starts = [start_of(traces.span(f"criterion {name}")) // 1000 for name in ids]
    assert starts == sorted(set(starts))
    assert attributes_of(traces.span("criterion c7")) == {
        "gen_ai.operation.name": "evaluation",
        "gen_ai.evaluation.name": "c7",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "fail",
        "alfine.criterion.id": "c7",
        "alfine.criterion.index": 7,
        "alfine.criterion.required": True,
        "alfine.criterion.satisfied": False,
    }
    assert attributes_of(traces.span("criterion c9"))["alfine.criterion.required"] is False


async def test_a_failed_criterion_is_no_error(traces: Traces) -> None:
    await run_it(ScriptedModel(["a"]), check=TaskComplete([Rubric([FAILED])]), max_steps=1)
    assert {s.status.status_code for s in traces.spans} == {StatusCode.UNSET}


async def test_every_score_is_an_event_at_the_call_that_was_graded(traces: Traces) -> None:
    await run_it(ScriptedModel(["a", "b"]), check=TaskComplete([Rubric([FAILED, PASSED])]))
    chats = [id_of(chat) for chat in traces.named("chat scripted")]
    assert [event.log_record.event_name for event in traces.events] == ["gen_ai.evaluation.result"] * 6
    assert [event.log_record.span_id for event in traces.events] == [chats[0]] * 3 + [chats[1]] * 3
    assert [said(event)["gen_ai.response.id"] for event in traces.events] == ["scripted-1"] * 3 + ["scripted-2"] * 3
    analysis, sources, whole = (said(event) for event in traces.events[:3])
    assert sources == {
        "gen_ai.evaluation.name": "sources",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.response.id": "scripted-1",
        "alfine.scorer.id": "rubric",
        "alfine.criterion.id": "sources",
        "alfine.criterion.index": 1,
        "alfine.criterion.required": True,
        "alfine.criterion.satisfied": False,
        "alfine.criterion.span_id": format_span_id(id_of(traces.named("criterion sources")[0])),
    }
    assert analysis["alfine.criterion.span_id"] == format_span_id(id_of(traces.named("criterion analysis")[0]))
    assert whole["alfine.scorer.span_id"] == format_span_id(id_of(traces.named("evaluation rubric")[0]))


async def test_a_judges_own_calls_are_not_taken_for_the_graded_one(traces: Traces) -> None:
    judge = ScriptedModel(["yes", "yes"], name="judge")

    async def judged(output: str, given: ScorerInput) -> bool:
        for _ in range(2):
            await given.ask(judge, ModelRequest([UserMessage("Is it good?")]))
        return True

    await run_it(ScriptedModel(["a"]), check=TaskComplete([judged, Rubric([PASSED])], parallel=False))
    assert traces.children(traces.span("evaluation judged")) == ["chat judge", "chat judge"]
    graded = id_of(traces.span("chat scripted"))
    assert {event.log_record.span_id for event in traces.events} == {graded}
    assert {said(event)["gen_ai.response.id"] for event in traces.events} == {"scripted-1"}


async def test_a_scorer_that_fails_is_an_error_without_a_score(traces: Traces) -> None:
    await run_it(ScriptedModel(["a"]), check=TaskComplete([Rubric([RuntimeError("secret"), PASSED])]))
    failed, passed = traces.named("evaluation rubric")
    assert (failed.status.status_code, passed.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert failed.status.description is None
    assert attributes_of(failed)["error.type"] == "RuntimeError"
    assert "gen_ai.evaluation.score.value" not in attributes_of(failed)
    assert said(traces.events[0]) == {
        "error.type": "RuntimeError",
        "gen_ai.evaluation.name": "rubric",
        "gen_ai.response.id": "scripted-1",
        "alfine.scorer.id": "rubric",
        "alfine.scorer.span_id": format_span_id(id_of(failed)),
    }


async def test_a_scorer_that_is_cut_by_the_time_limit_gave_no_score(traces: Traces) -> None:
    async def slow(output: str) -> bool:
        await anyio.sleep_forever()
        raise AssertionError

    check = TaskComplete([slow], timeout=0.01, on_scorer_error="fail")
    await run_it(ScriptedModel(["a"]), check=check, max_steps=1)
    span = traces.span("evaluation slow")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == said(traces.events[0])["error.type"] == "cancelled"


async def test_without_spans_the_responses_id_says_what_was_graded(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    await run_it(ScriptedModel(["a"]), check=TaskComplete([Rubric([PASSED])]))
    assert not traces.spans
    assert [said(event)["gen_ai.evaluation.name"] for event in traces.events] == ["analysis", "sources", "rubric"]
    assert {said(event)["gen_ai.response.id"] for event in traces.events} == {"scripted-1"}
    assert not [key for event in traces.events for key in said(event) if key.endswith("span_id")]
