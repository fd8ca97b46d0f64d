"""A local model server that answers from a script and speaks OpenAI's Chat Completions."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType

import anyio
from anyio import BrokenResourceError, ClosedResourceError
from anyio.abc import ByteStream, SocketAttribute, SocketListener, TaskStatus
from anyio.from_thread import start_blocking_portal

from alfine.runtime.errors import ModelError

from ._answer import Completion, error_object, send_http_error
from ._http import HttpConnection, HttpMessage, from_json
from ._play import Player, call_ids, parts
from ._strict import problem
from .faults import Cut, ErrorInStream, HttpError
from .gates import Gate
from .http_request import HttpRequest
from .turns import Script, Turn


class FakeOpenAI:
    """A server on 127.0.0.1 and a free port, in a thread of its own, that answers from scripts.

    It streams (or answers whole, as the request says) at `/v1/chat/completions`, lists its models at `/v1/models`, and
    remembers every request. It is meant to be called through the real openai client, and can be entered by `with` or
    `async with`, under asyncio, trio or no event loop. Script functions run in the server's thread, on its own event
    loop: let them wait for nothing but a `Gate`, and never block. When one raises, the client gets an HTTP 400, and
    the exception is raised again at the end of the block.

    >>> from openai import OpenAI
    >>> with FakeOpenAI({"gpt-5-mini": ["Hello!"]}) as server:
    ...     with OpenAI(base_url=server.base_url, api_key="none") as client:
    ...         reply = client.chat.completions.create(
    ...             model="gpt-5-mini", messages=[{"role": "user", "content": "Hi"}]
    ...         )
    >>> reply.choices[0].message.content
    'Hello!'
    >>> server.requests[0].texts
    ['Hi']

    Args:
        script: one script for each model by its name, other models being unknown (HTTP 404); or one script, whose
            turns answer the requests to any model in the order of their arrival. The rules for scripts are those of
            `ScriptedModel`; past the end the server answers HTTP 400 `script exhausted`.
        strict: answer HTTP 400, without using up a turn, to a request that OpenAI refuses: tool calls and tool
            messages that do not pair, repeated call ids in a message, arguments in the history that are not JSON,
            unknown roles, missing content, bad tool names.

    Raises:
        ConfigError: a script is neither a list of turns and texts nor a function.
    """

    def __init__(self, script: Mapping[str, Script[HttpRequest]] | Script[HttpRequest], *, strict: bool = True) -> None:
        self._players: dict[str, Player[HttpRequest]] = {}
        self._any: Player[HttpRequest] | None = None
        if isinstance(script, Mapping):
            self._players = {name: Player(own) for name, own in script.items()}
        else:
            self._any = Player(script)
        self._strict = strict
        self._new_call_id = call_ids()
        self._completion_numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._requests: list[HttpRequest] = []
        self._counts: Counter[str] = Counter()
        self._arrivals: dict[tuple[str, int], Gate] = {}
        self._errors: list[Exception] = []
        self._running: ExitStack | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        """The address to give to a client; it ends in `/v1`.

        Raises:
            RuntimeError: the server does not run.
        """
        if self._running is None:
            raise RuntimeError("the server does not run: enter it by `with` or `async with` first")
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def requests(self) -> list[HttpRequest]:
        """The chat completion requests so far, in the order of their arrival."""
        with self._lock:
            return list(self._requests)

    def calls(self, model: str) -> list[HttpRequest]:
        """Return the requests to one model so far."""
        return [request for request in self.requests if request.model == model]

    async def wait_for_request(self, model: str, n: int = 1) -> HttpRequest:
        """Wait until request `n` (from 1) to `model` has arrived, and return it."""
        await self._arrival(model, n).wait()
        return self.calls(model)[n - 1]

    def __enter__(self) -> FakeOpenAI:
        if self._running is not None:
            raise RuntimeError("the server runs already")
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(name="FakeOpenAI"))
            serving, self._port = portal.start_task(self._serve)
            stack.callback(serving.cancel)
            self._running = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            running.close()
        if self._errors and error is None:
            raise self._errors[0]

    async def __aenter__(self) -> FakeOpenAI:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The server's thread never waits for the caller's event loop: joining it here is short and cannot deadlock.
        self.__exit__(kind, error, trace)

    def _arrival(self, model: str, n: int) -> Gate:
        with self._lock:
            return self._arrivals.setdefault((model, n), Gate())

    async def _serve(self, *, task_status: TaskStatus[int]) -> None:
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listeners,
            anyio.create_task_group() as connections,
        ):
            task_status.started(listeners.extra(SocketAttribute.local_port))
            (listener,) = listeners.listeners
            assert isinstance(listener, SocketListener)
            while True:
                await anyio.wait_readable(listener.extra(SocketAttribute.raw_socket))
                # Shielded, since an accept that is cancelled half-way leaves the client's socket open.
                with anyio.move_on_after(1, shield=True):
                    connections.start_soon(self._converse, await listener.accept())

    async def _converse(self, stream: ByteStream) -> None:
        """Answer the requests of one connection, one after the other."""
        connection = HttpConnection(stream)
        try:
            while (message := await connection.read()) is not None:
                if not await self._respond(connection, message):
                    break
        except (BrokenResourceError, ClosedResourceError):
            pass  # the client is gone: there is nobody to tell
        finally:
            with anyio.CancelScope(shield=True):
                await stream.aclose()

    async def _respond(self, connection: HttpConnection, message: HttpMessage) -> bool:
        """Answer one request; return whether the connection stays open."""
        match message.method, message.path.partition("?")[0]:
            case "POST", "/v1/chat/completions":
                return await self._complete(connection, message)
            case "GET", "/v1/models":
                models = [{"id": name, "object": "model", "created": 0, "owned_by": "alfine"} for name in self._players]
                await connection.send_json(200, {"object": "list", "data": models})
            case method, path:
                await connection.send_json(404, error_object(f"there is no {method} {path}", 404))
        return True

    async def _complete(self, connection: HttpConnection, message: HttpMessage) -> bool:
        body = from_json(message.body)
        if body is None or not isinstance(body.get("model"), str):
            await connection.send_json(400, error_object("the body is not a JSON object with a `model`", 400))
            return True
        request = self._remember(body["model"], body, message.headers)
        keep = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, connection, request, tasks.cancel_scope)
                keep = await self._answer(connection, request)
                tasks.cancel_scope.cancel()
        finally:
            request.ended.open()
        return keep and not request.disconnected

    def _remember(self, model: str, body: Mapping[str, object], headers: Mapping[str, str]) -> HttpRequest:
        with self._lock:
            self._counts[model] += 1
            n = self._counts[model]
            request = HttpRequest(model=model, n=n, body=body, headers=headers)
            self._requests.append(request)
        self._arrival(model, n).open()
        return request

    async def _watch(self, connection: HttpConnection, request: HttpRequest, answering: anyio.CancelScope) -> None:
        await connection.until_gone()
        request.disconnected = not connection.answered
        answering.cancel()

    async def _answer(self, connection: HttpConnection, request: HttpRequest) -> bool:
        """Answer by the script; return whether the connection stays open."""
        turn = await self._turn(request)
        try:
            await turn.before_answer()
            return await self._send(connection, request, turn)
        except (BrokenResourceError, ClosedResourceError):
            request.disconnected = True
        except Exception as error:
            self._errors.append(error)  # a turn that cannot be sent: the test's author has to see it
        return False

    async def _send(self, connection: HttpConnection, request: HttpRequest, turn: Turn) -> bool:
        said = list(parts(turn, self._new_call_id))
        if turn.error is not None:
            turn = replace(turn, error=None, fault=_as_fault(turn.error, len(said)))
        match turn.fault:
            case HttpError() as error:
                request.status = error.status
                await send_http_error(connection, error)
                return True
            case Cut(None):
                return False
        request.status = 200
        completion = Completion(turn, said, request.body, f"chatcmpl-{next(self._completion_numbers)}")
        if request.body.get("stream"):
            return await completion.send_stream(connection)
        return await completion.send_whole(connection)

    async def _turn(self, request: HttpRequest) -> Turn:
        """Return what the script says; a problem with the request or the script as a turn too."""
        if self._strict and (wrong := problem(request.body)):
            return Turn(fault=HttpError(400, wrong))
        player = self._players.get(request.model, self._any)
        if player is None:
            return Turn(fault=HttpError(404, f"there is no model {request.model!r}", code="model_not_found"))
        try:
            turn = await player.turn(request, request.model)
        except ModelError as error:
            return Turn(error=error)
        except Exception as error:
            self._errors.append(error)
            return Turn(fault=HttpError(400, f"the script raised {error!r}"))
        return turn


def _as_fault(error: Exception, said: int) -> HttpError | ErrorInStream:
    """Return how a server shows `error`, after it has said so many pieces."""
    if said:
        return ErrorInStream(str(error), said)
    return HttpError((error.status if isinstance(error, ModelError) else None) or 500, str(error))
