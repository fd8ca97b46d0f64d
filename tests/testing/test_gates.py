"""A gate between threads and event loops."""

import threading

import anyio
import anyio.to_thread

from alfine.testing import Gate


async def test_a_gate_lets_through_those_who_wait_and_those_who_come_later() -> None:
    gate = Gate()
    through: list[str] = []

    async def pass_by(name: str) -> None:
        await gate.wait()
        through.append(name)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pass_by, "a")
            tasks.start_soon(pass_by, "b")
            await anyio.wait_all_tasks_blocked()
            assert not through
            gate.open()
            gate.open()
        await gate.wait()
    assert sorted(through) == ["a", "b"]


async def test_a_gate_is_opened_from_another_thread() -> None:
    gate = Gate()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gate.wait)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(gate.open)


async def test_waiting_can_be_cancelled_and_the_gate_still_opens() -> None:
    gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gate.wait)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    gate.open()
    assert gate.is_open


def test_a_thread_waits_until_another_opens() -> None:
    gate = Gate()
    assert not gate.wait_sync(timeout=0)
    opener = threading.Thread(target=gate.open)
    opener.start()
    assert gate.wait_sync(timeout=5)
    opener.join()
