"""However and whenever a stream's block is left, nothing stays behind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import pytest

from alfine import Agent, OpenAIChatModel, RunError, Score, StreamError, tool
from alfine.events import Event, RunFinished, TextDelta
from alfine.testing import FakeOpenAI, Gate, ScriptedModel, Turn, call, http_error


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    await anyio.lowlevel.checkpoint()
    return f"found {q}"


def has_source(output: str) -> Score:
    return Score(float("[1]" in output), reason="no source [1]")


def supervisor(server: FakeOpenAI) -> Agent[str]:
    def model(name: str) -> OpenAIChatModel:
        return OpenAIChatModel(name, base_url=server.base_url, api_key="key", max_retries=0)

    writer = Agent("writer", model=model("writer"), description="Writes.", tools=[lookup])
    return Agent(
        "lead", model=model("lead"), agents=[writer], tools=[lookup], is_task_complete={"scorers": [has_source]}
    )


def script() -> dict[str, Sequence[Turn]]:
    return {
        "lead": [
            Turn(tool_calls=[call("delegate_writer", {"prompt": "write"}), call("lookup", {"q": "lead"})]),
            Turn("a draft"),
            Turn("an answer [1]"),
        ],
        "writer": [Turn(tool_calls=[call("lookup", {"q": "writer"})]), Turn("written")],
    }


async def all_events() -> list[Event]:
    async with FakeOpenAI(script()) as server, supervisor(server).stream("Do it") as stream:
        return [event async for event in stream]


async def leave_at(place: int, leave: Callable[[], None]) -> None:
    """Run, and call `leave` at event number `place`; then look for what is left."""
    async with FakeOpenAI(script()) as server:
        agent = supervisor(server)
        stream = agent.stream("Do it")
        try:
            async with stream:
                async for event in stream:
                    if event.seq == place:
                        leave()
                        break
        finally:
            if place < 30:
                assert (await stream.result()).outcome in ("cancelled", "complete")
        with anyio.fail_after(5):
            for request in server.requests:
                await request.ended.wait()
    gc.collect()


async def test_leaving_at_any_event_leaves_no_task_and_no_socket_open() -> None:
    count = len(await all_events())
    assert count > 40
    for place in range(1, count + 1):
        # A task left behind would keep this group from ending; a socket would be a ResourceWarning, an error here.
        with anyio.fail_after(10):
            async with anyio.create_task_group():
                await leave_at(place, lambda: None)


@pytest.mark.parametrize("place", [1, 12, 30])
async def test_an_exception_in_the_block_leaves_as_itself(place: int) -> None:
    class Mine(Exception):
        pass

    def leave() -> None:
        raise Mine

    with pytest.raises(Mine):
        await leave_at(place, leave)


async def test_an_outer_cancel_scope_cancels_the_run_and_the_result_stays() -> None:
    gate = Gate()
    agent = Agent("a", model=ScriptedModel([Turn("never", wait=gate)]))
    stream = agent.stream("Do it")
    with anyio.CancelScope() as scope:
        async with stream:
            scope.cancel()
            async for _ in stream:
                pass
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (await stream.result()).outcome == "cancelled"


async def test_cancel_ends_the_stream_with_its_last_event_and_keeps_what_was_said() -> None:
    gate = Gate()
    agent = Agent("a", model=ScriptedModel([Turn(deltas=["said ", "unsaid"], wait=gate, wait_after=1)]))
    events: list[Event] = []
    async with agent.stream("Do it") as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, TextDelta):
                stream.cancel()
        result = await stream.result()
    assert result.outcome == "cancelled"
    assert result.text == "said "
    assert [type(e) for e in events].count(RunFinished) == 1
    assert isinstance(events[-1], RunFinished)


async def test_a_stream_cancelled_before_it_is_read_ends_at_once() -> None:
    agent = Agent("a", model=ScriptedModel(["never"]))
    async with agent.stream("Do it") as stream:
        stream.cancel()
        events = [event async for event in stream]
        assert (await stream.result()).outcome == "cancelled"
    assert isinstance(events[-1], RunFinished)


async def test_iterating_without_entering_is_a_clear_error() -> None:
    stream = Agent("a", model=ScriptedModel(["hi"])).stream("Do it")
    with pytest.raises(StreamError, match="enter the stream"):
        async for _ in stream:
            pass
    with pytest.raises(StreamError, match="enter the stream"):
        stream.text()
    with pytest.raises(StreamError, match="has not started"):
        await stream.result()


async def test_iterating_after_the_block_is_a_clear_error() -> None:
    async with Agent("a", model=ScriptedModel(["hi"])).stream("Do it") as stream:
        pass
    with pytest.raises(StreamError, match="has been left"):
        async for _ in stream:
            pass


async def test_a_stream_can_be_entered_once() -> None:
    stream = Agent("a", model=ScriptedModel(["hi"])).stream("Do it")
    async with stream:
        with pytest.raises(StreamError, match="entered before"):
            await stream.__aenter__()


async def test_result_drains_and_answers_the_same_after_the_block() -> None:
    async with Agent("a", model=ScriptedModel(["hi"])).stream("Do it") as stream:
        inside = await stream.result()
    assert inside.text == "hi"
    assert await stream.result() is inside


async def test_a_failed_run_raises_at_the_end_of_the_block_when_nobody_asked_for_its_result() -> None:
    model = ScriptedModel([http_error(500, "down")])
    with pytest.raises(RunError) as caught:
        async with Agent("a", model=model).stream("Do it") as stream:
            events = [event async for event in stream]
    assert caught.value.result.outcome == "error"
    assert isinstance(events[-1], RunFinished)
    assert events[-1].outcome == "error"


async def test_a_failure_reported_by_result_is_not_raised_again() -> None:
    model = ScriptedModel([http_error(500, "down")])
    async with Agent("a", model=model).stream("Do it") as stream:
        with pytest.raises(RunError):
            await stream.result()
    with pytest.raises(RunError):
        await stream.result()


async def test_a_slow_reader_pauses_the_run_and_loses_nothing() -> None:
    pieces = [f"{n} " for n in range(500)]
    agent = Agent("a", model=ScriptedModel([Turn(deltas=pieces)]))
    got: list[str] = []
    async with agent.stream("Do it", buffer_size=3) as stream:
        async for event in stream:
            await anyio.lowlevel.checkpoint()
            assert len(stream._run.buffer._waiting) <= 3
            if isinstance(event, TextDelta):
                got.append(event.text)
    assert got == pieces


async def test_leaving_while_the_run_waits_for_room_does_not_hang() -> None:
    agent = Agent("a", model=ScriptedModel([Turn(deltas=["x"] * 100)]))
    with anyio.fail_after(5):
        async with agent.stream("Do it", buffer_size=2) as stream:
            async for _ in stream:
                break
    assert (await stream.result()).outcome == "cancelled"
