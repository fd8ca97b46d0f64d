"""The self-correction loop: what DESIGN calls its fixed points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from playing import Says, of, play, wants, worker
from pydantic import BaseModel

from alfine import (
    Agent,
    AssistantMessage,
    FeedbackMessage,
    OutputSchema,
    Score,
    ToolMessage,
    UsageLimits,
    UserMessage,
    tool,
)
from alfine.runtime.buffer import EventBuffer
from alfine.runtime.events import (
    CheckFinished,
    CheckStarted,
    DelegationFinished,
    DelegationStarted,
    Event,
    FeedbackInjected,
    RunFinished,
    ScorerFinished,
    StepFinished,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolReturned,
)
from alfine.runtime.journal import MemoryJournal
from alfine.runtime.loop import run_loop
from alfine.runtime.run import Run, RunSpec
from alfine.runtime.tracing import NO_SCOPE
from alfine.testing import Gate, ScriptedModel, Turn, call

LOOKUP = Turn("Let me see", tool_calls=[call("lookup", {"q": "x"})])


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def test_without_a_check_the_first_answer_is_complete() -> None:
    agent, model = worker(["the answer"])
    result, events = await play(agent)
    assert (result.outcome, result.text, len(model.requests)) == ("complete", "the answer", 1)
    assert not of(events, CheckStarted)


async def test_a_failed_check_goes_back_as_a_message_and_the_work_goes_on() -> None:
    agent, model = worker(["a draft", "an answer [1]"], is_task_complete={"scorers": [wants("[1]")]})
    result, events = await play(agent)
    assert (result.outcome, result.text) == ("complete", "an answer [1]")
    assert [m.kind for m in model.requests[1].messages] == ["user", "assistant", "feedback"]
    assert "[1] is missing" in model.requests[1].texts[2]
    assert [e.iteration for e in of(events, CheckFinished)] == [1, 2]
    assert of(events, RunFinished)[0].answer_step == 2


async def test_a_step_that_ends_in_tool_calls_is_recorded_as_not_graded() -> None:
    scorer = Says(1.0)
    agent, _ = worker([LOOKUP, "done"], tools=[lookup], is_task_complete={"scorers": [scorer]})
    result, events = await play(agent)
    assert scorer.outputs == ["done"]
    assert [e.graded for e in of(events, StepFinished)] == [False, True]
    assert [s.graded for s in result.steps] == [False, True]
    assert [e.step for e in of(events, CheckStarted)] == [2]
    assert [e.iteration for e in of(events, StepStarted)] == [1, 1]


async def test_when_step_grades_a_step_with_text_after_its_tools_and_a_pass_ends_the_run() -> None:
    agent, model = worker([LOOKUP], tools=[lookup], is_task_complete={"scorers": [Says(1.0)], "when": "step"})
    result, events = await play(agent)
    assert (result.outcome, result.text, len(model.requests)) == ("complete", "Let me see", 1)
    kinds = [type(e) for e in events if isinstance(e, ToolReturned | CheckStarted)]
    assert kinds == [ToolReturned, CheckStarted]


async def test_when_step_puts_the_feedback_after_the_tool_results() -> None:
    agent, model = worker(
        [LOOKUP, "done"], tools=[lookup], is_task_complete={"scorers": [Says(0.0, 1.0)], "when": "step"}
    )
    await play(agent)
    assert [m.kind for m in model.requests[1].messages] == ["user", "assistant", "tool", "feedback"]


async def test_when_step_does_not_grade_a_step_without_text() -> None:
    silent = Turn(tool_calls=[call("lookup", {"q": "x"})])
    scorer = Says(1.0)
    agent, _ = worker([silent, "done"], tools=[lookup], is_task_complete={"scorers": [scorer], "when": "step"})
    await play(agent)
    assert scorer.outputs == ["done"]


async def test_an_empty_answer_is_checked_like_any_other() -> None:
    scorer = Says(0.0, 1.0)
    agent, _ = worker(["", "full"], is_task_complete={"scorers": [scorer]})
    result, _ = await play(agent)
    assert scorer.outputs == ["", "full"]
    assert result.text == "full"


async def test_an_answer_cut_off_by_the_model_is_checked_like_any_other() -> None:
    agent, model = worker(
        [Turn("half", finish_reason="length"), "whole"], is_task_complete={"scorers": [wants("whole")]}
    )
    result, _ = await play(agent)
    assert (result.text, len(model.requests)) == ("whole", 2)


async def test_the_loop_ends_at_max_steps_without_feedback_for_a_step_that_will_not_happen() -> None:
    agent, model = worker(["one", "two"], is_task_complete={"scorers": [Says(0.0)]}, max_steps=2)
    result, events = await play(agent)
    assert (result.outcome, len(model.requests)) == ("max_steps", 2)
    assert [e.step for e in of(events, FeedbackInjected)] == [1]
    assert [e.at_limit for e in of(events, CheckFinished)] == [False, True]
    assert isinstance(result.messages[-1], AssistantMessage)


async def test_max_steps_is_10_unless_told() -> None:
    agent, model = worker([Turn("no", repeat=True)], is_task_complete={"scorers": [Says(0.0)]})
    result, _ = await play(agent)
    assert (result.outcome, len(model.requests)) == ("max_steps", 10)


async def test_the_last_step_with_tool_calls_carries_them_out() -> None:
    agent, _ = worker([LOOKUP], tools=[lookup], max_steps=1)
    result, _ = await play(agent)
    assert (result.outcome, result.text) == ("max_steps", "Let me see")
    assert [m.text for m in result.messages if isinstance(m, ToolMessage)] == ["found x"]


async def test_a_failed_model_call_ends_the_run_without_a_check() -> None:
    scorer = Says(1.0)
    broken = Turn("half an", error=RuntimeError("secret of the wire"))
    agent, _ = worker([broken], is_task_complete={"scorers": [scorer]})
    result, events = await play(agent)
    assert (result.outcome, result.text) == ("error", "half an")
    assert str(result.error) == "secret of the wire"
    assert scorer.outputs == []
    assert not of(events, CheckStarted)
    assert [s.finish_reason for s in result.steps] == ["error"]


async def test_a_model_failure_after_feedback_keeps_the_answer_before() -> None:
    agent, _ = worker(["a draft", Turn(error=RuntimeError("gone"))], is_task_complete={"scorers": [Says(0.0)]})
    result, events = await play(agent)
    assert (result.outcome, result.text) == ("error", "a draft")
    assert [type(e) for e in events].count(RunFinished) == 1


async def test_a_text_delta_is_a_draft_only_where_a_check_will_decide() -> None:
    for options, draft in (({}, False), ({"is_task_complete": {"scorers": [Says(1.0)]}}, True)):
        agent, _ = worker(["an answer"], **options)
        _, events = await play(agent)
        assert {e.draft for e in of(events, TextDelta)} == {draft}


async def test_without_a_pass_the_text_is_the_best_answer_and_the_latest_of_equals() -> None:
    agent, _ = worker(
        ["one", "two", "three", "four"],
        is_task_complete={"scorers": [Says(0.1, 0.5, 0.5, 0.2)]},
        max_steps=4,
    )
    result, events = await play(agent)
    assert (result.text, result.answer_step) == ("three", 3)
    assert of(events, RunFinished)[0].answer_step == 3


async def test_a_value_beyond_its_scale_does_not_make_an_answer_the_best() -> None:
    agent, _ = worker(["one", "two"], is_task_complete={"scorers": [Says(99.0, 0.5)]}, max_steps=2)
    result, _ = await play(agent)
    assert result.text == "two"


async def test_without_any_answer_the_text_is_the_last_steps() -> None:
    again = Turn("Again", tool_calls=[call("lookup", {"q": "y"})])
    agent, _ = worker([LOOKUP, again], tools=[lookup], max_steps=2)
    result, _ = await play(agent)
    assert (result.text, result.answer_step) == ("Again", 2)


async def test_instructions_that_fail_end_the_run_as_error_with_one_terminal_event() -> None:
    def write(_: object) -> str:
        raise RuntimeError("no instructions")

    agent, model = worker(["never"], instructions=write)
    result, events = await play(agent)
    assert (result.outcome, len(model.requests)) == ("error", 0)
    assert [type(e) for e in events].count(RunFinished) == 1


async def test_an_answer_that_does_not_fit_the_output_type_goes_back_ungraded() -> None:
    class Fact(BaseModel):
        year: int

    scorer = Says(1.0)
    model = ScriptedModel(['{"year": "soon"}', '{"year": 2001}'])
    agent = Agent("worker", model=model, output_type=Fact, is_task_complete={"scorers": [scorer]})
    result, events = await play(agent)
    assert result.output == Fact(year=2001)
    assert scorer.outputs == ['{"year": 2001}']
    assert [e.source for e in of(events, FeedbackInjected)] == ["output"]
    assert "year" in model.requests[1].texts[-1]


class CrashingType:
    """An output type that neither reads nor refuses a text."""

    schema = OutputSchema("crash", {"type": "object"})

    def parse(self, text: str) -> object:
        raise KeyError("crash")


async def test_an_output_type_that_crashes_ends_the_run_as_error_with_a_terminal_event() -> None:
    buffer = EventBuffer()
    spec = RunSpec(
        run_id="r",
        agent="worker",
        model=ScriptedModel(["text"]),
        input="Go",
        task="Go",
        messages=[UserMessage("Go")],
        output=CrashingType(),
    )
    result = await run_loop(Run(spec, MemoryJournal(buffer), buffer, NO_SCOPE))
    assert (result.outcome, repr(result.error), result.text) == ("error", "KeyError('crash')", "text")
    assert type((await buffer.take())[-1]) is RunFinished


class WritingJournal(MemoryJournal):
    """A journal that has to wait, as for a disk, before it shows an event."""

    async def emit(self, event: Event) -> None:
        await anyio.lowlevel.checkpoint()
        await super().emit(event)


async def test_a_cancelled_run_shows_its_terminal_event_also_when_its_journal_can_no_longer_wait() -> None:
    agent, _ = worker([Turn("never", wait=Gate())])
    stream = agent.stream("Do it")
    stream._run.journal = WritingJournal(stream._run.buffer)
    events: list[Event] = []
    with anyio.fail_after(5):
        async with stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, StepStarted):
                    stream.cancel()
            assert (await stream.result()).outcome == "cancelled"
    assert [type(e) for e in events[-1:]] == [RunFinished]


class Unspeakable(Exception):
    """An exception that cannot say its own text."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param(lambda: Turn(error=Unspeakable()), id="of the model"),
        pytest.param(lambda: Turn(tool_calls=[call("mute")]), id="of a tool"),
    ],
)
async def test_an_exception_without_a_text_does_not_cost_the_terminal_event(turn: Callable[[], Turn]) -> None:
    @tool
    async def mute() -> str:
        """Fail without a word."""
        raise Unspeakable

    agent, _ = worker([turn(), "done"], tools=[mute])
    result, events = await play(agent)
    assert type(events[-1]) is RunFinished
    assert result.outcome in ("error", "complete")


async def test_a_scorer_error_without_a_text_does_not_cost_the_terminal_event() -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [Says(Unspeakable())]})
    result, events = await play(agent)
    assert result.outcome == "error"
    assert type(events[-1]) is RunFinished


async def cancel_at(stop: Callable[[Event], bool], **options: Any) -> tuple[Any, list[Event]]:
    agent = options.pop("agent")
    events: list[Event] = []
    with anyio.fail_after(10):
        async with agent.stream("Do it", **options) as stream:
            async for event in stream:
                events.append(event)
                if stop(event):
                    stream.cancel()
            return await stream.result(), events


async def test_a_cancel_reaches_tools_and_every_call_still_gets_its_result_and_event() -> None:
    hung, closed = Gate(), Gate()

    @tool
    async def hang() -> str:
        """Hang."""
        try:
            hung.open()
            await anyio.sleep_forever()
        finally:
            closed.open()
        return ""

    calls = [call("lookup", {"q": "x"}), call("hang"), call("hang")]
    agent, _ = worker([Turn(tool_calls=calls)], tools=[lookup, hang])
    result, events = await cancel_at(lambda e: isinstance(e, ToolReturned), agent=agent)
    assert closed.is_open == hung.is_open
    assert result.outcome == "cancelled"
    called = [e.call_id for e in of(events, ToolCalled)]
    returned = [e.call_id for e in of(events, ToolReturned)]
    assert sorted(returned) == sorted(called) == sorted(c.id for c in result.steps[0].tool_calls)
    assert [m.call_id for m in result.messages if isinstance(m, ToolMessage)] == called
    texts = {m.text for m in result.messages if isinstance(m, ToolMessage)}
    assert texts == {"found x", "Not carried out: the run ended before this call had a result."}
    assert type(events[-1]) is RunFinished


async def test_a_cancel_reaches_scorers_and_no_check_is_reported() -> None:
    closed = Gate()

    async def hang(output: str) -> bool:
        try:
            await anyio.sleep_forever()
        finally:
            closed.open()
        return True

    agent, _ = worker(["a draft"], is_task_complete={"scorers": [hang]})
    result, events = await cancel_at(lambda e: isinstance(e, CheckStarted), agent=agent)
    assert (result.outcome, result.checks) == ("cancelled", ())
    assert result.text == "a draft"
    assert not of(events, CheckFinished)
    assert not of(events, ScorerFinished)
    assert type(events[-1]) is RunFinished


async def test_a_cancel_in_the_middle_of_a_reply_keeps_what_was_said() -> None:
    never = Gate()
    agent, _ = worker([Turn(deltas=["one ", "two ", "three"], wait=never, wait_after=2)])
    result, events = await cancel_at(lambda e: isinstance(e, TextDelta) and e.text == "two ", agent=agent)
    assert (result.outcome, result.text) == ("cancelled", "one two ")
    assert [type(e) for e in events].count(RunFinished) == 1


async def test_a_cancelled_delegation_finishes_before_its_supervisor() -> None:
    sub = Agent("sub", model=ScriptedModel([Turn("never", wait=Gate())]))
    lead = Agent("lead", model=ScriptedModel([Turn(tool_calls=[call("delegate_sub", {"prompt": "go"})])]), agents=[sub])
    result, events = await cancel_at(lambda e: isinstance(e, StepStarted) and e.depth == 1, agent=lead)
    assert result.outcome == "cancelled"
    assert [(type(e), e.depth) for e in events[-4:]] == [
        (RunFinished, 1),
        (DelegationFinished, 0),
        (ToolReturned, 0),
        (RunFinished, 0),
    ]
    assert len(of(events, DelegationStarted)) == len(of(events, DelegationFinished)) == 1


@pytest.mark.parametrize(
    ("outcome", "script", "options"),
    [
        ("complete", ["a"], {}),
        ("max_steps", ["a"], {"is_task_complete": {"scorers": [wants("b")]}, "max_steps": 1}),
        ("stalled", ["a", "a"], {"is_task_complete": {"scorers": [wants("b")], "stall_after": 2}}),
        ("budget", ["a"], {"limits": UsageLimits(requests=0)}),
        ("error", [Turn(error=RuntimeError("x"))], {}),
    ],
)
async def test_exactly_one_terminal_event_comes_last_and_seq_counts_without_a_gap(
    outcome: str, script: list[Turn | str], options: dict[str, Any]
) -> None:
    agent, _ = worker(script, **options)
    result, events = await play(agent)
    assert result.outcome == outcome
    assert [e for e in events if isinstance(e, RunFinished)] == [events[-1]]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))


async def test_errors_never_reach_a_model() -> None:
    secret = "SECRET-7731"

    def on_complete(_: object) -> None:
        raise RuntimeError(secret)

    def on_step(_: object) -> None:
        raise RuntimeError(secret)

    sub = Agent("sub", model=ScriptedModel([Turn(error=RuntimeError(secret), repeat=True)]))
    model = ScriptedModel([Turn(tool_calls=[call("delegate_sub", {"prompt": "go"})]), "one", "two"])
    lead = Agent(
        "lead",
        model=model,
        agents=[sub],
        on_step=on_step,
        is_task_complete={
            "scorers": [wants("two", "say two"), Says(RuntimeError(secret), 1.0)],
            "on_complete": on_complete,
        },
    )
    result, events = await play(lead)
    assert result.outcome == "complete"
    assert [r for r in model.requests if secret in r.text] == []
    assert any(secret in e.to_json() for e in events), "people are told"


async def test_a_long_run_gives_its_model_one_list_that_only_grows() -> None:
    seen: list[int] = []

    class Watching(ScriptedModel):
        def stream(self, request: Any) -> Any:
            seen.append(id(request.messages))
            return super().stream(request)

    turn = Turn(tool_calls=[call("lookup", {"q": "x"})], repeat=True)
    agent = Agent("worker", model=Watching([turn]), tools=[lookup], max_steps=200)
    result, _ = await play(agent, buffer_size=4096)
    assert (result.outcome, len(seen), len(set(seen))) == ("max_steps", 200, 1)
    assert len({c.id for s in result.steps for c in s.tool_calls}) == 200


async def test_ten_thousand_deltas_of_one_byte_cost_one_event_each() -> None:
    agent, _ = worker([Turn(deltas=["x"] * 10_000)], is_task_complete={"scorers": [Says(1.0)]})
    result, events = await play(agent)
    assert result.text == "x" * 10_000
    assert len(of(events, TextDelta)) == 10_000
    assert len(events) < 10_020


async def test_an_output_of_ten_megabytes_is_graded_whole() -> None:
    text = "é" * 5_000_000
    scorer = Says(Score(1.0, reason=text))
    agent, _ = worker([Turn(deltas=[text])], is_task_complete={"scorers": [scorer]})
    result, _ = await play(agent)
    assert result.text == text
    assert scorer.outputs == [text]


async def test_a_tool_result_of_ten_megabytes_arrives_whole() -> None:
    @tool(max_result=None)
    async def dump() -> str:
        """Dump."""
        return "x" * 10_000_000

    agent, model = worker([Turn(tool_calls=[call("dump")]), "done"], tools=[dump])
    await play(agent)
    assert len(model.requests[1].texts[-1]) == 10_000_000


async def test_lone_surrogates_and_nuls_pass_everywhere_without_a_crash() -> None:
    odd = "a\ud800b\x00c"

    @tool
    async def echo(text: str) -> str:
        """Echo."""
        return odd

    calls = [call("echo", {"text": odd}), call(odd, {})]
    model = ScriptedModel([Turn(odd, tool_calls=calls), Turn(deltas=[odd]), "fine"])
    agent = Agent(
        "worker",
        model=model,
        tools=[echo],
        instructions=odd,
        is_task_complete={"scorers": [wants("fine", odd)]},
    )
    result, events = await play(agent, odd)
    assert result.outcome == "complete"
    for message in result.messages:
        message.text.encode()
    for event in events:
        event.to_json().encode()
    feedback = next(m for m in result.messages if isinstance(m, FeedbackMessage))
    assert "a\ufffdb\x00c" in feedback.text


async def test_a_run_cancelled_after_its_check_has_passed_is_complete() -> None:
    model = ScriptedModel(["the answer"])
    agent = Agent("worker", model=model)

    async def never(info: object) -> None:
        stream.cancel()
        await anyio.sleep_forever()

    stream = agent.stream("Do it", is_task_complete={"scorers": [lambda output: True]}, on_step=never)
    async with stream:
        result = await stream.result()
    assert (result.outcome, result.text) == ("complete", "the answer")
