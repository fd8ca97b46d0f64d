"""Carrying out function tools: where they run, what the model gets, what goes wrong."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import threading
from collections.abc import Awaitable
from decimal import Decimal
from typing import Any
from uuid import UUID

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from pydantic import BaseModel
from tool_calling import Bench, run_tool, tool_message

from alfine.agents.tool import as_tool, tool
from alfine.runtime.errors import ToolError
from alfine.runtime.journal import Failure
from alfine.runtime.tools import ToolResult

# Where it runs.


async def test_a_sync_function_runs_in_a_thread_and_an_async_one_in_the_event_loop() -> None:
    @tool
    def sync() -> bool:
        return threading.current_thread() is here

    @tool
    async def direct() -> bool:
        return threading.current_thread() is here

    here = threading.current_thread()
    bench = Bench()
    assert await bench.text(sync) == "false"
    assert await bench.text(direct) == "true"


class Greeter:
    async def __call__(self, name: str) -> str:
        return f"Hello {name}"

    def method(self, name: str) -> str:
        return f"Hi {name}"

    @staticmethod
    def static(name: str) -> str:
        return f"Hey {name}"


async def partial_target(prefix: str, name: str) -> str:
    return prefix + name


@pytest.mark.parametrize(
    ("function", "text"),
    [
        pytest.param(Greeter(), "Hello Ada", id="callable object"),
        pytest.param(Greeter().method, "Hi Ada", id="method"),
        pytest.param(Greeter.static, "Hey Ada", id="static method"),
        pytest.param(functools.partial(partial_target, "Oh "), "Oh Ada", id="partial"),
        pytest.param(functools.partial(partial_target, prefix="Ah "), "Ah Ada", id="partial by keyword"),
    ],
)
async def test_whatever_can_be_called_can_be_a_tool(function: Any, text: str) -> None:
    assert await Bench().text(as_tool(function), '{"name": "Ada"}') == text


async def test_what_a_sync_function_returns_is_awaited_if_it_can_be() -> None:
    async def later(x: int) -> int:
        await anyio.lowlevel.checkpoint()
        return x + 1

    @tool
    def sync(x: int) -> Awaitable[int]:
        return later(x)

    assert await Bench().text(sync, '{"x": 1}') == "2"


# What the model gets.


class Colour(enum.Enum):
    RED = "red"


class Place(BaseModel):
    name: str


@dataclasses.dataclass
class Point:
    x: float


class Odd:
    def __str__(self) -> str:
        return "an odd thing"


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain\ntext", "plain\ntext"),
        ("", ""),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'),
        (Place(name="Rome"), '{"name":"Rome"}'),
        ([Point(1.5)], '[{"x":1.5}]'),
        (Colour.RED, "red"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        ((1, 2), "[1,2]"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        ([float("nan")], "[null]"),
        (Odd(), "an odd thing"),
        ({"odd": Odd()}, '{"odd":"an odd thing"}'),
        (CIRCLE, "[[...]]"),
        ([b"\xff"], r"[b'\xff']"),
        (["\ud800"], '["\ufffd"]'),
    ],
    ids=repr,
)
async def test_what_a_function_returns_becomes_text(value: object, text: str) -> None:
    @tool
    async def function() -> object:
        return value

    assert await Bench().text(function) == text


async def test_a_tool_result_is_returned_as_it_is() -> None:
    made = ToolResult("x" * 50, evidence="proof")

    @tool(max_result=10)
    async def function() -> ToolResult:
        return made

    assert await Bench().call(function) is made


async def test_a_long_result_is_cut_and_says_so() -> None:
    @tool(max_result=10)
    async def function(size: int) -> str:
        return "x" * size

    bench = Bench()
    assert await bench.text(function, '{"size": 10}') == "x" * 10
    assert await bench.text(function, '{"size": 11}') == ("xxxxxxxxxx\n[cut: the first 10 of 11 characters are shown]")


@pytest.mark.parametrize(("options", "size"), [({}, 200_000), ({"max_result": None}, 10_000_000)])
async def test_ten_megabytes_are_cut_by_default_and_whole_on_demand(options: dict[str, Any], size: int) -> None:
    def large() -> str:
        return "x" * 10_000_000

    text = tool_message(await run_tool(tool(large, **options), {})).text
    assert len(text.partition("\n")[0]) == size


async def test_a_lone_surrogate_in_a_result_reaches_the_model_as_a_replacement() -> None:
    @tool
    async def function() -> str:
        return "a\ud800b"

    assert tool_message(await run_tool(function, {})).text == "a\ufffdb"


# What goes wrong.


async def test_a_tool_error_is_the_failed_result_and_is_not_tried_again() -> None:
    calls = 0

    @tool(retries=3)
    async def function() -> str:
        nonlocal calls
        calls += 1
        raise ToolError("no such page")

    assert await Bench().call(function) == ToolResult("no such page", failed=True)
    assert calls == 1


async def test_an_exception_is_tried_again_as_often_as_told() -> None:
    calls = 0

    @tool(retries=2)
    def function() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise OSError("busy")
        return "done"

    assert await Bench().text(function) == "done"
    assert calls == 3


async def test_the_last_exception_is_told_to_the_model() -> None:
    @tool
    def function() -> str:
        raise OSError("disk full")

    value = await Bench().call(function)
    assert isinstance(value, Failure)
    assert isinstance(value.error, OSError)
    message = tool_message(await run_tool(function, {}))
    assert (message.failed, message.text) == (True, "The tool 'function' failed: OSError: disk full")


async def test_a_stop_iteration_is_an_exception_like_others() -> None:
    @tool
    def function() -> str:
        raise StopIteration

    assert isinstance(await Bench().call(function), Failure)


async def test_cut_arguments_are_told_to_the_model_and_the_tool_does_not_run() -> None:
    @tool
    async def function(a: str) -> str:
        pytest.fail("it ran")

    result = await run_tool(function, '{"a":"x')
    assert tool_message(result).failed
    assert "cut off" in tool_message(result).text
    assert result.text == "Done."
