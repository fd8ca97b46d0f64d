"""Server-sent events: bytes in, events out. It reads no socket and knows no JSON."""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"

Event = tuple[bytes, bytes]
"""An event's name (empty where none was sent) and its data, several data lines joined by a line feed."""


class EventSplitter:
    """Splits a stream of server-sent events, wherever the network has cut it.

    Lines end with CRLF, LF or CR. Comments, `id`, `retry` and events without data are dropped. A line that begins with
    `{` counts as data: some servers send an error as a bare line of JSON. The time it takes is linear in the bytes.
    """

    __slots__ = ("_after_cr", "_data", "_name", "_started", "_tail")

    def __init__(self) -> None:
        self._tail = bytearray()
        self._data: list[bytes] = []
        self._name = b""
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the events that they complete."""
        if chunk.endswith(b"\n\n") and not (self._tail or self._data or self._after_cr or b"\r" in chunk):
            # What nearly every server sends nearly always: whole events of one data line each.
            out: list[Event] = []
            if chunk.startswith(b"data: ") and chunk.find(b"\n") == len(chunk) - 2 and not self._name:
                self._started = True
                return [(b"", chunk[6:-2])]
            for block in chunk[:-2].split(b"\n\n"):
                if block.startswith(b"data: ") and b"\n" not in block:
                    out.append((self._name, block[6:]))
                    self._name = b""
                else:
                    self._take(block.split(b"\n"), out)
                    self._take([b""], out)
            self._started = True
            return out
        return self._feed_slowly(chunk)

    def end(self) -> list[Event]:
        """Say that no more bytes come; returns the last event where its blank line is missing."""
        out: list[Event] = []
        self._take([bytes(self._tail), b""], out)
        self._tail.clear()
        return out

    def _feed_slowly(self, chunk: bytes) -> list[Event]:
        # A CR ends its line at once; an LF that follows it belongs to it, even when it comes with the next bytes.
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        out: list[Event] = []
        if b"\n" not in chunk:
            self._tail += chunk
            return out
        lines = chunk.split(b"\n")
        if self._tail:
            self._tail += lines[0]
            lines[0] = bytes(self._tail)
        self._tail = bytearray(lines.pop())
        self._take(lines, out)
        return out

    def _take(self, lines: list[bytes], out: list[Event]) -> None:
        for line in lines:
            if not self._started:
                self._started = True
                line = line.removeprefix(BOM)
            if not line:
                if self._data:
                    out.append((self._name, b"\n".join(self._data)))
                    self._data.clear()
                self._name = b""
            elif line.startswith(b"{"):
                self._data.append(line)
            else:
                field, _, value = line.partition(b":")
                if field == b"data":
                    self._data.append(value.removeprefix(b" "))
                elif field == b"event":
                    self._name = value.removeprefix(b" ")
