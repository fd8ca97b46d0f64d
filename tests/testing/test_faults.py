"""What goes wrong on the wire, as the real openai client reports it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest

from alfine.testing import (
    FakeOpenAI,
    Turn,
    cut,
    cut_before_head,
    error_in_stream,
    http_error,
    malformed_chunk,
    raw,
    slow,
)

# The openai client leaves its generators unfinished at the end of a stream, which trio reports.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|openai):ResourceWarning")


@asynccontextmanager
async def client_of(server: FakeOpenAI, max_retries: int = 0) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=max_retries) as client:
        yield client


async def collect(client: openai.AsyncOpenAI, seen: list[str]) -> None:
    """Stream one reply into `seen`, so that what came before an error can be looked at."""
    messages: list[Any] = [{"role": "user", "content": "Hi"}]
    async with await client.chat.completions.create(model="m", messages=messages, stream=True) as stream:
        async for chunk in stream:
            seen += [choice.delta.content for choice in chunk.choices if choice.delta.content]


async def whole(client: openai.AsyncOpenAI) -> str | None:
    reply = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    return reply.choices[0].message.content


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (503, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
async def test_an_http_error_is_the_clients_own(status: int, kind: type[openai.APIStatusError]) -> None:
    async with FakeOpenAI([http_error(status, "sorry", code="some_code")]) as server, client_of(server) as client:
        with pytest.raises(kind, match="sorry") as caught:
            await collect(client, [])
    assert (caught.value.status_code, caught.value.code) == (status, "some_code")


async def test_retry_after_tells_the_client_when_to_come_back() -> None:
    turns: list[Turn | str] = [http_error(429, "slow down", retry_after=0.01), "ok"]
    seen: list[str] = []
    async with FakeOpenAI(turns) as server, client_of(server, max_retries=1) as client:
        await collect(client, seen)
    assert seen == ["ok"]
    assert [request.status for request in server.requests] == [429, 200]


async def test_retry_after_is_sent_as_a_header() -> None:
    async with FakeOpenAI([http_error(503, retry_after=2)]) as server, client_of(server) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            await collect(client, [])
    assert caught.value.response.headers["retry-after"] == "2"


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_cut_comes_after_so_many_pieces(after: int) -> None:
    seen: list[str] = []
    async with FakeOpenAI([cut(deltas=["a", "b", "c"], after_deltas=after)]) as server, client_of(server) as client:
        with pytest.raises(openai.APIConnectionError):
            await collect(client, seen)
    assert seen == ["a", "b", "c"][:after]
    assert not server.requests[0].disconnected


async def test_a_cut_before_the_head_is_a_connection_error() -> None:
    async with FakeOpenAI([cut_before_head(), "ok"]) as server, client_of(server) as client:
        with pytest.raises(openai.APIConnectionError):
            await collect(client, [])
        assert await whole(client) == "ok"
    assert [request.status for request in server.requests] == [None, 200]


async def test_a_malformed_chunk_stands_among_good_ones() -> None:
    seen: list[str] = []
    turns = [malformed_chunk(deltas=["a", "b"], after_deltas=1)]
    async with FakeOpenAI(turns) as server, client_of(server) as client:
        with pytest.raises(ValueError, match=r"[Uu]nterminated|JSON|Expecting"):
            await collect(client, seen)
    assert seen == ["a"]


async def test_an_error_object_ends_the_stream() -> None:
    seen: list[str] = []
    turns = [error_in_stream("overloaded", deltas=["a", "b"], after_deltas=1, code="busy")]
    async with FakeOpenAI(turns) as server, client_of(server) as client:
        with pytest.raises(openai.APIError, match="overloaded") as caught:
            await collect(client, seen)
    assert (seen, caught.value.code) == (["a"], "busy")


async def test_a_slow_answer_takes_its_time_between_pieces() -> None:
    seen: list[str] = []
    async with FakeOpenAI([slow(deltas=["a", "b", "c"], seconds=0.02)]) as server, client_of(server) as client:
        begin = time.perf_counter()
        await collect(client, seen)
    assert seen == ["a", "b", "c"]
    assert time.perf_counter() - begin >= 0.04


async def test_a_delay_comes_before_the_answer() -> None:
    async with FakeOpenAI([Turn("a", delay=0.03)]) as server, client_of(server) as client:
        begin = time.perf_counter()
        assert await whole(client) == "a"
    assert time.perf_counter() - begin >= 0.03


async def test_raw_frames_are_sent_as_they_are() -> None:
    chunk = {"id": "x", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    frames: list[Any] = [": a comment\n\n", {"id": "x", "choices": []}, chunk, b'data: {"choices": []}\n\n', ""]
    async with (
        FakeOpenAI([raw(frames), raw(frames, done=False)]) as server,
        httpx2.AsyncClient(base_url=server.base_url) as client,
    ):
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        bodies = [(await client.post("/chat/completions", json=body)).text for _ in range(2)]
    sent = (
        ': a comment\n\ndata: {"id":"x","choices":[]}\n\n'
        'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: {"choices": []}\n\n'
    )
    assert bodies == [sent + "data: [DONE]\n\n", sent]


async def test_lone_surrogates_travel_as_escapes() -> None:
    async with (
        FakeOpenAI(["a\ud800b"]) as server,
        httpx2.AsyncClient(base_url=server.base_url) as client,
    ):
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        assert "a\\ud800b" in (await client.post("/chat/completions", json=body)).text


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        pytest.param(cut("half an answer"), openai.APIConnectionError, id="cut"),
        pytest.param(malformed_chunk("answer"), ValueError, id="malformed"),
    ],
)
async def test_faults_also_break_whole_answers(turn: Turn, kind: type[Exception]) -> None:
    async with FakeOpenAI([turn]) as server, client_of(server) as client:
        with pytest.raises(kind):
            await whole(client)


async def test_the_last_fault_can_repeat() -> None:
    async with FakeOpenAI([http_error(500, repeat=True)]) as server, client_of(server) as client:
        for _ in range(3):
            with pytest.raises(openai.InternalServerError):
                await whole(client)
    assert len(server.requests) == 3
