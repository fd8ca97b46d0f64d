"""The judge: a model that is asked about criteria until each has a verdict, or its calls are used up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskStatus

from ..runtime.errors import BudgetError, JudgeError
from ..runtime.models import Model, ModelSettings
from ..runtime.scoring import ScorerInput, Verdict
from .criteria import Criterion
from .question import judge_question
from .verdicts import JoinedVerdicts, JudgeVerdict, find_quotes, read_reply

WIDTH = 8
"""How many judge calls of one rubric run side by side."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Who judges, and how it is asked.

    Attributes:
        instructions: added to the judge's own.
        retries: how often one question may be asked again.
    """

    model: Model
    instructions: str = ""
    retries: int = 2
    settings: ModelSettings = field(default_factory=ModelSettings)


@dataclass(slots=True)
class QuestionNotes:
    """What is known of one judge question; kept over all attempts at one answer.

    Attributes:
        calls: how many were made, failed ones included.
        settled: the verdicts that stand, by id.
        failure: the last failure of a call.
    """

    calls: int = 0
    settled: dict[str, JudgeVerdict] = field(default_factory=dict)
    summary: str = ""
    failure: Exception | None = None

    def take(self, joined: JoinedVerdicts) -> None:
        """Take in what a reply is worth."""
        if joined.unknown:
            self.settled.clear()
            self.summary = ""
            return
        if joined.settled:
            self.summary = self.summary or joined.summary
        self.settled.update(joined.settled)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge found: one verdict for each criterion, in the order of the rubric."""

    verdicts: tuple[Verdict, ...]
    summary: str = ""


async def judge_together(judge: Judge, criteria: Sequence[Criterion], input: ScorerInput, scorer_id: str) -> Judged:
    """Ask about all criteria in one question.

    Raises:
        JudgeError: the calls are used up, and a criterion is without a verdict.
        ModelError: a call failed; an attempt at the same answer goes on with the calls that are left.
        BudgetError: the run's budget has no room for a call.
    """
    notes = _notes(input, scorer_id, "together")
    await _settle(judge, criteria, input, notes, scorer_id)
    verdicts = _verdicts(criteria, notes, input.output)
    for index, verdict in enumerate(verdicts):
        input.judged(index, verdict)
    return Judged(verdicts, notes.summary)


async def judge_each(judge: Judge, criteria: Sequence[Criterion], input: ScorerInput, scorer_id: str) -> Judged:
    """Ask about each criterion in a question of its own, side by side. A failure leaves the others' verdicts standing.

    Raises:
        JudgeError, ModelError, BudgetError: as `judge_together` does.
    """
    verdicts: dict[int, Verdict] = {}
    failures: dict[int, Exception] = {}
    slots = anyio.Semaphore(WIDTH)

    async def settle(index: int, *, task_status: TaskStatus[None]) -> None:
        task_status.started()
        criterion = criteria[index]
        notes = _notes(input, scorer_id, f"each/{criterion.id}")
        try:
            await _settle(judge, [criterion], input, notes, scorer_id)
        except Exception as error:
            failures[index] = error
        else:
            (verdicts[index],) = _verdicts([criterion], notes, input.output)
            input.judged(index, verdicts[index])
        finally:
            slots.release()

    async with anyio.create_task_group() as group:
        for index in range(len(criteria)):
            await slots.acquire()
            # `start` and not `start_soon`: trio shuffles the order in which waiting tasks begin.
            await group.start(settle, index)
    if failures:
        raise _weightiest([failures[index] for index in sorted(failures)], scorer_id)
    return Judged(tuple(verdicts[index] for index in range(len(criteria))))


async def _settle(
    judge: Judge, criteria: Sequence[Criterion], input: ScorerInput, notes: QuestionNotes, scorer_id: str
) -> None:
    ids = [c.id for c in criteria]
    while waiting := [c for c in criteria if c.id not in notes.settled]:
        asked = tuple(c.id for c in waiting)
        if notes.calls > judge.retries:
            raise JudgeError(scorer_id, asked) from notes.failure
        notes.calls += 1
        request = judge_question(waiting, input, instructions=judge.instructions, settings=judge.settings)
        try:
            reply = await input.ask(judge.model, request)
        except Exception as error:
            notes.failure = error
            raise
        notes.take(read_reply(reply, ids, asked))


def _notes(input: ScorerInput, scorer_id: str, question: str) -> QuestionNotes:
    notes = input.memo.setdefault(f"judge/{scorer_id}/{question}", QuestionNotes())
    assert isinstance(notes, QuestionNotes)
    return notes


def _verdicts(criteria: Sequence[Criterion], notes: QuestionNotes, output: str) -> tuple[Verdict, ...]:
    said = [notes.settled[c.id] for c in criteria]
    found = find_quotes([s.evidence for s in said if s.evidence is not None], output)
    return tuple(
        Verdict(
            criterion.id,
            criterion.description,
            criterion.required,
            one.satisfied,
            one.reasoning,
            one.evidence,
            None if one.evidence is None else one.evidence in found,
        )
        for criterion, one in zip(criteria, said, strict=True)
    )


def _weightiest(failures: Sequence[Exception], scorer_id: str) -> Exception:
    """Return the failure to report: a used-up budget, else one that another attempt may mend, else all together."""
    for kind in (BudgetError, Exception):
        for error in failures:
            if isinstance(error, kind) and not isinstance(error, JudgeError):
                return error
    missing = tuple(i for error in failures if isinstance(error, JudgeError) for i in error.missing)
    joined = JudgeError(scorer_id, missing)
    joined.__cause__ = failures[0].__cause__
    return joined
