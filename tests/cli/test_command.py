"""`alfine run` as a process of its own: exit codes, streams, formats."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_core import from_json

from alfine.runtime.events import RunFinished, event_from_dict
from alfine.testing import FakeOpenAI

Alfine = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_complete_run_ends_with_0_and_plain_lines(alfine: Alfine) -> None:
    done = alfine("run", "Write on tides", "--agent", "team:supervisor")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\nanswer:\nTides come.\nAdvice: go at noon.\n" in done.stdout
    assert "✗ ✓  advises: Gives [red]advice[/red] 漢字" in done.stdout
    assert done.stderr == ""


def test_json_is_one_event_a_line_and_nothing_else(alfine: Alfine) -> None:
    done = alfine("run", "Write on tides", "--agent", "team.py:supervisor", "--json")
    assert done.returncode == 0, done.stderr
    events = [event_from_dict(from_json(line)) for line in done.stdout.splitlines()]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1], RunFinished)
    assert "a tool prints this" in done.stderr


def test_a_run_that_is_not_complete_ends_with_3(alfine: Alfine) -> None:
    done = alfine("run", "Try", "--agent", "team:never")
    assert done.returncode == 3
    assert "outcome: max_steps after 2 steps, 2 checks" in done.stdout


def test_a_used_up_budget_ends_with_3(alfine: Alfine) -> None:
    done = alfine("run", "Try", "--agent", "team:never", "--budget-requests", "1")
    assert done.returncode == 3
    assert "outcome: budget" in done.stdout


@pytest.mark.parametrize("more", [pytest.param([], id="plain"), pytest.param(["--json"], id="json")])
def test_a_model_that_fails_ends_with_1_and_one_line(alfine: Alfine, more: list[str]) -> None:
    done = alfine("run", "Try", "--agent", "team:broken", *more)
    assert done.returncode == 1
    assert done.stderr == "error: the server is gone\n"
    assert "half" in done.stdout


def test_the_task_is_read_from_standard_input(alfine: Alfine) -> None:
    done = alfine("run", "-", "--agent", "team:good", stdin="from a pipe")
    assert done.returncode == 0
    assert "You said: from a pipe" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--agent", "team:gooood"], 2, "did you mean 'good'"),
        (["--agent", "nowhere:x"], 1, "no module 'nowhere'"),
        (["--agent", "team:fails"], 1, "no such weather"),
        ([], 2, "either --agent module:name or --model"),
        (["--agent", "team:good", "--model", "openai/x"], 2, "either --agent"),
        (["--agent", "team:good", "--max-steps", "0"], 2, "max_steps: 0 is not allowed"),
        (["--agent", "team:good", "--max-steps", "many"], 2, "--max-steps"),
        (["--agent", "team:good", "--strategy", "most"], 2, "--strategy"),
        (["--agent", "team:good", "--no-such-option"], 2, "--no-such-option"),
        (["--agent", "team:good", "--rubric", "missing.md"], 2, "no rubric file 'missing.md'"),
        (["--model", "gpt"], 2, "model: 'gpt' is not allowed"),
        (["--model", "openai/gpt-5-mini"], 2, "OPENAI_API_KEY"),
        (["--agent", "team:judged", "--rubric", "Is short"], 1, "verdict"),
    ],
)
def test_an_error_is_one_line_on_standard_error(alfine: Alfine, arguments: list[str], code: int, message: str) -> None:
    done = alfine("run", "Try", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_an_empty_task_is_wrong_usage(alfine: Alfine) -> None:
    done = alfine("run", " ", "--agent", "team:good")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--version"], 0, "alfine 0"),
        (["--help"], 0, "run"),
        (["run", "--help"], 0, "Examples:\n    alfine run"),
        ([], 2, "Usage: alfine"),
    ],
)
def test_help_and_version_are_there(alfine: Alfine, arguments: list[str], code: int, text: str) -> None:
    done = alfine(*arguments)
    assert done.returncode == code
    assert text in done.stdout + done.stderr


def test_a_model_string_runs_a_plain_agent(alfine: Alfine) -> None:
    with FakeOpenAI({"worker": ["an answer"]}) as server:
        done = alfine(
            "run", "Try", "--model", "openai/worker", "--instructions", "Be brief",
            OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="k",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "\nanswer:\nan answer\n" in done.stdout
        assert "Be brief" in server.requests[0].text


def test_a_reader_that_leaves_ends_the_run_quietly(
    folder: Path, command: list[str], environment: dict[str, str]
) -> None:
    process = subprocess.Popen(
        [*command, "run", "Talk", "--agent", "team:talker"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(30) == 141


@pytest.mark.parametrize(
    "agent",
    [pytest.param("waiting", id="an async tool"), pytest.param("blocking", id="a tool that blocks its thread")],
)
def test_ctrl_c_cancels_the_run_and_shows_what_there_is(
    folder: Path, command: list[str], environment: dict[str, str], agent: str
) -> None:
    with subprocess.Popen(
        [*command, "run", "Wait", "--agent", f"team:{agent}"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "call " in line:
                break
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "outcome: cancelled" in rest
    assert errors == ""


def test_without_the_extra_the_command_says_how_to_install_it(environment: dict[str, str]) -> None:
    hidden = "import sys, importlib.util as u; u.find_spec = lambda name: None; from alfine.cli import main; "
    hidden += "sys.exit(main(['--help']))"
    done = subprocess.run([sys.executable, "-c", hidden], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: the command line needs typer and rich: pip install 'alfine[cli]'\n"


def test_what_a_tool_writes_past_python_is_not_on_the_standard_output_of_json(alfine: Alfine, folder: Path) -> None:
    (folder / "loud.py").write_text(
        "import os\n"
        "from alfine import Agent, tool\n"
        "from alfine.testing import ScriptedModel, Turn, call\n"
        "@tool\n"
        "def shout() -> str:\n"
        "    '''Shout.'''\n"
        "    os.system('echo FROM A SHELL'); os.write(1, b'RAW')\n"
        "    return 'ok'\n"
        "agent = Agent('loud', model=ScriptedModel([Turn(tool_calls=[call('shout')]), 'done']), tools=[shout])\n"
    )
    done = alfine("run", "Go", "--agent", "loud:agent", "--json")
    assert done.returncode == 0, done.stderr
    assert isinstance(event_from_dict(from_json(done.stdout.splitlines()[-1])), RunFinished)
    assert all(line.startswith('{"kind"') for line in done.stdout.splitlines())
    assert "FROM A SHELL" in done.stderr
    assert "RAW" in done.stderr


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("leaves", 1, "failed: SystemExit"),
        ("odd_exit", 1, "failed: GeneratorExit"),
        ("coroutine", 2, "returned a coroutine"),
        ("caller", 2, "async function"),
    ],
)
def test_a_factory_that_gives_no_agent_is_an_error_in_words(
    alfine: Alfine, folder: Path, name: str, code: int, words: str
) -> None:
    (folder / "odd.py").write_text(
        "def leaves(): raise SystemExit(0)\n"
        "def odd_exit(): raise GeneratorExit\n"
        "async def make(): ...\n"
        "def coroutine(): return make()\n"
        "class Caller:\n    async def __call__(self): ...\n"
        "caller = Caller()\n"
    )
    done = alfine("run", "Go", "--agent", f"odd:{name}")
    assert done.returncode == code
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_relative_name_of_a_module_is_a_usage_error(alfine: Alfine) -> None:
    done = alfine("run", "Go", "--agent", "..:agent")
    assert done.returncode == 2
    assert "is no name of a module" in done.stderr
