"""How a turn looks on the wire: chat completion chunks as server-sent events, or one JSON object."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from alfine.runtime.limits import Usage
from alfine.runtime.models import ReasoningPart, TextPart

from ._http import HttpConnection, to_json
from ._play import OutputPart
from .faults import Cut, ErrorInStream, HttpError, MalformedChunk, Raw
from .turns import Turn

DONE = b"data: [DONE]\n\n"


@dataclass(slots=True)
class Frames:
    """The frames of one stream. Pauses count the output frames."""

    opening: list[bytes] = field(default_factory=list)
    output: list[bytes] = field(default_factory=list)
    closing: list[bytes] = field(default_factory=list)
    cut: bool = False


class Completion:
    """One answer to one request, in the two forms that a client can ask for."""

    def __init__(self, turn: Turn, parts: list[OutputPart], body: Mapping[str, Any], completion_id: str) -> None:
        self.turn = turn
        self.parts = parts
        self.with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self.head = {"id": completion_id, "created": int(time.time()), "model": body["model"]}

    async def send_stream(self, connection: HttpConnection) -> bool:
        """Stream the answer; return whether the connection stays open."""
        frames = self._frames()
        await connection.start_stream()
        waiting, total = frames.opening, len(frames.output)
        for position, frame in enumerate([*frames.output, b""]):
            if self.turn.pauses_at(position, total):
                await connection.send_frames(waiting)
                waiting = []
                await self.turn.pause(position, total)
            waiting.append(frame)
        await connection.send_frames(waiting + frames.closing, end=not frames.cut)
        return not frames.cut

    async def send_whole(self, connection: HttpConnection) -> bool:
        """Send the answer as one JSON object; return whether the connection stays open."""
        if self.turn.wait:
            await self.turn.wait.wait()  # there are no pieces that could come before the wait
        body = to_json(self._object())
        match self.turn.fault:
            case Cut():
                await connection.send_body(200, body[: len(body) // 2], length=len(body))
                return False
            case MalformedChunk(_, frame):
                await connection.send_body(200, frame.encode())
            case ErrorInStream(message, _, code):
                await connection.send_json(200, error_object(message, code=code))
            case Raw(frames):
                await connection.send_body(200, b"".join(_raw_frame(frame) for frame in frames))
            case _:
                await connection.send_body(200, body)
        return True

    def _frames(self) -> Frames:
        fault = self.turn.fault
        if isinstance(fault, Raw):
            frames = [_raw_frame(frame) for frame in fault.frames]
            return Frames(output=frames, closing=[DONE] if fault.done else [])
        opening = [self._chunk({"role": "assistant", "content": "", "refusal": None})]
        output = [self._chunk(self._delta(part)) for part in self.parts]
        match fault:
            case Cut(after):
                return Frames(opening, output[: after or 0], cut=True)
            case ErrorInStream(message, after, code):
                return Frames(opening, [*output[:after], _event(error_object(message, code=code))])
            case MalformedChunk(after, frame):
                output.insert(after, b"data: %b\n\n" % frame.encode())
        return Frames(opening, output, self._closing())

    def _closing(self) -> list[bytes]:
        closing = [self._chunk({}, self.turn.ends_with)]
        if self.with_usage and self.turn.usage is not None:
            closing.append(self._event([], usage_object(self.turn.usage)))
        return [*closing, DONE]

    def _chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}])

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        chunk = {**self.head, "object": "chat.completion.chunk", "choices": choices}
        return _event({**chunk, "usage": usage} if self.with_usage else chunk)

    def _delta(self, part: OutputPart) -> dict[str, Any]:
        if isinstance(part, TextPart):
            return {"refusal" if self.turn.refusal else "content": part.text}
        if isinstance(part, ReasoningPart):
            return {"reasoning_content": part.text}
        piece: dict[str, Any] = {"index": part.position, "function": {"arguments": part.arguments}}
        if not part.arguments:  # the part that begins a call
            piece |= {"id": part.call_id, "type": "function", "function": {"name": part.name, "arguments": ""}}
        return {"tool_calls": [piece]}

    def _object(self) -> dict[str, Any]:
        turn = self.turn
        spoken = None if turn.refusal or (turn.tool_calls and not turn.text) else turn.text
        message = {"role": "assistant", "content": spoken, "refusal": turn.text if turn.refusal else None}
        if turn.reasoning:
            message["reasoning_content"] = turn.reasoning
        begun = [
            part.call_id for part in self.parts if not isinstance(part, TextPart | ReasoningPart) and not part.arguments
        ]
        calls = [
            {"id": call_id, "type": "function", "function": {"name": wanted.name, "arguments": wanted.arguments}}
            for call_id, wanted in zip(begun, turn.tool_calls, strict=True)
        ]
        choice = {
            "index": 0,
            "message": {**message, "tool_calls": calls} if calls else message,
            "logprobs": None,
            "finish_reason": turn.ends_with,
        }
        whole = {**self.head, "object": "chat.completion", "choices": [choice]}
        return whole if turn.usage is None else {**whole, "usage": usage_object(turn.usage)}


async def send_http_error(connection: HttpConnection, error: HttpError) -> None:
    """Answer with an HTTP error in OpenAI's shape."""
    headers = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}
    await connection.send_json(error.status, error_object(error.message, error.status, error.code), headers)


def error_object(message: str, status: int = 500, code: str | None = None) -> dict[str, Any]:
    """Return the object by which OpenAI reports an error."""
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return `usage` in the fields of a chat completion."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _event(payload: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % to_json(payload)


def _raw_frame(frame: bytes | str | Mapping[str, Any]) -> bytes:
    if isinstance(frame, Mapping):
        return _event(frame)
    return frame.encode() if isinstance(frame, str) else frame
