"""Models that are asked over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from alfine import OpenAIChatModel
from alfine.testing import FakeOpenAI


@asynccontextmanager
async def chat(server: FakeOpenAI, name: str = "m") -> AsyncIterator[OpenAIChatModel]:
    """A model of a server, through the real client; nothing is tried twice."""
    model = OpenAIChatModel(name, base_url=server.base_url, api_key="key", max_retries=0)
    yield model
    await model.aclose()
