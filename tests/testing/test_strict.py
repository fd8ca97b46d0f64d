"""What the server refuses, as OpenAI does."""

from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

from alfine.testing import FakeOpenAI

USER = {"role": "user", "content": "Hi"}


def calls(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    wanted = [{"id": i, "type": "function", "function": {"name": "f", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": wanted}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


async def send(strict: bool, messages: list[Any], **more: Any) -> str | None:
    async with (
        FakeOpenAI(["accepted"], strict=strict) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        reply: ChatCompletion = await client.chat.completions.create(model="m", messages=messages, **more)
        return reply.choices[0].message.content


REFUSED = [
    pytest.param([], {}, "not empty", id="no messages"),
    pytest.param([{"role": "boss", "content": "x"}], {}, "role", id="an unknown role"),
    pytest.param([{"role": "user"}], {}, "content", id="a user message without content"),
    pytest.param([USER, {"role": "assistant", "content": None}], {}, "content", id="an assistant message with nothing"),
    pytest.param([USER, calls("a")], {}, "'a' is not followed", id="a call without a result at the end"),
    pytest.param([USER, calls("a", "b"), result("a"), USER], {}, "'b' is not followed", id="one result missing"),
    pytest.param([USER, calls("a"), USER, result("a")], {}, "'a' is not followed", id="something between"),
    pytest.param([USER, result("a")], {}, "no preceding tool call", id="a result without a call"),
    pytest.param([USER, calls("a"), result("a"), result("a")], {}, "no preceding tool call", id="two results"),
    pytest.param([USER, calls("a", "a"), result("a")], {}, "there twice", id="a repeated id"),
    pytest.param([USER, calls(""), result("")], {}, "id: is missing", id="an empty id"),
    pytest.param([USER, calls("a", arguments='{"x'), result("a")], {}, "not valid JSON", id="broken arguments"),
    pytest.param([USER, {**calls("a"), "tool_calls": []}], {}, "content", id="empty calls and no content"),
    pytest.param([USER, {**calls("a"), "content": "x", "tool_calls": []}], {}, "tool_calls", id="empty calls"),
    pytest.param([USER], {"tools": []}, "tools", id="empty tools"),
    pytest.param([USER], {"tools": [tool("my tool")]}, "my tool", id="a bad tool name"),
    pytest.param([USER], {"tools": [tool("f"), tool("f")]}, "there twice", id="two tools of one name"),
    pytest.param([USER], {"tool_choice": "auto"}, "needs tools", id="tool_choice without tools"),
]


@pytest.mark.parametrize(("messages", "more", "reason"), REFUSED)
async def test_a_strict_server_refuses(messages: list[Any], more: dict[str, Any], reason: str) -> None:
    with pytest.raises(openai.BadRequestError, match=reason):
        await send(True, messages, **more)


@pytest.mark.parametrize(("messages", "more", "reason"), REFUSED)
async def test_a_lax_server_takes_anything(messages: list[Any], more: dict[str, Any], reason: str) -> None:
    assert await send(False, messages, **more) == "accepted"


async def test_a_strict_server_takes_a_good_history() -> None:
    history = [
        {"role": "system", "content": "Be kind"},
        USER,
        calls("a", "b"),
        result("b"),
        result("a"),
        calls("a"),
        result("a"),
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "more"}]},
    ]
    assert await send(True, history, tools=[tool("f")], tool_choice="auto") == "accepted"


async def test_a_refused_request_uses_up_no_turn_and_is_kept() -> None:
    async with (
        FakeOpenAI(["accepted"]) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        bad: list[Any] = [result("a")]
        good: list[Any] = [USER]
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model="m", messages=bad)
        reply = await client.chat.completions.create(model="m", messages=good)
    assert reply.choices[0].message.content == "accepted"
    assert [request.status for request in server.requests] == [400, 200]
