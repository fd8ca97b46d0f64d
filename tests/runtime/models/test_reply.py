"""Replies come out right from what compatible servers really send."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alfine.runtime.limits import Usage
from alfine.runtime.messages import ToolCall
from alfine.runtime.models import Part, ReasoningPart, Reply, TextPart, ToolCallPart
from alfine.runtime.models.reply import ReplyBuilder, read_usage


def build(frames: Sequence[Mapping[str, Any]], used_ids: Sequence[str] = ()) -> tuple[list[Part], Reply]:
    builder = ReplyBuilder(used_ids, number=3)
    parts: list[Part] = []
    for frame in frames:
        builder.feed(frame, parts)
    parts += builder.end()
    reply = parts.pop()
    assert isinstance(reply, Reply)
    check_parts(parts, reply)
    return parts, reply


def check_parts(parts: list[Part], reply: Reply) -> None:
    """What was streamed adds up to the reply."""
    assert "".join(p.text for p in parts if isinstance(p, TextPart)) == reply.text
    assert "".join(p.text for p in parts if isinstance(p, ReasoningPart)) == reply.reasoning
    assert len({c.id for c in reply.tool_calls}) == len(reply.tool_calls)
    for position, call in enumerate(reply.tool_calls):
        pieces = [p for p in parts if isinstance(p, ToolCallPart) and p.position == position]
        assert {(p.call_id, p.name) for p in pieces} == {(call.id, call.name)}
        assert "".join(p.arguments for p in pieces) == call.arguments


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def piece(
    arguments: Any = None,
    *,
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def calls(*pieces: dict[str, Any]) -> tuple[ToolCall, ...]:
    return build([chunk({"tool_calls": [p]}) for p in pieces])[1].tool_calls


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([chunk({"content": "Hi "}), chunk({"content": "you"}, "stop")], id="plain"),
        pytest.param([{"choices": []}, chunk({"content": "Hi you"})], id="no choices first"),
        pytest.param([{}, {"choices": None}, chunk({"content": "Hi you"})], id="choices missing or null"),
        pytest.param([chunk(None), {"choices": [{}]}, chunk({"content": "Hi you"})], id="delta null or missing"),
        pytest.param([chunk({"content": None, "tool_calls": None}), chunk({"content": "Hi you"})], id="null fields"),
        pytest.param([chunk({"content": [{"type": "text", "text": "Hi "}, {"text": "you"}]})], id="list of parts"),
        pytest.param([{"choices": [{"message": {"content": "Hi you"}, "finish_reason": "stop"}]}], id="message"),
        pytest.param([chunk({"content": "Hi you"}), {"choices": [{"message": {"content": "Hi you"}}]}], id="repeated"),
        pytest.param([chunk({"content": "Hi you"}), {"choices": [{"index": 1, "delta": {"content": "x"}}]}], id="n=2"),
        pytest.param([chunk({"content": "Hi you"}), {"choices": ["x", 1, None]}], id="choices that are none"),
        pytest.param([chunk({"content": "Hi you"}), chunk("x"), chunk({"tool_calls": [None]})], id="odd deltas"),
    ],
)
def test_text_comes_out_of_every_kind_of_chunk(frames: list[dict[str, Any]]) -> None:
    assert build(frames)[1].text == "Hi you"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_apart_from_the_text(field: str) -> None:
    parts, reply = build([chunk({field: "hm"}), chunk({"content": "Hi"})])
    assert parts == [ReasoningPart("hm"), TextPart("Hi")]
    assert (reply.reasoning, reply.text) == ("hm", "Hi")


def test_a_refusal_is_streamed_as_text_and_marked() -> None:
    parts, reply = build([chunk({"refusal": "I "}), chunk({"refusal": "won't"}, "stop")])
    assert parts == [TextPart("I "), TextPart("won't")]
    assert (reply.text, reply.refusal) == ("I won't", True)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("eos", "stop"),
        ("tool_calls", "stop"),
        (None, "stop"),
    ],
)
def test_finish_reasons_of_a_text(sent: str | None, expected: str) -> None:
    assert build([chunk({"content": "Hi"}, sent)])[1].finish_reason == expected


@pytest.mark.parametrize("sent", ["stop", "tool_calls", "function_call", "length", None])
def test_a_reply_with_calls_ends_in_tool_calls_whatever_the_server_says(sent: str | None) -> None:
    delta = {"tool_calls": [piece('{"a":"x', index=0, id="c", name="f")]}
    reply = build([chunk(delta), chunk({}, sent)])[1]
    assert reply.finish_reason == "tool_calls"
    assert reply.tool_calls == (ToolCall("c", "f", '{"a":"x'),)


def test_a_character_cut_between_two_deltas_is_put_together() -> None:
    parts, reply = build([chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk({"content": "c\ud83d"})])
    assert parts == [TextPart("a"), TextPart("😀b"), TextPart("c"), TextPart("\ufffd")]
    assert reply.text == "a😀bc\ufffd"


def test_a_character_cut_inside_arguments_is_put_together() -> None:
    got = calls(piece('{"a":"\ud83d', index=0, id="c", name="f"), piece('\ude00"}', index=0))
    assert got == (ToolCall("c", "f", '{"a":"😀"}'),)


F, G = ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "g", '{"b": 2}')


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param([piece('{"a": 1}', index=0, id="c1", name="f")], [F], id="in one piece"),
        pytest.param(
            [piece("", index=0, id="c1", name="f"), *(piece(c, index=0) for c in F.arguments)], [F], id="byte by byte"
        ),
        pytest.param([piece(c, index=0, id="c1", name="f") for c in F.arguments], [F], id="id and name in each piece"),
        pytest.param([piece(c, id="c1", name="f") for c in F.arguments], [F], id="the same without index"),
        pytest.param([piece(None, id="c1", name="f"), *(piece(c) for c in F.arguments)], [F], id="no index"),
        pytest.param([piece({"a": 1}, index=0, id="c1", name="f")], [ToolCall("c1", "f", '{"a":1}')], id="an object"),
        pytest.param([piece(None, index=0, id="c1", name="f")], [ToolCall("c1", "f", "{}")], id="no arguments"),
        pytest.param(
            [piece(None, index=0, id="c1"), piece('{"a"', index=0), piece(": 1}", index=0, name="f")],
            [F],
            id="late name",
        ),
        pytest.param(
            [piece('{"a": 1}', index=0, id="c1", name="f"), piece('{"b": 2}', index=0, id="c2", name="g")],
            [F, G],
            id="two ids on one index",
        ),
        pytest.param(
            [
                piece('{"a"', index=0, id="c1", name="f"),
                piece('{"b"', index=1, id="c2", name="g"),
                piece(": 1}", index=0),
                piece(": 2}", index=1),
            ],
            [F, G],
            id="interleaved by index",
        ),
        pytest.param(
            [piece('{"a"', id="c1", name="f"), piece('{"b"', id="c2", name="g"), piece(": 1}", id="c1")]
            + [piece(": 2}", id="c2")],
            [F, G],
            id="interleaved by id",
        ),
        pytest.param(
            [piece("", id="c1", name="f"), piece(F.arguments), piece("", id="c2", name="g"), piece(G.arguments)],
            [F, G],
            id="one after the other without index",
        ),
        pytest.param(
            [piece('{"a"', index=0, id="c1", name="f"), piece(": 1}", index=0, id="other")], [F], id="an id per piece"
        ),
        pytest.param(
            [piece('{"a"', index=0, id="c1", name="f"), piece(": 1}")], [F], id="index only in the first piece"
        ),
        pytest.param([piece('{"a"', id="c1", name="f"), piece(": 1}", index=0)], [F], id="index only later"),
        pytest.param(
            [
                {**piece('{"a"', id="c1", name="f"), "index": "0"},
                {**piece('{"b"', id="c2", name="g"), "index": 1.0},
                {**piece(": 1}"), "index": "0"},
                {**piece(": 2}"), "index": "1"},
            ],
            [F, G],
            id="index as a text or a float",
        ),
        pytest.param(
            [piece("", index=0, id="c1", name="f")]
            + [piece(c, index=n, id="c1") for n, c in enumerate(F.arguments, 1)]
            + [piece("", index=20, id="c2", name="g")]
            + [piece(c, index=n, id="c2") for n, c in enumerate(G.arguments, 21)],
            [F, G],
            id="an index per piece, with the id",
        ),
        pytest.param(
            [piece(c, index=n, id="c1", name="f") for n, c in enumerate(F.arguments)],
            [F],
            id="an index per piece, with id and name",
        ),
        pytest.param(
            [piece("", index=0, id="c1", name="f"), *(piece(c, index=n) for n, c in enumerate(F.arguments, 1))],
            [F],
            id="an index per piece, without the id",
        ),
    ],
)
def test_calls_come_out_of_every_way_to_send_them(pieces: list[dict[str, Any]], expected: list[ToolCall]) -> None:
    assert list(calls(*pieces)) == expected


def test_the_old_function_call_is_a_call() -> None:
    frames = [
        chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ":1}"}}),
    ]
    (call,) = build([*frames, chunk({}, "function_call")])[1].tool_calls
    assert (call.name, call.arguments) == ("f", '{"a":1}')


@pytest.mark.parametrize("index", [0, None])
def test_whole_calls_without_ids_are_told_apart(index: int | None) -> None:
    got = calls(piece('{"a":1}', index=index, name="f"), piece('{"a":2}', index=index, name="f"))
    assert [(c.name, c.arguments) for c in got] == [("f", '{"a":1}'), ("f", '{"a":2}')]


@pytest.mark.parametrize("index", [0, None])
def test_calls_of_one_tool_in_single_bytes_without_ids_are_told_apart(index: int | None) -> None:
    sent = [
        [piece("", index=index, name="f"), *(piece(c, index=index) for c in text)] for text in ('{"x":1}', '{"x":2}')
    ]
    assert [(c.name, c.arguments) for c in calls(*sent[0], *sent[1])] == [("f", '{"x":1}'), ("f", '{"x":2}')]


@pytest.mark.parametrize("index", [0, None])
def test_a_name_on_each_piece_without_an_id_makes_one_call(index: int | None) -> None:
    text = '{"x":{"y":{}}}'
    assert [c.arguments for c in calls(*(piece(c, index=index, name="f") for c in text))] == [text]


def test_a_missing_id_is_made_up_the_same_way_each_time() -> None:
    pieces = [piece("{}", index=0, name="f"), piece("{}", index=1, name="g")]
    assert [c.id for c in calls(*pieces)] == [c.id for c in calls(*pieces)] == ["call_0_3", "call_1_3"]


@pytest.mark.parametrize("indexes", [(0, 1), (None, None)])
def test_one_id_for_two_calls_is_made_unique(indexes: tuple[int | None, int | None]) -> None:
    first, second = calls(*(piece("{}", index=i, id="same", name="f") for i in indexes))
    assert (first.id, second.id) == ("same", "same_2")


def test_an_id_of_the_history_is_not_used_again() -> None:
    frame = chunk({"tool_calls": [piece("{}", index=0, id="c1", name="f"), piece("{}", index=1, name="g")]})
    reply = build([frame], used_ids=["c1", "c1_2", "call_1_3"])[1]
    assert [c.id for c in reply.tool_calls] == ["c1_3", "call_1_3_2"]


@given(
    st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=6), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_interleaving_by_index_gives_the_same_calls(arguments: list[list[str]], rng: random.Random) -> None:
    queues = [
        [piece("", index=i, id=f"c{i}", name="f"), *(piece(a, index=i) for a in own)] for i, own in enumerate(arguments)
    ]
    # Calls begin in the order of their indexes; after that, any order.
    pieces = [queue.pop(0) for queue in queues]
    while left := [queue for queue in queues if queue]:
        pieces.append(rng.choice(left).pop(0))
    expected = [("".join(own) if "".join(own).strip() else "".join(own) + "{}") for own in arguments]
    assert [c.arguments for c in calls(*pieces)] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, Usage()),
        ({"prompt_tokens": None, "completion_tokens": "x", "prompt_tokens_details": None}, Usage()),
        ({"prompt_tokens": 9, "completion_tokens": 4}, Usage(input_tokens=9, output_tokens=4)),
        ({"input_tokens": 9, "output_tokens": 4}, Usage(input_tokens=9, output_tokens=4)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input_tokens=9, output_tokens=4, cached_tokens=8, reasoning_tokens=3),
        ),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}, Usage(input_tokens=9, cached_tokens=5)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 50}, Usage(input_tokens=9, cached_tokens=9)),
    ],
)
def test_usage_is_read_in_every_spelling(data: dict[str, Any], expected: Usage) -> None:
    assert read_usage(data) == expected


def test_usage_on_every_chunk_counts_once_the_last() -> None:
    frames = [chunk({"content": "a"}, usage={"completion_tokens": n}) for n in (1, 2)]
    frames += [{"choices": [], "usage": {"completion_tokens": 3}}, chunk({}, usage=None)]
    assert build(frames)[1].usage.output_tokens == 3
