"""The floors of the house: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ["runtime", "scorers", "agents"]
FILES = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]


def imported(path: Path) -> Iterator[str]:
    """The modules that a file of a room imports, relative ones resolved against `alfine.<room>`."""
    package = ["alfine", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            yield ".".join([*base, node.module] if node.module else base)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_the_floors_under_it(path: Path) -> None:
    own = FLOORS.index(path.relative_to(ROOT).parts[0])
    for module in imported(path):
        parts = module.split(".")
        assert parts[0] != "asyncio", "anyio only"
        if parts[0] == "alfine" and len(parts) > 1:
            assert parts[1] in FLOORS[: own + 1], module


def test_importing_alfine_loads_nothing_heavy() -> None:
    heavy = {
        "openai",
        "httpx2",
        "starlette",
        "rich",
        "typer",
        "opentelemetry.sdk",
        "docstring_parser",
        "structlog",
        "trio",
    }
    code = f"import sys, alfine; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_loop_touches_the_world_only_through_its_journal() -> None:
    text = (ROOT / "runtime" / "loop.py").read_text()
    modules = set(imported(ROOT / "runtime" / "loop.py"))
    assert not modules & {"anyio", "time", "random", "uuid", "datetime", "os", "secrets"}
    assert "task_group" not in text
    assert "CancelScope" not in text
