"""What a run comes to: its steps, its answers, its outcome; and what a hook may say after each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from .check import CheckReport
from .errors import ConfigError, OutcomeError, RunError, text_of
from .ledger import Ledger
from .limits import Usage
from .messages import Message, ToolCall
from .tools import RunContext

T = TypeVar("T")

Outcome = Literal["complete", "max_steps", "stalled", "budget", "bailed", "stopped", "suspended", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class StepDecision:
    """What an `on_step` hook wants.

    Attributes:
        action: `go_on` continues after a pass or an answer, `stop` ends the run, None leaves it to the loop.
        feedback: a message that the next model call sees. `stop` with feedback gives one last step that sees it.

    Raises:
        ConfigError: the action is none of these, or the feedback is no text.
    """

    action: Literal["go_on", "stop"] | None = None
    feedback: str | None = None

    def __post_init__(self) -> None:
        if self.action not in ("go_on", "stop", None):
            raise ConfigError("action", self.action, "go_on, stop, or None")
        if self.feedback is not None and not isinstance(self.feedback, str):
            raise ConfigError("feedback", self.feedback, "a text, or None")

    @property
    def wants_step(self) -> bool:
        """Whether the hook wants one more step."""
        return self.action == "go_on" or (self.action == "stop" and bool(self.feedback))


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A finished step.

    Attributes:
        number: from 1.
        text: what the model said beside its tool calls, or its answer; what there was when the call failed.
        finish_reason: `stop`, `tool_calls`, `length`, `content_filter`, `error` or `cancelled`.
        graded: a check followed.
    """

    number: int
    iteration: int
    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    graded: bool
    usage: Usage


@dataclass(frozen=True, slots=True)
class StepInfo:
    """What an `on_step` hook is told: the step, its check if there was one, and where the run stands."""

    context: RunContext
    step: StepRecord
    check: CheckReport | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class RunResult(Generic[T]):
    """What a run came to.

    Attributes:
        outcome: `complete`, `max_steps`, `stalled`, `budget`, `bailed`, `stopped`, `suspended`, `cancelled`, `error`.
        text: the accepted answer; when none was accepted, the best one (most required criteria satisfied, then the
            highest value, then the latest); without any answer, the last step's text.
        output: the structured answer, when an output type was given and an answer fits it; else None.
        messages: the whole conversation; give it as `history` to go on from here.
        checks: every check, in order.
        ledger: what became of each criterion.
        usage: the run's, its sub-runs' and its judges'.
        answer_step: the step whose text `text` is, or None.
        error: the failure, when the outcome is `error`.
    """

    run_id: str
    agent: str
    outcome: Outcome
    text: str
    output: T | None
    messages: tuple[Message, ...]
    steps: tuple[StepRecord, ...]
    checks: tuple[CheckReport, ...]
    ledger: Ledger
    usage: Usage
    answer_step: int | None = None
    error: Exception | None = None

    @property
    def complete(self) -> bool:
        """Whether the outcome is `complete`."""
        return self.outcome == "complete"

    def raise_for_outcome(self) -> RunResult[T]:
        """Return the result itself if it is complete.

        Raises:
            RunError: the run failed.
            OutcomeError: it ended in another way, such as `max_steps`.
        """
        if self.outcome == "error":
            raise self.failure()
        if not self.complete:
            raise OutcomeError(f"the run of {self.agent!r} ended as {self.outcome}, not as complete", self)
        return self

    def failure(self) -> RunError:
        """Return the exception that stands for outcome `error`, with the failure itself as its cause."""
        cause = "" if self.error is None else text_of(self.error)
        error = RunError(f"the run of {self.agent!r} failed in step {len(self.steps)}: {cause}", self)
        error.__cause__ = self.error
        return error


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the run, and its check if it was graded."""

    step: int
    text: str
    report: CheckReport | None
