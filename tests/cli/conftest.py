"""A folder with agents, the command run in it as a process of its own, and a recorded run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pydantic_core import from_json

from alfine.runtime.events import Event, event_from_dict

HERE = Path(__file__).parent

Alfine = Callable[..., "subprocess.CompletedProcess[str]"]


def clean_environment() -> dict[str, str]:
    """Return an environment without keys, collectors and addresses of the machine."""
    unwanted = ("OTEL_", "OPENAI_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return kept | {"PYTHONSAFEPATH": "1", "PYTHONUTF8": "1", "TERM": "xterm-256color"}


@pytest.fixture
def environment() -> dict[str, str]:
    return clean_environment()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `team.py` in it."""
    (tmp_path / "team.py").write_text((HERE / "recorded" / "team.py").read_text())
    return tmp_path


@pytest.fixture
def command() -> list[str]:
    return [sys.executable, "-m", "alfine.cli"]


@pytest.fixture
def alfine(folder: Path, command: list[str], environment: dict[str, str]) -> Alfine:
    """Run the command in the folder and return what it said."""

    def run(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments],
            cwd=folder,
            env=environment | variables,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.fixture(scope="session")
def recorded() -> Sequence[Event]:
    """A run: a delegation with a tool inside, a failed check, feedback, a passed check."""
    lines = (HERE / "recorded" / "correction.jsonl").read_text().splitlines()
    return [event_from_dict(from_json(line)) for line in lines]
