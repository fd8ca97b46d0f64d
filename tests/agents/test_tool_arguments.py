"""What becomes of the JSON text that a model writes as a tool's arguments."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from tool_calling import Bench, refusal
from typing_extensions import TypedDict

from alfine.agents.tool import FunctionTool, tool
from alfine.runtime.journal import Op
from alfine.runtime.tools import RunContext, ToolResult


class Colour(enum.Enum):
    RED = "red"


class Place(BaseModel):
    name: str
    zip: int = 0


@dataclasses.dataclass
class Point:
    x: float


class Options(TypedDict):
    deep: bool


async def arguments_of(function: Callable[..., Any], text: str, **options: Any) -> Any:
    """Return what `function` was called with; it takes one argument, `value`."""
    got: list[Any] = []

    async def spy(value: Any) -> None:
        got.append(value)

    spy.__annotations__["value"] = function.__annotations__["value"]
    await Bench().text(tool(spy, **options), text)
    return got[0]


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "3", 3),
        (float, "3", 3.0),
        (str, '"ü"', "ü"),
        (Colour, '"red"', Colour.RED),
        (Literal["a", "b"], '"b"', "b"),
        (Place, '{"name": "Rome"}', Place(name="Rome")),
        (Point, '{"x": 1.5}', Point(1.5)),
        (Options, '{"deep": true}', {"deep": True}),
        (list[Point], '[{"x": 1}]', [Point(1.0)]),
        (dict[str, Place], '{"a": {"name": "Rome", "zip": 3}}', {"a": Place(name="Rome", zip=3)}),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (set[int], "[1, 1]", {1}),
        (datetime.date, '"2024-02-29"', datetime.date(2024, 2, 29)),
        (int | None, "null", None),
        (int | str, '"3"', "3"),
    ],
)
async def test_a_function_gets_values_of_the_annotated_types(annotation: Any, text: str, value: object) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    assert await arguments_of(function, f'{{"value": {text}}}') == value


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
async def test_no_arguments_may_be_written_as_nothing(text: str) -> None:
    @tool
    async def now() -> str:
        return "noon"

    assert await Bench().text(now, text) == "noon"


async def test_what_the_model_leaves_out_is_the_functions_own_default() -> None:
    nothing = object()
    got: list[object] = []

    @tool
    async def function(
        a: Any = nothing, /, b: int = 2, *, c: Annotated[int, Field(default=5)], d: int = Field(7)
    ) -> None:
        got.extend([a, b, c, d])

    await Bench().text(function, '{"b": 3}')
    assert got == [nothing, 3, 5, 7]


async def test_positional_and_keyword_only_parameters_get_their_values() -> None:
    @tool
    async def function(a: int, b: int, /, c: int, *, d: int) -> str:
        return f"{a}{b}{c}{d}"

    assert await Bench().text(function, '{"d": 4, "c": 3, "b": 2, "a": 1}') == "1234"


async def test_the_run_context_is_given_wherever_it_stands() -> None:
    @tool
    async def first(context: RunContext, /, a: int) -> str:
        return f"{context.request_context['user']} {a}"

    @tool
    async def last(a: int, *, context: RunContext | None = None) -> str:
        assert context is not None
        assert context.call is not None
        return f"{context.call.id} {a}"

    assert await Bench().text(first, '{"a": 1}') == "Ada 1"
    assert await Bench().text(last, '{"a": 1}') == "c1 1"


async def test_an_alias_is_read_as_the_parameter() -> None:
    @tool
    async def function(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    assert await Bench().text(function, '{"from": "Rome"}') == "Rome"


async def test_without_strict_close_values_are_converted_and_unknown_ones_ignored() -> None:
    def function(value: int) -> None: ...

    assert await arguments_of(function, '{"value": "3", "other": 1}', strict=False) == 3


@tool
async def search(query: str, limit: Annotated[int, Field(ge=1)] = 5, places: list[Place] | None = None) -> str:
    return query


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{}", "- query: Field required", id="missing"),
        pytest.param('{"query": 3}', "- query: Input should be a valid string (given: 3)", id="wrong type"),
        pytest.param(
            '{"query": "a", "limit": "5"}', '- limit: Input should be a valid integer (given: "5")', id="strict"
        ),
        pytest.param(
            '{"query": "a", "limit": 0}', "- limit: Input should be greater than or equal to 1 (given: 0)", id="ge"
        ),
        pytest.param('{"query": "a", "x": null}', "- x: Extra inputs are not permitted (given: null)", id="unknown"),
        pytest.param(
            '{"query": "a", "places": [{"name": "b"}, {"zip": 1}]}', "- places.1.name: Field required", id="path"
        ),
        pytest.param('{"query": true}', "(given: true)", id="true"),
        pytest.param('{"query": [1, 2]}', "(given: a list of 2 items)", id="list"),
        pytest.param('{"query": {"a": 1}}', "(given: an object with 1 keys: a)", id="object"),
        pytest.param("[1]", "- arguments: Input should be an object (given: a list of 1 items)", id="no object"),
        pytest.param("null", "- arguments: Input should be an object (given: null)", id="null"),
        pytest.param('"{}"', '- arguments: Input should be an object (given: "{}")', id="JSON in JSON"),
        pytest.param('{"query"}', "The arguments are no valid JSON: ", id="broken"),
        pytest.param("query=a", 'They begin with "query=a".', id="no JSON at all"),
        pytest.param('{"query": "a"}{"query": "b"}', "no valid JSON: trailing characters", id="two objects"),
    ],
)
def test_arguments_that_do_not_fit_are_answered_with_place_reason_and_what_was_given(text: str, said: str) -> None:
    assert said in refusal(search, text)


@pytest.mark.parametrize("text", ['{"query":"x', '{"query":', "{", '{"query":"x"', '{"query":"\\'])
def test_arguments_that_were_cut_are_said_to_be_cut(text: str) -> None:
    assert f"cut off after {len(text)} characters" in refusal(search, text)


def test_nothing_is_carried_out_by_plan() -> None:
    @tool
    def explode() -> None:
        pytest.fail("it ran")

    assert isinstance(Bench().plan(explode, "{}"), Op)


async def test_lone_surrogates_and_raw_line_ends_are_read_as_what_they_mean() -> None:
    assert await Bench().text(search, '{"query": "a\\ud800b"}') == "a\ufffdb"
    assert await Bench().text(search, '{"query": "a\ud800b"}') == "a\ufffdb"
    assert await Bench().text(search, '{"query": "\\ud83d\\ude00"}') == "😀"
    assert await Bench().text(search, '{"query": "a\nb\tc"}') == "a\nb\tc"
    assert await Bench().text(search, '{"query": "a\\u0000"}') == "a\0"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    @tool
    def function(value: float) -> None: ...

    assert "value: " in refusal(function, f'{{"value": {number}}}')


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps({"query": ["x" * 10_000_000]}), id="a long value"),
        pytest.param(json.dumps({"query": "a", "x" * 1_000_000: 1}), id="a long name"),
        pytest.param(json.dumps({"query": "a", "places": [1] * 100_000}), id="many problems"),
        pytest.param(json.dumps({"query": dict.fromkeys(map(str, range(100_000)))}), id="many keys"),
        pytest.param('{"query": ' + "[" * 1_000_000, id="deep"),
        pytest.param('{"query": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}", id="deep and closed"),
        pytest.param('{"query": ' + "9" * 100_000 + "}", id="a long number"),
        pytest.param('{"query": "' + "x" * 10_000_000, id="long and cut"),
        pytest.param("x" * 10_000_000, id="long and no JSON"),
    ],
)
def test_a_refusal_is_short_however_large_the_arguments_are(text: str) -> None:
    assert len(refusal(search, text)) < 3_000


@pytest.mark.parametrize("error", [ValueError("too far"), KeyError("too far"), RuntimeError("too far")])
def test_a_validator_that_raises_is_answered_too(error: Exception) -> None:
    class Trip(BaseModel):
        to: str

        @field_validator("to")
        @classmethod
        def near(cls, value: str) -> str:
            raise error

    @tool
    def go(trip: Trip) -> None: ...

    assert "too far" in refusal(go, '{"trip": {"to": "Rome"}}')


async def test_each_attempt_gets_values_of_its_own() -> None:
    seen: list[list[int]] = []

    @tool(retries=1)
    async def function(values: list[int]) -> str:
        seen.append(list(values))
        values.clear()
        if len(seen) == 1:
            raise OSError
        return "done"

    assert await Bench().text(function, '{"values": [1, 2]}') == "done"
    assert seen == [[1, 2], [1, 2]]


@tool(strict=False)
def everything(
    a: int = 0,
    b: list[Place] | dict[str, Point] | None = None,
    c: Any = None,
    d: Literal["x", 3] | float = 3,
    e: Options | None = None,
    f: datetime.timedelta | None = None,
    g: Colour | bytes | None = None,
) -> None: ...


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdefgxyz"), inner, max_size=4),
    max_leaves=8,
)
TEXTS = (
    st.text(st.characters(codec=None)) | JSON.map(json.dumps) | JSON.map(lambda v: json.dumps(v, ensure_ascii=False))
)
CUT = st.tuples(TEXTS, st.integers(0, 80)).map(lambda pair: pair[0][: pair[1]])


@settings(max_examples=400, deadline=None)
@given(text=TEXTS | CUT, which=st.sampled_from([search, everything]))
def test_no_text_makes_plan_raise(text: str, which: FunctionTool[..., Any]) -> None:
    plan = Bench().plan(which, text)
    assert isinstance(plan, Op) or (plan.failed and plan.text and isinstance(plan, ToolResult))
