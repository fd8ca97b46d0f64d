"""Carrying out the tool calls of one reply, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from . import tracing
from .errors import BudgetError, ToolError, text_of
from .events import ToolCalled, ToolReturned
from .journal import ChildRun, Failure, Journal, LimitReached, Op
from .messages import ToolCall, clean
from .models import Reply
from .tools import CallContext, ToolResult

if TYPE_CHECKING:
    from .run import Run

Work = Op[ToolResult] | ChildRun[ToolResult]


async def call_tools(run: Run, reply: Reply) -> None:
    """Carry out the calls of `reply` and append their results to the conversation, in call order.

    Whatever happens to a call, it gets one result.
    """
    run.stall.saw(reply.tool_calls)
    for position, open_call in enumerate(run.open_calls):
        call = open_call.call
        open_call.called = ToolCalled(*run.head, run.step, position, call.id, call.name, call.arguments)
        await run.emit(open_call.called)
    calls = [CallContext(run, run.step, position, call) for position, call in enumerate(reply.tool_calls)]
    work = [_work(context) for context in calls]

    async def settled(index: int, value: ToolResult | Failure | LimitReached) -> None:
        await _settle(calls[index], value)

    await run.journal.gather(work, width=run.spec.max_parallel, settled=settled)
    results = [open_call.result for open_call in run.open_calls]
    run.answer_open_calls()
    for result in results:
        if result is not None and result.answer is not None:
            run.bail(result.answer)
        elif result is not None and result.feedback:
            run.remarks.append(result.feedback)


def _work(context: CallContext) -> Work:
    """Return the effect that carries out a call, inside a span of its own."""
    run, call = context.run, context.call
    tool = run.spec.tools.get(call.name)
    if tool is None:
        known = ", ".join(run.spec.tools) or "none"
        plan: ToolResult | Work = ToolResult(f"There is no tool named {call.name!r}. Tools: {known}.", failed=True)
    else:
        try:
            plan = tool.plan(context)
        except Exception as error:
            plan = _failed(context, Failure(error))
    if not isinstance(plan, ToolResult):
        try:
            run.spec.budget.reserve_tool_call()
        except BudgetError as error:
            run.over_limit = error.limit
            plan = ToolResult("Not carried out: the run's limit on tool calls is used up.", failed=True)
    definition = tool.definition if tool else None
    target = tool.target if tool else None

    if isinstance(plan, ChildRun):
        child = plan.body

        async def child_body(journal: Journal) -> ToolResult:
            with tracing.tool_span(run.spans, run.spec.agent, call, definition, target) as span:
                return span.finish(await child(journal))

        return replace(plan, body=child_body)

    async def body() -> ToolResult:
        with tracing.tool_span(run.spans, run.spec.agent, call, definition, target) as span:
            return span.finish(plan if isinstance(plan, ToolResult) else await plan.body())

    if isinstance(plan, ToolResult):
        return Op(context.key, body, ToolResult)
    return replace(plan, body=body, deadlines=(*plan.deadlines, *run.spec.deadlines))


async def _settle(context: CallContext, value: ToolResult | Failure | LimitReached) -> None:
    run, call = context.run, context.call
    result = value if isinstance(value, ToolResult) else _failed(context, value)
    result = _sound(context, result)
    open_call = run.open_calls[context.position]
    open_call.result = result
    open_call.returned = ToolReturned(
        *run.head, context.step, context.position, call.id, call.name, result.text, result.failed
    )
    await run.emit(open_call.returned)


def _sound(context: CallContext, result: ToolResult) -> ToolResult:
    """Return a result whose texts are texts that can be sent; one with something else in them has failed."""
    texts = (result.text, result.answer or "", result.feedback or "", result.evidence or "")
    if not all(isinstance(text, str) for text in texts):
        return ToolResult(f"The tool {context.call.name!r} failed: its ToolResult holds what is no text.", failed=True)
    return replace(result, text=clean(result.text))


def _failed(context: CallContext, value: Failure | LimitReached) -> ToolResult:
    run, name = context.run, context.call.name
    if isinstance(value, LimitReached):
        if value.name == "timeout":
            return ToolResult(f"The tool {name!r} did not finish in time.", failed=True)
        run.over_limit = "wall_time"
        return ToolResult(f"The tool {name!r} was cut: the run's time is used up.", failed=True)
    if isinstance(value.error, BudgetError):
        run.over_limit = value.error.limit
        return ToolResult(f"The tool {name!r} was cut: a usage limit of the run is used up.", failed=True)
    if isinstance(value.error, ToolError):
        return ToolResult(text_of(value.error), failed=True)
    tool = run.spec.tools.get(name)
    if tool is not None and tool.target is not None:
        # Exception texts of a sub-agent's machinery are for people, not for a model.
        return ToolResult(f"The agent {tool.target!r} failed.", failed=True)
    return ToolResult(f"The tool {name!r} failed: {type(value.error).__name__}: {text_of(value.error)}", failed=True)


def with_unique_ids(calls: Sequence[ToolCall], used: set[str], streamed: Mapping[int, str]) -> tuple[ToolCall, ...]:
    """Return `calls` with clean texts, and with ids that occur once in the conversation; `used` takes note of them.

    Args:
        streamed: position to id, for calls that got theirs while they were streamed.
    """
    return tuple(
        ToolCall(streamed.get(position) or take_id(call.id, used), clean(call.name), clean(call.arguments))
        for position, call in enumerate(calls)
    )


def take_id(wanted: str, used: set[str]) -> str:
    """Return `wanted`, with a number where it is used already, and note it in `used`."""
    name = wanted = clean(wanted) or "call"
    count = 1
    while name in used:
        count += 1
        name = f"{wanted}_{count}"
    used.add(name)
    return name
