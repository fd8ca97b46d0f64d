"""The response that streams a run, called as a server calls it, on both event loops."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from alfine import Agent, tool
from alfine.testing import Gate, ScriptedModel, Turn, call

EXAMPLE = Path(__file__).parents[2] / "examples" / "streaming_http.py"
Load = Callable[[str], ModuleType]
Message = MutableMapping[str, Any]
Event = dict[str, Any]


class Exchange:
    """One request to an application, and what it sends back."""

    def __init__(self, app: Any, path: str, body: object = None, *, method: str = "POST") -> None:
        self._app = app
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [],
            "server": ("test", 80),
        }
        self._body: bytes | None = json.dumps(body).encode()
        self._gone = anyio.Event()
        self._in, self._out = anyio.create_memory_object_stream[bytes](1000)
        self.sent: list[Message] = []
        self.done = anyio.Event()
        self.deaf = False
        """Whether sending fails, as on a connection that the client has closed."""

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def ended(self) -> bool:
        """Whether the body has a proper end."""
        return self.sent[-1]["type"] == "http.response.body" and not self.sent[-1].get("more_body", False)

    def hang_up(self) -> None:
        self._gone.set()

    async def run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            self.done.set()
            self._in.close()

    async def next_frame(self) -> bytes:
        """Wait for the next frame of the body."""
        return await self._out.receive()

    async def wait_for(self, kind: str) -> Event:
        """Wait for the next event of that kind."""
        while True:
            event = event_of(await self.next_frame())
            if event is not None and event["kind"] == kind:
                return event

    def events(self) -> list[Event]:
        found = (event_of(message.get("body", b"")) for message in self.sent)
        return [event for event in found if event is not None]

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await anyio.lowlevel.checkpoint()
        if self.deaf:
            raise OSError("the client is gone")
        self.sent.append(message)
        if message.get("body"):
            await self._in.send(message["body"])

    def close(self) -> None:
        self._in.close()
        self._out.close()


def event_of(frame: bytes) -> Event | None:
    lines = dict(line.split(": ", 1) for line in frame.decode().splitlines() if line and not line.startswith(":"))
    if "data" not in lines:
        return None
    event: Event = json.loads(lines["data"])
    assert lines["event"] == event["kind"]
    assert lines["id"] == str(event["seq"])
    return event


@asynccontextmanager
async def exchange(app: Any, path: str, body: object = None, *, method: str = "POST") -> AsyncIterator[Exchange]:
    """Make a request in the background; the block's end waits for the answer's."""
    made = Exchange(app, path, body, method=method)
    try:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.run)
                yield made
    finally:
        made.close()


def terminal(events: list[Event]) -> list[Event]:
    return [event for event in events if event["kind"] == "run_finished" and event["depth"] == 0]


@pytest.fixture
def example(load: Load) -> ModuleType:
    return load("streaming_http")


async def test_a_run_is_streamed_to_its_one_terminal_event_and_the_body_ends(example: ModuleType) -> None:
    async with exchange(
        example.create_app(Agent("a", model=ScriptedModel(["Hello!"]))), "/runs", {"prompt": "Hi"}
    ) as made:
        pass
    events = made.events()
    assert made.status == 200
    assert dict(made.sent[0]["headers"])[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert events[0]["kind"] == "run_started"
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert terminal(events) == [events[-1]]
    assert events[-1]["outcome"] == "complete"
    assert made.ended


async def test_a_failed_run_ends_as_error_without_the_text_of_the_exception(
    example: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("a", model=ScriptedModel([Turn(error=RuntimeError("password=hunter2"))]))
    async with exchange(example.create_app(agent), "/runs", {"prompt": "Hi"}) as made:
        pass
    (last,) = terminal(made.events())
    assert last["outcome"] == "error"
    assert last["error"] == "The run failed; the server's log says why."
    assert made.ended
    assert b"hunter2" not in made.body
    assert "hunter2" in caplog.text


async def test_a_client_that_hangs_up_cancels_the_run_its_sub_runs_and_its_tools(example: ModuleType) -> None:
    at_work, stopped = anyio.Event(), anyio.Event()

    @tool
    async def dig() -> None:
        """Dig without end."""
        at_work.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    digger = Agent("digger", model=ScriptedModel([Turn(tool_calls=[call("dig")])]), tools=[dig])
    lead = ScriptedModel([Turn(tool_calls=[call("delegate_digger", {"prompt": "Dig!"})])])
    app = example.create_app(Agent("lead", model=lead, agents=[digger]))
    async with exchange(app, "/runs", {"prompt": "Hi"}) as made:
        await at_work.wait()
        made.hang_up()
        await made.done.wait()
        assert stopped.is_set()
    assert not made.ended


async def test_a_client_that_hangs_up_cancels_the_model_call(example: ModuleType) -> None:
    model = ScriptedModel([Turn("never", wait=Gate())])
    async with exchange(example.create_app(Agent("a", model=model)), "/runs", {"prompt": "Hi"}) as made:
        await made.wait_for("step_started")
        made.hang_up()
        await made.done.wait()
    assert [request.disconnected for request in model.requests] == [True]


async def test_a_server_that_cannot_send_any_more_cancels_the_run(example: ModuleType) -> None:
    more = Gate()
    model = ScriptedModel([Turn(deltas=["one", "two"], wait=more, wait_after=1), Turn("never", wait=Gate())])
    async with exchange(example.create_app(Agent("a", model=model)), "/runs", {"prompt": "Hi"}) as made:
        await made.wait_for("text_delta")
        made.deaf = True
        more.open()
        await made.done.wait()
    assert terminal(made.events()) == []


async def test_a_cancel_request_ends_the_run_with_its_terminal_event(example: ModuleType) -> None:
    app = example.create_app(Agent("a", model=ScriptedModel([Turn(deltas=["one", "two"], wait=Gate(), wait_after=1)])))
    async with exchange(app, "/runs", {"prompt": "Hi"}) as made:
        started = await made.wait_for("run_started")
        await made.wait_for("text_delta")
        path = f"/runs/{started['run_id']}/cancel"
        async with exchange(app, path) as cancel:
            pass
        assert cancel.status == 202
        await made.done.wait()
        async with exchange(app, path) as again:
            pass
        assert again.status == 404
    (last,) = terminal(made.events())
    assert last == made.events()[-1]
    assert (last["outcome"], last["text"]) == ("cancelled", "one")
    assert made.ended


async def test_a_quiet_run_sends_comments(example: ModuleType) -> None:
    silence = Gate()
    app = example.create_app(Agent("a", model=ScriptedModel([Turn("Hello!", wait=silence)])), heartbeat=0.01)
    async with exchange(app, "/runs", {"prompt": "Hi"}) as made:
        await made.wait_for("step_started")
        assert await made.next_frame() == b": still here\n\n"
        silence.open()
    assert len(terminal(made.events())) == 1
    assert made.ended


async def test_hidden_feedback_and_the_texts_of_warnings_stay_on_the_server(example: ModuleType) -> None:
    def nosy(report: object) -> None:
        raise RuntimeError("password=hunter2")

    agent = Agent(
        "a",
        model=ScriptedModel(["bad", "good"]),
        is_task_complete={"scorers": [lambda text: text == "good"], "hide_feedback": True, "on_complete": nosy},
    )
    async with exchange(example.create_app(agent), "/runs", {"prompt": "Hi"}) as made:
        pass
    kinds = [event["kind"] for event in made.events()]
    assert kinds.count("check_finished") == 2
    assert "warning" in kinds
    assert "feedback_injected" not in kinds
    assert b"hunter2" not in made.body


@pytest.mark.parametrize("body", [{"prompt": "  "}, {"prompt": 3}, {}, [], None, "text"])
async def test_a_request_without_a_prompt_is_refused(example: ModuleType, body: object) -> None:
    model = ScriptedModel([])
    async with exchange(example.create_app(Agent("a", model=model)), "/runs", body) as made:
        pass
    assert made.status == 400
    assert model.requests == []


async def test_the_page_asks_nobody_but_its_server(example: ModuleType) -> None:
    async with exchange(example.create_app(example.build_agent()), "/", method="GET") as made:
        pass
    assert made.status == 200
    assert b"<!doctype html>" in made.body
    assert b"http://" not in made.body
    assert b"https://" not in made.body


def test_the_example_serves_as_a_program(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    with subprocess.Popen(
        [sys.executable, EXAMPLE, "0"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, encoding="utf-8"
    ) as program:
        try:
            assert program.stderr is not None
            log = iter(program.stderr.readline, "")
            address = next(found[0] for line in log if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            request = urllib.request.Request(f"{address}/runs", b'{"prompt": "Bicycles"}')
            with urllib.request.urlopen(request, timeout=60) as response:
                events = [event for frame in response.read().split(b"\n\n") if (event := event_of(frame))]
        finally:
            program.terminate()
    assert terminal(events) == [events[-1]]
    assert events[-1]["outcome"] == "complete"
