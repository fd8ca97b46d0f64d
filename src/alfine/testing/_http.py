"""As much of HTTP/1.1 as a model server needs: requests with a body, JSON responses, chunked streams, keep-alive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from anyio.abc import ByteStream


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """A request as it came; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HttpConnection:
    """One client's connection. Every method may raise `anyio.BrokenResourceError` when the client is gone."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self.answered = False
        """Whether the last write of the answer has begun."""

    async def read(self) -> HttpMessage | None:
        """Return the next request, or None when the client has closed the connection or talks something else."""
        self.answered = False
        searched = 0
        while (end := self._buffer.find(b"\r\n\r\n", searched)) < 0:
            searched = max(0, len(self._buffer) - 3)
            if not await self._receive():
                return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        length = headers.get("content-length", "0")
        words = first.split(" ")
        if len(words) != 3 or not length.isdecimal():
            return None
        whole = end + 4 + int(length)
        while len(self._buffer) < whole:
            if not await self._receive():
                return None
        body = bytes(self._buffer[end + 4 : whole])
        del self._buffer[:whole]
        return HttpMessage(words[0], words[1], headers, body)

    async def until_gone(self) -> None:
        """Return once the client has closed the connection."""
        while await self._receive():
            pass

    async def send_json(self, status: int, payload: object, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole response."""
        await self.send_body(status, to_json(payload), headers=headers)

    async def send_body(
        self, status: int, body: bytes, *, headers: Mapping[str, str] | None = None, length: int | None = None
    ) -> None:
        """Send a response with a JSON body; `length` announces another length than the body has."""
        fields = {"content-type": "application/json", "content-length": str(len(body) if length is None else length)}
        self.answered = True
        await self._stream.send(_head(status, {**fields, **(headers or {})}) + body)

    async def start_stream(self) -> None:
        """Send the head of a stream of server-sent events."""
        await self._stream.send(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))

    async def send_frames(self, frames: Iterable[bytes], *, end: bool = False) -> None:
        """Send frames in one write, each as an HTTP chunk of its own; `end` ends the stream properly."""
        # An empty chunk would end the body, so empty frames are left out.
        data = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames if frame)
        if end:
            self.answered = True
            data += b"0\r\n\r\n"
        if data:
            await self._stream.send(data)

    async def _receive(self) -> bool:
        try:
            self._buffer += await self._stream.receive()
        except (EndOfStream, BrokenResourceError, ClosedResourceError):
            return False
        return True


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {_phrase(status)}\r\n{lines}\r\n".encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"  # 529 and its like are in use, but in no standard


def to_json(payload: object) -> bytes:
    """Return `payload` as UTF-8 JSON; lone surrogates, which UTF-8 cannot hold, as escapes."""
    try:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":")).encode()


def from_json(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in `body`, or None where there is none."""
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
