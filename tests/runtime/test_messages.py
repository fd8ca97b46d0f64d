"""Messages: small values that a history is made of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alfine import (
    AssistantMessage,
    ConfigError,
    FeedbackMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    message_from_dict,
    message_to_dict,
)
from alfine.runtime.messages import as_messages, clean, drop_foreign_calls

ALL: list[Message] = [
    UserMessage("Hi"),
    AssistantMessage("Let me see", (ToolCall("c1", "search", '{"q": 1}'), ToolCall("c2", "other", "")), "hm"),
    ToolMessage("c1", "search", "found", True),
    FeedbackMessage("again", "on_step", True),
]


@pytest.mark.parametrize("message", ALL, ids=lambda m: str(m.kind))
def test_every_kind_round_trips_through_json(message: Message) -> None:
    data = json.loads(json.dumps(message_to_dict(message)))
    assert message_from_dict({**data, "unknown": 1}) == message


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="no kind"),
        pytest.param({"kind": "system", "text": "x"}, id="an unknown kind"),
        pytest.param({"kind": "user"}, id="no text"),
        pytest.param({"kind": "user", "text": None}, id="None as text"),
        pytest.param({"kind": "user", "text": ["x"]}, id="a list as text"),
        pytest.param({"kind": "assistant", "text": "", "tool_calls": [{"id": "1", "name": "t"}]}, id="half a call"),
        pytest.param({"kind": "assistant", "text": "", "tool_calls": ["t"]}, id="a text as call"),
        pytest.param({"kind": "assistant", "text": "", "tool_calls": 5}, id="no list of calls"),
        pytest.param(
            {"kind": "assistant", "text": "", "tool_calls": [{"id": "1", "name": "t", "arguments": {}}]},
            id="arguments that are no text",
        ),
    ],
)
def test_what_is_no_message_is_refused_before_any_model_is_called(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        message_from_dict(data)


def test_a_history_takes_messages_and_mappings_and_nothing_else() -> None:
    assert as_messages([ALL[0], message_to_dict(ALL[1])]) == ALL[:2]
    with pytest.raises(ConfigError, match="history"):
        as_messages(["Hi"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("é\x00€", "é\x00€"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
    ],
    ids=ascii,
)
def test_only_halves_without_a_partner_are_replaced(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_foreign_calls_go_together_with_their_results() -> None:
    messages: list[Message] = [
        UserMessage("Hi"),
        AssistantMessage("", (ToolCall("1", "own", "{}"), ToolCall("2", "foreign", "{}")), "why"),
        ToolMessage("1", "own", "kept"),
        ToolMessage("2", "foreign", "dropped"),
        AssistantMessage("", (ToolCall("3", "foreign", "{}"),)),
        ToolMessage("3", "foreign", "dropped"),
        AssistantMessage("", (ToolCall("4", "own", "{}"),)),
        ToolMessage("5", "own", "answers nothing"),
    ]
    assert drop_foreign_calls(messages, ["own"]) == [
        UserMessage("Hi"),
        AssistantMessage("", (ToolCall("1", "own", "{}"),), "why"),
        ToolMessage("1", "own", "kept"),
    ]


def test_a_second_result_of_one_call_is_dropped() -> None:
    asked = AssistantMessage("", (ToolCall("1", "own", "{}"),))
    once = ToolMessage("1", "own", "first")
    assert drop_foreign_calls([asked, once, ToolMessage("1", "own", "second")], ["own"]) == [asked, once]


def test_a_result_that_comes_later_moves_to_its_call_and_a_second_one_is_dropped() -> None:
    call = ToolCall("c1", "look", "{}")
    history: list[Message] = [
        AssistantMessage("", (call, call)),
        UserMessage("well?"),
        ToolMessage("c1", "look", "first"),
        ToolMessage("c1", "look", "second"),
        AssistantMessage("again", (call,)),
    ]
    assert drop_foreign_calls(history, ["look"]) == [
        AssistantMessage("", (call,)),
        ToolMessage("c1", "look", "first"),
        UserMessage("well?"),
        AssistantMessage("again"),
    ]
