"""`stream.text()`: the accepted answer alone, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest
from teams import asks, hand, model_of

from alfine import (
    Agent,
    DelegationPolicy,
    FinishDecision,
    ModelRequest,
    Reply,
    RunError,
    RunResult,
    Score,
    StepDecision,
    StepInfo,
    StreamError,
    UsageLimits,
    tool,
)
from alfine.runtime.events import RunFinished, TextDelta
from alfine.testing import Gate, ScriptedModel, Turn, call, http_error


@tool
def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


LOOK = call("lookup", {"q": "x"})


def has_source(output: str) -> Score:
    return Score(float("[1]" in output), reason="no source")


async def text_of(agent: Agent[Any], *, drafts: bool = False, **options: Any) -> tuple[list[str], RunResult[Any]]:
    async with agent.stream("Go", **options) as stream:
        pieces = [piece async for piece in stream.text(drafts=drafts)]
        try:
            result = await stream.result()
        except RunError as error:
            result = error.result
    return pieces, result


def supervisor(*replies: Turn | str, sub: Turn | str = "SUB-TEXT", bail: bool = False, **options: Any) -> Agent[Any]:
    policy = DelegationPolicy(on_finish=lambda end: FinishDecision(bail=bail))
    agents = [Agent("sub", model=model_of(sub))]
    return Agent("lead", model=model_of(*replies), agents=agents, tools=[lookup], delegation=policy, **options)


def plain(*replies: Turn | str, **options: Any) -> Agent[Any]:
    return Agent("a", model=model_of(*replies), **options)


def once_more(info: StepInfo) -> StepDecision | None:
    return StepDecision("go_on") if info.step.number == 1 else None


def stop(info: StepInfo) -> StepDecision:
    return StepDecision("stop")


CHECK = {"scorers": [has_source]}
BEST = {"scorers": [lambda output: Score(len(output) / 100, reason="short")]}

RUNS = [
    pytest.param(lambda: plain("one two three"), "complete", id="plain"),
    pytest.param(lambda: plain(""), "complete", id="empty"),
    pytest.param(lambda: plain(http_error(500)), "error", id="failed at once"),
    pytest.param(lambda: plain(Turn("half of", error=RuntimeError())), "error", id="failed in the middle"),
    pytest.param(lambda: plain("draft", "with [1]", is_task_complete=CHECK), "complete", id="corrected"),
    pytest.param(lambda: plain("with [1]", is_task_complete=CHECK), "complete", id="right at once"),
    pytest.param(lambda: plain("a", "b", is_task_complete=CHECK, max_steps=2), "max_steps", id="never right"),
    pytest.param(lambda: plain("a long one", "b", is_task_complete=BEST, max_steps=2), "max_steps", id="the best"),
    pytest.param(
        lambda: plain("a draft", Turn("half of", error=RuntimeError()), is_task_complete=CHECK),
        "error",
        id="draft kept",
    ),
    pytest.param(lambda: supervisor(asks(LOOK, text="thinking"), "the end"), "complete", id="tools"),
    pytest.param(lambda: supervisor(asks(LOOK, text="thinking"), max_steps=1), "max_steps", id="no answer"),
    pytest.param(lambda: supervisor(asks(LOOK), max_steps=1), "max_steps", id="no text at all"),
    pytest.param(lambda: supervisor(asks(hand("sub"), text="thinking"), "the end"), "complete", id="delegation"),
    pytest.param(lambda: supervisor(asks(hand("sub"), text="thinking"), bail=True), "bailed", id="bailed"),
    pytest.param(
        lambda: supervisor(asks(LOOK, text="has [1]"), is_task_complete={**CHECK, "when": "step"}),
        "complete",
        id="a step that calls tools is graded",
    ),
    pytest.param(lambda: plain("one", "two", on_step=once_more), "complete", id="a hook goes on"),
    pytest.param(lambda: plain("one", on_step=stop), "complete", id="a hook stops after an answer"),
    pytest.param(lambda: supervisor(asks(LOOK, text="so far"), on_step=stop), "stopped", id="a hook stops"),
    pytest.param(lambda: plain("x", "5", output_type=int), "complete", id="output type"),
    pytest.param(lambda: plain("x", "y", output_type=int, max_steps=2), "max_steps", id="output type never fits"),
    pytest.param(
        lambda: supervisor(asks(LOOK, text="so far"), limits=UsageLimits(requests=1)), "budget", id="out of budget"
    ),
]


@pytest.mark.parametrize(("make", "outcome"), RUNS)
async def test_the_pieces_joined_are_the_results_text(make: Any, outcome: str) -> None:
    pieces, result = await text_of(make())
    assert result.outcome == outcome
    assert "".join(pieces) == result.text
    assert "" not in pieces


async def test_a_cancelled_run_gives_the_text_that_it_keeps() -> None:
    agent = plain(Turn(deltas=["said ", "unsaid"], wait=Gate(), wait_after=1), is_task_complete=CHECK)
    async with agent.stream("Go") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        stream.cancel()
        pieces = [piece async for piece in stream.text()]
        result = await stream.result()
    assert "".join(pieces) == result.text == "said "


async def test_text_of_sub_runs_is_never_mixed_in() -> None:
    for drafts in (False, True):
        pieces, _ = await text_of(supervisor(asks(hand("sub")), "the end"), drafts=drafts)
        assert "".join(pieces) == "the end"


async def test_drafts_are_every_piece_as_it_comes() -> None:
    agent = supervisor(asks(LOOK, text="thinking, "), "draft, ", "with [1]", is_task_complete=CHECK)
    pieces, result = await text_of(agent, drafts=True)
    assert "".join(pieces) == "thinking, draft, with [1]"
    assert result.text == "with [1]"


@pytest.mark.parametrize("drafts", [False, True])
async def test_text_comes_while_the_model_speaks_where_nothing_can_take_it_back(drafts: bool) -> None:
    gate = Gate()
    check = CHECK if drafts else {}
    agent = plain(Turn(deltas=["one ", "[1]"], wait=gate, wait_after=1), is_task_complete=check)
    with anyio.fail_after(5):
        async with agent.stream("Go") as stream:
            text = stream.text(drafts=drafts)
            assert await anext(text) == "one "
            gate.open()
            assert [piece async for piece in text] == ["[1]"]


async def test_text_is_held_back_until_the_check_has_decided() -> None:
    pieces, _ = await text_of(
        plain(Turn(deltas=["draft ", "one"]), Turn(deltas=["two ", "[1]"]), is_task_complete=CHECK)
    )
    assert pieces == ["two ", "[1]"]


async def test_a_model_that_does_not_stream_has_its_text_in_one_piece() -> None:
    class Whole:
        name = provider = "whole"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
            yield Reply(text="all of it")

    for options in ({}, {"tools": [lookup]}, {"is_task_complete": {"scorers": [lambda output: True]}}):
        pieces, result = await text_of(Agent("a", model=Whole(), **options))
        assert pieces == [result.text] == ["all of it"]


async def test_text_asked_for_late_is_still_the_whole_answer_where_it_is_held_back() -> None:
    async with plain("one two [1]", is_task_complete=CHECK).stream("Go") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        assert "".join([piece async for piece in stream.text()]) == "one two [1]"


async def test_a_failed_run_ends_the_text_and_raises_at_the_end_of_the_block() -> None:
    with pytest.raises(RunError):
        async with plain(Turn("half of", error=RuntimeError())).stream("Go") as stream:
            pieces = [piece async for piece in stream.text()]
    assert "".join(pieces) == "half of"


async def test_text_cannot_be_read_before_or_after_the_block() -> None:
    stream = plain("hi").stream("Go")
    with pytest.raises(StreamError, match="enter the stream"):
        stream.text()
    async with stream:
        pass
    with pytest.raises(StreamError, match="has been left"):
        stream.text()


async def test_a_result_that_another_task_waits_for_takes_no_event_from_who_iterates() -> None:
    began, gate = anyio.Event(), Gate()
    agent = Agent("a", model=ScriptedModel([Turn(deltas=["x"] * 50, wait=gate, wait_after=1)]))
    seen: list[int] = []

    with anyio.fail_after(5):
        async with agent.stream("Go", buffer_size=2) as stream, anyio.create_task_group() as group:

            async def read() -> None:
                async for event in stream:
                    seen.append(event.seq)
                    began.set()
                    await anyio.lowlevel.checkpoint()

            group.start_soon(read)
            await began.wait()
            gate.open()
            result = await stream.result()
    assert result.text == "x" * 50
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) > 50


async def test_two_tasks_that_iterate_share_the_events() -> None:
    seen: list[int] = []
    agent = plain(Turn(deltas=["x"] * 50))
    with anyio.fail_after(5):
        async with agent.stream("Go", buffer_size=2) as stream, anyio.create_task_group() as group:

            async def read() -> None:
                async for event in stream:
                    seen.append(event.seq)
                    await anyio.lowlevel.checkpoint()

            group.start_soon(read)
            group.start_soon(read)
    assert sorted(seen) == list(range(1, len(seen) + 1))


async def test_the_result_comes_also_when_the_reading_task_has_stopped_in_the_middle() -> None:
    agent = plain(Turn(deltas=["x"] * 50))
    with anyio.fail_after(5):
        async with agent.stream("Go", buffer_size=2) as stream, anyio.create_task_group() as group:

            async def read() -> None:
                async for _ in stream:
                    break

            group.start_soon(read)
            assert (await stream.result()).text == "x" * 50


async def test_run_finished_names_the_step_whose_text_is_the_answer() -> None:
    async with plain("draft", "with [1]", is_task_complete=CHECK).stream("Go") as stream:
        events = [event async for event in stream]
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.answer_step == 2
    pieces = [e.text for e in events if isinstance(e, TextDelta) and e.step == last.answer_step]
    assert "".join(pieces) == last.text
