"""Asking a model: the budget, the span and the parts of one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from . import tracing
from .errors import ModelError
from .limits import Budget
from .models import Model, ModelRequest, Part, Reply

Sink = Callable[[Part], Awaitable[None] | None]


async def stream_reply(
    model: Model,
    request: ModelRequest,
    *,
    budget: Budget | None = None,
    sink: Sink | None = None,
    spans: tracing.SpanScope = tracing.NO_SCOPE,
) -> Reply:
    """Ask `model` and return its whole reply.

    Args:
        budget: the call is reserved there before it starts, and its usage counted when it is known.
        sink: gets each part as it comes; what it returns is awaited if it is not None.
        spans: the run whose trace the call belongs to.

    Raises:
        BudgetError: no call is left.
        ModelError: the call failed.
    """
    if budget is not None:
        budget.reserve_request(model.provider, model.name)
    reply: Reply | None = None
    with tracing.chat_span(spans, model, request) as span:
        async with aclosing(model.stream(request)) as parts:
            async for part in parts:
                if type(part) is Reply:
                    reply = part
                    continue
                if span.waiting:
                    span.first_part()
                if sink is not None and (pause := sink(part)) is not None:
                    await pause
        if reply is None:
            raise ModelError(f"the stream of {model.provider}/{model.name} ended without a reply", model=model.name)
        if budget is not None:
            budget.add(reply.usage, model.provider, model.name)
        span.finish(reply)
    return reply
