"""Finding the agent that `--agent` names."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from alfine.agents.agent import Agent

from .faults import Fault, UsageFault, describe

HOW = "--agent takes module:name, or path/to/file.py:name"


def load_agent(spec: str) -> Agent[Any]:
    """Return the agent that `spec` names.

    Args:
        spec: `module:name`, where the module may lie in the current directory, or `path/to/file.py:name`. The name is
            an agent, or a function without arguments that returns one.

    Raises:
        UsageFault: the spec is none, or there is no agent of that name.
        Fault: the module cannot be imported, or the function raised.
    """
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise UsageFault(f"{spec!r} does not say which agent: {HOW}")
    is_file = place.endswith(".py")
    if place.startswith(".") and not is_file:
        raise UsageFault(f"{place!r} is no name of a module: {HOW}")
    folder = Path(place).resolve().parent if is_file else Path.cwd()
    with _importing_from(folder):
        module = _import_file(place) if is_file else _import_module(place)
        if not hasattr(module, name):
            raise UsageFault(f"{place} has no {name!r}{_known(module, name)}")
        return _as_agent(getattr(module, name), spec)


def _as_agent(found: object, spec: str) -> Agent[Any]:
    if isinstance(found, Agent):
        return found
    if not callable(found):
        raise UsageFault(f"{spec} is {_kind(found)}; it has to be an Agent, or a function that returns one")
    if inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(type(found).__call__):
        raise UsageFault(f"{spec} is an async function; it has to be a plain one")
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise UsageFault(f"{spec} cannot be called without arguments: {error}") from error
    try:
        made = found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Fault(f"{spec} failed: {describe(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise UsageFault(f"{spec} returned a coroutine; it has to be a plain function that returns an Agent")
    if not isinstance(made, Agent):
        raise UsageFault(f"{spec} returned {_kind(made)}; it has to return an Agent")
    return made


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise Fault(f"there is no module {name!r} in {Path.cwd()} or among the installed ones; {HOW}") from error
        raise Fault(f"cannot import {name}: {describe(error)}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Fault(f"cannot import {name}: {describe(error)}") from error


def _import_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise Fault(f"there is no file {path!r}; {HOW}")
    # A name of its own: a file called json.py must not stand for the module json.
    name = f"agent_file_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, Path(path).resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Fault(f"cannot import {path}: {describe(error)}") from error
    return module


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let modules of `folder` be found, for this import only."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _known(module: ModuleType, name: str) -> str:
    agents = [key for key, value in vars(module).items() if isinstance(value, Agent)]
    near = difflib.get_close_matches(name, [key for key in vars(module) if not key.startswith("_")], n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; its agents are {', '.join(agents)}" if agents else "; it holds no agents"


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"
