"""The exceptions that reach a user, as a tree.

AlfineError
+-- ConfigError      a wrong argument, found before the first model call
+-- StreamError      a stream is used in a way that cannot work
+-- ModelError       a model call failed
+-- ToolError        raised by a tool: its text is the answer that the model gets
+-- BudgetError      a usage limit leaves no room for one more call
+-- ScorerError      a scorer gave no verdict; never counted as a pass
|   +-- JudgeError   the judge's answers do not fit the rubric
+-- OutcomeError     the run did not end as `complete`; carries the result
    +-- RunError     the run failed; carries the partial result
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import RunResult


def text_of(error: BaseException) -> str:
    """Return the exception's text. One that cannot tell its own must not cost a run its end."""
    try:
        return str(error)
    except Exception:
        return "(no text)"


class AlfineError(Exception):
    """The root of every exception that this package raises on purpose."""


class ConfigError(AlfineError, ValueError):
    """A wrong argument, found before any model is called.

    Args:
        argument: the name of the argument, as the caller wrote it.
        value: what was given.
        allowed: what may be given, in words.
    """

    def __init__(self, argument: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > 200:
            shown = shown[:200] + "…"
        super().__init__(f"{argument}: {shown} is not allowed; {allowed}")
        self.argument = argument
        self.value = value
        self.allowed = allowed


class StreamError(AlfineError, RuntimeError):
    """A stream was read without being entered, entered twice, or asked for a result that it cannot have."""


class ModelError(AlfineError):
    """A model call failed, after the transport's own retries.

    Attributes:
        model: the model's name.
        status: the HTTP status, where the server answered with one.
        retryable: another attempt might have succeeded (a cut connection, 408, 409, 429, 5xx).
    """

    def __init__(self, message: str, *, model: str = "", status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.model = model
        self.status = status
        self.retryable = retryable


class ToolError(AlfineError):
    """Raise it in a tool to answer the model: the text goes to the model as the tool's failed result."""


class BudgetError(AlfineError):
    """A usage limit leaves no room for one more call.

    Attributes:
        limit: the name of the limit in `UsageLimits`.
    """

    def __init__(self, limit: str, detail: str) -> None:
        super().__init__(f"the limit {limit} is used up: {detail}")
        self.limit = limit


class ScorerError(AlfineError):
    """A scorer gave no verdict: it raised, ran out of time, or returned no finite number. It never counts as a pass.

    Attributes:
        scorer_id: the scorer that failed.
    """

    def __init__(self, scorer_id: str, message: str) -> None:
        super().__init__(f"scorer {scorer_id!r}: {message}")
        self.scorer_id = scorer_id


class JudgeError(ScorerError):
    """The judge's answers do not fit the rubric, also after asking again.

    Attributes:
        missing: the ids of the criteria that are without a usable verdict.
    """

    def __init__(self, scorer_id: str, missing: tuple[str, ...], message: str = "") -> None:
        super().__init__(scorer_id, message or f"the judge gave no usable verdict for {', '.join(missing)}")
        self.missing = missing


class OutcomeError(AlfineError):
    """The run ended, but not as `complete`.

    Attributes:
        result: the run's result, with everything that was produced.
    """

    def __init__(self, message: str, result: RunResult[Any]) -> None:
        super().__init__(message)
        self.result = result

    @property
    def outcome(self) -> str:
        """How the run ended."""
        return self.result.outcome


class RunError(OutcomeError):
    """The run failed; `result` holds what it had produced, `__cause__` the failure itself."""
