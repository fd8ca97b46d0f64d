"""What goes to the server."""

import json
from typing import Any

import pytest

from alfine.runtime.errors import ConfigError
from alfine.runtime.messages import AssistantMessage, FeedbackMessage, Message, ToolCall, ToolMessage, UserMessage
from alfine.runtime.models import ModelRequest, ModelSettings, OutputSchema, ToolDefinition
from alfine.runtime.models.wire import WireMemo, is_strict, message_body, request_body

ADD = ToolDefinition("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def body(request: ModelRequest, renames: dict[str, str | None] | None = None) -> dict[str, Any]:
    sent = request_body(request, WireMemo.of(request), "m", request.settings, renames or {})
    return dict(json.loads(sent))


def test_the_smallest_request_asks_for_a_stream_with_usage() -> None:
    assert body(ModelRequest([UserMessage("Hi")])) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Hi"}],
    }


def test_instructions_are_the_first_message() -> None:
    sent = body(ModelRequest([UserMessage("Hi")], instructions="Be kind."))
    assert sent["messages"][0] == {"role": "system", "content": "Be kind."}


CALL = ToolCall("c1", "add", '{"a": 1}')
WIRE_CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (UserMessage("Hi"), {"role": "user", "content": "Hi"}),
        (FeedbackMessage("No."), {"role": "user", "content": "No."}),
        (AssistantMessage(""), {"role": "assistant", "content": ""}),
        (AssistantMessage("Hi", reasoning="hm"), {"role": "assistant", "content": "Hi"}),
        (AssistantMessage("", (CALL,)), {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]}),
        (AssistantMessage("Hi", (CALL,)), {"role": "assistant", "content": "Hi", "tool_calls": [WIRE_CALL]}),
        (ToolMessage("c1", "add", "2"), {"role": "tool", "tool_call_id": "c1", "content": "2"}),
        (UserMessage("a\ud800b"), {"role": "user", "content": "a\ufffdb"}),
    ],
)
def test_a_message_has_the_shape_of_chat_completions(message: Message, expected: dict[str, Any]) -> None:
    assert message_body(message) == expected


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("  ", {}),
        ('{"a":"x', {"invalid_arguments": '{"a":"x'}),
        ("[1]", {"invalid_arguments": "[1]"}),
        ("\ud800", {"invalid_arguments": "\ufffd"}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"a": NaN}', {"a": None}),
        ("[" * 100_000, {"invalid_arguments": "[" * 100_000}),
    ],
)
def test_arguments_in_the_history_are_always_a_json_object(arguments: str, sent: dict[str, Any]) -> None:
    call = message_body(AssistantMessage("", (ToolCall("c1", "add", arguments),)))["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == sent


def test_a_name_that_servers_refuse_is_made_acceptable() -> None:
    calls = (ToolCall("c1", "", "{}"), ToolCall("c2", "é b", "{}"), ToolCall("c3", "x" * 100, "{}"))
    names = [c["function"]["name"] for c in message_body(AssistantMessage("", calls))["tool_calls"]]
    assert names == ["unknown", "__b", "x" * 64]


def test_settings_become_fields() -> None:
    settings = ModelSettings(
        temperature=0.5,
        top_p=0.9,
        max_tokens=10,
        seed=7,
        stop=("END",),
        tool_choice="add",
        parallel_tool_calls=False,
        reasoning_effort="low",
        extra_body={"user": "me", "temperature": 1},
    )
    sent = body(ModelRequest([UserMessage("Hi")], tools=[ADD], settings=settings))
    del sent["messages"], sent["model"], sent["stream"], sent["stream_options"]
    assert sent == {
        "temperature": 1,
        "top_p": 0.9,
        "max_tokens": 10,
        "seed": 7,
        "stop": ["END"],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "user": "me",
        "tools": [
            {
                "type": "function",
                "function": {"name": "add", "description": "Adds.", "parameters": dict(ADD.parameters)},
            }
        ],
    }


def test_without_tools_nothing_is_said_about_their_choice() -> None:
    settings = ModelSettings(tool_choice="required", parallel_tool_calls=True)
    assert not {"tool_choice", "parallel_tool_calls", "tools"} & set(
        body(ModelRequest([UserMessage("Hi")], settings=settings))
    )


def test_fields_are_called_as_the_server_calls_them() -> None:
    request = ModelRequest([UserMessage("Hi")], settings=ModelSettings(max_tokens=10))
    sent = body(request, {"max_tokens": "max_completion_tokens", "stream_options": None})
    assert sent["max_completion_tokens"] == 10
    assert not {"max_tokens", "stream_options"} & set(sent)


def test_extra_body_may_replace_messages_and_tools() -> None:
    settings = ModelSettings(extra_body={"messages": [], "tools": []})
    sent = body(ModelRequest([UserMessage("Hi")], tools=[ADD], settings=settings))
    assert (sent["messages"], sent["tools"]) == ([], [])


def test_an_extra_body_that_is_no_json_is_refused_by_name() -> None:
    request = ModelRequest([UserMessage("Hi")], settings=ModelSettings(extra_body={"a": object()}))
    with pytest.raises(ConfigError, match=r"settings\.a"):
        body(request)


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": CLOSED}}, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"a": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "string", "default": "x"}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"type": "null"}, {"oneOf": []}]}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
        ({"type": "string"}, False),
    ],
)
def test_strict_is_asked_for_only_where_servers_accept_it(schema: dict[str, Any], strict: bool) -> None:
    assert is_strict(schema) is strict
    request = ModelRequest([UserMessage("Hi")], output=OutputSchema("my answer!", schema))
    assert body(request)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "my_answer_", "schema": schema, **({"strict": True} if strict else {})},
    }


def test_each_message_is_turned_into_bytes_once_in_a_run() -> None:
    memo: dict[str, Any] = {}
    messages: list[Message] = [UserMessage("Hi"), AssistantMessage("", (CALL,))]
    first = WireMemo.of(ModelRequest(messages, tools=[ADD], memo=memo))
    encoded, tools = list(first.encoded), first.tools_json
    messages.append(ToolMessage("c1", "add", "2"))
    second = WireMemo.of(ModelRequest(messages, tools=[ADD], memo=memo))
    assert second is first
    assert [a is b for a, b in zip(encoded, second.encoded, strict=False)] == [True, True]
    assert second.tools_json is tools
    assert len(second.encoded) == 3
    assert second.call_ids == {"c1"}


def test_another_conversation_in_the_same_memo_is_written_anew() -> None:
    memo: dict[str, Any] = {}
    body(ModelRequest([UserMessage("a"), AssistantMessage("b", (CALL,)), UserMessage("c")], "One.", [ADD], memo=memo))
    other = ModelRequest([UserMessage("x"), UserMessage("y")], "Two.", memo=memo)
    assert [m["content"] for m in body(other)["messages"]] == ["Two.", "x", "y"]
    assert WireMemo.of(other).call_ids == set()
    assert "tools" not in body(other)
