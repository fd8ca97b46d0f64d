"""Scorers built of steps."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from alfine.runtime.errors import ConfigError, ScorerError
from alfine.runtime.scoring import Score, as_scorer
from alfine.runtime.task_complete import TaskComplete
from alfine.scorers import ScorerStep, create_scorer


async def test_the_function_is_given_the_output_and_returns_the_score() -> None:
    scorer = create_scorer(id="short").generate_score(lambda step: len(step.output) < 5)
    assert (await scorer.run(output="four")).value == 1.0
    assert (await scorer.run(output="longer")).value == 0.0


async def test_steps_run_in_order_and_see_the_results_before() -> None:
    def words(step: ScorerStep) -> list[str]:
        return step.output.split()

    async def long_words(step: ScorerStep) -> list[str]:
        return [w for w in step.results["preprocess"] if len(w) > 3]

    def reason(step: ScorerStep) -> str:
        assert step.score is not None
        return f"{step.score.value:g} by {step.results['analyze']}"

    scorer = (
        create_scorer(id="words")
        .analyze(long_words)
        .generate_reason(reason)
        .preprocess(words)
        .generate_score(lambda step: len(step.results["analyze"]) / len(step.results["preprocess"]))
    )
    score = await scorer.run(output="a long word is here")
    assert (score.value, score.reason) == (0.6, "0.6 by ['long', 'word', 'here']")


async def test_a_step_may_look_at_the_whole_input() -> None:
    scorer = create_scorer(id="echo").generate_score(lambda step: step.output in step.input.task)
    assert (await scorer.run(output="yes", input="say yes")).passes()


async def test_a_score_is_kept_as_it_is_and_a_reason_only_added() -> None:
    scorer = create_scorer(id="own").generate_score(lambda step: Score(3, 4, True, "old"))
    assert await scorer.run(output="") == Score(3, 4, True, "old")
    assert await scorer.generate_reason(lambda step: "new").run(output="") == Score(3, 4, True, "new")


async def test_a_sync_step_runs_in_a_worker_thread() -> None:
    here = threading.current_thread()
    scorer = create_scorer(id="thread").generate_score(lambda step: threading.current_thread() is not here)
    assert (await scorer.run(output="")).passes()


async def test_an_object_with_an_async_call_is_a_step_too() -> None:
    class Half:
        async def __call__(self, step: ScorerStep) -> float:
            return 0.5

    assert (await create_scorer(id="half").generate_score(Half()).run(output="")).value == 0.5


async def test_every_method_returns_a_new_scorer() -> None:
    one = create_scorer(id="a").generate_score(lambda step: 1.0)
    other = one.generate_score(lambda step: 0.0)
    assert (await one.run(output="")).value == 1.0
    assert (await other.run(output="")).value == 0.0


def test_a_scorer_without_generate_score_is_refused_before_any_call() -> None:
    draft = create_scorer(id="unfinished").preprocess(lambda step: step.output)
    with pytest.raises(ConfigError, match="unfinished"):
        TaskComplete(scorers=[draft])  # type: ignore[list-item]  # on purpose


def test_a_finished_scorer_is_one() -> None:
    scorer = create_scorer(id="a", threshold=0.5).generate_score(lambda step: 1.0)
    assert as_scorer(scorer) is scorer
    assert scorer.threshold == 0.5


@pytest.mark.parametrize("bad", [None, "1", float("nan"), float("inf"), [1]])
async def test_what_is_no_score_is_an_error(bad: Any) -> None:
    with pytest.raises(ScorerError, match="'a'"):
        await create_scorer(id="a").generate_score(lambda step: bad).run(output="")


async def test_a_reason_that_is_no_text_is_an_error() -> None:
    scorer = create_scorer(id="a").generate_score(lambda step: 1.0).generate_reason(lambda step: 5)
    with pytest.raises(ScorerError, match="generate_reason"):
        await scorer.run(output="")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"id": ""}, "id"),
        ({"id": 5}, "id"),
        ({"id": "a", "threshold": 1.5}, "threshold"),
        ({"id": "a", "threshold": True}, "threshold"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        create_scorer(**arguments)
    assert caught.value.argument == name


def test_a_step_is_a_function() -> None:
    with pytest.raises(ConfigError, match="analyze"):
        create_scorer(id="a").analyze("text")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("name", ["request_context", "additional_context"])
async def test_a_context_is_a_mapping(name: str) -> None:
    scorer = create_scorer(id="a").generate_score(lambda step: 1.0)
    with pytest.raises(ConfigError, match=name):
        await scorer.run(output="", **{name: ["rubric"]})  # type: ignore[arg-type]  # on purpose


async def test_the_output_is_a_text() -> None:
    with pytest.raises(ConfigError, match="output"):
        await create_scorer(id="a").generate_score(lambda step: 1.0).run(output=5)  # type: ignore[arg-type]  # on purpose
