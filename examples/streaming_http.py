"""A web page that watches a run: events go to the browser as server-sent events.

    pip install 'alfine[server]'
    python examples/streaming_http.py          then open http://127.0.0.1:8000

The run belongs to the response: when the page is closed, the run, its sub-runs and its tools are cancelled at once.
Whatever happens, the last event is one `run_finished`, and then the body ends. With OPENAI_API_KEY or OPENAI_BASE_URL
set, a real model is asked (ALFINE_MODEL names it). Without, the models are scripted, and slow enough to watch.
"""

import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from alfine import Agent, ConfigError, Criterion, RunError, RunStream, TaskComplete, create_rubric_scorer, events
from alfine.testing import ScriptedModel, SeenRequest, Turn, call

HAS_MODEL = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
MODEL = os.environ.get("ALFINE_MODEL", "openai/gpt-5-mini") if HAS_MODEL else None

PAGE = Path(__file__).parent / "sse" / "page.html"
# The page is one file and asks nobody but this server; the browser is told to hold it to that.
PAGE_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold the events back
]

log = logging.getLogger("streaming_http")
Runs = dict[str, RunStream[Any]]


class RunResponse:
    """A response that runs an agent and streams its events.

    It is a class and no generator, because the run's block must not be held across a `yield`: a generator that nobody
    closes would keep the run going.

    Args:
        stream: the run, not yet entered.
        runs: where the run can be found by its id while it lasts.
        heartbeat: seconds after which a comment is sent, so that proxies keep a quiet connection open.
    """

    def __init__(self, stream: RunStream[Any], runs: Runs, *, heartbeat: float = 15.0) -> None:
        self._stream = stream
        self._runs = runs
        self._heartbeat = heartbeat
        self._connection = anyio.CancelScope()
        self._sending = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        run_id = self._stream.run_id
        self._runs[run_id] = self._stream
        try:
            with self._connection:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch, receive)
                    tasks.start_soon(self._beat, send)
                    await self._forward(send)
                    tasks.cancel_scope.cancel()
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            del self._runs[run_id]

    async def _forward(self, send: Send) -> None:
        async with self._stream as stream:
            async for event in stream:
                if (shown := for_browser(event)) is not None:
                    await self._write(send, as_frame(shown))
            try:
                await stream.result()
            except RunError:
                log.exception("run %s failed", stream.run_id)

    async def _watch(self, receive: Receive) -> None:
        """Cancel everything as soon as the client is gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._connection.cancel()

    async def _beat(self, send: Send) -> None:
        while True:
            await anyio.sleep(self._heartbeat)
            await self._write(send, b": still here\n\n")

    async def _write(self, send: Send, frame: bytes) -> None:
        async with self._sending:
            try:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            except OSError:  # how some servers say that the client is gone
                self._connection.cancel()


def as_frame(event: events.Event) -> bytes:
    """Return an event as a server-sent event; its JSON holds no line break."""
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {event.to_json()}\n\n".encode()


def for_browser(event: events.Event) -> events.Event | None:
    """Return what strangers may see of an event: errors and warnings quote exceptions, which are for the log."""
    match event:
        case events.RunFinished(error=str()):
            return replace(event, error="The run failed; the server's log says why.")
        case events.Warned():
            return replace(event, message="")
        case events.FeedbackInjected(hidden=True):
            return None
    return event


def create_app(agent: Agent[Any], *, heartbeat: float = 15.0) -> Starlette:
    """Return the application: the page, `POST /runs` that streams a run, and `POST /runs/{run_id}/cancel`."""
    runs: Runs = {}

    async def page(request: Request) -> Response:
        return HTMLResponse(PAGE.read_bytes(), headers={"content-security-policy": PAGE_POLICY})

    async def start(request: Request) -> ASGIApp:
        try:
            prompt = json.loads(await request.body())["prompt"]
            stream = agent.stream(prompt)
        except (ValueError, TypeError, KeyError, RecursionError, ConfigError):
            return JSONResponse({"error": 'expected {"prompt": "…"} with a prompt that is not blank'}, 400)
        return RunResponse(stream, runs, heartbeat=heartbeat)

    async def cancel(request: Request) -> Response:
        stream = runs.get(request.path_params["run_id"])
        if stream is None:
            return JSONResponse({"error": "there is no such run now"}, 404)
        stream.cancel()
        return Response(status_code=202)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/runs", start, methods=["POST"]),
            Route("/runs/{run_id}/cancel", cancel, methods=["POST"]),
        ]
    )


def build_agent() -> Agent[str]:
    """Return a supervisor that delegates once and is graded; it can be run any number of times."""
    research = Agent(
        "research",
        description="Finds facts and says where they come from",
        instructions="Give facts with their source.",
        model=MODEL or ScriptedModel(stand_in_research),
    )
    rubric = create_rubric_scorer(
        model=MODEL or ScriptedModel(stand_in_judge),
        criteria=[
            Criterion("Names the source of its figures", id="source"),
            Criterion("Recommends something to do", id="advice"),
            Criterion("Is at most 100 words long", id="length", required=False),
        ],
        mode="each",
    )
    return Agent(
        "supervisor",
        instructions="Have facts found by research, then answer in a few sentences with a recommendation.",
        model=MODEL or ScriptedModel(stand_in_supervisor),
        agents=[research],
        max_steps=6,
        is_task_complete=TaskComplete([rubric]),
    )


def stand_in_research(request: SeenRequest) -> Turn:
    return Turn(deltas=words("31 % of bicycle trips end at a station (city survey, table 4)."), chunk_delay=0.05)


def stand_in_supervisor(request: SeenRequest) -> Turn:
    kinds = [message.kind for message in request.messages]
    if "tool" not in kinds:
        return Turn(tool_calls=[call("delegate_research", {"prompt": "Where do bicycle trips end?"})], delay=0.4)
    answer = "Almost a third of bicycle trips, 31 %, end at a station."
    if "feedback" in kinds:
        answer += " Source: city survey, table 4. Recommendation: build covered parking at stations."
    return Turn(deltas=words(answer), chunk_delay=0.06)


def stand_in_judge(request: SeenRequest) -> Turn:
    criteria, _, rest = request.text.partition("The mark of the data blocks")
    _, _, answer = rest.partition("The output to judge")
    found = {
        "source": ("Source:" in answer, "It gives a figure and says where it is from.", "31 % needs its source."),
        "advice": ("Recommendation:" in answer, "It says what to build.", "It recommends nothing."),
        "length": (len(answer.split()) < 100, "It is short.", "It is too long."),
    }
    (name,) = (name for name in found if f"{name}: " in criteria)
    satisfied, good, bad = found[name]
    verdict = {"id": name, "reasoning": good if satisfied else bad, "satisfied": satisfied}
    return Turn(json.dumps({"verdicts": [verdict]}), delay=0.3 * (1 + list(found).index(name)))


def words(text: str) -> list[str]:
    return [f"{word} " for word in text.split()]


def main(port: int = 8000) -> None:
    uvicorn.run(create_app(build_agent()), host="127.0.0.1", port=port)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
