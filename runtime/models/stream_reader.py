"""Reads the body of a Chat Completions response: bytes in, parts out. It reads no socket."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import from_json

from ..errors import ModelError
from ..json_text import is_json_object, read_json
from .failures import Failures
from .protocol import Part
from .reply import ReplyBuilder
from .sse import BOM, EventSplitter


class StreamReader:
    """One attempt at a reply.

    Args:
        builder: puts the reply together.
        failures: builds the errors.
        content_type: the response's. A server that does not stream answers with one JSON object, under any type.

    Attributes:
        done: the server has sent its last frame.
        failure: what was wrong with the bytes, if something was.
    """

    def __init__(self, builder: ReplyBuilder, failures: Failures, content_type: str = "text/event-stream") -> None:
        self._builder = builder
        self._failures = failures
        self._splitter = EventSplitter()
        # The body so far while it may be one JSON object, None once it is events; whether it is surely an object.
        self._whole: list[bytes] | None = []
        self._is_object = self._seen_brace = False
        self._content_type = content_type
        self.done = False
        self.failure: ModelError | None = None

    @property
    def has_output(self) -> bool:
        """Whether anything of an answer has come."""
        return self._builder.has_output

    @property
    def is_complete(self) -> bool:
        """Whether the server has said that the reply ends here."""
        return self.done or self._builder.finish_reason is not None

    def read(self, chunk: bytes) -> Sequence[Part]:
        """Take the next bytes and return the parts that they complete.

        Where the server reports an error, or sends what is no chunk, the parts before it come and `failure` says what
        was wrong; nothing must be read after that. A list and no generator, since every token comes through here.
        """
        if self._whole is not None:
            self._whole.append(chunk)
            if self._is_object or self._may_be_object(chunk):
                return ()
            chunk = b"".join(self._whole)
            self._whole = None
        parts: list[Part] = []
        try:
            for name, data in self._splitter.feed(chunk):
                if not name and not self.done:
                    try:
                        frame = from_json(data)
                    except ValueError:
                        frame = None
                    if type(frame) is dict and "choices" in frame and not frame.get("error"):
                        self._builder.feed(frame, parts)
                        continue
                self._event(name, data, parts)
        except ModelError as error:
            self.failure = error
        return parts

    def end(self) -> list[Part]:
        """Say that no more bytes come; gives what is left, the `Reply` last.

        Raises:
            ModelError: as `read`; also when nothing of an answer has come.
        """
        parts: list[Part] = []
        if self._whole is not None:
            self._event(b"", b"".join(self._whole).removeprefix(BOM), parts)
        else:
            for name, data in self._splitter.end():
                self._event(name, data, parts)
        if self._builder.finish_reason == "error":
            raise self._failures.error("broke off its answer with an error", retryable=True)
        if not self.is_complete and not self.has_output:
            if self._content_type.startswith("text/html"):
                raise self._failures.error("answered with a web page; check the base URL")
            raise self._failures.error("ended its stream without an answer", retryable=True)
        return parts + self._builder.end()

    def _may_be_object(self, chunk: bytes) -> bool:
        """Whether the body, of which `chunk` came last, may be one JSON object rather than events."""
        if len(self._whole or ()) > 1 and self._seen_brace and b"\n" not in chunk:
            return True
        body = b"".join(self._whole or ())
        start = body.removeprefix(BOM).lstrip()
        if not start or BOM.startswith(body):
            return True
        if not start.startswith(b"{"):
            return False
        self._seen_brace = True
        if self._content_type.startswith("application/json"):
            self._is_object = True
            return True
        line, end, _ = start.partition(b"\n")
        if end:
            # Some servers send events as bare lines of JSON: there the first line is an object of its own.
            self._is_object = not is_json_object(line.decode("utf-8", "replace"))
            return self._is_object
        return True

    def _event(self, name: bytes, data: bytes, parts: list[Part]) -> None:
        if self.done or not data.strip():
            return
        if data.strip() == b"[DONE]":
            self.done = True
            return
        try:
            frame = read_json(data)
        except ValueError as error:
            if name == b"error":
                raise self._failures.reported(data.decode("utf-8", "replace")) from error
            shown = self._failures.mask(data.decode("utf-8", "replace"))[:200]
            raise self._failures.error(f"sent a chunk that is no JSON: {shown!r}") from error
        if name == b"error":
            raise self._failures.reported(frame)
        if not isinstance(frame, dict):
            raise self._failures.error(
                f"sent a chunk that is no JSON object: {self._failures.mask(str(frame))[:200]!r}"
            )
        if frame.get("error") or frame.get("object") == "error":
            raise self._failures.reported(frame)
        self._builder.feed(frame, parts)
