"""The code in README.md, docs/ and docstrings runs, and the public names are all shown there."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

import alfine
from alfine.runtime.models.endpoints import PROVIDERS
from alfine.testing import FakeOpenAI, HttpRequest, Turn, call

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


def answer(request: HttpRequest) -> Turn:
    """Play any agent: judge everything as satisfied, use each tool once, then answer."""
    schema = request.body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    if "verdicts" in schema.get("properties", {}):
        ids = re.findall(r'"enum":\s*(\[[^\]]*\])', json.dumps(schema))
        verdicts = [{"id": i, "reasoning": "It does.", "satisfied": True} for i in json.loads(ids[0])]
        return Turn(json.dumps({"verdicts": verdicts}))
    used = {c["function"]["name"] for m in request.messages for c in m.get("tool_calls") or []}
    for tool in request.body.get("tools", []):
        function = tool["function"]
        if function["name"] not in used:
            return Turn(tool_calls=[call(function["name"], dict.fromkeys(function["parameters"]["required"], "it"))])
    return Turn("# Analysis\nAn answer.")


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda page: page.name)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_code_of_a_page_runs(page: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {"__name__": f"docs_{page.stem}"}
    # A page may set a tracer provider, which a process can do once; it goes with the test.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    with FakeOpenAI(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        for block in blocks(page):
            exec(compile(block, f"{page.name}", "exec"), scope)
            for name in ["main", *(n for n in scope if n.startswith("test_"))]:
                if callable(function := scope.pop(name, None)):
                    if inspect.iscoroutinefunction(function):
                        anyio.run(function, backend=backend)
                    else:
                        function()


def modules() -> list[str]:
    found = [m.name for m in pkgutil.walk_packages(alfine.__path__, "alfine.")]
    return ["alfine", *(name for name in found if not name.endswith("__main__"))]


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_docstrings_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_every_public_name_is_there_and_shown_in_the_docs() -> None:
    code = "\n".join(block for page in PAGES for block in blocks(page))
    for name in alfine.__all__:
        assert hasattr(alfine, name)
        assert re.search(rf"\b{name}\b", code), f"no example shows {name}"


def test_nothing_public_is_left_out_of_all() -> None:
    public = {n for n, v in vars(alfine).items() if not n.startswith("_") and not inspect.ismodule(v)}
    assert public | {"events"} == set(alfine.__all__)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_table_of_providers_is_the_one_in_the_code() -> None:
    text = (ROOT / "docs" / "models.md").read_text()
    shown = re.findall(r"^\| `(\S+)/…` \| `(\S+)` \| (?:`(\S+)`|none needed) \|$", text, re.MULTILINE)
    known = [p for p in PROVIDERS.values() if p.name in {name for name, _, _ in shown}]
    assert {(p.name, p.base_url, p.key_variable if p.needs_key else "") for p in known} == set(shown)
    assert len(shown) >= 9
