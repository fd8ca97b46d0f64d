"""What a model is told of a function tool."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from alfine.agents.tool import FunctionTool, as_tool, tool
from alfine.runtime.errors import ConfigError
from alfine.runtime.models import ToolDefinition
from alfine.runtime.tools import RunContext

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """Somewhere."""

    title: str
    zip: int = 0


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(TypedDict):
    deep: bool


def schema(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    return dict(tool(function, **options).definition.parameters)


def test_a_typed_function_becomes_a_json_schema() -> None:
    @tool
    def search(query: str, limit: int = 5, tags: list[str] | None = None) -> str:
        """Search the library."""
        return query

    assert search.definition == ToolDefinition(
        "search",
        "Search the library.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer", "default": 5},
                "tags": {
                    "anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}],
                    "default": None,
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    )


def test_a_function_without_parameters_has_an_empty_schema() -> None:
    def now() -> str:
        return ""

    assert schema(now) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_tool_is_still_the_function_that_it_wraps() -> None:
    @tool(name="sum", timeout=3)
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add(2) == 3
    assert add.__name__ == "add"
    assert add.__doc__ == "Add."
    assert add.definition.name == "sum"
    assert add.timeout == 3
    assert repr(add) == "<tool 'sum'>"


def test_a_tool_can_be_made_again_under_another_name() -> None:
    @tool
    async def fetch(url: str) -> str:
        return url

    assert tool(fetch, name="get").definition.name == "get"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param(Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}, id="Literal"),
        pytest.param(Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, id="Optional"),  # noqa: UP045
        pytest.param(int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, id="union"),
        pytest.param(dict[str, float], {"additionalProperties": {"type": "number"}, "type": "object"}, id="dict"),
        pytest.param(list[int], {"items": {"type": "integer"}, "type": "array"}, id="list"),
        pytest.param(Any, {}, id="Any"),
        pytest.param(
            Annotated[int, Field(description="How many", ge=1)],
            {"description": "How many", "minimum": 1, "type": "integer"},
            id="Annotated",
        ),
    ],
)
def test_an_annotation_becomes_its_schema(annotation: Any, expected: dict[str, Any]) -> None:
    def function(value: int) -> None: ...

    function.__annotations__["value"] = annotation
    assert schema(function)["properties"]["value"] == expected


def test_enums_models_dataclasses_and_typed_dicts_are_defined_without_titles() -> None:
    def go(colour: Colour, place: Place, point: Point, options: Options) -> None: ...

    assert schema(go)["$defs"] == {
        "Colour": {"enum": ["red", "blue"], "type": "string"},
        "Place": {
            "description": "Somewhere.",
            "properties": {"title": {"type": "string"}, "zip": {"default": 0, "type": "integer"}},
            "required": ["title"],
            "type": "object",
        },
        "Point": {
            "additionalProperties": False,
            "properties": {"x": {"type": "number"}, "y": {"default": 0.0, "type": "number"}},
            "required": ["x"],
            "type": "object",
        },
        "Options": {
            "additionalProperties": False,
            "properties": {"deep": {"type": "boolean"}},
            "required": ["deep"],
            "type": "object",
        },
    }


def test_parameters_may_be_called_like_anything_in_pydantic_or_json_schema() -> None:
    def function(
        title: str, copy: int, model_config: str, self_: str, _hidden: int, schema: dict[str, int]
    ) -> None: ...

    names = ["title", "copy", "model_config", "self_", "_hidden", "schema"]
    assert list(schema(function)["properties"]) == names
    assert schema(function)["required"] == names


def test_a_default_that_contains_titles_is_kept_whole() -> None:
    def function(value: dict[str, str] = {"title": "x"}) -> None: ...  # noqa: B006

    assert schema(function)["properties"]["value"]["default"] == {"title": "x"}


def test_a_default_that_json_cannot_hold_is_left_out() -> None:
    nothing = object()

    def function(value: Any = nothing) -> None: ...

    assert schema(function)["properties"]["value"] == {}
    assert "required" not in schema(function)


def test_a_field_as_default_is_understood() -> None:
    def function(value: int = Field(3, ge=1, description="Size")) -> None: ...

    assert schema(function)["properties"]["value"] == {
        "default": 3,
        "description": "Size",
        "minimum": 1,
        "type": "integer",
    }


def test_an_alias_is_the_name_that_the_model_sees() -> None:
    def function(from_: Annotated[str, Field(alias="from")]) -> None: ...

    assert list(schema(function)["properties"]) == ["from"]


@pytest.mark.parametrize("annotation", [RunContext, RunContext | None, Annotated[RunContext, "the run"]])
def test_a_run_context_is_not_in_the_schema_wherever_it_stands(annotation: Any) -> None:
    def function(a: int, ctx: RunContext, b: int) -> None: ...

    function.__annotations__["ctx"] = annotation
    assert list(schema(function)["properties"]) == ["a", "b"]


def test_types_that_are_local_to_where_the_tool_is_made_are_found() -> None:
    class Local(BaseModel):
        size: int

    @tool
    def function(value: Local) -> None: ...

    assert "Local" in function.definition.parameters["$defs"]
    assert "Local" in as_tool(function.function).definition.parameters["$defs"]


def test_a_type_that_cannot_be_found_is_named() -> None:
    def function(value: Fraction) -> None: ...

    with pytest.raises(ConfigError, match=r"tool 'function'.*'Fraction' is not defined"):
        tool(function)


class Library:
    """Books."""

    def find(self, title: str) -> str:
        """Find a book."""
        return title

    def __call__(self, page: int) -> int:
        return page


def test_a_bound_method_is_a_tool_without_its_self() -> None:
    definition = tool(Library().find).definition
    assert (definition.name, definition.description) == ("find", "Find a book.")
    assert list(definition.parameters["properties"]) == ["title"]


def test_a_callable_object_is_named_and_described_by_its_class() -> None:
    definition = tool(Library()).definition
    assert (definition.name, definition.description) == ("Library", "Books.")
    assert list(definition.parameters["properties"]) == ["page"]


def test_what_a_partial_has_bound_is_not_shown_to_the_model() -> None:
    def fetch(prefix: str, url: str, key: str, depth: int = 1) -> str:
        """Fetch a page."""
        return prefix + url + key

    definition = tool(functools.partial(fetch, "p", key="secret")).definition
    assert (definition.name, definition.description) == ("fetch", "Fetch a page.")
    assert list(definition.parameters["properties"]) == ["url", "depth"]
    assert "secret" not in str(definition)


def test_a_wrapped_function_shows_the_signature_of_what_it_wraps() -> None:
    def inner(amount: Decimal) -> None:
        """Pay."""

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> None: ...

    assert list(schema(outer)["properties"]) == ["amount"]


def missing(value) -> None: ...  # type: ignore[no-untyped-def]  # what is being tested


def starred(*values: int) -> None: ...


def double_starred(**values: int) -> None: ...


def unusable(fine: int, callback: Library) -> None: ...


def uncallable(fine: int, callback: Callable[[], None]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (missing, "tool 'missing', parameter: 'value' is not allowed; every parameter needs a type annotation"),
        (starred, r"tool 'starred', parameter: 'values' is not allowed; .* no \*args"),
        (double_starred, r"tool 'double_starred', parameter: 'values' is not allowed; .* \*\*kwargs"),
        (unusable, "tool 'unusable', parameter: 'callback' is not allowed; a type that pydantic"),
        (uncallable, "tool 'uncallable', parameter: 'callback' is not allowed; a type that pydantic"),
        (Library.find, "tool 'find', parameter: 'self' .* bound method"),
        (lambda: None, "name: '<lambda>' is not allowed; 1 to 64"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_tool_and_parameter(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tool(function)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("name", ""),
        ("name", "a b"),
        ("name", "x" * 65),
        ("name", "tool\n"),
        ("name", "ü"),
        ("description", 3),
        ("timeout", 0),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("timeout", "3"),
        ("timeout", True),
        ("retries", -1),
        ("retries", 1.0),
        ("max_result", 0),
        ("max_result", True),
    ],
)
def test_an_option_out_of_range_is_refused_by_name(option: str, value: Any) -> None:
    def function() -> None: ...

    with pytest.raises(ConfigError) as caught:
        tool(function, **{option: value})
    assert (caught.value.argument, caught.value.value) == (option, value) or value != value


def test_as_tool_takes_tools_and_typed_functions() -> None:
    def plain(x: int) -> int:
        return x

    made = tool(plain)
    assert as_tool(made) is made
    assert isinstance(as_tool(plain), FunctionTool)


@pytest.mark.parametrize("value", [None, "search", 3, Place, Point, {"name": "x"}])
def test_as_tool_refuses_what_is_no_tool(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^tools: ") as caught:
        as_tool(value)
    assert caught.value.argument == "tools"


def test_a_class_is_no_function() -> None:
    with pytest.raises(ConfigError, match=r"^function: "):
        tool(Point)
