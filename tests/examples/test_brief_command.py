"""The demo as a program: what it shows, and how it ends."""

from pathlib import Path

import pytest
from brief_demo import EXAMPLES, command, run_demo

from alfine.testing import FakeOpenAI


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("The fox sleeps. The hen does not. What happens at night? A dog watches.\n")
    return path


def test_the_demo_shows_failure_reason_repair_ledger_and_trace(story: Path) -> None:
    done = run_demo(story.name, folder=story.parent)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    order = [
        "No key found: a rule-based stand-in answers over HTTP on 127.0.0.1:",
        "delegate to reader",
        "call read_document",
        "delegate to writer",
        "check 1 failed",
        '[ ] Has a section named "Open questions" (required)',
        "delegate to reader",
        "delegate to writer",
        "check 2 passed",
        "## Open questions",
        '✗ ✓  rubric: Has a section named "Open questions"',
        "outcome: complete",
        "invoke_agent supervisor",
        "evaluation rubric",
    ]
    places, start = [], 0
    for words in order:
        start = done.stdout.find(words, start)
        places.append((words, start))
        assert start >= 0, places


def test_with_feedback_off_the_same_demo_is_not_complete(story: Path) -> None:
    done = run_demo(story, "--no-feedback", folder=story.parent)
    assert done.returncode == 3
    assert "check 1 failed" in done.stdout
    assert "Try again." in done.stdout
    assert "passed\n" not in done.stdout.partition("trace:")[0]


def test_two_runs_say_the_same(story: Path) -> None:
    first, second = (run_demo(story, folder=story.parent).stdout for _ in range(2))
    assert first.partition("answer:")[2].partition("trace:")[0] == second.partition("answer:")[2].partition("trace:")[0]


def test_a_rubric_may_be_a_file(story: Path) -> None:
    rubric = story.with_name("rubric.md")
    rubric.write_text('- Mentions the word "dog"\n- Has a section named "Night"\n')
    done = run_demo(story, "--rubric", rubric, folder=story.parent)
    assert done.returncode == 0, done.stdout
    assert '✗ ✓  rubric: Has a section named "Night"' in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["absent.txt"], "there is no file absent.txt"),
        (["."], "is a folder"),
        (["story.txt", "--rubric", " - \n"], "the rubric holds no criterion"),
        (["story.txt", "--rubric", "absent.md"], "there is no rubric file"),
        (["story.txt", "--task", " "], "the task is empty"),
        (["--wrong"], "unrecognized arguments"),
    ],
)
def test_a_wrong_usage_is_told_before_any_model_is_asked(
    arguments: list[str],
    reason: str,
    story: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(story.parent)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with FakeOpenAI([]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        try:
            code = command.main(arguments)
        except SystemExit as end:
            code = end.code
    assert code == 2
    assert reason in capsys.readouterr().err
    assert server.requests == []


def test_with_a_base_url_the_model_there_gets_the_users_task(story: Path) -> None:
    with FakeOpenAI({"my-model": ["# Not a brief"] + ['{"verdicts": []}'] * 40}) as server:
        done = run_demo(
            story,
            "--task",
            "Who watches?",
            folder=story.parent,
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="test",
            ALFINE_MODEL="openai/my-model",
        )
    assert "model: openai/my-model" in done.stdout
    assert "stand-in" not in done.stdout
    assert server.requests[0].texts == ["Who watches?"]
    assert done.returncode != 0


def test_a_model_that_fails_is_an_error(story: Path) -> None:
    with FakeOpenAI({}) as server:
        done = run_demo(story, folder=story.parent, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="test")
    assert done.returncode == 1
    assert "gpt-5-mini" in done.stdout + done.stderr


def test_the_default_files_are_the_projects_own_documents() -> None:
    files = command.default_files()
    assert files
    assert all(path.is_relative_to(EXAMPLES.parent) and path.suffix == ".md" for path in files)
