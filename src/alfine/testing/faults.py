"""What can go wrong between a client and a model server. Each function returns a turn for a script.

`FakeOpenAI` does these things on the wire. `ScriptedModel` has no wire: it streams what comes before the fault and
raises the `ModelError` that a client would report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alfine.runtime.errors import ConfigError, ModelError

from .turns import Turn


@dataclass(frozen=True, slots=True)
class HttpError:
    """The server answers with an HTTP error."""

    status: int
    message: str
    retry_after: float | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is closed after so many pieces; None: before the head of the response."""

    after_deltas: int | None


@dataclass(frozen=True, slots=True)
class MalformedChunk:
    """A frame that is not JSON, after so many pieces; then the stream goes on."""

    after_deltas: int
    frame: str


@dataclass(frozen=True, slots=True)
class ErrorInStream:
    """An error object inside the stream, after so many pieces; then the stream ends."""

    message: str
    after_deltas: int
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Raw:
    """The frames of the stream, written out."""

    frames: tuple[bytes | str | Mapping[str, Any], ...]
    done: bool


Fault = HttpError | Cut | MalformedChunk | ErrorInStream | Raw


def http_error(
    status: int, message: str = "", *, retry_after: float | None = None, code: str | None = None, repeat: bool = False
) -> Turn:
    """Answer with an HTTP error instead of a reply.

    Args:
        status: 400 to 599.
        message: what the error object says.
        retry_after: seconds, sent as the Retry-After header.
        code: the error object's `code`, such as `context_length_exceeded`.
        repeat: as the last turn of a script: answer every further request so.

    >>> http_error(429, "slow down", retry_after=0.1).fault
    HttpError(status=429, message='slow down', retry_after=0.1, code=None)
    """
    if not 400 <= status <= 599:
        raise ConfigError("status", status, "an HTTP error status, 400 to 599")
    return Turn(fault=HttpError(status, message or f"scripted error {status}", retry_after, code), repeat=repeat)


def cut(text: str = "", *, after_deltas: int = 0, deltas: Sequence[str] | None = None, repeat: bool = False) -> Turn:
    """Close the connection inside the stream.

    Args:
        text: the reply that would have come.
        after_deltas: how many pieces are sent before; 0: the head of the response and no output.
        deltas: the exact pieces of the text.
        repeat: as the last turn of a script: do so at every further request.
    """
    return Turn(text, deltas=deltas, fault=Cut(after_deltas), repeat=repeat)


def cut_before_head(*, repeat: bool = False) -> Turn:
    """Close the connection without any response."""
    return Turn(fault=Cut(None), repeat=repeat)


def slow(text: str = "", seconds: float = 0.05, *, deltas: Sequence[str] | None = None, repeat: bool = False) -> Turn:
    """Let `seconds` pass between two pieces of the reply."""
    return Turn(text, deltas=deltas, chunk_delay=seconds, repeat=repeat)


def malformed_chunk(
    text: str = "",
    *,
    after_deltas: int = 0,
    deltas: Sequence[str] | None = None,
    frame: str = '{"choices": [{"delta": {"con',
    repeat: bool = False,
) -> Turn:
    """Put a frame that is not JSON into the stream, after `after_deltas` pieces; the reply goes on after it."""
    return Turn(text, deltas=deltas, fault=MalformedChunk(after_deltas, frame), repeat=repeat)


def error_in_stream(
    message: str,
    *,
    text: str = "",
    after_deltas: int = 0,
    deltas: Sequence[str] | None = None,
    code: str | None = None,
    repeat: bool = False,
) -> Turn:
    """End the stream with an error object, after `after_deltas` pieces of the reply; the HTTP status is 200."""
    return Turn(text, deltas=deltas, fault=ErrorInStream(message, after_deltas, code), repeat=repeat)


def raw(frames: Sequence[bytes | str | Mapping[str, Any]], *, done: bool = True, repeat: bool = False) -> Turn:
    """Write the stream out frame by frame, for servers with odd habits. Only `FakeOpenAI` can play it.

    Args:
        frames: a mapping is sent as one `data:` frame of JSON; text and bytes go out as they are, so they hold their
            own `data:` and blank lines.
        done: end with `data: [DONE]`.
        repeat: as the last turn of a script: answer every further request so.
    """
    return Turn(fault=Raw(tuple(frames), done), repeat=repeat)


def is_retryable(status: int) -> bool:
    """Whether clients ask again after this HTTP status."""
    return status in (408, 409, 429) or status >= 500


def as_model_error(fault: Fault, model: str) -> ModelError:
    """Return the error that a client reports of `fault`.

    Raises:
        ConfigError: the fault exists only on the wire.
    """
    match fault:
        case HttpError(status, message):
            return ModelError(message, model=model, status=status, retryable=is_retryable(status))
        case Cut():
            return ModelError("the connection was cut", model=model, retryable=True)
        case MalformedChunk():
            return ModelError("the stream holds a frame that is not JSON", model=model)
        case ErrorInStream(message):
            return ModelError(message, model=model, retryable=True)
        case Raw():
            raise ConfigError("script", fault, "raw frames need a wire: use FakeOpenAI")
