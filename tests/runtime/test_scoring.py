"""Scores, and what counts as a scorer."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from playing import Says, play, worker

from alfine import ConfigError, FunctionScorer, Score, ScorerError, ScorerInput, Verdict
from alfine.runtime.scoring import as_score, as_scorer

GIVEN = ScorerInput(output="the text", task="The task")


def test_score_is_an_alias_of_value() -> None:
    assert Score(0.5).score == Score(0.5).value == 0.5


@pytest.mark.parametrize(
    ("score", "threshold", "passes"),
    [
        (Score(1), 1.0, True),
        (Score(3, 3), 1.0, True),
        (Score(2.9, 3), 1.0, False),
        (Score(0.7), 0.7, True),
        (Score(0.0), 0.0, True),
        (Score(1.1), 1.0, False),
        (Score(-0.1), 0.0, False),
        (Score(0.1, passed=True), 1.0, True),
        (Score(1.0, passed=False), 0.0, False),
        (Score(1.1, passed=True), 1.0, False),
    ],
    ids=repr,
)
def test_a_score_passes_by_its_own_decision_or_from_the_threshold_on(
    score: Score, threshold: float, passes: bool
) -> None:
    assert score.passes(threshold) is passes


def test_the_texts_of_a_score_come_out_clean() -> None:
    verdict = Verdict("c\ud800", "d\ud800", True, True, "r\ud800", "e\ud800", False)
    score = as_score("s", Score(1, reason="why\ud800", criteria=(verdict,)))
    assert score.reason == "why\ufffd"
    assert score.criteria == (Verdict("c\ufffd", "d\ufffd", True, True, "r\ufffd", "e\ufffd", False),)


@pytest.mark.parametrize(
    "value", [None, "1", [1], 1j, object(), float("nan"), Score(float("-inf")), Score(1, 0)], ids=repr
)
def test_what_is_no_score_is_a_scorer_error_that_names_the_scorer(value: object) -> None:
    with pytest.raises(ScorerError, match="'strict'"):
        as_score("strict", value)


class CallableScorer:
    """An object that can be called, as a function."""

    async def __call__(self, output: str) -> bool:
        return output == "the text"


async def graded(output: str) -> float:
    return float(output == "the text")


def with_input(output: str, given: ScorerInput) -> bool:
    return given.task == "The task"


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda output: output == "the text", id="a lambda"),
        pytest.param(lambda output, word="text": word in output, id="a lambda with a default of its own"),
        pytest.param(lambda output: graded(output), id="a lambda that returns an awaitable"),
        pytest.param(with_input, id="one that takes the input"),
        pytest.param(lambda output, /, given, word="task": word in given.task, id="the input and a default"),
        pytest.param(graded, id="an async function"),
        pytest.param(functools.partial(graded), id="a partial of an async function"),
        pytest.param(functools.partial(lambda word, output: word in output, "text"), id="a partial"),
        pytest.param(CallableScorer(), id="an async callable object"),
    ],
)
async def test_a_plain_function_is_a_scorer(function: Callable[..., Any]) -> None:
    assert (await as_scorer(function).score(GIVEN)).value == 1.0


async def test_a_function_that_is_not_async_runs_in_a_worker_thread() -> None:
    threads: list[threading.Thread] = []

    def scorer(output: str) -> bool:
        threads.append(threading.current_thread())
        return True

    await FunctionScorer(scorer).score(GIVEN)
    assert threads != [threading.current_thread()]


def test_a_function_scorer_is_named_after_its_function() -> None:
    assert (as_scorer(graded).id, FunctionScorer(graded, "own").id) == ("graded", "own")


def test_a_scorer_stays_as_it_is() -> None:
    scorer = Says(1.0)
    assert as_scorer(scorer) is scorer


@pytest.mark.parametrize("value", [None, 5, "text", Says, object(), Says(1.0, id=3)], ids=repr)  # type: ignore[arg-type]
def test_what_is_no_scorer_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="scorers"):
        as_scorer(value)


class PlainScorer:
    """A scorer whose `score` is not async."""

    id = "plain"

    def score(self, input: ScorerInput, /) -> Score:
        return Score(1.0)


async def test_a_scorer_with_a_plain_method_grades_too() -> None:
    agent, _ = worker(["a"], is_task_complete={"scorers": [PlainScorer()]})
    result, _ = await play(agent)
    assert result.complete
