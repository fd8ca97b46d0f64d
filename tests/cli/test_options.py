"""The options of `alfine run` and what follows from them."""

from pathlib import Path

import pytest

from alfine import Agent, ConfigError, TaskComplete, UsageLimits
from alfine.cli.faults import UsageFault
from alfine.cli.options import RunOptions, read_rubric
from alfine.testing import ScriptedModel


def passes(output: str) -> bool:
    return True


def agent(check: TaskComplete | None = None, limits: UsageLimits | None = None) -> Agent[str]:
    return Agent("a", model=ScriptedModel([]), is_task_complete=check, limits=limits)


def test_the_rubric_is_added_to_the_agents_own_scorers() -> None:
    options = RunOptions(task="x", agent="m:a", rubric="Is short\nIs true")
    check = options.make_check(agent(TaskComplete(scorers=[passes], strategy="any")))
    assert check is not None
    assert [getattr(s, "id", None) for s in check.scorers] == ["passes", "rubric"]
    assert check.strategy == "any"


def test_without_a_check_of_the_agents_own_the_rubric_is_the_check() -> None:
    check = RunOptions(task="x", agent="m:a", rubric="Is short", strategy="any").make_check(agent())
    assert check is not None
    assert (len(check.scorers), check.strategy) == (1, "any")


def test_without_options_the_agent_stays_as_it_is() -> None:
    options = RunOptions(task="x", agent="m:a")
    assert options.make_check(agent(TaskComplete(scorers=[passes]))) is None
    assert options.make_limits(agent()) is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(RunOptions(task="x"), id="neither agent nor model"),
        pytest.param(RunOptions(task="x", agent="m:a", model="openai/x"), id="both"),
        pytest.param(RunOptions(task="x", agent="m:a", instructions="Be kind"), id="instructions with an agent"),
        pytest.param(RunOptions(task="x", agent="m:a", judge="openai/x"), id="a judge without a rubric"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: RunOptions) -> None:
    with pytest.raises(UsageFault):
        options.check()


@pytest.mark.parametrize("rubric", ["", "  \n", "-\n"])
def test_a_rubric_without_a_criterion_is_refused_since_everything_would_pass(rubric: str) -> None:
    with pytest.raises(UsageFault, match="no criterion"):
        RunOptions(task="x", agent="m:a", rubric=rubric).make_check(agent())


def test_a_strategy_without_scorers_has_nothing_to_decide() -> None:
    with pytest.raises(UsageFault, match="nothing to decide"):
        RunOptions(task="x", agent="m:a", strategy="any").make_check(agent())


def test_limits_are_laid_over_the_agents_own() -> None:
    options = RunOptions(task="x", agent="m:a", timeout=5, budget_requests=2, budget_tokens=100)
    limits = options.make_limits(agent(limits=UsageLimits(requests=9, tool_calls=3)))
    assert limits == UsageLimits(requests=2, tool_calls=3, total_tokens=100, wall_time=5)
    with pytest.raises(ConfigError, match="requests"):
        RunOptions(task="x", agent="m:a", budget_requests=-1).make_limits(agent())


def test_a_rubric_is_a_file_that_exists_or_the_text_itself(tmp_path: Path) -> None:
    file = tmp_path / "rubric.md"
    file.write_text("\ufeff- Is short\n", "utf-8")
    assert read_rubric(str(file)) == "- Is short\n"
    assert read_rubric("Is short") == "Is short"
    assert read_rubric("x" * 100_000) == "x" * 100_000
    assert read_rubric("a\0b") == "a\0b"


@pytest.mark.parametrize("given", ["missing.md", "folder/missing.TXT"])
def test_a_path_that_leads_nowhere_is_not_taken_for_a_criterion(given: str) -> None:
    with pytest.raises(UsageFault, match="no rubric file"):
        read_rubric(given)


def test_a_rubric_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="cannot read"):
        read_rubric(str(tmp_path))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UsageFault, match="cannot read"):
        read_rubric(str(tmp_path / "bytes"))
