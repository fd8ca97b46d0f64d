"""The whole way of a call: through the real openai client, over HTTP, and back."""

import gc
import gzip
import json
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from openai import APIStatusError, AsyncOpenAI

from alfine.runtime.errors import ModelError
from alfine.runtime.limits import Usage
from alfine.runtime.messages import ToolCall, UserMessage
from alfine.runtime.models import ModelRequest, ModelSettings, Part, Reply, TextPart, openai_chat
from alfine.runtime.models.clients import open_client
from alfine.runtime.models.openai_chat import OpenAIChatModel
from alfine.testing import (
    FakeOpenAI,
    Gate,
    Turn,
    call,
    cut,
    cut_before_head,
    error_in_stream,
    http_error,
    malformed_chunk,
    raw,
)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat, "_FIRST_PAUSE", 0.0)


def request(**settings: Any) -> ModelRequest:
    return ModelRequest([UserMessage("Hi")], settings=ModelSettings(**settings))


@asynccontextmanager
async def model_of(base_url: str, **options: Any) -> AsyncIterator[OpenAIChatModel]:
    model = OpenAIChatModel("m", base_url=base_url, **options)
    try:
        yield model
    finally:
        await model.aclose()


async def ask(model: OpenAIChatModel, asked: ModelRequest | None = None) -> tuple[list[Part], Reply]:
    parts: list[Part] = []
    async with aclosing(model.stream(asked or request())) as stream:
        async for part in stream:
            parts.append(part)
    reply = parts.pop()
    assert isinstance(reply, Reply)
    return parts, reply


async def fail(model: OpenAIChatModel, asked: ModelRequest | None = None) -> tuple[list[Part], ModelError]:
    parts: list[Part] = []
    try:
        async with aclosing(model.stream(asked or request())) as stream:
            async for part in stream:
                parts.append(part)
    except ModelError as error:
        return parts, error
    pytest.fail(f"no error, but {parts}")


def frame(delta: Any = None, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


async def test_a_reply_is_streamed_and_summed_up() -> None:
    script = [Turn(deltas=["Hel", "lo"], reasoning="hm", usage=Usage(input_tokens=7, output_tokens=2))]
    async with FakeOpenAI(script) as server, model_of(server.base_url) as model:
        parts, reply = await ask(model)
    assert [p.text for p in parts if isinstance(p, TextPart)] == ["Hel", "lo"]
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Hello", "hm", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 2)


async def test_a_tool_call_comes_back_whole() -> None:
    script = [Turn(tool_calls=[call("add", {"a": 1}, id="c1"), call("add", {"a": 2}, id="c2")])]
    async with FakeOpenAI(script) as server, model_of(server.base_url) as model:
        _, reply = await ask(model)
    assert reply.tool_calls == (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "add", '{"a": 2}'))


async def test_settings_of_the_request_win_over_those_of_the_model() -> None:
    settings = ModelSettings(temperature=0.1, seed=3)
    async with FakeOpenAI(["a"]) as server, model_of(server.base_url, settings=settings) as model:
        await ask(model, request(temperature=0.9, max_tokens=5))
    body = server.requests[0].body
    assert (body["temperature"], body["seed"], body["max_completion_tokens"]) == (0.9, 3, 5)


async def test_a_stream_in_single_bytes_is_the_same_stream() -> None:
    sent = b"".join(
        b"data: %s\r\n\r\n" % json.dumps(frame({"content": t}), ensure_ascii=False).encode() for t in "a€😀"
    )
    async with FakeOpenAI([raw([bytes([b]) for b in sent])]) as server, model_of(server.base_url) as model:
        parts, reply = await ask(model)
    assert parts == [TextPart("a"), TextPart("€"), TextPart("😀")]
    assert reply.text == "a€😀"


async def test_half_characters_in_json_are_joined() -> None:
    frames = [r'data: {"choices":[{"delta":{"content":"\ud83d"}}]}' + "\n\n"]
    frames += [r'data: {"choices":[{"delta":{"content":"\ude00 \ud800"}}]}' + "\n\n"]
    async with FakeOpenAI([raw(frames)]) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "😀 \ufffd"


async def test_ten_thousand_tiny_deltas_arrive() -> None:
    async with FakeOpenAI([Turn(deltas=["x"] * 10_000)]) as server, model_of(server.base_url) as model:
        parts, reply = await ask(model)
    assert (len(parts), len(reply.text)) == (10_000, 10_000)


@pytest.mark.parametrize(
    ("frames", "done"),
    [
        pytest.param([frame({"content": "Hi"})], True, id="DONE without finish_reason"),
        pytest.param([frame({"content": "Hi"}, "stop")], False, id="finish_reason without DONE"),
        pytest.param([frame({"content": "Hi"})], False, id="a clean end with output"),
        pytest.param([": hm\n\n", {"error": None, "choices": []}, frame({"content": "Hi"})], True, id="oddities"),
        pytest.param([frame({"content": "Hi"}), "data: [DONE]\n\n", frame({"content": "!"})], True, id="after DONE"),
        pytest.param(["event: message\ndata: " + json.dumps(frame({"content": "Hi"})) + "\n\n"], True, id="named"),
    ],
)
async def test_an_answer_that_ends_oddly_is_an_answer(frames: list[Any], done: bool) -> None:
    async with FakeOpenAI([raw(frames, done=done)]) as server, model_of(server.base_url, max_retries=0) as model:
        assert (await ask(model))[1].text == "Hi"


async def test_a_stream_that_ends_with_nothing_at_all_is_a_cut_one() -> None:
    async with FakeOpenAI([raw([], done=False), "Hi"]) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "Hi"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(cut("lost"), id="cut before output"),
        pytest.param(http_error(429, retry_after=0.01), id="429"),
        pytest.param(http_error(503, retry_after=0.01), id="503"),
        pytest.param(error_in_stream("busy", code="rate_limit_exceeded"), id="rate limit in the stream"),
        pytest.param(error_in_stream("busy", code="503"), id="503 in the stream"),
        pytest.param(raw(['event: error\ndata: {"type": "overloaded_error"}\n\n']), id="overloaded"),
    ],
)
async def test_what_may_pass_is_tried_again_as_long_as_nothing_was_streamed(fault: Turn) -> None:
    async with FakeOpenAI([fault, fault, "Hi"]) as server, model_of(server.base_url) as model:
        parts, _ = await ask(model)
    assert "".join(p.text for p in parts if isinstance(p, TextPart)) == "Hi"
    assert len(server.requests) == 3


async def test_a_connection_closed_before_the_head_is_tried_again() -> None:
    async with FakeOpenAI([cut_before_head(), "Hi"]) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "Hi"


@pytest.mark.parametrize("first", [cut("lost"), http_error(429, retry_after=0.01)])
@pytest.mark.parametrize(("max_retries", "asked"), [(0, 1), (1, 2), (2, 3)])
async def test_the_client_and_we_share_one_number_of_retries(first: Turn, max_retries: int, asked: int) -> None:
    script = [first, cut("lost", repeat=True)]
    async with FakeOpenAI(script) as server, model_of(server.base_url, max_retries=max_retries) as model:
        _, error = await fail(model)
    assert error.retryable
    assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(cut(deltas=["a", "b", "c"], after_deltas=2), "broke the connection in the middle", id="cut"),
        pytest.param(
            error_in_stream("busy", deltas=["a", "b", "c"], after_deltas=2, code="429"),
            "busy",
            id="error in the stream",
        ),
    ],
)
async def test_what_was_streamed_is_never_repeated(fault: Turn, said: str) -> None:
    async with FakeOpenAI([fault, "again"]) as server, model_of(server.base_url) as model:
        parts, error = await fail(model)
    assert parts == [TextPart("a"), TextPart("b")]
    assert said in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        (malformed_chunk("Hi", frame='{"choices": [{"de'), 'no JSON: \'{"choices": [{"de'),
        (raw(["data: 7\n\n"]), "no JSON object: '7'"),
        (raw([{"error": {"message": "bad prompt", "code": "bad"}}]), "bad prompt"),
        (raw([{"error": "bad prompt"}]), "bad prompt"),
        (raw([{"object": "error", "message": "bad prompt"}]), "bad prompt"),
        (raw(["event: error\ndata: bad prompt\n\n"]), "bad prompt"),
        (raw(['{"error": {"message": "bad prompt"}}\n\n']), "bad prompt"),
    ],
)
async def test_a_stream_that_cannot_be_read_says_why(turn: Turn, said: str) -> None:
    async with FakeOpenAI([turn]) as server, model_of(server.base_url) as model:
        _, error = await fail(model)
        assert said in str(error)
        assert f"openai/m at {server.base_url[7:-3]} " in str(error)
    assert not error.retryable
    assert len(server.requests) == 1


async def test_an_answer_that_the_server_gives_up_is_an_error() -> None:
    turn = raw([frame({"content": "Hi"}), frame({}, "error")])
    async with FakeOpenAI([turn]) as server, model_of(server.base_url) as model:
        parts, _ = await fail(model)
    assert parts == [TextPart("Hi")]


@pytest.mark.parametrize(
    ("status", "retryable", "said"), [(400, False, "too long"), (401, False, "OPENAI_API_KEY"), (404, False, "name")]
)
async def test_a_refusal_says_what_to_do(status: int, retryable: bool, said: str) -> None:
    turn = http_error(status, "too long, secret-key-123")
    async with FakeOpenAI([turn]) as server, model_of(server.base_url, api_key="secret-key-123") as model:
        _, error = await fail(model)
    assert said in str(error)
    assert (error.model, error.status, error.retryable) == ("m", status, retryable)
    # The client's own error repeats what the server said.
    assert "secret-key-123" not in "".join(traceback.format_exception(error))


async def test_a_refusal_has_the_error_of_the_client_as_its_cause() -> None:
    turn = http_error(400, "too long")
    async with FakeOpenAI([turn]) as server, model_of(server.base_url, api_key="secret-key-123") as model:
        _, error = await fail(model)
    assert isinstance(error.__cause__, APIStatusError)


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param(http_error(401, "no: secret-key-123"), id="refused"),
        pytest.param(http_error(401, "x" * 995 + "secret-key-123"), id="cut inside the key"),
        pytest.param(error_in_stream("no: secret-key-123"), id="in the stream"),
        pytest.param(raw(["data: " + "x" * 195 + "secret-key-123\n\n"]), id="no JSON"),
    ],
)
async def test_the_key_of_a_client_that_fetches_its_own_is_not_shown(turn: Turn) -> None:
    async def fetch() -> str:
        return "secret-key-123"

    async with FakeOpenAI([turn]) as server, AsyncOpenAI(base_url=server.base_url, api_key=fetch) as client:
        _, error = await fail(OpenAIChatModel("m", client=client))
    assert server.requests[0].headers["authorization"] == "Bearer secret-key-123"
    assert "secre" not in "".join(traceback.format_exception(error))


async def test_a_server_that_is_not_there_is_named() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
    async with model_of(f"http://127.0.0.1:{port}/v1", max_retries=0) as model:
        _, error = await fail(model)
    assert f"openai/m at 127.0.0.1:{port} cannot be reached" in str(error)
    assert (error.status, error.retryable) == (None, True)
    assert error.__cause__ is not None


@pytest.mark.parametrize("wait_after", [0, 1])
async def test_a_call_that_takes_too_long_is_ended(wait_after: int) -> None:
    turn = Turn(deltas=["a", "b"], wait=Gate(), wait_after=wait_after)
    async with FakeOpenAI([turn]) as server, model_of(server.base_url, max_retries=0) as model:
        parts, error = await fail(model, request(timeout=0.3))
        await server.requests[0].ended.wait()
    assert len(parts) == wait_after
    assert "settings.timeout" in str(error)


async def test_a_call_within_its_time_is_whole() -> None:
    async with FakeOpenAI([Turn(deltas=["a", "b"])]) as server, model_of(server.base_url) as model:
        assert (await ask(model, request(timeout=60)))[1].text == "ab"


async def test_leaving_early_closes_the_connection() -> None:
    turn = Turn(deltas=["a", "b"], wait=Gate(), wait_after=1)
    async with FakeOpenAI([turn]) as server, model_of(server.base_url) as model:
        stream = model.stream(request())
        assert await anext(stream) == TextPart("a")
        await stream.aclose()
        await server.requests[0].ended.wait()
        assert server.requests[0].disconnected


@pytest.mark.parametrize("wait_after", [0, 1])
async def test_a_cancel_closes_the_connection(wait_after: int) -> None:
    turn = Turn(deltas=["a", "b"], wait=Gate(), wait_after=wait_after)
    async with FakeOpenAI([turn]) as server, model_of(server.base_url) as model:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, model)
            seen = await server.wait_for_request("m")
            tasks.cancel_scope.cancel()
        await seen.ended.wait()
        assert seen.disconnected


async def test_many_calls_at_once_share_one_client() -> None:
    async with FakeOpenAI([Turn("Hi", repeat=True)]) as server, model_of(server.base_url) as model:
        made: list[AsyncOpenAI] = []
        make = model._make_client

        def counted() -> AsyncOpenAI:
            made.append(make())
            return made[-1]

        model._make_client = counted  # type: ignore[method-assign]  # counts, and makes
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask, model)
        await ask(model)
        assert len(made) == 1
        await model.aclose()
        assert made[0].is_closed()
        await ask(model)
        assert len(made) == 2


async def test_the_client_of_a_model_that_is_gone_is_closed() -> None:
    made: list[AsyncOpenAI] = []
    async with FakeOpenAI([Turn("Hi", repeat=True)]) as server:
        for _ in range(3):
            model = OpenAIChatModel("m", base_url=server.base_url)
            await ask(model)
            made.append(await open_client(model, model._make_client))
            del model
            gc.collect()
        async with model_of(server.base_url) as model:
            await ask(model)
            assert [client.is_closed() for client in made] == [True, True, True]


@pytest.mark.parametrize("backends", [("asyncio", "asyncio"), ("trio", "trio"), ("asyncio", "trio")])
def test_one_model_works_in_one_event_loop_after_the_other(backends: Iterable[str]) -> None:
    with FakeOpenAI([Turn("Hi", repeat=True)]) as server:
        model = OpenAIChatModel("m", base_url=server.base_url)
        for backend in backends:
            # No aclose here: the end of the loop closes what is open, or a ResourceWarning fails this test.
            assert anyio.run(ask, model, backend=backend)[1].text == "Hi"
            gc.collect()


async def test_a_client_that_was_given_is_used_and_stays_open() -> None:
    async with FakeOpenAI(["Hi"]) as server, AsyncOpenAI(base_url=server.base_url, api_key="mine") as client:
        model = OpenAIChatModel("m", client=client)
        assert (await ask(model))[1].text == "Hi"
        await model.aclose()
        assert not client.is_closed()
        assert server.requests[0].headers["authorization"] == "Bearer mine"


async def test_a_closed_client_that_was_given_is_a_model_error() -> None:
    client = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="mine")
    await client.close()
    _, error = await fail(OpenAIChatModel("m", client=client))
    assert "openai/m at 127.0.0.1:9 could not be asked: its client is closed" in str(error)
    assert (error.model, error.retryable) == ("m", False)


async def test_other_providers_learn_nothing_of_an_openai_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer other\nX-Account: mine")
    async with FakeOpenAI(["Hi"]) as server, model_of(server.base_url, provider="vllm") as model:
        await ask(model)
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer none"
    assert not [name for name in headers if name.startswith(("openai-", "x-account"))]


def test_importing_the_model_does_not_import_the_client() -> None:
    code = "import sys, alfine.runtime.models.providers; sys.exit('openai' in sys.modules or 'httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@dataclass
class BareServer:
    """Answers every request with the same bytes, word for word."""

    answer: bytes
    close: bool = False
    connections: int = 0
    port: int = 0
    hold: anyio.Event = field(default_factory=anyio.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, stream: SocketStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while True:
                    got = await stream.receive()
                    while b"\r\n\r\n" not in got:
                        got += await stream.receive()
                    head, _, rest = got.partition(b"\r\n\r\n")
                    length = int(head.lower().partition(b"content-length:")[2].split()[0])
                    while len(rest) < length:
                        rest += await stream.receive()
                    await stream.send(self.answer)
                    if self.close:
                        return
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return


@asynccontextmanager
async def bare_server(answer: bytes, *, close: bool = False) -> AsyncIterator[BareServer]:
    server = BareServer(answer, close)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        server.port = listener.extra(SocketAttribute.local_port)
        tasks.start_soon(listener.serve, server.handle)
        yield server
        tasks.cancel_scope.cancel()


def response(body: bytes, content_type: str = "text/event-stream", end: bytes = b"0\r\n\r\n") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return head + b"%x\r\n%s\r\n" % (len(body), body) + end


HI = b"data: %s\n\n" % json.dumps(frame({"content": "Hi"}, "stop")).encode()
DONE = b"data: [DONE]\n\n"


async def test_a_connection_is_used_again() -> None:
    async with bare_server(response(HI + DONE)) as server, model_of(server.base_url) as model:
        for _ in range(3):
            assert (await ask(model))[1].text == "Hi"
        assert server.connections == 1


async def test_a_connection_that_stays_open_after_the_end_holds_nothing_up() -> None:
    async with bare_server(response(HI + DONE, end=b"")) as server, model_of(server.base_url) as model:
        with anyio.fail_after(20):
            assert (await ask(model))[1].text == "Hi"


async def test_a_connection_cut_after_the_whole_answer_loses_nothing() -> None:
    async with bare_server(response(HI, end=b""), close=True) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "Hi"
        assert server.connections == 1


@pytest.mark.parametrize("indent", [None, 2])
async def test_a_server_that_does_not_stream_is_understood(indent: int | None) -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    answer = response(json.dumps(body, indent=indent).encode(), "application/json; charset=utf-8")
    async with bare_server(answer) as server, model_of(server.base_url) as model:
        parts, reply = await ask(model)
    assert parts[0] == TextPart("Hi")
    assert (reply.tool_calls, reply.usage.input_tokens) == ((ToolCall("c", "f", "{}"),), 3)


@pytest.mark.parametrize("content_type", ["text/plain", "text/event-stream", "application/json"])
@pytest.mark.parametrize("start", [b"", b"\n ", b"\xef\xbb\xbf"], ids=["plain", "blank", "BOM"])
@pytest.mark.parametrize("indent", [None, 1])
async def test_a_whole_completion_is_an_answer_under_any_type(
    content_type: str, start: bytes, indent: int | None
) -> None:
    body = start + json.dumps({"choices": [{"message": {"content": "Hi"}}]}, indent=indent).encode()
    async with bare_server(response(body, content_type)) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "Hi"


async def test_a_whole_completion_in_single_bytes_is_an_answer() -> None:
    body = json.dumps({"choices": [{"message": {"content": "Hi"}}]}, indent=1).encode()
    turn = raw([bytes([b]) for b in b"\xef\xbb\xbf" + body], done=False)
    async with FakeOpenAI([turn]) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "Hi"


async def test_bare_lines_of_json_are_events() -> None:
    lines = b"".join(b"%s\n\n" % json.dumps(frame({"content": text})).encode() for text in ("a", "b"))
    async with bare_server(response(lines)) as server, model_of(server.base_url) as model:
        assert (await ask(model))[0] == [TextPart("a"), TextPart("b")]


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b""], ids=["ended", "open"])
async def test_compression_that_cannot_be_undone_leaves_nothing_open(end: bytes) -> None:
    answer = response(HI + DONE, "text/event-stream\r\ncontent-encoding: gzip", end)
    async with bare_server(answer) as server, model_of(server.base_url, max_retries=0) as model:
        await fail(model)
        # What is left to the collector is a ResourceWarning on trio, which fails this test.
        gc.collect()


async def test_a_compressed_answer_is_read() -> None:
    answer = response(gzip.compress(HI + DONE), "text/event-stream\r\ncontent-encoding: gzip")
    async with bare_server(answer) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "Hi"


async def test_a_stream_under_the_name_of_json_is_understood() -> None:
    async with bare_server(response(HI + DONE, "application/json")) as server, model_of(server.base_url) as model:
        assert (await ask(model))[1].text == "Hi"


async def test_a_web_page_is_no_answer() -> None:
    async with bare_server(response(b"<html></html>", "text/html")) as server, model_of(server.base_url) as model:
        _, error = await fail(model)
        assert "check the base URL" in str(error)
        assert server.connections == 1
