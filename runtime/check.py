"""The completion check: running the scorers on an answer under a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import tracing
from .errors import BudgetError, ConfigError, ScorerError, text_of
from .events import CheckFinished, CheckStarted, CriterionJudged, ScorerFinished
from .feedback import write_feedback
from .hooks import call_hook
from .journal import Deadline, Failure, LimitReached, Op
from .ledger import LedgerChanges
from .scoring import Score, Scorer, Verdict, as_score, clean_verdict
from .task_complete import TaskComplete

if TYPE_CHECKING:
    from .run import Run

TRIES = 3
"""How often a scorer may try to grade one answer while only errors stand in the way."""


@dataclass(frozen=True, slots=True)
class ScorerResult:
    """What became of one scorer in one check.

    Attributes:
        position: the scorer's place in the check; scorers may share an id.
        score: None when the scorer failed to give one.
        error: why there is no score.
        has_criteria: the scorer is known to grade by criteria.
    """

    scorer_id: str
    position: int
    score: Score | None
    passed: bool = False
    error: Exception | None = None
    timed_out: bool = False
    has_criteria: bool = False

    @property
    def errored(self) -> bool:
        """Whether the scorer gave no verdict."""
        return self.score is None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What one check found.

    Attributes:
        iteration, step: where in the run, from 1.
        passed: the strategy holds.
        scorers: in configured order; those that were not needed are absent.
        undecided: neither passed nor failed: only errors stand in the way.
        at_limit: no step is left after this check.
        limit: the usage limit that cut the check, if one did.
        changes: what became of the criteria since the check before.
    """

    iteration: int
    step: int
    strategy: str
    passed: bool
    scorers: tuple[ScorerResult, ...]
    undecided: bool = False
    at_limit: bool = False
    limit: str | None = None
    changes: LedgerChanges = field(default_factory=lambda: LedgerChanges((), (), ()))

    @property
    def timed_out(self) -> bool:
        """Whether a scorer ran out of the check's time."""
        return any(r.timed_out for r in self.scorers)

    @property
    def rank(self) -> tuple[bool, int, float]:
        """How good the answer is: passed, required criteria satisfied, the sum of the scorers' shares of their scales.

        A scorer without criteria counts as one criterion; a value beyond its scale counts nothing.
        """
        satisfied, value = 0, 0.0
        for result in self.scorers:
            if result.score is None:
                continue
            if not result.score.beyond_scale:
                value += result.score.value / result.score.scale
            criteria = result.score.criteria
            required = [v for v in criteria if v.required] or criteria
            satisfied += sum(v.satisfied for v in required) if criteria else int(result.passed)
        return self.passed, satisfied, value


def decide(strategy: str, results: Sequence[ScorerResult], *, errors_fail: bool = False) -> bool | None:
    """Return whether the results pass under the strategy; None while only errors stand in the way.

    >>> passed, failed = ScorerResult("a", 0, Score(1), passed=True), ScorerResult("b", 1, Score(0))
    >>> decide("all", [passed, failed]), decide("any", [passed, failed])
    (False, True)
    """
    holds = any if strategy == "any" and results else all
    if holds(r.passed for r in results):
        return True
    failed = any(not r.passed and (errors_fail or not r.errored) for r in results)
    return False if failed else None


async def check_answer(run: Run, output: str) -> CheckReport:
    """Grade `output`, record what came out, and tell the trace, the reader and `on_complete`."""
    check = run.spec.check
    assert check is not None
    ids = [scorer.id for scorer in run.scorers]
    await run.emit(CheckStarted(*run.head, run.step, run.iteration, check.strategy, ids))
    with tracing.check_span(run.spans, check.strategy, len(ids)) as span:
        graders = _Graders(run, check, output)
        passed = await graders.decide()
        results = graders.results()
        run.ledger.record(results)
        report = CheckReport(
            iteration=run.iteration,
            step=run.step,
            strategy=check.strategy,
            passed=bool(passed),
            scorers=results,
            undecided=passed is None,
            at_limit=run.is_last,
            limit=graders.limit if not passed else None,
            changes=run.ledger.changes(),
        )
        run.graded(output, report)
        span.finish(report)
    await run.emit(
        CheckFinished(
            *run.head,
            report.step,
            report.iteration,
            report.strategy,
            report.passed,
            report.undecided,
            report.timed_out,
            report.at_limit,
        )
    )
    if (hook := check.on_complete) is not None:
        await run.act(f"{run.step}/on_complete", lambda: run.observe("on_complete", hook, report))
    return report


async def feedback_text(run: Run, report: CheckReport) -> str:
    """Return the feedback for a failed check: the configured function's, or our own. Blank where time ran out."""
    check = run.spec.check
    if check is None or check.feedback is None:
        return write_feedback(report)
    write = check.feedback
    text = await run.act(f"{run.step}/feedback", lambda: call_hook(write, report))
    if run.over_limit:
        return ""
    if not isinstance(text, str):
        raise ConfigError("is_task_complete.feedback", text, "the function returns the text of the feedback")
    return text


class _Graders:
    """The scorers of one check at work on one answer."""

    def __init__(self, run: Run, check: TaskComplete, output: str) -> None:
        self.run = run
        self.check = check
        self.output = output
        self.limit: str | None = None
        self._results: dict[int, ScorerResult] = {}
        self._memos: dict[int, dict[str, Any]] = {}
        self._shown: dict[int, dict[int, Verdict]] = {}
        self._errors_fail = check.on_scorer_error == "fail"

    async def decide(self) -> bool | None:
        """Run the scorers, the errored ones again while only errors block; return what the strategy says."""
        waiting = list(range(len(self.run.scorers)))
        passed: bool | None = None
        for attempt in range(1, TRIES + 1):
            await self._try(waiting, attempt)
            passed = decide(self.check.strategy, self.results(), errors_fail=self._errors_fail)
            waiting = [r.position for r in self.results() if r.errored]
            if passed is not None or self.limit is not None:
                break
        for position in waiting:
            result = self._results[position]
            if result.error is not None:
                await self.run.warn("scorer_failed", text_of(result.error))
            await self.run.emit(self._finished(result))
        return passed

    def results(self) -> tuple[ScorerResult, ...]:
        """The latest result of each scorer that ran, in configured order."""
        return tuple(self._results[position] for position in sorted(self._results))

    async def _try(self, positions: Sequence[int], attempt: int) -> None:
        ops = {position: self._op(position, attempt) for position in positions}
        if self.check.parallel:

            async def settled(index: int, value: Score | Failure | LimitReached) -> None:
                await self._settle(positions[index], value)

            await self.run.journal.gather(list(ops.values()), settled=settled)
            return
        for position, op in ops.items():
            (value,) = await self.run.journal.gather([op])
            await self._settle(position, value)
            result = self._results[position]
            failed = not result.passed and (self._errors_fail or not result.errored)
            decided = result.passed if self.check.strategy == "any" else failed
            if decided or self.limit is not None:
                return

    def _op(self, position: int, attempt: int) -> Op[Score]:
        run = self.run
        deadlines = run.spec.deadlines
        if self.check.timeout is not None:
            name = f"{run.spec.run_id}/{run.step}/check/{attempt}"
            deadlines = (*deadlines, Deadline(name, self.check.timeout))

        async def body() -> Score:
            return await self._grade(position)

        return Op(f"{run.step}/score/{position}/{attempt}", body, Score, deadlines=deadlines)

    async def _grade(self, position: int) -> Score:
        run, scorer = self.run, self.run.scorers[position]
        memo = self._memos.setdefault(position, {})
        shown = self._shown.setdefault(position, {})
        at_work = True

        def judged(index: int, verdict: Verdict) -> None:
            verdict = clean_verdict(verdict)
            # What an abandoned thread says comes too late, and a verdict that stands is said once.
            if at_work and shown.get(index) != verdict:
                shown[index] = verdict
                run.show_now(self._judged(position, index, verdict))

        try:
            with tracing.scorer_span(run.spans, scorer) as span:
                given = run.scorer_input(self.output, memo=memo, judged=judged, spans=span.scope)
                score = as_score(scorer.id, await call_hook(scorer.score, given))
                span.finish(score, score.passes(_threshold(scorer)))
            for index, verdict in enumerate(score.criteria):
                judged(index, verdict)
        finally:
            at_work = False
        return score

    async def _settle(self, position: int, value: Score | Failure | LimitReached) -> None:
        scorer = self.run.scorers[position]
        has_criteria = bool(self._shown.get(position)) or bool(getattr(scorer, "has_criteria", False))
        if isinstance(value, Score):
            if value.beyond_scale:
                text = f"{scorer.id} gave {value.value:g} on a scale of {value.scale:g}; that is no pass"
                await self.run.warn("score_beyond_scale", text)
            result = ScorerResult(scorer.id, position, value, value.passes(_threshold(scorer)))
            self._results[position] = result
            await self.run.emit(self._finished(result))
            return
        error = self._error(scorer, value)
        timed_out = isinstance(value, LimitReached) and self.limit is None
        self._results[position] = ScorerResult(
            scorer.id, position, None, error=error, timed_out=timed_out, has_criteria=has_criteria
        )

    def _error(self, scorer: Scorer, value: Failure | LimitReached) -> Exception:
        if isinstance(value, LimitReached):
            if any(value.name == d.name for d in self.run.spec.deadlines):
                self.limit = "wall_time"
                return ScorerError(scorer.id, "no score within the run's time")
            return ScorerError(scorer.id, f"no score within the check's {self.check.timeout} seconds")
        if isinstance(value.error, BudgetError):
            self.limit = value.error.limit
        if isinstance(value.error, ScorerError):
            return value.error
        error = ScorerError(scorer.id, f"{type(value.error).__name__}: {text_of(value.error)}")
        error.__cause__ = value.error
        return error

    def _judged(self, position: int, index: int, verdict: Verdict) -> CriterionJudged:
        run = self.run
        return CriterionJudged(
            *run.head,
            run.step,
            run.iteration,
            run.scorers[position].id,
            position,
            index,
            verdict.criterion_id,
            verdict.description,
            verdict.required,
            verdict.satisfied,
            verdict.reason,
            verdict.evidence,
            verdict.evidence_found,
        )

    def _finished(self, result: ScorerResult) -> ScorerFinished:
        score = result.score
        return ScorerFinished(
            *self.run.head,
            self.run.step,
            self.run.iteration,
            result.scorer_id,
            result.position,
            score.value if score else None,
            score.scale if score else 1.0,
            result.passed,
            score.reason if score else "",
            result.errored,
            result.timed_out,
        )


def _threshold(scorer: Scorer) -> float:
    return float(getattr(scorer, "threshold", 1.0))
