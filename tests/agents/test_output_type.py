"""Structured answers: a type is asked for, and read from the answer's text."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator
from teams import asks, hand, model_of, story_of, tool_results

from alfine import Agent, OpenAIChatModel, Score, tool
from alfine.runtime.events import CheckFinished, FeedbackInjected, RunFinished, StepFinished
from alfine.testing import FakeOpenAI, Turn, call


class Town(BaseModel):
    """A town."""

    name: str
    people: int

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name == "Atlantis":
            raise ValueError("no such town")
        if name == "Babel":
            raise KeyError(name)
        return name


BERN = Town(name="Bern", people=134_000)
JSON = BERN.model_dump_json()


def agent_of(*replies: Turn | str, output_type: Any = Town, **options: Any) -> tuple[Agent[Any], Any]:
    model = model_of(*replies)
    return Agent("a", model=model, output_type=output_type, **options), model


FITTING = [
    pytest.param(JSON, id="JSON"),
    pytest.param(f" \n{JSON}\n ", id="space around it"),
    pytest.param(f"```json\n{JSON}\n```", id="in a fence"),
    pytest.param(f"```\n{JSON}\n```\n", id="in a fence without a language"),
    pytest.param(f"```json\r\n{JSON}\r\n```", id="in a fence with CRLF"),
    pytest.param(f"```{JSON}```", id="in a fence on one line"),
    pytest.param(f"Here is the town:\n\n```json\n{JSON}\n```\nAnything else?", id="prose around a fence"),
]


@pytest.mark.parametrize("text", FITTING)
async def test_an_answer_that_fits_is_the_output(text: str) -> None:
    agent, model = agent_of(text)
    result = await agent.run("Which town?")
    assert result.complete
    assert (result.output, result.text) == (BERN, text)
    assert model.requests[0].output.schema == Town.model_json_schema()


async def test_fences_inside_a_value_are_part_of_it() -> None:
    town = Town(name="```Bern```", people=1)
    for text in (town.model_dump_json(), f"```json\n{town.model_dump_json()}\n```"):
        assert (await agent_of(text)[0].run("Go")).output == town


UNFIT = [
    pytest.param("Bern, I think.", "the answer", id="prose"),
    pytest.param("", "the answer", id="nothing"),
    pytest.param('{"name": "Bern"', "the answer", id="cut"),
    pytest.param('{"name": "Bern"}', "people: Field required", id="a field is missing"),
    pytest.param('{"name": "Bern", "people": "many"}', "people: Input should be a valid integer", id="a wrong type"),
    pytest.param('{"name": "Atlantis", "people": 1}', "no such town", id="a validator says no"),
    pytest.param('{"name": "Babel", "people": 1}', "KeyError", id="a validator raises what it should not"),
    pytest.param(f"```json\n{JSON}\n```\nor\n```json\n{JSON}\n```", "the answer", id="two fences"),
    pytest.param("[" * 100_000, "the answer", id="nested without end"),
]


@pytest.mark.parametrize(("text", "reason"), UNFIT)
async def test_an_answer_that_does_not_fit_goes_back_with_what_is_wrong(text: str, reason: str) -> None:
    agent, model = agent_of(text, JSON)
    story = await story_of(agent)
    assert story.result.output == BERN
    assert [step.text for step in story.result.steps] == [text, JSON]
    feedback = story.one(FeedbackInjected)
    assert (feedback.source, feedback.step) == ("output", 1)
    assert reason in feedback.text
    assert feedback.text == model.requests[1].texts[-1]


@pytest.mark.parametrize(("text", "reason"), UNFIT)
async def test_without_an_answer_that_fits_the_run_ends_once_without_an_output(text: str, reason: str) -> None:
    agent, model = agent_of(Turn(text, repeat=True), max_steps=2)
    story = await story_of(agent)
    assert (story.result.outcome, story.result.output, story.result.text) == ("max_steps", None, text)
    assert len(model.requests) == 2
    story.one(RunFinished)


async def test_no_scorer_sees_an_answer_that_does_not_fit() -> None:
    seen: list[str] = []

    def large(output: str) -> Score:
        seen.append(output)
        return Score(float(json.loads(output)["people"] > 100_000), reason="TOO-SMALL")

    small = '{"name": "Thun", "people": 44000}'
    agent, model = agent_of("prose", small, JSON, is_task_complete={"scorers": [large]})
    story = await story_of(agent)
    assert story.result.output == BERN
    assert seen == [small, JSON]
    assert [e.graded for e in story.all(StepFinished)] == [False, True, True]
    assert [e.passed for e in story.all(CheckFinished)] == [False, True]
    assert "TOO-SMALL" in model.requests[2].text


async def test_the_output_is_that_of_the_best_answer() -> None:
    def size(output: str) -> Score:
        return Score(json.loads(output)["people"] / 1_000_000, reason="small")

    small = '{"name": "Thun", "people": 44000}'
    agent, _ = agent_of(JSON, small, is_task_complete={"scorers": [size]}, max_steps=2)
    result = await agent.run("Go")
    assert (result.outcome, result.text, result.output) == ("max_steps", JSON, BERN)


async def test_tools_may_be_called_before_the_answer() -> None:
    @tool
    def count(town: str) -> int:
        """Count the people."""
        return 134_000

    agent, _ = agent_of(Turn("Counting", tool_calls=[call("count", {"town": "Bern"})]), JSON, tools=[count])
    assert (await agent.run("Go")).output == BERN


TYPES = [
    pytest.param(int, "5", 5, id="int"),
    pytest.param(list[int], "[1, 2]", [1, 2], id="list"),
    pytest.param(dict[str, int], '{"a": 1}', {"a": 1}, id="dict"),
    pytest.param(int | None, "null", None, id="optional"),
    pytest.param(Literal["a", "b"], '"b"', "b", id="literal"),
    pytest.param(list[Town], f"[{JSON}]", [BERN], id="list of models"),
]


@pytest.mark.parametrize(("kind", "text", "value"), TYPES)
async def test_any_type_that_pydantic_knows_can_be_asked_for(kind: Any, text: str, value: Any) -> None:
    result = await agent_of(text, output_type=kind)[0].run("Go")
    assert result.complete
    assert result.output == value


async def test_the_schema_goes_to_the_server_and_the_answer_comes_back_typed() -> None:
    async with FakeOpenAI([JSON]) as server:
        model = OpenAIChatModel("m", base_url=server.base_url, api_key="key")
        result = await Agent("a", model=model, output_type=Town).run("Go")
        await model.aclose()
    output: Town | None = result.output
    assert output == BERN
    assert server.requests[0].body["response_format"]["json_schema"]["name"] == "Town"


async def test_a_sub_agents_structured_answer_is_text_for_the_supervisor() -> None:
    sub, _ = agent_of("prose", JSON)
    lead = model_of(asks(hand("a")), "the end")
    await Agent("lead", model=lead, agents=[sub]).run("Go")
    assert tool_results(lead) == [JSON]


async def test_a_huge_answer_in_half_a_fence_costs_no_time() -> None:
    agent, _ = agent_of("```" + " \n" * 2_000_000, max_steps=1)
    began = time.process_time()
    assert (await agent.run("Go")).output is None
    assert time.process_time() - began < 2
