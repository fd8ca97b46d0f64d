"""The bounded buffer between a run and its reader."""

from __future__ import annotations

import anyio

from alfine.runtime.buffer import EventBuffer
from alfine.runtime.events import StepStarted


def event(step: int = 1) -> StepStarted:
    return StepStarted("r", "a", 0, step, 1)


async def test_a_waking_reader_takes_all_that_is_there_in_order_and_numbered() -> None:
    buffer = EventBuffer()
    for step in range(1, 4):
        buffer.put(event(step))
    taken = await buffer.take()
    assert [(e.seq, e.step) for e in taken if isinstance(e, StepStarted)] == [(1, 1), (2, 2), (3, 3)]


async def test_a_reader_waits_for_the_next_event() -> None:
    buffer = EventBuffer()
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.lowlevel.checkpoint)
        group.start_soon(put_later, buffer)
        assert len(await buffer.take()) == 1


async def put_later(buffer: EventBuffer) -> None:
    await anyio.wait_all_tasks_blocked()
    buffer.put(event())


async def test_two_readers_share_the_events_and_neither_hangs() -> None:
    buffer = EventBuffer()
    taken: list[int] = []

    async def read() -> None:
        while events := await buffer.take():
            taken.extend(e.seq for e in events)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(read)
            for _ in range(3):
                await anyio.wait_all_tasks_blocked()
                buffer.put(event())
            await anyio.wait_all_tasks_blocked()
            buffer.close()
    assert taken == [1, 2, 3]


async def test_a_full_buffer_says_so_and_a_take_makes_room_for_every_waiting_producer() -> None:
    buffer = EventBuffer(2)
    through: list[int] = []

    async def produce(n: int) -> None:
        await buffer.space()
        through.append(n)

    assert [buffer.put(event()), buffer.put(event())] == [False, True]
    async with anyio.create_task_group() as group:
        group.start_soon(produce, 1)
        group.start_soon(produce, 2)
        await anyio.wait_all_tasks_blocked()
        assert through == []
        await buffer.take()
    assert sorted(through) == [1, 2]


async def test_a_producer_that_was_cancelled_while_it_waited_does_not_block_the_next() -> None:
    buffer = EventBuffer(1)
    buffer.put(event())
    with anyio.move_on_after(0.01) as scope:
        await buffer.space()
    assert scope.cancelled_caught
    await buffer.take()
    with anyio.fail_after(5):
        await buffer.space()


async def test_closing_lets_producers_and_readers_go() -> None:
    buffer = EventBuffer(1)
    buffer.put(event())
    async with anyio.create_task_group() as group:
        group.start_soon(buffer.space)
        await anyio.wait_all_tasks_blocked()
        buffer.close()
    assert len(await buffer.take()) == 1
    assert len(await buffer.take()) == 0


async def test_closing_with_drop_forgets_what_nobody_has_taken() -> None:
    buffer = EventBuffer()
    buffer.put(event())
    buffer.close(drop=True)
    assert len(await buffer.take()) == 0


async def test_a_closed_buffer_still_numbers_events_and_keeps_none() -> None:
    buffer = EventBuffer(1)
    buffer.close()
    events = [event() for _ in range(5)]
    assert [buffer.put(e) for e in events] == [False] * 5
    assert [e.seq for e in events] == [1, 2, 3, 4, 5]
    assert len(await buffer.take()) == 0
