"""What is built holds everything, and works away from the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ["runtime", "scorers", "agents"]

PROGRAM = """
import anyio
from alfine import Agent, create_rubric_scorer, tool
from alfine.testing import ScriptedModel, Turn, call

@tool
def add(a: int, b: int) -> int:
    '''Add.'''
    return a + b

judge = ScriptedModel(['{"verdicts": [{"id": "has-the-sum", "reasoning": "it has", "satisfied": true}]}'])
agent = Agent("sum", model=ScriptedModel([Turn(tool_calls=[call("add", {"a": 2, "b": 3})]), "It is 5."]), tools=[add])
check = {"scorers": [create_rubric_scorer(model=judge, criteria="Has the sum")]}
result = agent.run_sync("2 + 3?", is_task_complete=check)
print(result.outcome, result.text)
"""


def modules() -> set[str]:
    """Every module of the package, by its path inside `alfine/`."""
    own = ROOT / "src" / "alfine"
    files = [(path, path.relative_to(own)) for path in own.rglob("*.py") if not path.is_symlink()]
    files += [(path, path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return {relative.as_posix() for _, relative in files} | {"py.typed"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist, built from a copy of what git knows."""
    copy = tmp_path_factory.mktemp("copy")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        source, target = ROOT / name, copy / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_wheel_holds_every_module_once(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    packed = {name.removeprefix("alfine/") for name in names if name.startswith("alfine/")}
    assert {name for name in packed if name.endswith((".py", "py.typed"))} == modules()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"alfine"}


def test_the_sdist_holds_what_a_wheel_is_built_from(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")],
        cwd=unpacked,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (first,) = built.glob("*.whl")
    (again,) = (tmp_path / "again").glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(first).namelist())
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= {p.name for p in unpacked.iterdir()}


def test_the_wheel_runs_in_an_empty_venv_from_another_folder(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    # The dependencies are lent by this environment; a plain path in a .pth file lends no editable installs.
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(purelib, "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = subprocess.run(
        [python, "-c", "import alfine; print(alfine.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(purelib)
    done = subprocess.run([python, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "complete It is 5.", done.stderr
    version = subprocess.run([tmp_path / "venv" / "bin" / "alfine", "--version"], capture_output=True, text=True)
    assert version.returncode == 0, version.stderr


def test_alfine_works_beside_a_package_named_agents(tmp_path: Path) -> None:
    theirs = tmp_path / "agents"
    theirs.mkdir()
    (theirs / "__init__.py").write_text("OWNER = 'openai-agents'\n")
    code = "import alfine, agents; print(agents.OWNER, alfine.Agent.__module__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "openai-agents alfine.agents.agent", done.stderr


def test_alfine_is_imported_from_the_projects_root() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    code = "import alfine; print(alfine.Agent.__module__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "alfine.agents.agent", done.stderr
