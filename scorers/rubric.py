"""The rubric scorer: a judge grades the output by a list of criteria."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from ..runtime.errors import ConfigError
from ..runtime.models import Model, ModelSettings
from ..runtime.scoring import Score, ScorerInput
from .criteria import Criterion, Rubric, parse_rubric
from .grade import grade
from .judge import Judge, judge_each, judge_together
from .standalone import Standalone


class RubricScorer(Standalone):
    """Grades an output by a rubric; `create_rubric_scorer` makes one.

    Attributes:
        criteria: the scorer's own rubric; empty when each run brings its rubric.
    """

    kind = "llm_judge"
    has_criteria = True
    threshold = 1.0

    def __init__(
        self,
        id: str,
        judge: Judge,
        criteria: tuple[Criterion, ...],
        *,
        scale: float = 1.0,
        mode: Literal["together", "each"] = "together",
    ) -> None:
        self.id = id
        self.criteria = criteria
        self.scale = scale
        self.mode = mode
        self._judge = judge

    async def score(self, input: ScorerInput, /) -> Score:
        """Grade `input.output`.

        Raises:
            ConfigError: the run's rubric is none.
            JudgeError: the judge gave no usable verdict for a criterion, also after asking again.
            ModelError: a judge call failed.
            BudgetError: the run's budget has no room for a judge call.
        """
        criteria = self.criteria or run_time_rubric(input)
        if not criteria:
            return Score(self.scale, self.scale, True, "There is no rubric, so nothing was judged.")
        judge_all = judge_each if self.mode == "each" else judge_together
        judged = await judge_all(self._judge, criteria, input, self.id)
        return grade(criteria, judged.verdicts, scale=self.scale, summary=judged.summary, scorer_id=self.id)

    def __repr__(self) -> str:
        return f"<rubric scorer {self.id!r}, {len(self.criteria) or 'no'} criteria of its own>"


def create_rubric_scorer(
    *,
    model: Model | str,
    criteria: Rubric | None = None,
    id: str = "rubric-scorer",
    scale: float = 1.0,
    mode: Literal["together", "each"] = "together",
    instructions: str = "",
    retries: int = 2,
    settings: ModelSettings | None = None,
) -> RubricScorer:
    """Make a scorer that passes when a judge finds every required criterion satisfied.

    Without criteria the rubric comes from the run: `request_context["rubric"]`, else the additional context's `rubric`,
    else the `rubric` of an input that is a mapping. Without any, everything passes and no model is called.

    Args:
        model: the judge: a model, or a string such as `openai/gpt-5-mini`.
        criteria: the rubric: a text with one criterion a line, or a list of `Criterion`, texts and mappings.
        scale: the value of an output that passes, above 0; one that fails has 0.0.
        mode: all criteria in one question (`together`), or one question for `each`, side by side.
        instructions: added to what the judge is told.
        retries: how often a question may be asked again when the judge's answer settles not all of it, at least 0.
        settings: how the judge is asked.

    Raises:
        ConfigError: an argument is not allowed, or the judge's key is missing.
    """
    from ..runtime.models.providers import resolve_model

    if not isinstance(id, str) or not id.strip():
        raise ConfigError("id", id, "a text that names the scorer")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not (math.isfinite(scale) and scale > 0):
        raise ConfigError("scale", scale, "a finite number above 0")
    if mode not in ("together", "each"):
        raise ConfigError("mode", mode, "together or each")
    if not isinstance(instructions, str):
        raise ConfigError("instructions", instructions, "a text that is added to what the judge is told")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigError("retries", retries, "a whole number, at least 0")
    if settings is not None and not isinstance(settings, ModelSettings):
        raise ConfigError("settings", settings, "ModelSettings, or None")
    rubric = parse_rubric(criteria)
    judge = Judge(resolve_model(model), instructions, retries, settings or ModelSettings())
    return RubricScorer(id, judge, rubric, scale=scale, mode=mode)


def run_time_rubric(input: ScorerInput) -> tuple[Criterion, ...]:
    """Return the rubric that a run brings; empty if it brings none. A blank one counts as none at each place.

    Raises:
        ConfigError: what stands there is no rubric.
    """
    places = (
        ("request_context", input.request_context),
        ("additional_context", input.additional_context),
        ("input", input.input),
    )
    for name, place in places:
        if isinstance(place, Mapping) and (rubric := parse_rubric(place.get("rubric"), f"{name}['rubric']")):
            return rubric
    return ()
