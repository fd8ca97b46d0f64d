"""Function tools: a typed Python function that a model can call."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from ..runtime.errors import ConfigError, ToolError, text_of
from ..runtime.journal import Op
from ..runtime.json_text import json_ready, write_json
from ..runtime.models import ToolDefinition
from ..runtime.tools import CallContext, RunContext, Tool, ToolResult
from . import threads

if TYPE_CHECKING:
    from pydantic import BaseModel

P = ParamSpec("P")
R = TypeVar("R")

MAX_RESULT = 200_000
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class FunctionTool(Generic[P, R]):
    """A function as a tool. It can still be called like the function itself. Made by `tool`.

    Attributes:
        function: what is called.
        definition: what the model is told.
        timeout: seconds for a call, all attempts together; None for no limit.
        retries: how many more attempts are made when the function raises.
        max_result: how many characters of the result the model gets; None for all.
    """

    target: None = None
    __name__: str

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
        max_result: int | None = MAX_RESULT,
        strict: bool = True,
    ) -> None:
        # Loaded with the first tool: pydantic's schemas cost more than all the rest of this package.
        from . import signature

        if not callable(function) or isinstance(function, type):
            raise ConfigError("function", function, "a function")
        name = _name(function) if name is None else name
        _check_options(name, description, timeout, retries, max_result)
        functools.update_wrapper(cast("Callable[..., Any]", self), function, updated=())
        about, parameters = signature.read_docstring(function)
        self.function = function
        self.timeout = timeout
        self.retries = retries
        self.max_result = max_result
        self._signature = signature.read_signature(function, name, strict=strict, descriptions=parameters)
        self.definition = ToolDefinition(name, about if description is None else description, self._signature.schema)
        core = signature.core_of(function)
        self._is_async = inspect.iscoroutinefunction(core)
        self._is_generator = inspect.isgeneratorfunction(core)
        self._is_async_generator = inspect.isasyncgenfunction(core)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.definition.name!r}>"

    def plan(self, context: CallContext) -> ToolResult | Op[ToolResult]:
        """Check the arguments; return the call that is to be made, or the failed result that says what is wrong."""
        from .signature import ArgumentsError

        text = context.call.arguments
        try:
            # The first attempt takes these values; each further one reads its own, as a function may change its own.
            read = [self._signature.read(text)]
        except ArgumentsError as error:
            return ToolResult(str(error), failed=True)

        async def body() -> ToolResult:
            values = read.pop() if read else self._signature.read(text)
            try:
                return as_result(await self._carry_out(values, context), self.max_result)
            except ToolError as error:
                return ToolResult(text_of(error), failed=True)

        return Op(context.key, body, ToolResult, timeout=self.timeout, retry=self.retries)

    async def _carry_out(self, values: BaseModel, context: CallContext) -> object:
        streams = self._is_generator or self._is_async_generator
        run_context = context.run_context() if streams or self._signature.wants_context else None
        args, kwargs = self._signature.bind(values, run_context)
        call: Callable[[], Any] = functools.partial(cast("Callable[..., Any]", self.function), *args, **kwargs)
        if self._is_async:
            return await call()
        if streams:
            assert run_context is not None
            return await self._stream(call, run_context)
        value = await threads.TOOL_THREADS.run(call)
        return await value if inspect.isawaitable(value) else value

    async def _stream(self, start: Callable[[], Any], context: RunContext) -> object:
        """Show each value that a generator yields as progress, and return the last."""

        async def show(value: object) -> None:
            await context.progress(json_ready(value))

        if self._is_generator:
            return await threads.TOOL_THREADS.run_generator(start, show)
        last: object = None
        async with aclosing(cast("AsyncGenerator[object]", start())) as values:
            async for value in values:
                await show(value)
                last = value
        return last


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    max_result: int | None = MAX_RESULT,
    strict: bool = True,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    max_result: int | None = MAX_RESULT,
    strict: bool = True,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a typed function, as a decorator with or without options.

    An async function runs in the event loop, a sync one in a worker thread. What it returns becomes text: a string as
    it is, None as nothing, everything else as JSON. Raise `ToolError` to answer the model with a failure. A parameter
    annotated `RunContext` gets the run's context and is not shown to the model. A generator function, sync or async,
    reports: every value that it yields is shown as a `tool_progress` event, and the last one is also the result.

    Args:
        function: every parameter is annotated; no `*args` or `**kwargs`.
        name: what the model calls it, 1 to 64 of `a-z A-Z 0-9 _ -`; the function's name by default.
        description: the docstring without its sections by default. Parameters are described by the docstring
            (Google, NumPy or Sphinx style) or by `Annotated[..., Field(description=...)]`.
        timeout: seconds for a call, all attempts together. A thread that is late is abandoned, not stopped.
        retries: how many more attempts are made when the function raises anything but `ToolError`.
        max_result: how many characters of the result the model gets; None for all. A `ToolResult` is never cut.
        strict: take arguments of exactly the annotated types (in JSON's terms) and refuse unknown ones; False turns
            `"3"` into 3 and ignores unknown ones.

    Raises:
        ConfigError: an option is out of range, or the function cannot be a tool.
    """
    if function is None:
        return functools.partial(tool, **options)
    if isinstance(function, FunctionTool):
        function = function.function
    return FunctionTool(function, **options)


def as_tool(value: object) -> Tool:
    """Return a tool as it is and a typed function as a tool of default options.

    Raises:
        ConfigError: it is neither, or the function cannot be a tool.
    """
    if isinstance(getattr(value, "definition", None), ToolDefinition) and callable(getattr(value, "plan", None)):
        return cast("Tool", value)
    if not callable(value) or isinstance(value, type):
        raise ConfigError("tools", value, "a list of tools and typed functions")
    return FunctionTool(value)


def as_result(value: object, max_result: int | None = None) -> ToolResult:
    """Return what a function returned as a tool's result, cut to `max_result` characters."""
    if isinstance(value, ToolResult):
        return value
    text = _text(value)
    if max_result is not None and len(text) > max_result:
        text = f"{text[:max_result]}\n[cut: the first {max_result} of {len(text)} characters are shown]"
    return ToolResult(text)


def _text(value: object) -> str:
    if value is None:
        return ""
    ready = json_ready(value)
    return ready if isinstance(ready, str) else write_json(ready).decode()


def _name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _check_options(name: object, description: object, timeout: object, retries: object, max_result: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError("name", name, "1 to 64 letters, digits, `_` and `-`")
    if description is not None and not isinstance(description, str):
        raise ConfigError("description", description, "a text, or None for the docstring")
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < cast("float", timeout) < math.inf):
        raise ConfigError("timeout", timeout, "seconds above 0, or None")
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise ConfigError("retries", retries, "a whole number, at least 0")
    if max_result is not None and (not isinstance(max_result, int) or isinstance(max_result, bool) or max_result < 1):
        raise ConfigError("max_result", max_result, "a whole number of characters, at least 1, or None")
