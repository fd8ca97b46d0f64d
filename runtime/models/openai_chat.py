"""Models behind the Chat Completions protocol, asked through the openai client.

The client keeps keys, connections, retries and errors. Its typed stream is left out: it builds each chunk in pure
Python and walks the whole history at each request, which costs more than everything else in a run together.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import anyio

from ..errors import ConfigError, ModelError
from .clients import close_client, open_client
from .endpoints import PROVIDERS, Endpoint, find_endpoint
from .failures import Failures
from .protocol import ModelRequest, ModelSettings, Part
from .reply import ReplyBuilder
from .stream_reader import StreamReader
from .wire import WireMemo, request_body

if TYPE_CHECKING:
    import openai
    from httpx2 import Response
    from openai import AsyncOpenAI
    from openai._types import RequestOptions

# The first pause before a retry and the longest one, in seconds; the longest that a server may ask for.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_RETRY_AFTER = 0.5, 8.0, 120.0
# How long to wait for a stream's end after its `[DONE]`: a connection that was read to the end is used again.
_DRAIN = 0.2


class OpenAIChatModel:
    """A model behind the Chat Completions protocol.

    Args:
        name: the model's name as its server knows it, such as `gpt-5-mini`.
        provider: a registered provider; with `base_url`, any name.
        base_url: up to and including the version; the provider's own unless given.
        api_key: the key; from the provider's environment variable unless given.
        client: a client to use instead of an own one; it stays open, and belongs to one event loop.
        settings: how to ask, where a request says nothing else.
        max_retries: how often a call is tried again, by the client and here together, as long as nothing of the answer
            has come.

    Raises:
        ConfigError: the name is empty, the provider unknown, the key missing, or `max_retries` negative.
    """

    def __init__(
        self,
        name: str,
        *,
        provider: str = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncOpenAI | None = None,
        settings: ModelSettings | None = None,
        max_retries: int = 2,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError("name", name, "the model's name as its server knows it")
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
            raise ConfigError("max_retries", max_retries, "a whole number, 0 or more")
        self.name = name
        self.provider = provider
        self.settings = settings
        self.max_retries = max_retries
        self._given = client
        self._endpoint = _endpoint_of(client, provider) if client else find_endpoint(provider, base_url, api_key)
        self._failures = Failures(provider, name, self._endpoint)

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.name!r}, provider={self.provider!r})"

    @property
    def base_url(self) -> str:
        """Where requests go; traces name the server by it."""
        return self._endpoint.base_url

    async def aclose(self) -> None:
        """Close the model's own connections on this event loop; they also close when the loop ends."""
        await close_client(self)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Part, None]:
        """Ask the model and stream its reply; see `Model`.

        Raises:
            ModelError: the call failed, after the retries.
            ConfigError: the settings cannot be written as JSON.
        """
        settings = request.settings.over(self.settings)
        memo = WireMemo.of(request)
        body = request_body(request, memo, self.name, settings, self._endpoint.renames)
        client = self._given or await open_client(self, self._make_client)
        deadline = None if settings.timeout is None else anyio.current_time() + settings.timeout
        retries = self.max_retries
        while True:
            response = await self._send(client, body, retries, deadline)
            retries -= _retries_taken(response)
            builder = ReplyBuilder(memo.call_ids, len(request.messages))
            failures = self._failures.of_request(response.request.headers)
            reader = StreamReader(builder, failures, response.headers.get("content-type", "").lower())
            chunks = _chunks_of(response, deadline)
            try:
                async for chunk in chunks:
                    for part in reader.read(chunk):
                        yield part
                    if reader.failure is not None:
                        raise reader.failure
                    if reader.done:
                        await _finish(chunks, _DRAIN)
                        break
                for part in reader.end():
                    yield part
                return
            except ModelError as error:
                failure = error
            except _read_errors() as error:
                if reader.is_complete:
                    # The answer was whole before the connection broke.
                    for part in reader.end():
                        yield part
                    return
                failure = self._cut(error, reader)
            finally:
                if not response.is_closed:
                    with anyio.CancelScope(shield=True):
                        await _finish(chunks, 0)
                        await response.aclose()
            if reader.has_output or not failure.retryable or retries <= 0:
                raise failure
            await self._pause(self.max_retries - retries, response, deadline)
            retries -= 1

    async def _send(self, client: AsyncOpenAI, body: bytes, retries: int, deadline: float | None) -> Response:
        """Return the head of a successful response; its body is unread."""
        import httpx2
        import openai

        options: RequestOptions = {"max_retries": retries}
        try:
            with anyio.fail_after(None if deadline is None else max(0.0, deadline - anyio.current_time())):
                # Declared to return a stream, it hands the response through when the response is what is asked for.
                stream = await client.post(
                    "/chat/completions",
                    cast_to=httpx2.Response,
                    content=body,
                    options=options,
                    stream=True,
                    stream_cls=openai.AsyncStream[object],
                )
            return cast("Response", stream)
        except TimeoutError as error:
            raise self._too_slow() from error
        except openai.OpenAIError as error:
            failure = self._refused(error)
        except RuntimeError as error:
            if not client.is_closed():
                raise
            raise self._failures.error("could not be asked: its client is closed") from error
        # Raised out here, it drags no error along that shows the key.
        raise failure

    def _refused(self, error: openai.OpenAIError) -> ModelError:
        """Return what the client's error means; the error is the cause, unless it shows a key."""
        import openai

        failures = self._failures
        if isinstance(error, openai.APIError):
            failures = failures.of_request(error.request.headers)
        if isinstance(error, openai.APIStatusError):
            failure = failures.answered(error.status_code, error.body)
        elif isinstance(error, openai.APITimeoutError):
            failure = failures.error("did not answer in time", retryable=True)
        elif isinstance(error, openai.APIConnectionError):
            reason = _words(error.__cause__ or error)
            failure = failures.error(f"cannot be reached: {reason}", retryable=True)
        else:
            failure = failures.error(f"could not be asked: {error}")
        failure.__cause__ = error if failures.can_show(error) else None
        return failure

    def _make_client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=self._endpoint.base_url, api_key=self._endpoint.api_key)
        if self.provider != "openai":
            # The client reads these from OPENAI_ORG_ID and OPENAI_PROJECT_ID; they are no one else's business.
            client.organization = client.project = None
            # Nor is OPENAI_CUSTOM_HEADERS, which may even hold another authorization.
            client._custom_headers = {}
        return client

    def _cut(self, error: Exception, reader: StreamReader) -> ModelError:
        if isinstance(error, TimeoutError):
            failure = self._too_slow()
        else:
            when = "in the middle of its answer" if reader.has_output else "before anything of its answer came"
            failure = self._failures.error(f"broke the connection {when}: {_words(error)}", retryable=True)
        failure.__cause__ = error
        return failure

    def _too_slow(self) -> ModelError:
        return self._failures.error("took longer than `settings.timeout` allows", retryable=True)

    async def _pause(self, tries: int, response: Response, deadline: float | None) -> None:
        pause = _retry_after(response)
        if pause is None:
            pause = min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE) * (1 - 0.25 * random.random())
        if deadline is not None and anyio.current_time() + pause >= deadline:
            raise self._too_slow()
        await anyio.sleep(pause)


def _endpoint_of(client: AsyncOpenAI, provider: str) -> Endpoint:
    known = PROVIDERS.get(provider)
    endpoint = Endpoint(str(client.base_url), client.api_key)
    return replace(endpoint, key_variable=known.key_variable, renames=known.renames) if known else endpoint


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _read_errors() -> tuple[type[Exception], ...]:
    import httpx2

    return (httpx2.HTTPError, httpx2.StreamError, ssl.SSLError, anyio.EndOfStream, TimeoutError)


def _chunks_of(response: Response, deadline: float | None) -> AsyncGenerator[bytes, None]:
    # Undoing compression costs a generator more for each chunk.
    chunks = _decoded(response) if "content-encoding" in response.headers else response.aiter_raw()
    return chunks if deadline is None else _before(deadline, chunks)


async def _decoded(response: Response) -> AsyncGenerator[bytes, None]:
    """Give the chunks without their compression. What cannot be decoded ends the reading below too; see `_finish`."""
    decoder = response._get_content_decoder()
    raw = response.aiter_raw()
    try:
        async for chunk in raw:
            for decoded in decoder.decode(chunk):
                yield decoded
        for decoded in decoder.flush():
            yield decoded
    except Exception:
        with anyio.CancelScope(shield=True):
            await _finish(raw, 0)
        raise


async def _before(deadline: float, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Give the chunks, or raise TimeoutError. The scope is around each read: none may be held across a yield."""
    async with aclosing(chunks):
        while True:
            with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk


async def _finish(chunks: AsyncGenerator[bytes, None], seconds: float) -> None:
    """Read to the end, for so long at most; nothing that is read or goes wrong here matters any more.

    Reading that is cut off unwinds the generators below from within, and the connection closes. Closing them from
    outside would leave the client's innermost generator to the garbage collector, which trio complains about.
    """
    with anyio.move_on_after(seconds), suppress(*_read_errors()):
        async for _ in chunks:
            pass


def _retries_taken(response: Response) -> int:
    count = response.request.headers.get("x-stainless-retry-count", "")
    return int(count) if count.isdecimal() else 0


def _retry_after(response: Response) -> float | None:
    """Return the seconds that the server wants to be left alone, None where it does not say or asks for too much."""
    for header, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(response.headers.get(header, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds <= _LONGEST_RETRY_AFTER:
            return seconds
    return None
