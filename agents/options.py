"""The options of a run, and what is allowed for each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypedDict, TypeVar, Unpack

from ..runtime.errors import ConfigError
from ..runtime.limits import UsageLimits
from ..runtime.models import ModelSettings
from ..runtime.run import OnStep
from ..runtime.task_complete import TaskComplete
from .input import History

V = TypeVar("V")

Check = TaskComplete | Mapping[str, Any]


class RunOptions(TypedDict, total=False):
    """What `Agent.stream`, `Agent.run` and `Agent.run_sync` take beside the input. None is as good as nothing.

    Attributes:
        history: the conversation before, such as `result.messages` of an earlier run, or what `message_to_dict` wrote
            of them. Calls of tools that the agent does not have are left out, each together with its result.
        max_steps: how many steps the run may take, at least 1; instead of the agent's own.
        is_task_complete: when the run counts as done; instead of the agent's own. `{}` switches that off.
        request_context: what scorers, tools, hooks and instructions may read; `rubric` is the run-time rubric.
        limits: of this run, its sub-runs and its judges together; instead of the agent's own.
        settings: over the agent's own, field by field.
        on_step: a hook after each step; instead of the agent's own.
        run_id: unique; made up unless given.
        conversation_id: joins the traces of the runs of one conversation.
    """

    history: History | None
    max_steps: int | None
    is_task_complete: Check | None
    request_context: Mapping[str, Any] | None
    limits: UsageLimits | None
    settings: ModelSettings | None
    on_step: OnStep | None
    run_id: str | None
    conversation_id: str | None


def read_options(**options: Unpack[RunOptions]) -> RunOptions:
    """Return the options as they are, each found to be allowed.

    Raises:
        ConfigError: a value is not allowed.
        TypeError: there is no such option.
    """
    for name in options:
        if name not in RunOptions.__annotations__:
            raise TypeError(f"there is no argument {name!r}; {_nearest(name, RunOptions.__annotations__)}")
    if (steps := options.get("max_steps")) is not None:
        read_count("max_steps", steps)
    context = options.get("request_context")
    if context is not None and not isinstance(context, Mapping):
        raise ConfigError("request_context", context, "a mapping, or None")
    read_instance("limits", options.get("limits"), UsageLimits)
    read_instance("settings", options.get("settings"), ModelSettings)
    read_hook("on_step", options.get("on_step"))
    for name, value in (("run_id", options.get("run_id")), ("conversation_id", options.get("conversation_id"))):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ConfigError(name, value, "a text that is not blank, or None")
    return options


def as_check(check: Check | None) -> TaskComplete | None:
    """Return the check that a user configured; None when every answer is complete.

    Raises:
        ConfigError: it is neither a `TaskComplete` nor a mapping with its keys.
    """
    if check is None:
        return None
    if isinstance(check, Mapping):
        known = [f.name for f in fields(TaskComplete)]
        for key in check:
            if key not in known:
                raise ConfigError("is_task_complete", key, _nearest(key, known))
        check = TaskComplete(**check)
    if not isinstance(check, TaskComplete):
        raise ConfigError("is_task_complete", check, "a TaskComplete, or a mapping with the same keys")
    return check if check.scorers else None


def read_count(name: str, value: int) -> int:
    """Return a number of at least 1, or raise ConfigError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(name, value, "a whole number, at least 1")
    return value


def read_hook(name: str, hook: V | None) -> V | None:
    """Return a function or None, or raise ConfigError."""
    if hook is not None and not callable(hook):
        raise ConfigError(name, hook, "a function, or None")
    return hook


def read_instance(name: str, value: V | None, cls: type[V]) -> V | None:
    """Return an instance of `cls` or None, or raise ConfigError."""
    if value is not None and not isinstance(value, cls):
        raise ConfigError(name, value, f"{cls.__name__}(…), or None")
    return value


def read_text(name: str, value: str) -> str:
    """Return a text, or raise ConfigError."""
    if not isinstance(value, str):
        raise ConfigError(name, value, "a text")
    return value


def _nearest(name: object, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}there are {', '.join(names)}"
