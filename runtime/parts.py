"""From the parts of a reply to events: the path that every token takes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from .ask import Sink
from .events import Event, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStarted
from .messages import clean
from .models import Part, ReasoningPart, TextPart, ToolCallPart
from .tool_calls import take_id

if TYPE_CHECKING:
    from .run import Run


def part_sink(run: Run) -> Sink:
    """Return what takes the parts of the run's next reply, keeps its text and shows each part as an event.

    It returns an awaitable only when the buffer is full, so that a token costs no hand-over.
    """
    run_id, agent, depth = run.head
    step, draft, put, space = run.step, run.spec.may_reject, run.buffer.put, run.buffer.space
    pieces = run.draft
    pieces.clear()
    run.asked = True
    ids = run.draft_ids
    ids.clear()

    def take(part: Part) -> Awaitable[None] | None:
        kind = type(part)
        event: Event
        if kind is TextPart:
            text = part.text  # type: ignore[union-attr]  # `kind` says so; isinstance costs twice as much
            if not text.isascii():
                text = clean(text)
            pieces.append(text)
            event = TextDelta(run_id, agent, depth, step, text, draft)
        elif isinstance(part, ToolCallPart):
            if part.position not in ids:
                ids[part.position] = take_id(part.call_id, run.call_ids)
                put(ToolCallStarted(run_id, agent, depth, step, part.position, ids[part.position], clean(part.name)))
            if not part.arguments:
                return None
            call_id = ids[part.position]
            event = ToolCallDelta(run_id, agent, depth, step, part.position, call_id, clean(part.arguments))
        elif isinstance(part, ReasoningPart):
            event = ReasoningDelta(run_id, agent, depth, step, clean(part.text))
        else:
            return None
        return space() if put(event) else None

    return take
