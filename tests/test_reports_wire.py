"""Reported faults in what model servers write and refuse, each with its whole kind, through the real client.

The ids are those of the list that the reports come from; `test_reports` has the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from servers import chat
from teams import asks, hand, model_of, story_of

from alfine import (
    Agent,
    DelegationPolicy,
    DelegationStart,
    StartDecision,
    ToolMessage,
    tool,
)
from alfine.runtime.events import (
    TextDelta,
    ToolCalled,
    ToolReturned,
)
from alfine.testing import FakeOpenAI, Turn, call, http_error, raw

Script = dict[str, list[Turn | str]]


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


# P25, P27, P29, P31, P35: what servers put on the wire, through the real client.


def piece(index: Any = 0, id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    """A piece of a tool call, with the fields that are given."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return {"index": index, "type": "function", "function": function, **({} if id is None else {"id": id})}


def calls(*pieces: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": list(pieces)}, "finish_reason": finish}]}


def says_text(text: str | None, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def ends(reason: str | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


X, Y = '{"q": "x"}', '{"q": "y"}'
NO_INDEX = {k: v for k, v in piece(None, "a", "lookup", X).items() if k != "index"}

CALLS_ON_THE_WIRE = [
    pytest.param([calls(piece(None, "a", "lookup", X)), ends("tool_calls")], ["x"], id="P25 index null"),
    pytest.param([calls(NO_INDEX), ends("tool_calls")], ["x"], id="P25 no index"),
    pytest.param([calls(piece("0", "a", "lookup", X)), ends("tool_calls")], ["x"], id="P25 index as a text"),
    pytest.param([calls(piece(3, "a", "lookup", X)), ends("tool_calls")], ["x"], id="P25 index begins at 3"),
    pytest.param(
        [calls(piece(None, "a", "lookup", '{"q":')), calls(piece(None, None, None, ' "x"}')), ends("tool_calls")],
        ["x"],
        id="P25 index null, in pieces",
    ),
    pytest.param(
        [calls(piece(None, "a", "lookup", X)), calls(piece(None, "b", "lookup", Y)), ends("tool_calls")],
        ["x", "y"],
        id="P25 index null, two calls",
    ),
    pytest.param(
        [calls(piece(0, "a", "lookup", X)), calls(piece(0, "b", "lookup", Y)), ends("tool_calls")],
        ["x", "y"],
        id="P27 two ids on index 0",
    ),
    pytest.param(
        [calls(piece(0, "a", "lookup", X), piece(0, "b", "lookup", Y)), ends("tool_calls")],
        ["x", "y"],
        id="P27 two ids on index 0 in one frame",
    ),
    pytest.param(
        [calls(piece(0, "a", "lookup", X)), calls(piece(1, "a", "lookup", Y)), ends("tool_calls")],
        ["x", "y"],
        id="P27 one id on two indexes",
    ),
    pytest.param(
        [calls(piece(0, None, "lookup", X)), calls(piece(1, None, "lookup", Y)), ends("tool_calls")],
        ["x", "y"],
        id="P27 no ids",
    ),
    pytest.param(
        [
            calls(piece(0, "a", "lookup", '{"q"')),
            calls(piece(1, "b", "lookup", '{"q"')),
            calls(piece(0, None, None, ': "x"}')),
            calls(piece(1, None, None, ': "y"}')),
            ends("tool_calls"),
        ],
        ["x", "y"],
        id="P27 interleaved",
    ),
    pytest.param([calls(piece(0, "a", "lookup", X)), ends("stop")], ["x"], id="P35 ends with stop"),
    pytest.param([calls(piece(0, "a", "lookup", X), finish="stop")], ["x"], id="P35 stop in the same frame"),
    pytest.param([calls(piece(0, "a", "lookup", X)), ends(None)], ["x"], id="P35 ends with null"),
    pytest.param([calls(piece(0, "a", "lookup", X)), ends("function_call")], ["x"], id="P35 ends with another word"),
    pytest.param([says_text("Looking"), calls(piece(0, "a", "lookup", X)), ends("stop")], ["x"], id="P35 after text"),
]


@pytest.mark.parametrize(("frames", "looked_up"), CALLS_ON_THE_WIRE)
async def test_tool_calls_are_run_however_the_server_writes_them(
    frames: Sequence[dict[str, Any]], looked_up: list[str]
) -> None:
    async with FakeOpenAI([raw(frames), "the end"], strict=True) as server, chat(server) as model:
        story = await story_of(Agent("a", model=model, tools=[lookup]))
    assert story.result.text == "the end"
    assert [e.text for e in story.all(ToolReturned)] == [f"found {q}" for q in looked_up]
    assert len({e.call_id for e in story.all(ToolCalled)}) == len(looked_up)


EMPTY = [
    pytest.param({"choices": []}, id="P29 no choices"),
    pytest.param({"choices": None}, id="P29 choices null"),
    pytest.param({"id": "x", "object": "chat.completion.chunk"}, id="P29 no choices field"),
    pytest.param({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}, id="P29 filter results"),
    pytest.param({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}, id="P29 usage"),
    pytest.param({"choices": [{"index": 0, "delta": None}]}, id="P29 delta null"),
    pytest.param({"choices": [{"index": 0}]}, id="P29 no delta"),
    pytest.param({"choices": [{"index": 0, "delta": {"content": None, "role": "assistant"}}]}, id="P29 content null"),
    pytest.param({"choices": [{"index": 0, "delta": {"content": ""}}]}, id="P29 content empty"),
    pytest.param({"choices": [None]}, id="P29 choice null"),
    pytest.param(": a comment\n\n", id="P29 comment"),
    pytest.param("\n\n\n", id="P29 blank lines"),
]


@pytest.mark.parametrize("empty", EMPTY)
async def test_a_chunk_that_says_nothing_changes_nothing_wherever_it_stands(empty: Any) -> None:
    frames = [says_text("Hel"), says_text("lo"), ends("stop")]
    script = [raw([*frames[:place], empty, *frames[place:]]) for place in range(4)]
    async with FakeOpenAI(script) as server, chat(server) as model:
        for _ in script:
            story = await story_of(Agent("a", model=model))
            assert (story.result.outcome, story.result.text) == ("complete", "Hello")
            assert [e.text for e in story.all(TextDelta)] == ["Hel", "lo"]


CUT_ARGUMENTS = [
    '{"q":"x',
    '{"q":',
    "{",
    '{"q": "x"',
    '"x',
    "[1",
    '{"q": "x"}}',
    '{"q": "x"} {"q": "y"}',
    "x",
    '{"q": tru',
]


@pytest.mark.parametrize("arguments", CUT_ARGUMENTS, ids=lambda text: f"P31 {text}")
async def test_a_cut_call_is_not_run_and_the_model_is_told(arguments: str) -> None:
    ran: list[str] = []

    @tool
    def note(q: str) -> str:
        """Note something."""
        ran.append(q)
        return ""

    for finish in ("tool_calls", "stop", "length"):
        frames = [calls(piece(0, "a", "note", arguments)), ends(finish)]
        async with FakeOpenAI([raw(frames), "the end"], strict=True) as server, chat(server) as model:
            story = await story_of(Agent("a", model=model, tools=[note]))
        assert ran == []
        assert story.one(ToolReturned).failed
        assert story.one(ToolReturned).text == server.requests[1].texts[-1] != ""
        assert story.result.text == "the end"


async def test_a_cut_delegation_is_not_carried_out() -> None:
    """P31."""
    sub = model_of("never")
    frames = [calls(piece(0, "a", "delegate_sub", '{"prompt":"x')), ends("tool_calls")]
    async with FakeOpenAI([raw(frames), "the end"], strict=True) as server, chat(server) as model:
        assert (await Agent("a", model=model, agents=[Agent("sub", model=sub)]).run("Go")).text == "the end"
    assert sub.requests == []


# P40: a failed parallel call leaves an unanswered id, then 400 for ever.


@tool
async def breaks() -> str:
    """Break."""
    raise RuntimeError("broken")


@tool(timeout=0.01)
async def hangs() -> str:
    """Hang."""
    await anyio.sleep_forever()
    return ""


BAD_CALLS = [
    pytest.param(call("breaks"), id="P40 raises"),
    pytest.param(call("hangs"), id="P40 times out"),
    pytest.param(call("nobody"), id="P40 unknown"),
    pytest.param(call("lookup", '{"q": '), id="P40 cut arguments"),
    pytest.param(call("lookup", {"p": 1}), id="P40 wrong arguments"),
    pytest.param(call("lookup", {"q": "y"}, id="same"), id="P40 one id twice"),
    pytest.param(call("lookup", {"q": "y"}, id=""), id="P40 no id"),
    pytest.param(hand("rejected"), id="P40 rejected"),
    pytest.param(hand("failing"), id="P40 a failing sub-agent"),
]


@pytest.mark.parametrize("bad", BAD_CALLS)
async def test_every_call_is_answered_once_whatever_becomes_of_it(bad: Any) -> None:
    good = [call("lookup", {"q": "a"}, id="same"), call("lookup", {"q": "b"}, id="other")]
    script: Script = {"m": [], "failing": [http_error(500, repeat=True)]}
    for place in range(3):
        script["m"] += [asks(*good[:place], bad, *good[place:]), "the end"]

    def on_start(start: DelegationStart) -> StartDecision:
        return StartDecision(proceed=start.target != "rejected")

    async with FakeOpenAI(script, strict=True) as server, chat(server) as model, chat(server, "failing") as failing:
        lead = Agent(
            "lead",
            model=model,
            tools=[lookup, breaks, hangs],
            agents=[Agent("rejected", model=failing), Agent("failing", model=failing)],
            delegation=DelegationPolicy(on_start=on_start),
        )
        for _ in range(3):
            story = await story_of(lead)
            assert story.result.text == "the end"
            assert len(story.all(ToolReturned, depth=0)) == 3
            results = [m.text for m in story.result.messages if isinstance(m, ToolMessage)]
            assert [text for text in results if text in ("found a", "found b")] == ["found a", "found b"]
