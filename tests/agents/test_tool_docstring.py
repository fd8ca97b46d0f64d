"""What a docstring tells a model of a tool."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from alfine.agents.tool import tool


class Colour(enum.Enum):
    RED = "red"


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(tool(function).definition.parameters)


GOOGLE = """Search the library.

    Looks in every book.

    Args:
        query: what to look for,
            in any language.
        limit (int): how many.

    Returns:
        The finds.

    Raises:
        ToolError: nothing there.
    """

NUMPY = """Search the library.

    Looks in every book.

    Parameters
    ----------
    query : str
        what to look for,
        in any language.
    limit : int, optional
        how many.

    Returns
    -------
    str
        The finds.
    """

SPHINX = """Search the library.

    Looks in every book.

    :param query: what to look for,
        in any language.
    :param int limit: how many.
    :returns: The finds.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_a_docstring_describes_the_tool_and_its_parameters(text: str) -> None:
    def search(query: str, limit: int = 3) -> None: ...

    search.__doc__ = text
    definition = tool(search).definition
    assert definition.description == "Search the library.\n\nLooks in every book."
    properties = definition.parameters["properties"]
    assert properties["query"]["description"].split() == ["what", "to", "look", "for,", "in", "any", "language."]
    assert properties["limit"]["description"] == "how many."


def test_a_plain_docstring_is_the_description_as_it_is() -> None:
    def search(query: str) -> None:
        """Search: the library.

        - every book
        - every page
        """

    assert tool(search).definition.description == "Search: the library.\n\n- every book\n- every page"


def test_a_field_description_wins_over_the_docstring() -> None:
    def search(query: Annotated[str, Field(description="from the field")]) -> None:
        """Search.

        Args:
            query: from the docstring
            gone: no such parameter
        """

    assert schema(search)["properties"] == {"query": {"description": "from the field", "type": "string"}}


def test_a_docstring_that_only_looks_like_sections_is_text() -> None:
    def search(query: str) -> None:
        """Search.

        Args:
        """

    assert tool(search).definition.description.startswith("Search.")


def test_a_description_can_be_given_and_may_be_missing() -> None:
    def search(query: str) -> None: ...

    assert tool(search).definition.description == ""
    assert tool(search, description="Finds.").definition.description == "Finds."


def test_a_docstring_of_a_parameter_with_a_type_of_its_own_describes_the_parameter() -> None:
    def paint(colour: Colour) -> None:
        """Paint.

        Args:
            colour: which one
        """

    assert schema(paint)["properties"]["colour"] == {"$ref": "#/$defs/Colour", "description": "which one"}
