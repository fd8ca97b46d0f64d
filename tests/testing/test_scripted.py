"""A model that answers from a script."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from alfine.runtime.errors import ConfigError, ModelError
from alfine.runtime.limits import Usage
from alfine.runtime.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from alfine.runtime.models import (
    Model,
    ModelRequest,
    ModelSettings,
    Part,
    ReasoningPart,
    Reply,
    TextPart,
    ToolCallPart,
    ToolDefinition,
)
from alfine.testing import (
    Gate,
    ScriptedModel,
    SeenRequest,
    Turn,
    call,
    cut,
    cut_before_head,
    error_in_stream,
    http_error,
    malformed_chunk,
    raw,
)


def request(*texts: str) -> ModelRequest:
    return ModelRequest([UserMessage(text) for text in texts or ("Hi",)])


async def ask(model: Model, *texts: str) -> tuple[list[Part], Reply]:
    *parts, reply = [part async for part in model.stream(request(*texts))]
    assert isinstance(reply, Reply)
    return parts, reply


async def collect(model: Model, seen: list[Part]) -> None:
    async for part in model.stream(request()):
        seen.append(part)


def texts_of(parts: list[Part]) -> list[str]:
    return [part.text for part in parts if isinstance(part, TextPart)]


async def test_turns_are_given_in_order_and_the_requests_are_kept() -> None:
    model = ScriptedModel(["one", Turn("two")])
    assert isinstance(model, Model)
    assert [(await ask(model, "a"))[1].text, (await ask(model, "a", "b"))[1].text] == ["one", "two"]
    assert [(seen.n, seen.texts) for seen in model.requests] == [(1, ["a"]), (2, ["a", "b"])]


async def test_a_text_comes_in_pieces_and_deltas_come_as_they_are() -> None:
    model = ScriptedModel(["a few words", Turn(deltas=["x", "", "yz"])])
    parts, reply = await ask(model)
    assert (texts_of(parts), reply.text) == (["a ", "few ", "words"], "a few words")
    parts, reply = await ask(model)
    assert (texts_of(parts), reply.text) == (["x", "", "yz"], "xyz")


async def test_reasoning_text_calls_and_usage_arrive() -> None:
    usage = Usage(input_tokens=7, output_tokens=3, cached_tokens=2)
    turn = Turn("Look", reasoning="hm", tool_calls=[call("f", {"a": "a longer value"}), call("g", "{")], usage=usage)
    parts, reply = await ask(ScriptedModel([turn]))
    assert parts[:2] == [ReasoningPart("hm"), TextPart("Look")]
    pieces = [part for part in parts if isinstance(part, ToolCallPart)]
    assert "".join(p.arguments for p in pieces if p.position == 0) == '{"a": "a longer value"}'
    assert {(p.position, p.call_id, p.name) for p in pieces} == {(0, "call_1", "f"), (1, "call_2", "g")}
    assert reply.tool_calls == (ToolCall("call_1", "f", '{"a": "a longer value"}'), ToolCall("call_2", "g", "{"))
    assert (reply.finish_reason, reply.reasoning, reply.usage) == ("tool_calls", "hm", usage)


async def test_call_ids_stay_unique_from_turn_to_turn_and_given_ids_are_kept() -> None:
    model = ScriptedModel([Turn(tool_calls=[call("f"), call("f", id="mine")]), Turn(tool_calls=[call("f")])])
    ids = [wanted.id for _ in range(2) for wanted in (await ask(model))[1].tool_calls]
    assert ids == ["call_1", "mine", "call_2"]


async def test_a_refusal_and_a_finish_reason_are_passed_on() -> None:
    model = ScriptedModel([Turn("No.", refusal=True), Turn("cut o", finish_reason="length", usage=None)])
    refused = (await ask(model))[1]
    assert (refused.refusal, refused.text, refused.finish_reason) == (True, "No.", "stop")
    cut_off = (await ask(model))[1]
    assert (cut_off.refusal, cut_off.finish_reason, cut_off.usage) == (False, "length", Usage())


async def test_a_script_that_is_used_up_is_a_clear_error() -> None:
    model = ScriptedModel(["only"], name="m")
    await ask(model)
    with pytest.raises(ModelError, match=r"script exhausted: request 2 to 'm'") as caught:
        await ask(model)
    assert (caught.value.status, caught.value.retryable) == (400, False)


async def test_a_last_turn_with_repeat_never_ends() -> None:
    model = ScriptedModel(["first", Turn("again", repeat=True)])
    assert [(await ask(model))[1].text for _ in range(4)] == ["first", "again", "again", "again"]


async def test_a_function_answers_by_what_it_sees() -> None:
    def echo(seen: SeenRequest) -> str:
        return f"{seen.n}: {seen.texts[-1]}"

    async def echo_later(seen: SeenRequest) -> Turn:
        await anyio.lowlevel.checkpoint()
        return Turn(echo(seen))

    for script in (echo, echo_later):
        model = ScriptedModel(script)
        assert [(await ask(model, text))[1].text for text in "ab"] == ["1: a", "2: b"]


async def test_an_error_is_raised_as_it_is_after_what_the_turn_says() -> None:
    error = OSError("no route")
    seen: list[Part] = []
    with pytest.raises(OSError, match="no route") as caught:
        await collect(ScriptedModel([Turn(deltas=["a", "b"], error=error)]), seen)
    assert caught.value is error
    assert texts_of(seen) == ["a", "b"]


@pytest.mark.parametrize(
    ("turn", "streamed", "status", "retryable"),
    [
        pytest.param(http_error(503, "busy"), "", 503, True, id="a server error"),
        pytest.param(http_error(401, "who?"), "", 401, False, id="a refused key"),
        pytest.param(cut(deltas=["a", "b"], after_deltas=1), "a", None, True, id="cut"),
        pytest.param(cut_before_head(), "", None, True, id="cut before the head"),
        pytest.param(error_in_stream("bad", deltas=["a", "b"], after_deltas=2), "ab", None, True, id="error inside"),
        pytest.param(malformed_chunk("a b", after_deltas=1), "a ", None, False, id="malformed"),
    ],
)
async def test_faults_become_model_errors(turn: Turn, streamed: str, status: int | None, retryable: bool) -> None:
    seen: list[Part] = []
    with pytest.raises(ModelError) as caught:
        await collect(ScriptedModel([turn], name="m"), seen)
    assert "".join(texts_of(seen)) == streamed
    assert (caught.value.model, caught.value.status, caught.value.retryable) == ("m", status, retryable)


async def test_raw_frames_need_a_wire() -> None:
    with pytest.raises(ConfigError, match="FakeOpenAI"):
        await ask(ScriptedModel([raw([])]))


async def test_a_request_is_a_snapshot() -> None:
    model = ScriptedModel(["ok"])
    history: list[Message] = [
        UserMessage("add"),
        AssistantMessage("", (ToolCall("c1", "add", '{"a": 1}'),)),
        ToolMessage("c1", "add", "2"),
    ]
    tool = ToolDefinition("add", "Adds", {"type": "object"})
    settings = ModelSettings(temperature=0)
    async for _ in model.stream(ModelRequest(history, "Be kind", [tool], settings)):
        history.append(UserMessage("later"))
    (seen,) = model.requests
    assert seen.texts == ["add", "", "2"]
    assert (seen.instructions, seen.tool_names, seen.settings) == ("Be kind", ["add"], settings)
    assert all(shown in seen.text for shown in ("Be kind", '{"a": 1}', "2"))


async def test_a_gate_holds_the_answer_back() -> None:
    started, wait = Gate(), Gate()
    model = ScriptedModel([Turn("late", started=started, wait=wait)])
    replies: list[str] = []

    async def talk() -> None:
        replies.append((await ask(model))[1].text)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk)
            await started.wait()
            await anyio.wait_all_tasks_blocked()
            assert replies == []
            wait.open()
    assert replies == ["late"]


@pytest.mark.parametrize(("after", "before_the_wait"), [(1, "a"), (2, "ab"), (9, "abc")])
async def test_a_wait_inside_the_answer_comes_after_so_many_pieces(after: int, before_the_wait: str) -> None:
    wait = Gate()
    model = ScriptedModel([Turn(deltas=["a", "b", "c"], wait=wait, wait_after=after)])
    seen: list[Part] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, model, seen)
            await anyio.wait_all_tasks_blocked()
            assert "".join(texts_of(seen)) == before_the_wait
            wait.open()
    assert "".join(texts_of(seen)) == "abc"


async def test_a_cancelled_request_is_marked() -> None:
    model = ScriptedModel([Turn("never", wait=Gate())])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, model)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    (seen,) = model.requests
    assert (seen.ended.is_open, seen.disconnected) == (True, True)


async def test_an_early_close_is_marked_and_a_whole_reply_is_not() -> None:
    model = ScriptedModel(["a b c", "a b c"])
    early: AsyncGenerator[Part, None] = model.stream(request())
    await anext(early)
    await early.aclose()
    await ask(model)
    assert [(seen.ended.is_open, seen.disconnected) for seen in model.requests] == [(True, True), (True, False)]
