"""Faults that were reported of systems like this one, each with its whole kind, as behaviour that holds here.

The ids are those of the list that the reports come from; `test_reports_wire` has those about servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
from judging import says, says_list, verdict
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from servers import chat
from teams import Story, asks, hand, model_of, story_of, tool_results
from traces import tracing_into

from alfine import (
    Agent,
    AssistantMessage,
    DelegationPolicy,
    DelegationStart,
    FeedbackMessage,
    Message,
    ModelError,
    RunError,
    StartDecision,
    TaskComplete,
    ToolCall,
    ToolMessage,
    UsageLimits,
    UserMessage,
    create_rubric_scorer,
    tool,
)
from alfine.runtime.events import (
    CheckFinished,
    RunFinished,
    StepFinished,
    TextDelta,
    ToolCalled,
    ToolReturned,
)
from alfine.testing import FakeOpenAI, Gate, ScriptedModel, Turn, call, http_error

Script = dict[str, list[Turn | str]]


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def judged_by(*replies: Turn | str, criteria: Any = "a\nb\nc", **options: Any) -> tuple[dict[str, Any], ScriptedModel]:
    """A check by a judge with these replies, and the judge."""
    judge = model_of(*replies)
    return {"scorers": [create_rubric_scorer(model=judge, criteria=criteria, **options)]}, judge


ALL = says(a=True, b=True, c=True)


# P01: a judge passes with none or part of the criteria judged.

PARTIAL = [
    pytest.param('{"verdicts": [], "overall": true}', id="P01 none"),
    pytest.param('{"verdicts": [{"id": "a", "satisfied": true}], "overall": true}', id="P01 one of three"),
    pytest.param('{"overall": true, "passed": true, "score": 1}', id="P01 only an overall verdict"),
    pytest.param(says_list([verdict("a"), verdict("a"), verdict("a")]), id="P01 one three times"),
    pytest.param(says_list([verdict("a"), verdict("b"), verdict("d")]), id="P01 an unknown one"),
    pytest.param(says(a=True, b=True, c="true"), id="P01 a text for a verdict"),
    pytest.param(says(a=True, b=True, c=None), id="P01 no verdict"),
    pytest.param(says_list([verdict("a"), verdict("b"), verdict("c"), verdict("c", False)]), id="P01 contradiction"),
    pytest.param("All criteria are met. PASS", id="P01 prose"),
    pytest.param("", id="P01 nothing"),
]


@pytest.mark.parametrize("reply", PARTIAL)
async def test_what_a_judge_leaves_open_is_asked_again_and_is_no_pass(reply: str) -> None:
    check, judge = judged_by(reply, ALL)
    result = await Agent("a", model=model_of("answer"), is_task_complete=check).run("Go")
    assert result.complete
    assert len(judge.requests) == 2
    assert "c" in judge.requests[1].text

    check, judge = judged_by(Turn(reply, repeat=True))
    with pytest.raises(RunError) as caught:
        await Agent("a", model=model_of("answer"), is_task_complete=check).run("Go")
    assert (caught.value.result.outcome, caught.value.result.text) == ("error", "answer")
    assert not caught.value.result.checks[-1].passed


# P03: the check's report replaces the final text and enters memory.


@pytest.mark.parametrize("passes", [True, False], ids=["P03 fail then pass", "P03 fail at the limit"])
async def test_a_checks_report_is_never_the_answer_nor_a_message_of_the_assistant(passes: bool) -> None:
    check, _ = judged_by(says(a=False, b=True, c=True), ALL if passes else says(a=False, b=True, c=True))
    result = await Agent("a", model=model_of("draft", "answer"), is_task_complete=check).run("Go", max_steps=2)
    assert result.outcome == ("complete" if passes else "max_steps")
    assert result.text == "answer"
    assert [m.text for m in result.messages if isinstance(m, AssistantMessage)] == ["draft", "answer"]
    assert [m.source for m in result.messages if isinstance(m, FeedbackMessage)] == ["check"]
    assert isinstance(result.messages[-1], AssistantMessage)


# P05, Q01: a judge that fails or never fits burns the whole budget.

USELESS: list[Any] = [
    pytest.param(http_error(401, "no key", repeat=True), id="P05 401"),
    pytest.param(http_error(403, repeat=True), id="P05 403"),
    pytest.param(http_error(404, repeat=True), id="P05 404"),
    pytest.param(http_error(503, repeat=True), id="P05 503"),
    pytest.param(Turn(error=RuntimeError("broken"), repeat=True), id="P05 an exception"),
    pytest.param(Turn("I think that it is fine.", repeat=True), id="Q01 prose"),
    pytest.param(Turn("{}", repeat=True), id="Q01 an empty object"),
    pytest.param(Turn('{"verdicts": [', repeat=True), id="Q01 cut JSON"),
    pytest.param(Turn("I cannot judge that.", refusal=True, repeat=True), id="Q01 a refusal"),
    pytest.param(Turn(ALL, finish_reason="length", repeat=True), id="Q01 always cut"),
]


@pytest.mark.parametrize("mode", ["together", "each"])
@pytest.mark.parametrize("reply", USELESS)
async def test_a_judge_that_is_of_no_use_ends_the_run_soon_and_the_answer_is_kept(reply: Turn, mode: Any) -> None:
    worker = model_of(Turn("answer", repeat=True))
    check, judge = judged_by(reply, mode=mode)
    with pytest.raises(RunError, match="rubric-scorer") as caught:
        await Agent("a", model=worker, is_task_complete=check).run("Go", max_steps=20)
    assert (caught.value.result.outcome, caught.value.result.text) == ("error", "answer")
    assert len(worker.requests) == 1
    assert len(judge.requests) <= (3 if mode == "together" else 9)


# P07: the reason never reaches the worker; an impossible criterion costs about 100 turns.


async def test_the_reason_is_in_the_next_request_word_for_word() -> None:
    """P07."""
    check, _ = judged_by(says_list([verdict("a", False, "Die Zahl 3½ fehlt — überall.")]), says(a=True), criteria="a")
    worker = model_of("draft", "answer")
    await Agent("a", model=worker, is_task_complete=check).run("Go")
    assert "Die Zahl 3½ fehlt — überall." in worker.requests[1].text


@pytest.mark.parametrize("wording", ["P07 same words", "P07 other words each time"])
async def test_an_impossible_criterion_ends_as_stalled_where_that_is_watched(wording: str) -> None:
    def reply(n: int) -> str:
        return says_list([verdict("a", False, "no" if "same" in wording else f"no, number {n}")])

    judge = ScriptedModel(lambda request: reply(request.n))
    worker = ScriptedModel(lambda request: f"draft {request.n}")
    check = {"scorers": [create_rubric_scorer(model=judge, criteria="a")], "stall_after": 3}
    result = await Agent("a", model=worker, is_task_complete=check).run("Go", max_steps=100)
    assert result.outcome == "stalled"
    assert len(worker.requests) <= 4


# P09: the last draft is returned, not the best.


@pytest.mark.parametrize(
    ("satisfied", "best"),
    [
        pytest.param(["yyn", "nnn", "nnn"], 1, id="P09 the first"),
        pytest.param(["nnn", "yyn", "ynn"], 2, id="P09 the second"),
        pytest.param(["ynn", "nyn", "nny"], 3, id="P09 the latest of equals"),
    ],
)
async def test_the_best_draft_comes_back_at_the_limit(satisfied: list[str], best: int) -> None:
    replies = [says(**{i: mark == "y" for i, mark in zip("abc", marks, strict=True)}) for marks in satisfied]
    check, _ = judged_by(*replies)
    worker = ScriptedModel(lambda request: f"draft {request.n}")
    result = await Agent("a", model=worker, is_task_complete=check).run("Go", max_steps=3)
    assert (result.outcome, result.text, result.answer_step) == ("max_steps", f"draft {best}", best)


# P13: the judge sees no tool results and fails finished work.


@pytest.mark.parametrize("by", ["P13 a tool", "P13 a sub-agent", "P13 two steps before"])
async def test_the_judge_sees_what_tools_and_sub_agents_returned(by: str) -> None:
    @tool
    def write_file(path: str, text: str) -> str:
        """Write a file."""
        return f"wrote {len(text)} characters to {path}"

    work = call("write_file", {"path": "report.md", "text": "1234567"})
    turns: list[Turn | str] = [asks(work)]
    agents: list[Agent[Any]] = []
    if by == "P13 a sub-agent":
        agents = [Agent("writer", model=model_of("wrote 7 characters to report.md"))]
        turns = [asks(hand("writer"))]
    elif by == "P13 two steps before":
        turns.append(asks(call("write_file", {"path": "b", "text": ""})))
    check, judge = judged_by(says(a=True), criteria="a")
    agent = Agent("a", model=model_of(*turns, "done"), tools=[write_file], agents=agents, is_task_complete=check)
    assert (await agent.run("Go")).text == "done"
    assert "wrote 7 characters to report.md" in judge.requests[0].text


# P15: hooks that raise are swallowed; a guard does not block.


def refuse(*_: object) -> Any:
    raise RuntimeError("not allowed")


async def refuse_later(*_: object) -> Any:
    await anyio.lowlevel.checkpoint()
    raise PermissionError("not allowed")


@pytest.mark.parametrize(
    "hooks",
    [
        pytest.param({"on_start": refuse}, id="P15 on_start"),
        pytest.param({"on_start": refuse_later}, id="P15 async on_start"),
        pytest.param({"message_filter": refuse}, id="P15 message_filter"),
        pytest.param({"message_filter": refuse_later}, id="P15 async message_filter"),
    ],
)
async def test_a_guard_that_raises_blocks(hooks: Mapping[str, Any]) -> None:
    lead, sub = model_of(asks(hand("sub")), "the end"), model_of("never")
    agent = Agent("lead", model=lead, agents=[Agent("sub", model=sub)], delegation=DelegationPolicy(**hooks))
    assert (await agent.run("Go")).complete
    assert sub.requests == []
    assert "not allowed" not in lead.requests[1].text


# P21, P33: tools of others, and tools that nobody has.

FOREIGN: list[Message] = [
    UserMessage("Mail it"),
    AssistantMessage("", (ToolCall("c1", "send_mail", "{}"),)),
    ToolMessage("c1", "send_mail", "sent"),
]


async def test_calls_of_foreign_tools_are_no_part_of_a_history() -> None:
    """P21."""
    async with FakeOpenAI(["ok"], strict=True) as server, chat(server) as model:
        await Agent("a", model=model, tools=[lookup]).run("Go", history=FOREIGN)
    assert "send_mail" not in json.dumps(server.requests[0].body)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(DelegationPolicy(context="conversation"), id="P21 conversation"),
        pytest.param(DelegationPolicy(message_filter=lambda messages: FOREIGN), id="P21 message_filter"),
    ],
)
async def test_a_sub_agent_is_not_shown_calls_of_tools_that_it_does_not_have(policy: DelegationPolicy) -> None:
    @tool
    def send_mail() -> str:
        """Send a mail."""
        return "sent"

    sub = model_of("ok")
    lead = model_of(asks(call("send_mail")), asks(hand("sub")), "the end")
    agents = [Agent("sub", model=sub, tools=[lookup])]
    await Agent("lead", model=lead, tools=[send_mail], agents=agents, delegation=policy).run("Go")
    assert all(m.kind == "user" for m in sub.requests[0].messages)


UNKNOWN = ["send_mail", "", "delegate_nobody", "Lookup", "lookup ", "x" * 300, "a b", "研究", "\ud800"]


@pytest.mark.parametrize("name", UNKNOWN, ids=lambda name: f"P33 {name[:20].encode('ascii', 'replace').decode()!r}")
async def test_an_unknown_tool_is_an_error_result_and_the_run_goes_on(name: str) -> None:
    model = model_of(asks(call(name), call("lookup", {"q": "x"})), "the end")
    story = await story_of(Agent("a", model=model, tools=[lookup]))
    assert story.result.text == "the end"
    first, second = tool_results(model)
    assert "no tool named" in first
    assert "lookup" in first
    assert second == "found x"
    assert all(event.to_json() for event in story.events)


async def test_an_unknown_tool_is_an_error_result_also_for_an_agent_without_tools() -> None:
    """P33."""
    model = model_of(asks(call("send_mail")), "the end")
    assert (await Agent("a", model=model).run("Go")).text == "the end"
    assert "no tool named" in tool_results(model)[0]


# P23: tool events of parallel members missing.


async def test_tool_events_of_all_parallel_members_are_in_the_stream() -> None:
    """P23."""
    subs = [
        Agent(name, model=model_of(asks(call("lookup", {"q": name})), f"from {name}"), tools=[lookup])
        for name in ("a", "b", "c")
    ]
    story = await story_of(Agent("lead", model=model_of(asks(*[hand(n) for n in "abc"]), "the end"), agents=subs))
    for name in "abc":
        assert [e.name for e in story.all(ToolCalled) if e.agent == name] == ["lookup"]
        assert [e.text for e in story.all(ToolReturned) if e.agent == name] == [f"found {name}"]
    assert len(story.all(ToolCalled, depth=0)) == len(story.all(ToolReturned, depth=0)) == 3


# P37: tracing code crashes and kills the stream. P48: spans of sub-agents lose their parent.


class RaisingProcessor(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("processor is broken")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("processor is broken")


class RaisingExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("exporter is broken")


@pytest.mark.parametrize(
    "processor",
    [
        pytest.param(RaisingProcessor, id="P37 processor"),
        pytest.param(lambda: SimpleSpanProcessor(RaisingExporter()), id="P37 exporter"),
    ],
)
async def test_broken_tracing_leaves_the_stream_unharmed(processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check, _ = judged_by(says(a=False), says(a=True), criteria="a")
    sub = Agent("sub", model=model_of(asks(call("lookup", {"q": "x"})), "from sub"), tools=[lookup])
    worker = model_of(asks(hand("sub")), "draft", "answer")
    with tracing_into(monkeypatch, processor()):
        story = await story_of(Agent("lead", model=worker, agents=[sub], is_task_complete=check))
    assert (story.result.outcome, story.result.text) == ("complete", "answer")
    assert isinstance(story.events[-1], RunFinished)


@pytest.mark.parametrize("way", ["P48 nested", "P48 side by side", "P48 refused"])
async def test_a_run_with_delegations_is_one_trace_without_orphans(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = Agent("leaf", model=model_of("deep", "deep"))
    mids = {
        name: Agent(name, model=model_of(asks(hand("leaf")), name), agents=[leaf])
        for name in (["a", "b"] if way == "P48 side by side" else ["a"])
    }

    def on_start(start: DelegationStart) -> StartDecision:
        return StartDecision(proceed=way != "P48 refused")

    lead = Agent(
        "lead",
        model=model_of(asks(*[hand(name) for name in mids]), "the end"),
        agents=mids,
        delegation=DelegationPolicy(on_start=on_start),
    )
    with tracing_into(monkeypatch) as traces:
        await lead.run("Go")
    spans = traces.spans
    known = {span.context.span_id for span in spans if span.context}
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert [span.name for span in spans if span.parent is None] == ["invoke_agent lead"]
    assert all(span.parent.span_id in known for span in spans if span.parent)
    assert len(traces.named("invoke_agent leaf")) == {"P48 nested": 1, "P48 side by side": 2, "P48 refused": 0}[way]


# P50: a rejected answer had already been streamed as the answer.


@pytest.mark.parametrize("passes", [True, False], ids=["P50 accepted later", "P50 never accepted"])
async def test_drafts_are_marked_and_the_answer_is_known(passes: bool) -> None:
    check, _ = judged_by(says(a=False), says(a=passes), criteria="a")
    agent = Agent("a", model=model_of("a draft", "an answer"), is_task_complete=check)
    story = await story_of(agent, max_steps=2)
    assert all(e.draft for e in story.all(TextDelta))
    finished = story.one(RunFinished)
    assert (finished.text, finished.answer_step) == (story.result.text, 2)
    async with agent_again(passes).stream("Go", max_steps=2) as stream:
        assert "".join([text async for text in stream.text()]) == "an answer"


def agent_again(passes: bool) -> Agent[str]:
    check, _ = judged_by(says(a=False), says(a=passes), criteria="a")
    return Agent("a", model=model_of("a draft", "an answer"), is_task_complete=check)


async def test_without_anything_to_decide_the_text_is_no_draft() -> None:
    """P50."""
    story = await story_of(Agent("a", model=model_of("an answer")))
    assert not any(e.draft for e in story.all(TextDelta))


# Q02: the judge sees only the first 4,000 characters.


@pytest.mark.parametrize("length", [9_000, 100_000, 1_000_000], ids=lambda n: f"Q02 {n}")
async def test_the_judge_sees_the_whole_answer(length: int) -> None:
    answer = "x" * length + "\n## Recommendations\nEat well."
    check, judge = judged_by(says(a=True), criteria="a")
    await Agent("a", model=model_of(answer), is_task_complete=check).run("Go")
    assert answer in judge.requests[0].text


async def test_the_judge_is_told_of_a_cut_in_a_tool_result() -> None:
    """Q02."""

    @tool
    def read() -> str:
        """Read."""
        return "x" * 30_000

    check, judge = judged_by(says(a=True), criteria="a")
    agent = Agent("a", model=model_of(asks(call("read")), "done"), tools=[read], is_task_complete=check)
    await agent.run("Go")
    assert "of 30000 characters" in judge.requests[0].text


# Q03: exception texts are sent to the worker.

SECRET = "judge.internal.example said no"


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Turn(error=ModelError(SECRET, status=503)), id="Q03 503"),
        pytest.param(Turn(error=ModelError(SECRET, status=401)), id="Q03 401"),
        pytest.param(Turn(error=RuntimeError(SECRET)), id="Q03 an exception"),
        pytest.param(Turn(SECRET), id="Q03 prose"),
    ],
)
@pytest.mark.parametrize("strategy", ["all", "any"])
async def test_what_is_wrong_with_a_judge_reaches_no_worker(failure: Turn, strategy: str) -> None:
    flaky = ScriptedModel(lambda request: failure)
    other = model_of(says(a=False), says(a=False))
    scorers = [create_rubric_scorer(model=m, criteria="a", id=i) for m, i in ((flaky, "flaky"), (other, "other"))]
    worker = model_of("draft", "answer")
    check = {"scorers": scorers, "strategy": strategy}
    await Agent("a", model=worker, is_task_complete=check).run("Go", max_steps=2)
    assert len(worker.requests) == 2
    assert all(SECRET not in request.text for request in worker.requests)


async def test_what_is_wrong_with_a_sub_agents_machinery_reaches_no_supervisor() -> None:
    """Q03."""
    lead = model_of(asks(hand("sub")), "the end")
    sub = Agent("sub", model=ScriptedModel([Turn(error=ModelError(SECRET, status=503))]))
    await Agent("lead", model=lead, agents=[sub]).run("Go")
    assert SECRET not in lead.requests[1].text


# Q04: a time limit is tested only between attempts.


@pytest.mark.parametrize(
    "place", ["Q04 model", "Q04 tool", "Q04 sub-agent", "Q04 scorer", "Q04 judge", "Q04 instructions", "Q04 hook"]
)
async def test_the_wall_time_ends_the_run_inside_a_step(place: str) -> None:
    never = Turn("never", wait=Gate())

    async def hang(*_: object) -> Any:
        await anyio.sleep_forever()

    @tool
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    kinds: dict[str, dict[str, Any]] = {
        "Q04 model": {"model": model_of(never)},
        "Q04 tool": {"model": model_of(asks(call("wait"), text="so far")), "tools": [wait]},
        "Q04 sub-agent": {"model": model_of(asks(hand("sub"))), "agents": [Agent("sub", model=model_of(never))]},
        "Q04 scorer": {"model": model_of("answer"), "is_task_complete": {"scorers": [hang]}},
        "Q04 judge": {"model": model_of("answer"), "is_task_complete": judged_by(never)[0]},
        "Q04 instructions": {"model": model_of("answer"), "instructions": hang},
        "Q04 hook": {"model": model_of(asks(call("lookup", {"q": "x"}))), "tools": [lookup], "on_step": hang},
    }
    with anyio.fail_after(5):
        story = await story_of(Agent("a", **kinds[place]), limits=UsageLimits(wall_time=0.05))
    assert story.result.outcome == "budget"
    assert isinstance(story.events[-1], RunFinished)
    if "model" not in place:
        assert len([m for m in story.result.messages if isinstance(m, ToolMessage)]) == len(
            [c for m in story.result.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
        )


# Q05: judge and sub-agent tokens missing from usage.


@pytest.mark.parametrize("streamed", [True, False], ids=["Q05 streamed", "Q05 not streamed"])
async def test_usage_counts_everyone_once(streamed: bool) -> None:
    script: Script = {
        "lead": [Turn(tool_calls=[hand("sub"), hand("sub")]), "draft", "answer"],
        "sub": [Turn("one"), Turn("two")],
        "judge": [says(a=False), says(a=True)],
    }
    async with (
        FakeOpenAI(script) as server,
        chat(server, "lead") as lead,
        chat(server, "sub") as sub,
        chat(server, "judge") as judge,
    ):
        check = {"scorers": [create_rubric_scorer(model=judge, criteria="a")]}
        agent = Agent("lead", model=lead, agents=[Agent("sub", model=sub)], is_task_complete=check)
        if streamed:
            async with agent.stream("Go") as stream:
                events = [event async for event in stream]
                result = await stream.result()
            finished = [e for e in events if isinstance(e, RunFinished)]
            assert [e.usage["requests"] for e in finished] == [1, 1, 7]
        else:
            result = await agent.run("Go")
    usage = result.usage
    assert len(server.requests) == usage.requests == 7
    assert (usage.input_tokens, usage.output_tokens, usage.tool_calls) == (70, 35, 2)


# Q06: the last draft is never judged at the cap.


@pytest.mark.parametrize("passes", [True, False], ids=["Q06 passed", "Q06 not passed"])
async def test_the_only_answer_is_judged_at_the_limit(passes: bool) -> None:
    check, judge = judged_by(says(a=passes), criteria="a")
    story = await story_of(Agent("a", model=model_of("answer"), is_task_complete=check), max_steps=1)
    assert story.result.outcome == ("complete" if passes else "max_steps")
    assert len(judge.requests) == len(story.all(StepFinished)) == 1
    checked = story.one(CheckFinished)
    assert (checked.passed, checked.at_limit) == (passes, True)
    assert not any(isinstance(m, FeedbackMessage) for m in story.result.messages)


# Q07: the rubric of one run grades the next turn of the thread.


@pytest.mark.parametrize("place", ["Q07 request_context", "Q07 input", "Q07 is_task_complete"])
async def test_the_rubric_of_one_run_is_not_that_of_the_next(place: str) -> None:
    check, judge = judged_by(says(a=True), criteria=None)
    own = None if place == "Q07 is_task_complete" else check
    agent = Agent("a", model=model_of("one", "two"), is_task_complete=own)
    if place == "Q07 request_context":
        first = await agent.run("Go", request_context={"rubric": "a"})
    elif place == "Q07 input":
        first = await agent.run({"prompt": "Go", "rubric": "a"})
    else:
        first = await agent.run(
            "Go", is_task_complete=TaskComplete(scorers=check["scorers"], additional_context={"rubric": "a"})
        )
    assert len(judge.requests) == 1
    second = await agent.run("And now?", history=first.messages)
    assert (second.complete, second.text) == (True, "two")
    assert len(judge.requests) == 1


# Q08: one failing parallel sub-agent raises the whole run, the sibling's result is lost.


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(http_error(500), id="Q08 500"),
        pytest.param(Turn(error=RuntimeError("broken")), id="Q08 an exception"),
        pytest.param(Turn(error=ExceptionGroup("many", [ValueError(), RuntimeError()])), id="Q08 a group"),
        pytest.param(Turn("half of", error=ModelError("cut")), id="Q08 in the middle"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["the first", "the second"])
async def test_a_failing_sub_agent_costs_its_sibling_nothing(failure: Turn, first: bool) -> None:
    gate = Gate()
    lead = model_of(asks(hand("a"), hand("b")), "the end")
    replies = [failure, Turn("fine", wait=gate)] if first else [Turn("fine", wait=gate), failure]
    agents = [Agent(name, model=model_of(reply)) for name, reply in zip("ab", replies, strict=True)]

    async def open_when_failed(story: list[Any]) -> None:
        async with Agent("lead", model=lead, agents=agents).stream("Go") as stream:
            async for event in stream:
                story.append(event)
                if isinstance(event, RunFinished) and event.outcome == "error":
                    gate.open()  # only now the sibling goes on
            story.append(await stream.result())

    seen: list[Any] = []
    with anyio.fail_after(5):
        await open_when_failed(seen)
    story = Story(seen[:-1], seen[-1])
    assert story.result.text == "the end"
    assert sorted(e.failed for e in story.all(ToolReturned)) == [False, True]
    assert "fine" in tool_results(lead)
