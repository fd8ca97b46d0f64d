"""The page of `streaming_http.py` in a real browser.

Chromium comes from the system (`apt-get install chromium`) or from where ALFINE_CHROMIUM says; it is driven by
playwright. Where one of them is missing the tests are skipped, and fail if CI is set.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from alfine import Agent, TaskComplete, create_rubric_scorer
from alfine.testing import Gate, ScriptedModel, Turn, call

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Load = Callable[[str], ModuleType]
CHROMIUM = os.environ.get("ALFINE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser with a fresh profile."""
    missing = None if CHROMIUM else "chromium"
    if importlib.util.find_spec("playwright") is None:
        missing = "playwright"
    if missing:
        message = f"{missing} is not installed: the page is not tried in a browser"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=CHROMIUM, headless=True, args=ARGUMENTS
        )
        context.set_default_timeout(20_000)
        yield context
        context.close()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    """A page; a test fails if its script does."""
    opened = browser.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    yield opened
    if not opened.is_closed():
        opened.close()
    assert problems == []


@pytest.fixture
def example(load: Load) -> ModuleType:
    return load("streaming_http")


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application on a free port and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def start(page: Page, address: str) -> None:
    page.goto(address)
    page.fill("#prompt", "Do it")
    page.click("#run")


def wait_for_state(page: Page, state: str) -> None:
    page.wait_for_selector(f"#state[data-state={state}]")


def assert_at_rest(page: Page) -> None:
    """Nothing on the page says that work goes on, and a new run may be started."""
    assert page.locator(".end").count() == 1
    assert page.locator(".writing").count() == 0
    assert page.locator("#run").is_enabled()
    assert page.locator("#cancel").is_disabled()


def test_tokens_delegations_and_verdicts_appear_as_they_come(example: ModuleType, page: Page) -> None:
    second_token, second_verdict, helped = Gate(), Gate(), Gate()
    judged: list[int] = []

    def judge(request: Any) -> Turn:
        judged.append(request.n)
        name = request.output.schema["properties"]["verdicts"]["items"]["properties"]["id"]["enum"][0]
        met = name == "short" or "source" in request.text.rpartition("The output to judge")[2]
        verdict = {"id": name, "reasoning": f"{name} it is." if met else f"{name} it is not.", "satisfied": met}
        return Turn(json.dumps({"verdicts": [verdict]}), wait=second_verdict if name == "sourced" else None)

    rubric = create_rubric_scorer(
        model=ScriptedModel(judge),
        criteria=[{"id": "short", "description": "It is short"}, {"id": "sourced", "description": "It has a source"}],
        mode="each",
    )
    agent = Agent(
        "lead",
        model=ScriptedModel(
            [
                Turn(tool_calls=[call("delegate_helper", {"prompt": "Help!"})]),
                Turn(deltas=["first ", "draft"], wait=second_token, wait_after=1),
                "answer with a source",
            ]
        ),
        agents=[Agent("helper", model=ScriptedModel([Turn(deltas=["here ", "it is"], wait=helped, wait_after=1)]))],
        is_task_complete=TaskComplete([rubric]),
    )
    with served(example.create_app(agent)) as address:
        start(page, address)
        page.wait_for_selector(".delegation .text >> text=/^here $/")
        assert page.locator(".delegation > .head .right").inner_text() == "at work"
        helped.open()
        page.wait_for_selector(".delegation .text >> text=here it is")
        page.wait_for_selector("#feed > .draft.writing .text >> text=/^first $/")
        second_token.open()
        page.wait_for_selector("#feed > .draft .text >> text=first draft")
        page.wait_for_selector(".verdict >> text=short it is.")
        assert page.locator(".verdict").count() == 1
        assert page.locator("#state").inner_text() == "running"
        second_verdict.open()
        wait_for_state(page, "complete")
        assert page.locator(".check").first.locator(".verdict b").all_inner_texts() == ["✓", "✗"]
        assert page.locator(".check").last.locator(".verdict b").all_inner_texts() == ["✓", "✓"]
        assert page.locator(".check > .head .right").all_inner_texts() == ["failed", "passed"]
        assert page.locator("#feed > .draft .text").all_inner_texts() == ["first draft"]
        assert page.locator(".accepted .text").all_inner_texts() == ["answer with a source"]
        assert_at_rest(page)


def test_a_failed_run_ends_once_as_error(example: ModuleType, page: Page) -> None:
    model = ScriptedModel([Turn("half an answer", error=RuntimeError("password=hunter2"))])
    with served(example.create_app(Agent("lead", model=model))) as address:
        start(page, address)
        wait_for_state(page, "error")
        assert_at_rest(page)
        assert "the server's log says why" in page.locator(".end").inner_text()
        assert "hunter2" not in page.content()
        assert page.locator(".accepted").count() == 0


def test_the_cancel_button_ends_the_run_once_as_cancelled(example: ModuleType, page: Page) -> None:
    model = ScriptedModel([Turn(deltas=["one ", "two"], wait=Gate(), wait_after=1)])
    with served(example.create_app(Agent("lead", model=model))) as address:
        start(page, address)
        page.wait_for_selector(".text >> text=one")
        page.click("#cancel")
        wait_for_state(page, "cancelled")
        assert_at_rest(page)
        assert model.requests[0].disconnected


def test_a_finished_page_asks_the_server_for_nothing_more_until_the_next_run(example: ModuleType, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    model = ScriptedModel(["one", "two"])
    with served(example.create_app(Agent("lead", model=model))) as address:
        start(page, address)
        wait_for_state(page, "complete")
        page.click("#run")
        page.wait_for_selector(".accepted .text >> text=two")
        wait_for_state(page, "complete")
        assert_at_rest(page)
    assert asked == [address, f"{address}runs", f"{address}runs"]
    assert [request.disconnected for request in model.requests] == [False, False]


def test_closing_the_page_cancels_the_run_on_the_server(example: ModuleType, page: Page) -> None:
    model = ScriptedModel([Turn(deltas=["one ", "two"], wait=Gate(), wait_after=1)])
    with served(example.create_app(Agent("lead", model=model))) as address:
        start(page, address)
        page.wait_for_selector(".text >> text=one")
        page.close()
        assert model.requests[0].ended.wait_sync(timeout=20)
    assert model.requests[0].disconnected


def test_a_server_that_goes_away_leaves_no_page_that_says_running(example: ModuleType, page: Page) -> None:
    async def dies(scope: Any, receive: Any, send: Any) -> None:
        app = example.create_app(Agent("lead", model=ScriptedModel(["one"])))
        if scope["path"] == "/":
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": example.HEADERS})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": False})

    with served(dies) as address:
        start(page, address)
        wait_for_state(page, "lost")
        assert_at_rest(page)


def test_what_a_model_writes_is_text_and_no_markup(example: ModuleType, page: Page, tmp_path: Path) -> None:
    attack = "<img src=x onerror='document.title = 1'><script>document.title = 2</script>"
    with served(example.create_app(Agent("lead", model=ScriptedModel([attack])))) as address:
        start(page, address)
        wait_for_state(page, "complete")
        assert page.locator(".accepted .text").inner_text() == attack
        assert page.locator("#feed img, #feed script").count() == 0


def test_the_demonstration_runs_to_an_accepted_answer(example: ModuleType, page: Page) -> None:
    with served(example.create_app(example.build_agent())) as address:
        start(page, address)
        wait_for_state(page, "complete")
        assert "Recommendation: build covered parking" in page.locator(".accepted .text").inner_text()
        assert page.locator(".check > .head .right").all_inner_texts() == ["failed", "passed"]
        assert_at_rest(page)
