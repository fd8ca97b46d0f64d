"""When a run counts as done: what a user configures as `is_task_complete`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .errors import ConfigError
from .scoring import Scorer, as_scorer

if TYPE_CHECKING:
    from .check import CheckReport


@dataclass(frozen=True, slots=True)
class TaskComplete:
    """When a run counts as done.

    Args:
        scorers: scorers, or plain functions of the output. With none, every answer is complete.
        strategy: `all` scorers must pass, or `any` one.
        parallel: side by side, or one after the other until the strategy is decided.
        timeout: seconds for all scorers of one try together; above 0.
        when: `answer` grades steps that asked for no tools; `step` grades every step that has text.
        on_scorer_error: when only errors block, `stop` tries the errored scorers again on the same answer and then ends
            the run as `error`; `fail` counts an errored scorer as failed.
        hide_feedback: clients are asked not to show the feedback; the model still gets it.
        feedback: a function of the `CheckReport` that writes the feedback; sync or async.
        stall_after: end as `stalled` after so many checks in a row without movement; at least 2.
        on_complete: called with every `CheckReport`; what it raises becomes a warning.
        additional_context: read by scorers only; `rubric` is looked up here too.

    Raises:
        ConfigError: an argument is not allowed.
    """

    scorers: Sequence[Scorer | Callable[..., Any]] = ()
    strategy: Literal["all", "any"] = "all"
    parallel: bool = True
    timeout: float | None = 600.0
    when: Literal["answer", "step"] = "answer"
    on_scorer_error: Literal["stop", "fail"] = "stop"
    hide_feedback: bool = False
    feedback: Callable[[CheckReport], str | Awaitable[str]] | None = None
    stall_after: int | None = None
    on_complete: Callable[[CheckReport], Any] | None = None
    additional_context: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.scorers, str | Mapping) or not isinstance(self.scorers, Sequence):
            raise ConfigError("is_task_complete.scorers", self.scorers, "a list of scorers or functions")
        for name, allowed in (
            ("strategy", ("all", "any")),
            ("when", ("answer", "step")),
            ("on_scorer_error", ("stop", "fail")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"is_task_complete.{name}", getattr(self, name), f"one of {', '.join(allowed)}")
        if self.timeout is not None and not (_is_number(self.timeout) and self.timeout > 0):
            raise ConfigError("is_task_complete.timeout", self.timeout, "seconds above 0, or None")
        if self.stall_after is not None and not (type(self.stall_after) is int and self.stall_after >= 2):
            raise ConfigError("is_task_complete.stall_after", self.stall_after, "a whole number, at least 2, or None")
        for name in ("feedback", "on_complete"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"is_task_complete.{name}", getattr(self, name), "a function of the report, or None")
        if not isinstance(self.additional_context, Mapping):
            raise ConfigError("is_task_complete.additional_context", self.additional_context, "a mapping")
        object.__setattr__(self, "scorers", tuple(as_scorer(s) for s in self.scorers))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
