"""The examples that need no key show what they say they show."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ALFINE_MODEL")
Load = Callable[[str], ModuleType]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("supervisor_with_rubric", "complete after 2 checks"),
        ("any_of_code_scorers", "check 2: passed"),
        ("run_time_rubric", "for students: complete after 2 check(s)"),
        ("delegation_hooks", "!! payroll: Only managers may ask about pay."),
        ("sub_agent_with_check", "bookkeeper <- clerk (complete)"),
    ],
)
def test_an_example_runs_as_a_program_from_any_folder(name: str, shown: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in KEYS}
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env={**environment, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert shown in done.stdout


async def test_the_rubric_sends_the_supervisor_back_for_what_is_missing(load: Load) -> None:
    result = await load("supervisor_with_rubric").main()
    assert result.outcome == "complete"
    assert [check.passed for check in result.checks] == [False, True]
    assert [row.history for row in result.ledger.rows] == [[False, True], [False, True], [True, True]]
    feedback = next(message.text for message in result.messages if message.kind == "feedback")
    assert "The figure needs its source." in feedback


async def test_under_any_one_passing_code_scorer_is_enough(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    result = await load("any_of_code_scorers").main()
    assert result.complete
    assert [[scorer.passed for scorer in check.scorers] for check in result.checks] == [[False, False], [False, True]]
    assert result.usage.requests == 2
    assert "[x] list_of_points: 3 lines are points" in capsys.readouterr().out


async def test_one_scorer_grades_each_run_by_the_rubric_that_the_run_brings(load: Load) -> None:
    results = await load("run_time_rubric").main()
    children, students = results["for children"], results["for students"]
    assert [row.criterion_id for row in children.ledger.rows] == ["child", "example"]
    assert [row.history for row in children.ledger.rows] == [[True], [True]]
    assert [row.criterion_id for row in students.ledger.rows] == ["term", "law"]
    assert [row.history for row in students.ledger.rows] == [[False, True], [False, True]]
    assert children.text != students.text


async def test_hooks_reject_rewrite_replace_and_bail(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    result = await load("delegation_hooks").main()
    assert result.outcome == "bailed"
    assert result.text == "The notice period is three months (staff handbook, paragraph 12)."
    results = {message.name: message.text for message in result.messages if message.kind == "tool"}
    assert results["delegate_payroll"] == "Only managers may ask about pay. Do without it."
    assert results["delegate_handbook"] == "three months, paragraph 12."
    shown = capsys.readouterr().out
    assert "-> payroll" not in shown
    assert "-> handbook: How long is the notice period? Name the paragraph." in shown
    assert "feedback: A lawyer has to word the answer" in shown


async def test_a_sub_agent_sees_only_what_the_user_said(load: Load) -> None:
    example = load("delegation_hooks")
    supervisor = example.build_supervisor()
    await supervisor.run("How long is the notice period?", request_context={"role": "clerk"})
    (asked,) = supervisor.agents["lawyer"].model.requests
    assert asked.texts == [
        "How long is the notice period?",
        "Word it: three months' notice, paragraph 12.",
    ]


async def test_a_sub_agent_is_checked_inside_the_delegation(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    result = await load("sub_agent_with_check").main()
    assert result.complete
    assert result.checks == ()
    (returned,) = [message.text for message in result.messages if message.kind == "tool"]
    assert returned == '{"items": {"paint": 28, "brush": 6, "delivery": 5}, "total": 39}'
    shown = capsys.readouterr().out
    assert shown.count("    [ ] adds_up") == 2
    assert shown.count("    [x] adds_up") == 1
