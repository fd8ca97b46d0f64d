"""The five verbs of the default journal."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from alfine.runtime import loop
from alfine.runtime.buffer import EventBuffer
from alfine.runtime.events import RunFinished, StepStarted
from alfine.runtime.journal import ChildRun, Deadline, Failure, Journal, LimitReached, MemoryJournal, Op


def journal(size: int = 512) -> MemoryJournal:
    return MemoryJournal(EventBuffer(size))


def gives(value: Any, *, after: Callable[[], Awaitable[Any]] | None = None) -> Callable[[], Awaitable[Any]]:
    async def body() -> Any:
        if after is not None:
            await after()
        if isinstance(value, Exception):
            raise value
        return value

    return body


# step


async def test_a_step_returns_what_its_body_returns() -> None:
    assert await journal().step(Op("1/model", gives(5))) == 5


async def test_an_exception_of_a_body_leaves_as_itself() -> None:
    error = RuntimeError("x")
    with pytest.raises(RuntimeError) as caught:
        await journal().step(Op("k", gives(error)))
    assert caught.value is error


async def test_a_step_is_retried_as_often_as_told_and_then_fails() -> None:
    tries: list[int] = []

    async def body() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise RuntimeError
        return "ok"

    assert await journal().step(Op("k", body, retry=1)) == "ok"
    tries[:] = []
    with pytest.raises(RuntimeError):
        await journal().step(Op("k", body))


async def test_a_timeout_cuts_the_body_and_comes_back_as_a_value() -> None:
    closed = False

    async def body() -> None:
        nonlocal closed
        try:
            await anyio.sleep_forever()
        finally:
            closed = True

    assert await journal().step(Op("k", body, timeout=0.01)) == LimitReached("timeout")
    assert closed


async def test_a_deadline_starts_at_first_use_and_is_shared_by_every_step_that_carries_it() -> None:
    j, deadline = journal(), Deadline("run/wall_time", 0.02)
    carrying = (deadline,)
    assert await j.step(Op("1", gives(1), deadlines=carrying)) == 1
    assert await j.step(Op("2", anyio.sleep_forever, deadlines=carrying)) == LimitReached("run/wall_time")
    begun: list[int] = []

    async def body() -> None:
        begun.append(1)

    assert await j.step(Op("3", body, deadlines=carrying)) == LimitReached("run/wall_time")
    assert begun == []
    assert await j.step(Op("4", gives(4))) == 4


async def test_of_several_limits_the_nearest_cuts() -> None:
    op = Op("k", anyio.sleep_forever, timeout=30, deadlines=(Deadline("far", 60), Deadline("near", 0.01)))
    assert await journal().step(op) == LimitReached("near")


async def test_a_cancel_from_outside_is_no_limit() -> None:
    values: list[object] = []
    with anyio.move_on_after(0.01) as scope:
        values.append(await journal().step(Op("k", anyio.sleep_forever, timeout=30)))
    assert scope.cancelled_caught
    assert values == []


# gather


async def test_gather_starts_in_list_order_and_answers_in_list_order() -> None:
    begun: list[int] = []

    def item(n: int) -> Op[int]:
        async def body() -> int:
            begun.append(n)
            for _ in range(20 - n):
                await anyio.lowlevel.checkpoint()
            return n

        return Op(f"{n}", body)

    values = await journal().gather([item(n) for n in range(20)])
    assert begun == values == list(range(20))


@pytest.mark.parametrize("width", [1, 3, 20, 50, None])
async def test_gather_runs_at_most_width_items_at_once(width: int | None) -> None:
    at_once, most, begun = 0, 0, []

    def item(n: int) -> Op[int]:
        async def body() -> int:
            nonlocal at_once, most
            begun.append(n)
            at_once += 1
            most = max(most, at_once)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            at_once -= 1
            return n

        return Op(f"{n}", body)

    assert await journal().gather([item(n) for n in range(20)], width=width) == list(range(20))
    assert begun == list(range(20))
    assert most <= (width or 20)


@pytest.mark.parametrize("count", [1, 4])
async def test_failures_come_back_in_place_and_all_settle(count: int) -> None:
    errors = {0: RuntimeError("first"), 2: ExceptionGroup("third", [ValueError()])}
    ops = [Op(str(n), gives(errors.get(n, n))) for n in range(count)]
    values = await journal().gather(ops)
    assert [v.error if isinstance(v, Failure) else v for v in values] == [errors.get(n, n) for n in range(count)]


async def test_a_deadline_in_a_gather_cuts_siblings_too_and_leaves_the_others() -> None:
    cut = (Deadline("d", 0.01),)
    ops: list[Op[Any]] = [
        Op("a", anyio.sleep_forever, deadlines=cut),
        Op("b", gives("b")),
        Op("c", anyio.sleep_forever, deadlines=cut),
    ]
    assert await journal().gather(ops) == [LimitReached("d"), "b", LimitReached("d")]


async def test_a_child_run_gets_a_journal() -> None:
    async def body(given: Journal) -> int:
        value = await given.step(Op("inner", gives(7)))
        assert isinstance(value, int)
        return value

    items: list[Op[int] | ChildRun[int]] = [ChildRun("c", body), Op("o", gives(8))]
    assert await journal().gather(items) == [7, 8]


async def test_settled_is_told_of_each_item_as_it_settles() -> None:
    told: list[tuple[int, Any]] = []
    second_is_told = anyio.Event()

    async def settled(index: int, value: Any) -> None:
        told.append((index, value))
        if index == 1:
            second_is_told.set()

    await journal().gather([Op("0", gives("a", after=second_is_told.wait)), Op("1", gives("b"))], settled=settled)
    assert told == [(1, "b"), (0, "a")]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_settled_that_raises_leaves_as_itself_after_all_have_settled(count: int) -> None:
    told: list[int] = []

    async def settled(index: int, value: Any) -> None:
        told.append(index)
        raise RuntimeError(f"settled {index}")

    with pytest.raises(RuntimeError, match="settled 0"):
        await journal().gather([Op(str(n), gives(n)) for n in range(count)], settled=settled)
    assert sorted(told) == list(range(count))


async def test_nothing_gathered_is_nothing() -> None:
    assert await journal().gather([]) == []


async def test_a_cancel_reaches_all_items_at_once() -> None:
    closed: list[int] = []

    def item(n: int) -> Op[None]:
        async def body() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                closed.append(n)

        return Op(f"{n}", body)

    with anyio.move_on_after(0.02):
        await journal().gather([item(n) for n in range(4)], width=2)
    assert sorted(closed) == [0, 1]


# emit, wait, sleep


async def test_emit_waits_for_room_and_the_last_event_waits_for_nobody() -> None:
    buffer = EventBuffer(1)
    j = MemoryJournal(buffer)
    shown: list[str] = []

    async def produce() -> None:
        await j.emit(StepStarted("r", "a", 0, 1, 1))
        shown.append("first")
        await j.emit(RunFinished("r", "a", 0, "complete", "", None, 1, 1, {}))
        shown.append("last")

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        await anyio.wait_all_tasks_blocked()
        assert shown == []
        assert [e.kind for e in await buffer.take()] == ["step_started"]
        await anyio.wait_all_tasks_blocked()
        assert shown == ["first", "last"]
    assert [e.kind for e in await buffer.take()] == ["run_finished"]


async def test_wait_takes_a_message_sent_before_or_after_in_order() -> None:
    j = journal()
    j.send("approval", 1)
    j.send("approval", 2)
    assert [await j.wait("approval"), await j.wait("approval")] == [1, 2]
    got: list[object] = []

    async def waiter() -> None:
        got.append(await j.wait("approval"))

    async with anyio.create_task_group() as group:
        group.start_soon(waiter)
        group.start_soon(waiter)
        await anyio.wait_all_tasks_blocked()
        j.send("other", 0)
        j.send("approval", 3)
        await anyio.wait_all_tasks_blocked()
        assert got == [3]
        j.send("approval", 4)
    assert got == [3, 4]


async def test_wait_gives_up_after_its_timeout() -> None:
    assert await journal().wait("approval", timeout=0.01) == LimitReached("timeout")


async def test_sleep_lets_time_pass() -> None:
    start = anyio.current_time()
    await journal().sleep(0.01)
    assert anyio.current_time() - start >= 0.009


def test_the_loop_imports_nothing_that_would_give_it_a_clock_randomness_or_tasks() -> None:
    nodes = list(ast.walk(ast.parse(inspect.getsource(loop))))
    modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module and n.level == 0}
    assert modules <= {"__future__", "collections.abc", "dataclasses", "typing"}
