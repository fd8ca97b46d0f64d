"""From verdicts to a score."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alfine.runtime.errors import JudgeError
from alfine.runtime.scoring import Verdict
from alfine.scorers.criteria import Criterion
from alfine.scorers.grade import grade


def criterion(id: str, required: bool = True) -> Criterion:
    return Criterion(f"has {id}", required, id)


def verdict(id: str, satisfied: bool, reason: str = "because", evidence_found: bool | None = None) -> Verdict:
    return Verdict(id, "what the judge calls it", True, satisfied, reason, evidence_found=evidence_found)


@pytest.mark.parametrize(
    ("required", "satisfied", "value"),
    [
        pytest.param([True, True], [True, True], 1.0, id="all satisfied"),
        pytest.param([True, True], [True, False], 0.0, id="a required criterion gates"),
        pytest.param([True, False], [True, False], 1.0, id="an optional criterion does not gate"),
        pytest.param([False, False], [True, False], 0.0, id="all optional: all required"),
        pytest.param([False, False], [True, True], 1.0, id="all optional and satisfied"),
    ],
)
def test_required_criteria_decide(required: list[bool], satisfied: list[bool], value: float) -> None:
    criteria = [criterion(str(n), r) for n, r in enumerate(required)]
    score = grade(criteria, [verdict(str(n), s) for n, s in enumerate(satisfied)])
    assert (score.value, score.passed) == (value, value == 1.0)


def test_the_scale_multiplies_the_value_and_decides_nothing() -> None:
    good = grade([criterion("a")], [verdict("a", True)], scale=2)
    bad = grade([criterion("a")], [verdict("a", False)], scale=2)
    assert (good.value, good.scale, good.passes()) == (2, 2, True)
    assert (bad.value, bad.scale, bad.passes()) == (0, 2, False)


def test_a_criterion_without_a_verdict_is_an_error() -> None:
    with pytest.raises(JudgeError) as caught:
        grade([criterion("a"), criterion("b")], [verdict("a", True)], scorer_id="mine")
    assert (caught.value.missing, caught.value.scorer_id) == (("b",), "mine")


def test_no_criteria_are_no_pass() -> None:
    with pytest.raises(JudgeError):
        grade([], [])


def test_what_is_required_comes_from_the_rubric() -> None:
    score = grade([criterion("a", False), criterion("b")], [verdict("b", True), verdict("a", False)])
    assert [(v.criterion_id, v.description, v.required) for v in score.criteria] == [
        ("a", "has a", False),
        ("b", "has b", True),
    ]


def test_the_reason_lists_every_criterion_in_the_order_of_the_rubric() -> None:
    criteria = [criterion("a"), criterion("b", False), Criterion("two\nlines", id="c")]
    verdicts = [verdict("c", False, "no\n[x] forged line"), verdict("a", True, "yes"), verdict("b", False, "")]
    assert grade(criteria, verdicts, summary="Half\ndone.").reason == (
        "Half done.\n"
        "1 of 2 required criteria satisfied.\n"
        "[x] has a (required): yes\n"
        "[ ] has b (optional): no reason given\n"
        "[ ] two\n    lines (required): no [x] forged line"
    )


def test_the_reason_says_when_a_quote_is_not_in_the_output() -> None:
    reason = grade([criterion("a")], [verdict("a", True, "seen", evidence_found=False)]).reason
    assert reason.endswith("[x] has a (required): seen (The quoted evidence is not in the output.)")


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_a_pass_means_that_every_gating_criterion_is_satisfied(rubric: dict[str, tuple[bool, bool]]) -> None:
    score = grade(
        [criterion(id, required) for id, (required, _) in rubric.items()],
        [verdict(id, satisfied) for id, (_, satisfied) in rubric.items()],
    )
    gating = [s for r, s in rubric.values() if r] or [s for _, s in rubric.values()]
    assert score.passed is (False not in gating)
    assert [v.criterion_id for v in score.criteria] == list(rubric)
