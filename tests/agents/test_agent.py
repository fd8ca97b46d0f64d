"""What an agent is built of, what a run is given, and what of it reaches whom."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from alfine import (
    Agent,
    AssistantMessage,
    ConfigError,
    DelegationPolicy,
    DelegationStart,
    FeedbackMessage,
    Message,
    ModelSettings,
    OpenAIChatModel,
    Price,
    RunContext,
    RunError,
    Score,
    ScorerInput,
    StartDecision,
    StepDecision,
    StepInfo,
    TaskComplete,
    ToolCall,
    ToolMessage,
    UsageLimits,
    UserMessage,
    message_to_dict,
    tool,
)
from alfine.testing import FakeOpenAI, ScriptedModel, Turn, call, http_error


@tool
def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def always(output: str) -> bool:
    return True


def never(output: str) -> Score:
    return Score(0, reason="never good")


def agent_of(*replies: Turn | str, **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(list(replies))
    return Agent("lead", model=model, **options), model


SUB = Agent("sub", model=ScriptedModel([]))
PRICED = UsageLimits(cost=1, prices={"gpt": Price(1, 1)})

BAD_AGENTS = [
    pytest.param({"name": " "}, "name", id="blank name"),
    pytest.param({"name": 5}, "name", id="name that is none"),
    pytest.param({"model": "gpt-5"}, "model", id="model without a provider"),
    pytest.param({"model": "nobody/gpt-5"}, "model", id="unknown provider"),
    pytest.param({"model": "openai/ "}, "model", id="provider without a model"),
    pytest.param({"model": 5}, "model", id="no model"),
    pytest.param({"instructions": 5}, "instructions", id="instructions of a wrong type"),
    pytest.param({"description": None}, "description", id="description of a wrong type"),
    pytest.param({"max_steps": 0}, "max_steps", id="no steps"),
    pytest.param({"max_steps": -1}, "max_steps", id="negative steps"),
    pytest.param({"max_steps": True}, "max_steps", id="true steps"),
    pytest.param({"max_steps": 1.5}, "max_steps", id="half a step"),
    pytest.param({"tools": [lookup, lookup]}, "tools", id="a tool twice"),
    pytest.param({"tools": lookup}, "tools", id="a tool that is not in a list"),
    pytest.param({"tools": "lookup"}, "tools", id="a text for tools"),
    pytest.param({"tools": None}, "tools", id="None for tools"),
    pytest.param({"tools": [5]}, "tools", id="a number as a tool"),
    pytest.param({"agents": [SUB, SUB]}, "agents", id="an agent twice"),
    pytest.param({"agents": SUB}, "agents", id="an agent that is not in a list"),
    pytest.param({"agents": ["sub"]}, "agents", id="a name for an agent"),
    pytest.param({"agents": {"": SUB}}, "agents", id="a blank key"),
    pytest.param({"agents": {5: SUB}}, "agents", id="a key that is no text"),
    pytest.param({"agents": None}, "agents", id="None for agents"),
    pytest.param({"tools": [tool(lookup.function, name="delegate_sub")], "agents": [SUB]}, "tools", id="both one name"),
    pytest.param({"is_task_complete": 5}, "is_task_complete", id="a check that is none"),
    pytest.param({"is_task_complete": {"scorer": [always]}}, "is_task_complete", id="unknown key"),
    pytest.param({"is_task_complete": {5: [always]}}, "is_task_complete", id="a key that is a number"),
    pytest.param({"is_task_complete": {"strategy": "most"}}, "is_task_complete.strategy", id="unknown strategy"),
    pytest.param({"is_task_complete": {"scorers": [5]}}, "scorers", id="a scorer that is none"),
    pytest.param({"is_task_complete": {"scorers": always}}, "is_task_complete.scorers", id="scorers that are no list"),
    pytest.param({"is_task_complete": {"timeout": 0}}, "is_task_complete.timeout", id="no time"),
    pytest.param({"limits": {"requests": 1}}, "limits", id="limits as a mapping"),
    pytest.param({"limits": PRICED}, "limits.prices", id="a model without a price"),
    pytest.param(
        {"agents": [SUB], "delegation": DelegationPolicy(limits=PRICED)}, "delegation.limits.prices", id="sub"
    ),
    pytest.param({"settings": {"seed": 1}}, "settings", id="settings as a mapping"),
    pytest.param({"delegation": {"max_depth": 1}}, "delegation", id="a policy as a mapping"),
    pytest.param({"on_step": 5}, "on_step", id="a hook that is none"),
    pytest.param({"output_type": "Unknown"}, "output_type", id="a type that nobody knows"),
    pytest.param({"output_type": Callable[[], int]}, "output_type", id="a type without a schema"),
]


@pytest.mark.parametrize(("options", "argument"), BAD_AGENTS)
def test_a_wrong_argument_of_an_agent_is_named_with_its_value_and_what_is_allowed(
    options: dict[str, Any], argument: str
) -> None:
    model = ScriptedModel([])
    with pytest.raises(ConfigError) as caught:
        Agent(**{"name": "lead", "model": model, **options})
    assert caught.value.argument == argument
    assert repr(caught.value.value)[:200] in str(caught.value)
    assert caught.value.allowed in str(caught.value)
    assert len(caught.value.allowed) > 3
    assert model.requests == []


BAD_OPTIONS = [
    pytest.param({"input": ""}, "input", id="empty prompt"),
    pytest.param({"input": " \n"}, "input", id="blank prompt"),
    pytest.param({"input": None}, "input", id="no prompt"),
    pytest.param({"input": 5}, "input", id="a number as prompt"),
    pytest.param({"input": b"hi"}, "input", id="bytes as prompt"),
    pytest.param({"input": {}}, "input", id="mapping without a prompt"),
    pytest.param({"input": {"prompt": " "}}, "input", id="mapping with a blank prompt"),
    pytest.param({"input": {"prompt": 5}}, "input", id="mapping with a number as prompt"),
    pytest.param({"input": []}, "input", id="no messages"),
    pytest.param({"input": [AssistantMessage("hi")]}, "input", id="messages that do not end with the user's"),
    pytest.param({"input": [UserMessage(" ")]}, "input", id="messages that end with a blank one"),
    pytest.param({"input": [{"kind": "nobody"}]}, "input", id="a message of an unknown kind"),
    pytest.param({"history": "hi"}, "history", id="a text as history"),
    pytest.param({"history": 5}, "history", id="a number as history"),
    pytest.param({"history": {"kind": "user", "text": "hi"}}, "history", id="one message as history"),
    pytest.param({"history": ["hi"]}, "history", id="a text as message"),
    pytest.param({"history": [{"role": "user", "content": "hi"}]}, "history", id="a message of another system"),
    pytest.param({"history": [{"kind": "user"}]}, "history", id="a message without a text"),
    pytest.param({"history": [{"kind": "user", "text": 5}]}, "history", id="a message with a number as text"),
    pytest.param({"history": [{"kind": "assistant", "text": "", "tool_calls": [{}]}]}, "history", id="an empty call"),
    pytest.param(
        {"history": [{"kind": "assistant", "text": "", "tool_calls": 5}]}, "history", id="calls that are none"
    ),
    pytest.param({"max_steps": 0}, "max_steps", id="no steps"),
    pytest.param({"max_steps": False}, "max_steps", id="false steps"),
    pytest.param({"max_steps": "3"}, "max_steps", id="a text as steps"),
    pytest.param({"is_task_complete": {"strategy": 5}}, "is_task_complete.strategy", id="unknown strategy"),
    pytest.param({"is_task_complete": [always]}, "is_task_complete", id="a list as check"),
    pytest.param({"is_task_complete": {"scorers": ["x"]}}, "scorers", id="a scorer that is none"),
    pytest.param({"request_context": []}, "request_context", id="a list as context"),
    pytest.param({"limits": 5}, "limits", id="limits that are none"),
    pytest.param({"limits": PRICED}, "limits.prices", id="a model without a price"),
    pytest.param({"settings": {}}, "settings", id="settings as a mapping"),
    pytest.param({"on_step": "x"}, "on_step", id="a hook that is none"),
    pytest.param({"run_id": ""}, "run_id", id="empty run id"),
    pytest.param({"run_id": 5}, "run_id", id="a number as run id"),
    pytest.param({"conversation_id": 5}, "conversation_id", id="a number as conversation id"),
]


@pytest.mark.parametrize(("options", "argument"), BAD_OPTIONS)
async def test_a_wrong_argument_of_a_call_is_named_before_any_model_is_called(
    options: dict[str, Any], argument: str
) -> None:
    agent, model = agent_of("never")
    given = {"input": "Go", **options}
    with pytest.raises(ConfigError) as by_stream:
        agent.stream(**given)
    with pytest.raises(ConfigError) as by_run:
        await agent.run(**given)
    assert by_stream.value.argument == argument
    assert str(by_stream.value) == str(by_run.value)
    assert model.requests == []


def test_buffer_size_is_at_least_one() -> None:
    with pytest.raises(ConfigError, match="buffer_size"):
        agent_of()[0].stream("Go", buffer_size=0)


def test_an_unknown_argument_of_a_call_is_a_type_error_that_names_the_nearest() -> None:
    agent, _ = agent_of()
    with pytest.raises(TypeError, match="did you mean 'max_steps'"):
        agent.stream("Go", max_step=3)  # type: ignore[call-arg]  # what the test is about


def test_a_misspelt_key_of_the_check_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'scorers'"):
        agent_of(is_task_complete={"scorer": [always]})


def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        Agent("lead", model="openai/gpt-5-mini")
    assert caught.value.argument == "api_key"


@pytest.mark.parametrize(
    "names",
    [pytest.param(["研究", "作家"], id="no letters of ASCII"), pytest.param(["a b", "a_b"], id="alike once cleaned")],
)
def test_agents_with_names_that_no_server_takes_get_tools_of_their_own(names: list[str]) -> None:
    subs = [Agent(name, model=ScriptedModel([])) for name in names]
    agent, _ = agent_of(agents=subs)
    assert len(set(agent.tool_names)) == 2
    assert all(name.isascii() and len(name) <= 64 for name in agent.tool_names)


@pytest.mark.parametrize("kind", ["text", "function", "async function"])
async def test_instructions_are_a_text_or_a_function_of_the_context(kind: str) -> None:
    async def write(context: RunContext) -> str:
        return f"You serve {context.request_context['user']}."

    instructions: Any = {
        "text": "You serve Ada.",
        "function": lambda context: f"You serve {context.request_context['user']}.",
        "async function": write,
    }[kind]
    agent, model = agent_of("done", instructions=instructions)
    await agent.run("Go", request_context={"user": "Ada"})
    assert model.requests[0].instructions == "You serve Ada."


async def test_instructions_that_come_to_no_text_fail_the_run_before_a_model_is_called() -> None:
    agent, model = agent_of("never", instructions=lambda context: None)
    with pytest.raises(RunError, match="instructions"):
        await agent.run("Go")
    assert model.requests == []


async def test_the_request_context_reaches_instructions_tools_hooks_and_scorers() -> None:
    seen: dict[str, Any] = {}
    context = {"user": "Ada"}

    def instructions(run: RunContext) -> str:
        seen["instructions"] = run.request_context
        return ""

    @tool
    def look(run: RunContext) -> str:
        """Look."""
        seen["tool"] = run.request_context
        return ""

    def on_step(info: StepInfo) -> None:
        seen["on_step"] = info.context.request_context

    def on_start(start: DelegationStart) -> StartDecision:
        seen["on_start"] = start.context.request_context
        return StartDecision(proceed=False)

    def score(output: str, input: ScorerInput) -> bool:
        seen["scorer"] = input.request_context
        return True

    agent, _ = agent_of(
        Turn(tool_calls=[call("look"), call("delegate_sub", {"prompt": "x"})]),
        "done",
        instructions=instructions,
        tools=[look],
        agents=[SUB],
        delegation=DelegationPolicy(on_start=on_start),
        on_step=on_step,
        is_task_complete={"scorers": [score]},
    )
    await agent.run("Go", request_context=context)
    assert seen.keys() == {"instructions", "tool", "on_step", "on_start", "scorer"}
    assert all(value == context for value in seen.values())


async def test_additional_context_reaches_scorers_alone() -> None:
    seen: list[Any] = []

    def score(output: str, input: ScorerInput) -> bool:
        seen.append((dict(input.request_context), dict(input.additional_context)))
        return True

    agent, model = agent_of("done", instructions=lambda context: str(dict(context.request_context)))
    check = TaskComplete(scorers=[score], additional_context={"more": 1})
    await agent.run("Go", request_context={"user": "Ada"}, is_task_complete=check)
    assert seen == [({"user": "Ada"}, {"more": 1})]
    assert "more" not in model.requests[0].text


HISTORY: list[Message] = [
    UserMessage("Hello"),
    AssistantMessage("Looking", (ToolCall("c1", "lookup", '{"q": "x"}'),)),
    ToolMessage("c1", "lookup", "found x"),
    AssistantMessage("A draft"),
    FeedbackMessage("Not good", "check"),
    AssistantMessage("An answer"),
]


@pytest.mark.parametrize("as_json", [False, True], ids=["messages", "JSON"])
async def test_a_history_goes_before_the_prompt(as_json: bool) -> None:
    history: Any = json.loads(json.dumps([message_to_dict(m) for m in HISTORY])) if as_json else HISTORY
    agent, model = agent_of("done", tools=[lookup])
    result = await agent.run("Go on", history=history)
    assert list(model.requests[0].messages) == [*HISTORY, UserMessage("Go on")]
    assert result.messages[: len(HISTORY)] == tuple(HISTORY)


async def test_messages_are_an_input_when_the_last_is_the_users() -> None:
    agent, model = agent_of("done", tools=[lookup])
    await agent.run([*HISTORY, message_to_dict(UserMessage("Go on"))])
    assert list(model.requests[0].messages) == [*HISTORY, UserMessage("Go on")]


async def test_a_mapping_is_an_input_and_scorers_see_all_of_it() -> None:
    seen: list[Any] = []

    def score(output: str, input: ScorerInput) -> bool:
        seen.append((input.input, input.task))
        return True

    agent, model = agent_of("done")
    given = {"prompt": "Go", "rubric": "- fine", "more": 1}
    await agent.run(given, is_task_complete={"scorers": [score]})
    assert seen == [(given, "Go")]
    assert model.requests[0].texts == ["Go"]


async def test_going_on_from_the_messages_of_a_result() -> None:
    agent, model = agent_of(Turn(tool_calls=[call("lookup", {"q": "x"})]), "one", "two", tools=[lookup])
    first = await agent.run("First")
    second = await agent.run("Second", history=first.messages)
    assert second.messages[: len(first.messages)] == first.messages
    assert model.requests[2].texts[-2:] == ["one", "Second"]


async def test_going_on_after_a_cancel_sends_a_history_that_strict_servers_take() -> None:
    async with FakeOpenAI({"m": [Turn(tool_calls=[call("wait")]), "done"]}, strict=True) as server:

        @tool
        async def wait() -> str:
            """Wait for ever."""
            await anyio.sleep_forever()
            return ""

        agent = Agent("a", model=OpenAIChatModel("m", base_url=server.base_url, api_key="key"), tools=[wait])
        async with agent.stream("Go") as stream:
            async for event in stream:
                if event.kind == "tool_called":
                    stream.cancel()
            cancelled = await stream.result()
        assert cancelled.outcome == "cancelled"
        assert (await agent.run("Go on", history=cancelled.messages)).text == "done"


@pytest.mark.parametrize("as_input", [False, True], ids=["history", "input"])
async def test_foreign_tool_calls_are_dropped_from_a_history_in_pairs(as_input: bool) -> None:
    agent, model = agent_of("done", tools=[lookup])
    own, foreign = ToolCall("c1", "lookup", "{}"), ToolCall("c2", "send_mail", "{}")
    history: list[Message] = [
        UserMessage("Hello"),
        AssistantMessage("Both", (own, foreign)),
        ToolMessage("c1", "lookup", "found"),
        ToolMessage("c2", "send_mail", "sent"),
        AssistantMessage("", (ToolCall("c3", "send_mail", "{}"),)),
        ToolMessage("c3", "send_mail", "sent again"),
        AssistantMessage("Unanswered", (ToolCall("c4", "lookup", "{}"),)),
        ToolMessage("c9", "lookup", "of no call"),
    ]
    if as_input:
        await agent.run([*history, UserMessage("Go")])
    else:
        await agent.run("Go", history=history)
    assert list(model.requests[0].messages) == [
        UserMessage("Hello"),
        AssistantMessage("Both", (own,)),
        ToolMessage("c1", "lookup", "found"),
        AssistantMessage("Unanswered"),
        UserMessage("Go"),
    ]


async def test_what_the_agent_says_of_steps_and_checks_can_be_said_otherwise_at_a_call() -> None:
    agent, _ = agent_of(*["draft"] * 9, max_steps=2, is_task_complete={"scorers": [never]})
    assert (await agent.run("Go")).outcome == "max_steps"
    assert len((await agent.run("Go", max_steps=3)).steps) == 3
    assert (await agent.run("Go", is_task_complete=TaskComplete(scorers=[always]))).complete
    without = await agent.run("Go", is_task_complete={})
    assert (without.complete, without.checks) == (True, ())
    assert len((await agent.run("Go")).steps) == 2


async def test_settings_of_a_call_win_field_by_field() -> None:
    agent, model = agent_of("done", settings=ModelSettings(temperature=0.1, seed=3))
    await agent.run("Go", settings=ModelSettings(temperature=0.9))
    assert model.requests[0].settings == ModelSettings(temperature=0.9, seed=3)


async def test_limits_and_the_hook_of_a_call_win() -> None:
    called: list[str] = []

    def own(info: StepInfo) -> None:
        called.append("own")

    def given(info: StepInfo) -> StepDecision:
        called.append("given")
        return StepDecision("stop")

    turns: list[Turn | str] = [Turn(tool_calls=[call("lookup", {"q": "x"})]), "done"]
    agent, _ = agent_of(*turns, *turns, tools=[lookup], on_step=own, limits=UsageLimits(requests=1))
    assert (await agent.run("Go", on_step=given)).outcome == "stopped"
    agent, _ = agent_of(*turns, tools=[lookup], on_step=own, limits=UsageLimits(requests=1))
    assert (await agent.run("Go", limits=UsageLimits(requests=2))).complete
    assert called == ["given", "own", "own"]


async def test_the_default_is_ten_steps() -> None:
    agent, model = agent_of(Turn(tool_calls=[call("lookup", {"q": "x"})], repeat=True), tools=[lookup])
    assert (await agent.run("Go")).outcome == "max_steps"
    assert len(model.requests) == 10


async def test_run_ids_are_given_or_made_up() -> None:
    agent, _ = agent_of("one", "two", "three")
    assert (await agent.run("Go", run_id="mine")).run_id == "mine"
    assert (await agent.run("Go")).run_id != (await agent.run("Go")).run_id


async def test_half_characters_in_everything_that_is_given_are_replaced() -> None:
    agent, model = agent_of("done", instructions="in\ud800", description="de\ud800")
    result = await agent.run("Go\ud800")
    assert model.requests[0].text == "in\ufffd\nGo\ufffd"
    assert result.text == "done"


def test_run_sync_runs_to_the_end() -> None:
    agent, _ = agent_of(Turn(tool_calls=[call("lookup", {"q": "x"})]), "done", tools=[lookup])
    assert agent.run_sync("Go").text == "done"


async def test_run_sync_works_under_a_running_event_loop() -> None:
    agent, _ = agent_of(Turn(tool_calls=[call("lookup", {"q": "x"})]), "done", tools=[lookup])
    assert agent.run_sync("Go").text == "done"


async def test_run_sync_works_in_a_worker_thread() -> None:
    agent, _ = agent_of("done")
    assert (await anyio.to_thread.run_sync(lambda: agent.run_sync("Go"))).text == "done"


async def test_run_sync_sees_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    agent, model = agent_of("done", instructions=lambda context: variable.get())
    agent.run_sync("Go")
    assert model.requests[0].instructions == "set"


async def test_run_sync_asks_a_server_through_the_same_model_as_run() -> None:
    async with FakeOpenAI([Turn("done", repeat=True)]) as server:
        model = OpenAIChatModel("m", base_url=server.base_url, api_key="key")
        agent = Agent("a", model=model)
        assert (await agent.run("Go")).text == agent.run_sync("Go").text == (await agent.run("Go")).text
        await model.aclose()


@pytest.mark.parametrize("wrong", ["model", "argument"])
def test_run_sync_raises_what_run_raises(wrong: str) -> None:
    agent, _ = agent_of(http_error(500, "down"))
    with pytest.raises(RunError if wrong == "model" else ConfigError):
        agent.run_sync("Go" if wrong == "model" else " ")


@pytest.mark.parametrize("wrong", ["model", "argument"])
async def test_run_sync_under_a_loop_raises_what_run_raises(wrong: str) -> None:
    agent, _ = agent_of(http_error(500, "down"))
    with pytest.raises(RunError if wrong == "model" else ConfigError):
        agent.run_sync("Go" if wrong == "model" else " ")


async def test_an_agent_serves_many_runs_at_once() -> None:
    agent = Agent("a", model=ScriptedModel(lambda request: f"to {request.texts[-1]}"))
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        answers[number] = (await agent.run(f"{number}")).text

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, number)
    assert answers == {number: f"to {number}" for number in range(20)}
