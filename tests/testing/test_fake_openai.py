"""A local model server, called through the real openai client."""

import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from alfine.runtime.errors import ConfigError, ModelError
from alfine.runtime.limits import Usage
from alfine.testing import FakeOpenAI, Gate, HttpRequest, Turn, call

# The openai client leaves its generators unfinished at the end of a stream, which trio reports.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|openai):ResourceWarning")

USER: list[Any] = [{"role": "user", "content": "Hi"}]


@asynccontextmanager
async def client_of(server: FakeOpenAI) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="secret", max_retries=0) as client:
        yield client


async def chunks(client: openai.AsyncOpenAI, model: str = "m", **more: Any) -> list[ChatCompletionChunk]:
    async with await client.chat.completions.create(model=model, messages=USER, stream=True, **more) as stream:
        return [chunk async for chunk in stream]


def text_of(received: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in received for choice in chunk.choices)


async def test_a_reply_is_streamed_in_the_shape_of_chat_completions() -> None:
    turn = Turn(deltas=["Hel", "", "lo"], usage=Usage(input_tokens=8, output_tokens=2, cached_tokens=4))
    async with FakeOpenAI({"m": [turn]}) as server, client_of(server) as client:
        received = await chunks(client, stream_options={"include_usage": True})
    *spoken, last, usage = received
    assert [chunk.choices[0].delta.content for chunk in spoken] == ["", "Hel", "", "lo"]
    assert spoken[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in (*spoken, last)] == [None] * 4 + ["stop"]
    assert {(chunk.object, chunk.model, chunk.id) for chunk in received} == {
        ("chat.completion.chunk", "m", "chatcmpl-1")
    }
    assert usage.choices == []
    assert usage.usage is not None
    assert (usage.usage.prompt_tokens, usage.usage.completion_tokens, usage.usage.total_tokens) == (8, 2, 10)
    assert usage.usage.prompt_tokens_details is not None
    assert usage.usage.prompt_tokens_details.cached_tokens == 4


async def test_usage_is_sent_only_when_asked_for_and_known() -> None:
    async with FakeOpenAI({"m": ["a", Turn("b", usage=None)]}) as server, client_of(server) as client:
        assert all(chunk.usage is None for chunk in await chunks(client))
        assert all(chunk.usage is None for chunk in await chunks(client, stream_options={"include_usage": True}))


async def test_tool_calls_reasoning_and_text_are_streamed() -> None:
    calls = [call("add", {"a": 1, "b": "a longer value"}), call("sub", "{", id="mine")]
    turn = Turn("Look", reasoning="hm", tool_calls=calls)
    async with FakeOpenAI([turn]) as server, client_of(server) as client:
        received = await chunks(client)
    deltas = [chunk.choices[0].delta for chunk in received]
    pieces = [piece for delta in deltas for piece in delta.tool_calls or []]
    arguments = ["".join(p.function.arguments or "" for p in pieces if p.index == i and p.function) for i in (0, 1)]
    assert arguments == ['{"a": 1, "b": "a longer value"}', "{"]
    begun = [(p.index, p.id, p.type, p.function and p.function.name) for p in pieces if p.id]
    assert begun == [(0, "call_1", "function", "add"), (1, "mine", "function", "sub")]
    assert [delta.model_extra for delta in deltas if delta.model_extra] == [{"reasoning_content": "hm"}]
    assert (text_of(received), received[-1].choices[0].finish_reason) == ("Look", "tool_calls")


async def test_a_refusal_is_streamed_as_one() -> None:
    async with FakeOpenAI([Turn("I will not.", refusal=True)]) as server, client_of(server) as client:
        received = await chunks(client)
    assert "".join(chunk.choices[0].delta.refusal or "" for chunk in received) == "I will not."
    assert text_of(received) == ""


async def test_a_whole_answer_comes_as_one_object() -> None:
    turns = [Turn("Hello", reasoning="hm", tool_calls=[call("f", {"a": 1})]), Turn("No.", refusal=True)]
    async with FakeOpenAI(turns) as server, client_of(server) as client:
        first, second = [await client.chat.completions.create(model="m", messages=USER) for _ in turns]
    message = first.choices[0].message
    assert (message.content, message.refusal, first.choices[0].finish_reason) == ("Hello", None, "tool_calls")
    assert message.tool_calls is not None
    assert message.tool_calls[0].model_dump()["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert first.usage is not None
    assert first.usage.total_tokens == 15
    assert (second.choices[0].message.content, second.choices[0].message.refusal) == (None, "No.")


async def test_a_wait_inside_the_answer_holds_back_a_whole_answer() -> None:
    wait = Gate()
    async with FakeOpenAI({"m": [Turn("ab", wait=wait, wait_after=1)]}) as server, client_of(server) as client:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(client.chat.completions.create, model="m", messages=USER))
                request = await server.wait_for_request("m")
                assert not request.ended.is_open
                wait.open()
            await request.ended.wait()
    assert not request.disconnected


async def test_each_model_has_its_script_and_its_count() -> None:
    async with FakeOpenAI({"a": ["a1", "a2"], "b": ["b1"]}) as server, client_of(server) as client:
        answers = [text_of(await chunks(client, model)) for model in ("a", "b", "a")]
        assert [model.id async for model in client.models.list()] == ["a", "b"]
    assert answers == ["a1", "b1", "a2"]
    assert [(request.model, request.n) for request in server.requests] == [("a", 1), ("b", 1), ("a", 2)]
    assert [request.n for request in server.calls("a")] == [1, 2]


async def test_one_script_answers_all_models_in_order() -> None:
    async with FakeOpenAI(["one", "two"]) as server, client_of(server) as client:
        assert [text_of(await chunks(client, model)) for model in ("a", "b")] == ["one", "two"]


async def test_a_request_is_kept_with_all_that_was_sent() -> None:
    history = [
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": [{"type": "text", "text": "add"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    ]
    tools: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    async with FakeOpenAI(["ok"]) as server, client_of(server) as client:
        messages: list[Any] = history
        await client.chat.completions.create(model="m", messages=messages, tools=tools, temperature=0)
    (request,) = server.requests
    assert request.body["temperature"] == 0
    assert request.headers["authorization"] == "Bearer secret"
    assert (request.instructions, request.texts, request.tool_names) == ("Be kind", ["add", "", "2"], ["add"])
    assert all(shown in request.text for shown in ("Be kind", "add", '{"a": 1}', "2"))
    assert (request.status, request.disconnected, request.ended.is_open) == (200, False, True)


async def test_a_function_answers_by_what_it_sees() -> None:
    def echo(request: HttpRequest) -> str:
        return f"{request.n}: {request.texts[-1]}"

    async def echo_later(request: HttpRequest) -> Turn:
        await anyio.lowlevel.checkpoint()
        return Turn(echo(request))

    async with FakeOpenAI({"now": echo, "later": echo_later}) as server, client_of(server) as client:
        assert [text_of(await chunks(client, model)) for model in ("now", "later")] == ["1: Hi", "1: Hi"]


async def test_a_function_that_raises_is_a_400_and_fails_the_test() -> None:
    def check(request: HttpRequest) -> str:
        raise AssertionError(f"unwanted: {request.texts}")

    async def run() -> None:
        async with FakeOpenAI(check) as server, client_of(server) as client:
            with pytest.raises(openai.BadRequestError, match="unwanted"):
                await chunks(client)

    with pytest.raises(AssertionError, match="unwanted"):
        await run()


async def test_an_error_of_the_block_is_not_hidden_by_one_of_the_script() -> None:
    def check(request: HttpRequest) -> str:
        raise AssertionError("in the script")

    async def run() -> None:
        async with FakeOpenAI(check) as server, client_of(server) as client:
            await chunks(client)

    with pytest.raises(openai.BadRequestError):
        await run()


@pytest.mark.parametrize(
    ("error", "status"),
    [(ModelError("busy", status=503), 503), (ModelError("no idea"), 500), (OSError("no route"), 500)],
)
async def test_an_error_of_a_turn_is_an_http_error(error: Exception, status: int) -> None:
    async with FakeOpenAI([Turn(error=error)]) as server, client_of(server) as client:
        with pytest.raises(openai.APIStatusError, match=str(error)) as caught:
            await chunks(client)
    assert (caught.value.status_code, server.requests[0].status) == (status, status)


async def test_an_error_after_output_is_an_error_in_the_stream() -> None:
    async with FakeOpenAI([Turn("half", error=OSError("no route"))]) as server, client_of(server) as client:
        with pytest.raises(openai.APIError, match="no route"):
            await chunks(client)


async def test_a_script_that_is_used_up_is_a_400() -> None:
    async with FakeOpenAI({"m": []}) as server, client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match="script exhausted: request 1 to 'm'"):
            await chunks(client)


async def test_an_unknown_model_is_a_404() -> None:
    async with FakeOpenAI({"m": ["x"]}) as server, client_of(server) as client:
        with pytest.raises(openai.NotFoundError, match="no model 'other'"):
            await chunks(client, "other")


async def test_an_unknown_path_is_a_404() -> None:
    async with FakeOpenAI({}) as server, client_of(server) as client:
        with pytest.raises(openai.NotFoundError, match="/v1/embeddings"):
            await client.embeddings.create(model="m", input="x")


async def test_a_wait_holds_the_answer_back_and_a_request_can_be_waited_for() -> None:
    started, wait = Gate(), Gate()
    answers: list[str] = []
    turns = [Turn("late", started=started, wait=wait)]
    async with FakeOpenAI({"m": turns}) as server, client_of(server) as client:

        async def talk() -> None:
            answers.append(text_of(await chunks(client)))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(talk)
                request = await server.wait_for_request("m")
                await started.wait()
                assert (request.status, answers) == (None, [])
                wait.open()
    assert answers == ["late"]


async def test_a_wait_inside_the_answer_lets_the_first_pieces_through() -> None:
    wait = Gate()
    turns = [Turn(deltas=["a", "b"], wait=wait, wait_after=1)]
    async with FakeOpenAI(turns) as server, client_of(server) as client:
        seen = ""
        with anyio.fail_after(5):
            async with await client.chat.completions.create(model="m", messages=USER, stream=True) as stream:
                async for chunk in stream:
                    seen += chunk.choices[0].delta.content or ""
                    if seen == "a":
                        assert not server.requests[0].ended.is_open
                        wait.open()
            await server.requests[0].ended.wait()
    assert (seen, server.requests[0].disconnected) == ("ab", False)


@pytest.mark.parametrize("wait_after", [0, 1], ids=["before the head", "inside the stream"])
async def test_a_client_that_goes_away_is_noticed(wait_after: int) -> None:
    turns = [Turn("never said", wait=Gate(), wait_after=wait_after)]
    async with FakeOpenAI({"m": turns}) as server, client_of(server) as client:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(chunks, client)
                request = await server.wait_for_request("m")
                tasks.cancel_scope.cancel()
            await request.ended.wait()
    assert request.disconnected


async def test_leaving_while_a_request_waits_ends_at_once() -> None:
    server = FakeOpenAI({"m": [Turn(wait=Gate())]})
    noticed = anyio.Event()

    async def talk(client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.APIConnectionError):
            await chunks(client)
        noticed.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
            async with server:
                client = await stack.enter_async_context(client_of(server))
                tasks.start_soon(talk, client)
                request = await server.wait_for_request("m")
            assert (request.ended.is_open, request.disconnected) == (True, False)
            await noticed.wait()


async def test_many_deltas_arrive_and_so_does_a_large_answer() -> None:
    turns = [Turn(deltas=["x"] * 10_000), Turn("word " * 400_000)]
    body = {"model": "m", "stream": True, "messages": USER}
    async with FakeOpenAI(turns) as server, httpx2.AsyncClient(base_url=server.base_url) as client:
        with anyio.fail_after(30):
            many, large = [(await client.post("/chat/completions", json=body)).text for _ in turns]
    assert many.count('"delta":{"content":"x"}') == 10_000
    assert large.count("word ") == 400_000


async def test_many_clients_are_served_at_once() -> None:
    answers: list[str] = []
    async with FakeOpenAI(lambda request: f"{request.model}") as server, client_of(server) as client:

        async def talk(model: str) -> None:
            answers.append(text_of(await chunks(client, model)))

        async with anyio.create_task_group() as tasks:
            for i in range(30):
                tasks.start_soon(talk, f"m{i}")
    assert sorted(answers) == sorted(f"m{i}" for i in range(30))


def test_it_runs_without_an_event_loop_and_leaves_no_thread() -> None:
    with FakeOpenAI(["Hello"]) as server, openai.OpenAI(base_url=server.base_url, api_key="none") as client:
        reply = client.chat.completions.create(model="m", messages=USER)
        assert reply.choices[0].message.content == "Hello"
        assert "FakeOpenAI" in [thread.name for thread in threading.enumerate()]
    assert "FakeOpenAI" not in [thread.name for thread in threading.enumerate()]


def test_a_server_that_does_not_run_has_no_address() -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        FakeOpenAI([]).base_url  # noqa: B018


def test_a_server_cannot_be_entered_twice_at_once() -> None:
    with FakeOpenAI([]) as server, pytest.raises(RuntimeError, match="runs already"):
        server.__enter__()


def test_a_text_is_not_a_script() -> None:
    with pytest.raises(ConfigError, match="script"):
        FakeOpenAI("hello")
