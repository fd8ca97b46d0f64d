"""The script language."""

import pytest

from alfine.runtime.errors import ConfigError
from alfine.testing import ScriptedModel, Turn, call, http_error
from alfine.testing.turns import cut_arguments


@pytest.mark.parametrize("text", ["", "one", "  two words ", "a\nb\n\n c", "x" * 5000, "many words " * 500, "\ud800 b"])
def test_the_pieces_of_a_text_join_to_the_text_and_are_few(text: str) -> None:
    pieces = Turn(text).pieces
    assert "".join(pieces) == text
    assert len(pieces) <= 12
    assert "".join(cut_arguments(text)) == text


def test_a_short_text_is_cut_between_words() -> None:
    assert len(Turn("three short words").pieces) == 3


def test_deltas_are_kept_as_they_are_and_make_the_text() -> None:
    turn = Turn(deltas=["a", "", "b"])
    assert (turn.pieces, turn.text) == (["a", "", "b"], "ab")


def test_a_call_takes_a_mapping_or_broken_json() -> None:
    assert call("f", {"a": 1}).arguments == '{"a": 1}'
    assert call("f", '{"a": ').arguments == '{"a": '
    assert call("f").arguments == "{}"


@pytest.mark.parametrize(
    ("finish", "expected"), [(Turn("x"), "stop"), (Turn(tool_calls=[call("f")]), "tool_calls")], ids=["text", "calls"]
)
def test_the_finish_reason_follows_from_the_calls(finish: Turn, expected: str) -> None:
    assert finish.ends_with == expected


def test_a_given_finish_reason_wins() -> None:
    assert Turn("x", finish_reason="length").ends_with == "length"


def test_a_turn_with_a_text_and_other_deltas_is_refused() -> None:
    with pytest.raises(ConfigError, match="deltas"):
        Turn("one", deltas=["two"])


def test_a_turn_with_a_negative_delay_is_refused() -> None:
    with pytest.raises(ConfigError, match="delay"):
        Turn(delay=-1)


def test_a_turn_with_an_unknown_finish_reason_is_refused() -> None:
    with pytest.raises(ConfigError, match="finish_reason"):
        Turn(finish_reason="done")  # type: ignore[arg-type]  # the point of the test


def test_an_http_error_with_a_good_status_is_refused() -> None:
    with pytest.raises(ConfigError, match="status"):
        http_error(200)


def test_a_text_is_not_a_script() -> None:
    with pytest.raises(ConfigError, match="script"):
        ScriptedModel("hello")


def test_a_script_of_something_else_than_turns_is_refused() -> None:
    with pytest.raises(ConfigError, match="script"):
        ScriptedModel([42])  # type: ignore[list-item]  # the point of the test
