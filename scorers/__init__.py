"""Scorers: a rubric graded by a judge, and scorers of one's own."""

from .criteria import Criterion, parse_rubric
from .grade import grade
from .rubric import RubricScorer, create_rubric_scorer
from .scorer import ScorerDraft, ScorerStep, StepScorer, create_scorer

__all__ = [
    "Criterion",
    "RubricScorer",
    "ScorerDraft",
    "ScorerStep",
    "StepScorer",
    "create_rubric_scorer",
    "create_scorer",
    "grade",
    "parse_rubric",
]
