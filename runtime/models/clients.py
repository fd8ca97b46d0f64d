"""One openai client per model and event loop: a connection pool cannot be taken to another loop."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio.lowlevel import RunVar

if TYPE_CHECKING:
    from openai import AsyncOpenAI


@dataclass(slots=True)
class _Entry:
    owner: weakref.ref[object]
    client: AsyncOpenAI
    keeper: AsyncGenerator[AsyncOpenAI, None]


_entries: RunVar[dict[int, _Entry]] = RunVar("alfine_clients")


async def open_client(owner: object, make: Callable[[], AsyncOpenAI]) -> AsyncOpenAI:
    """Return the owner's client on this event loop, made by `make` at the first call.

    It is closed by `close_client`, or when the loop ends, or after its owner is gone, when the next one is opened.
    """
    entries = _entries.get({})
    entry = entries.get(id(owner))
    if entry is not None and entry.owner() is owner:
        return entry.client
    _entries.set(entries)
    orphans = [key for key, entry in entries.items() if entry.owner() is None]
    closing = [entries.pop(key).keeper for key in orphans]
    # No await until the entry stands, so that tasks that come here at once share one client.
    client = make()
    keeper = _keep(client)
    entries[id(owner)] = _Entry(weakref.ref(owner), client, keeper)
    await anext(keeper)
    for old in closing:
        await old.aclose()
    return client


async def close_client(owner: object) -> None:
    """Close the owner's client on this event loop, if there is one."""
    entries = _entries.get({})
    entry = entries.get(id(owner))
    if entry is not None and entry.owner() is owner:
        del entries[id(owner)]
        await entry.keeper.aclose()


async def _keep(client: AsyncOpenAI) -> AsyncGenerator[AsyncOpenAI, None]:
    # Event loops close the async generators that are left when they end: the one hook that asyncio and trio share.
    try:
        yield client
    finally:
        await client.close()
