"""Calling what a user hooked in, sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


async def call_hook(hook: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function, and await what it returns if that can be awaited."""
    value = hook(*arguments)
    return await value if inspect.isawaitable(value) else value
