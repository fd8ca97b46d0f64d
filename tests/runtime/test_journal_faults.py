"""Whatever step of a run's journal fails, the run ends once, in order, and keeps its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from alfine import Agent, AssistantMessage, RunResult, Score, StepDecision, StepInfo, ToolMessage, tool
from alfine.runtime.buffer import EventBuffer
from alfine.runtime.events import DelegationFinished, DelegationStarted, Event, RunFinished, ToolCalled, ToolReturned
from alfine.runtime.journal import ChildRun, Failure, LimitReached, MemoryJournal, Op, Settled
from alfine.runtime.loop import run_loop
from alfine.testing import ScriptedModel, Turn, call


class Broken(Exception):
    """What the faulty journal raises."""


class FaultyJournal(MemoryJournal):
    """Fails at one verb, counted from 1; before or after the verb has done its work."""

    def __init__(self, buffer: EventBuffer, fail_at: int, *, after: bool) -> None:
        super().__init__(buffer)
        self.fail_at = fail_at
        self.after = after
        self.verbs = 0

    def _due(self) -> bool:
        self.verbs += 1
        return self.verbs == self.fail_at

    async def step(self, op: Op[Any]) -> Any:
        due = self._due()
        if due and not self.after:
            raise Broken
        value = await super().step(op)
        if due:
            raise Broken
        return value

    async def gather(
        self,
        items: Sequence[Op[Any] | ChildRun[Any]],
        *,
        width: int | None = None,
        settled: Settled | None = None,
    ) -> list[Any | Failure | LimitReached]:
        due = self._due()
        if due and not self.after:
            raise Broken
        values = await super().gather(items, width=width, settled=settled)
        if due:
            raise Broken
        return values

    async def emit(self, event: Event) -> None:
        due = self._due()
        if due and not self.after:
            raise Broken
        await super().emit(event)
        if due:
            raise Broken


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def has_source(output: str) -> Score:
    return Score(float("[1]" in output), reason="no source [1]")


def agent() -> Agent[str]:
    writer = Agent(
        "writer", model=ScriptedModel([Turn(tool_calls=[call("lookup", {"q": "w"})]), "written"]), tools=[lookup]
    )
    calls = [call("delegate_writer", {"prompt": "write"}), call("lookup", {"q": "x"}), call("nope", {})]
    lead = ScriptedModel([Turn("Thinking", tool_calls=calls), "a draft", "an answer [1]"])

    def on_step(info: StepInfo) -> StepDecision | None:
        return None

    return Agent(
        "lead", model=lead, agents=[writer], tools=[lookup], is_task_complete={"scorers": [has_source]}, on_step=on_step
    )


async def run_with_fault(fail_at: int, *, after: bool) -> tuple[RunResult[Any], list[Event], FaultyJournal]:
    stream = agent().stream("Do it", buffer_size=10_000)
    run = stream._run
    journal = FaultyJournal(run.buffer, fail_at, after=after)
    run.journal = journal
    with anyio.fail_after(5):
        result = await run_loop(run)
    run.buffer.close()
    events: list[Event] = []
    while taken := await run.buffer.take():
        events.extend(taken)
    return result, events, journal


@pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
async def test_a_fault_at_any_journal_step_ends_the_run_once_and_keeps_the_work(after: bool) -> None:
    whole, _, journal = await run_with_fault(0, after=after)
    assert whole.outcome == "complete"
    assert journal.verbs > 40
    for fail_at in range(1, journal.verbs + 1):
        result, events, _ = await run_with_fault(fail_at, after=after)
        ends = [e for e in events if isinstance(e, RunFinished)]
        assert [e.run_id for e in ends].count(result.run_id) == 1, fail_at
        assert max(Counter(e.run_id for e in ends).values()) == 1, fail_at
        assert events[-1] is ends[-1], fail_at
        assert result.outcome in ("error", "complete"), fail_at
        assert ends[-1].outcome == result.outcome
        calls = [c.id for m in result.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
        answered = [m.call_id for m in result.messages if isinstance(m, ToolMessage)]
        assert answered == calls, fail_at
        called = Counter((e.run_id, e.call_id) for e in events if isinstance(e, ToolCalled))
        returned = Counter((e.run_id, e.call_id) for e in events if isinstance(e, ToolReturned))
        assert set(called) <= set(returned), fail_at
        assert set(returned.values()) <= {1}, fail_at
        begun = Counter(e.call_id for e in events if isinstance(e, DelegationStarted))
        over = Counter(e.call_id for e in events if isinstance(e, DelegationFinished) and e.child_run_id)
        assert begun == over, fail_at
        said = [m.text for m in result.messages if isinstance(m, AssistantMessage)]
        assert said == ["Thinking", "a draft", "an answer [1]"][: len(said)]
        if said:
            assert result.text in said, fail_at
