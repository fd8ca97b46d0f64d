"""alfine under the benchmark's drivers: `Agent.stream()` and `is_task_complete`, every delta as it comes."""

from __future__ import annotations

import importlib.metadata
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any

import openai  # noqa: F401 - loaded outside of the timed part, as the bare client's driver loads it

from alfine import Agent, OpenAIChatModel, Score, tool

IMPORT = "from alfine import Agent"
VERSION = "alfine " + importlib.metadata.version("alfine")
RULES = "You lead. Ask, then answer."


def ends_in_pass(output: str) -> Score:
    return Score(float(output.endswith("PASS")), reason="Not done: PASS is missing. Try again.")


class Deltas:
    """The run's own text, delta by delta. A class and no generator: nothing is ever yielded inside the block."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.text: AsyncIterator[str] | None = None

    def __aiter__(self) -> Deltas:
        return self

    async def __anext__(self) -> str:
        if self.text is None:
            await self.stream.__aenter__()
            self.text = self.stream.text(drafts=True)
        try:
            return await self.text.__anext__()
        except StopAsyncIteration:
            await self.stream.__aexit__(None, None, None)
            raise


class Driver:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.models: list[OpenAIChatModel] = []
        self.writer, self.looker, self.lead = (lru_cache(None)(f) for f in (self.writer, self.looker, self.lead))

    async def aclose(self) -> None:
        for model in self.models:
            await model.aclose()

    def model(self, name: str) -> OpenAIChatModel:
        self.models.append(OpenAIChatModel(name, base_url=self.base_url, api_key="x"))
        return self.models[-1]

    def writer(self, model: str) -> Agent:
        return Agent("writer", model=self.model(model))

    def looker(self, model: str, size: int) -> Agent:
        @tool
        async def lookup(q: str) -> str:
            """Look something up."""
            return "x" * size

        return Agent("looker", model=self.model(model), instructions=RULES, tools=[lookup], max_steps=1000)

    def lead(self, model: str) -> Agent:
        alpha = Agent("alpha", model=self.model("sub" + model[model.rindex("-n") :]), instructions="You are alpha.")
        return Agent(
            "lead",
            model=self.model(model),
            instructions=RULES,
            agents=[alpha],
            max_steps=1000,
            is_task_complete={"scorers": [ends_in_pass]},
        )

    def text(self, model: str) -> Deltas:
        return Deltas(self.writer(model).stream("write"))

    def tool(self, rid: str, model: str, size: int) -> Deltas:
        return Deltas(self.looker(model, size).stream(f"Do the work. run={rid}"))

    def loop(self, rid: str, model: str) -> Deltas:
        return Deltas(self.lead(model).stream(f"Do the work. run={rid}"))
