"""The demo's package `brief`, imported as `scripts/demo` has it: with `examples/` on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from alfine import OpenAIChatModel, RunResult
from alfine.testing import FakeOpenAI

EXAMPLES = Path(__file__).parents[2] / "examples"
if str(EXAMPLES) not in sys.path:
    sys.path.append(str(EXAMPLES))

command = import_module("brief.command")
demands = import_module("brief.demands")
documents = import_module("brief.documents")
grading = import_module("brief.grading")
layout = import_module("brief.layout")
sentences = import_module("brief.sentences")
stand_in = import_module("brief.stand_in")
stand_in_judge = import_module("brief.stand_in_judge")
tools = import_module("brief.tools")


async def make_brief(texts: dict[str, str], rubric: str = grading.RUBRIC, **options: Any) -> RunResult[str]:
    """Let the stand-in's team make a brief, over HTTP."""
    task = options.pop("task", "Write a brief.")
    async with FakeOpenAI(stand_in.StandIn()) as server:
        model = OpenAIChatModel("stand-in", base_url=server.base_url, api_key="none")
        found = documents.Documents(texts)
        result: RunResult[str] = await command.make_brief(found, model, task=task, rubric=rubric, plain=True, **options)
    return result


def run_demo(*arguments: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the demo as a program, on a machine without a key, in `folder`."""
    hidden = ("OPENAI_", "ALFINE_", "OTEL_", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    environment |= {"PYTHONPATH": str(EXAMPLES), "PYTHONSAFEPATH": "1", "PYTHONIOENCODING": "utf-8", **variables}
    return subprocess.run(
        [sys.executable, "-m", "brief", *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
