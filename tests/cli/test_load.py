"""Finding the agent that `--agent` names."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alfine.cli.faults import Fault, UsageFault
from alfine.cli.load import load_agent


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    before = list(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        if name in ("team", "agent_file_team", "wrong", "needs"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("team:good", id="a module of the current directory"),
        pytest.param("team.py:good", id="a file"),
        pytest.param("./team.py:good", id="a path"),
    ],
)
def test_an_agent_is_found_by_module_and_by_file(spec: str) -> None:
    assert load_agent(spec).name == "good"


def test_a_function_is_called_for_its_agent() -> None:
    assert load_agent("team:supervisor").name == "supervisor"


def test_the_directory_is_on_the_path_for_the_import_only(folder: Path) -> None:
    load_agent("team:good")
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("team", "module:name"),
        (":good", "module:name"),
        ("team:goood", "did you mean 'good'"),
        ("team:zzz", "its agents are"),
        ("team:number", "of type int"),
        ("team:asks_for_more", "without arguments"),
        ("team:coming", "async function"),
        ("team:echo", "without arguments"),
    ],
)
def test_a_name_that_is_no_agent_is_wrong_usage(spec: str, message: str) -> None:
    with pytest.raises(UsageFault, match=message):
        load_agent(spec)


def test_a_module_that_is_nowhere_is_named() -> None:
    with pytest.raises(Fault, match="no module 'nowhere'"):
        load_agent("nowhere:agent")
    with pytest.raises(Fault, match=r"no file 'nowhere\.py'"):
        load_agent("nowhere.py:agent")


@pytest.mark.parametrize("spec", ["wrong:agent", "wrong.py:agent"])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\nx = undefined\n", r"NameError: name 'undefined' is not defined \(.*wrong\.py, line 2\)"),
        ("def (\n", r"SyntaxError: .*wrong\.py, line 1\)"),
        ("import nowhere_at_all\n", "No module named 'nowhere_at_all'"),
        ("raise SystemExit(0)\n", "SystemExit"),
    ],
)
def test_an_import_that_fails_says_why_and_where(folder: Path, spec: str, source: str, message: str) -> None:
    (folder / "wrong.py").write_text(source)
    with pytest.raises(Fault, match=message) as caught:
        load_agent(spec)
    assert not isinstance(caught.value, UsageFault)


def test_a_function_that_raises_is_an_error() -> None:
    with pytest.raises(Fault, match="no such weather"):
        load_agent("team:fails")
