"""From the command line to the screen."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import anyio

from alfine import AlfineError, Model, OpenAIChatModel, RunResult, resolve_model
from alfine.cli.faults import CLOSED_PIPE, COMPLETE, ERROR, INTERRUPTED, NOT_COMPLETE, USAGE, UsageFault
from alfine.cli.options import read_rubric
from alfine.cli.otlp import setup_otlp
from alfine.cli.trace_tree import print_trace_tree, record_spans
from alfine.cli.view import watch
from alfine.scorers import parse_rubric
from alfine.testing import FakeOpenAI

from .documents import DocumentError, Documents
from .grading import RUBRIC, task_complete
from .stand_in import NAME, StandIn
from .team import TASK, build_team

ROOT = Path(__file__).parents[2]
DEFAULT_MODEL = "openai/gpt-5-mini"
DELAY, CHUNK_DELAY = 0.25, 0.015


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 when the brief is complete, 3 when it is not, 1 after an error, 2 for a wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign is no reason to stop
    options = _parser().parse_args(arguments)
    try:
        documents = Documents.load(map(Path, options.files) if options.files else default_files())
        rubric = read_rubric(options.rubric) if options.rubric is not None else RUBRIC
        if not parse_rubric(rubric):
            raise UsageFault("the rubric holds no criterion; write one on each line")
        if not options.task.strip():
            raise UsageFault("the task is empty")
    except (DocumentError, UsageFault) as fault:
        return _tell(str(fault), USAGE)
    try:
        return _show(documents, rubric, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's last flush
        return CLOSED_PIPE
    except AlfineError as error:
        return _tell(str(error), ERROR)


async def make_brief(
    documents: Documents, model: Model | str, *, task: str, rubric: str, feedback: bool = True, plain: bool = False
) -> RunResult[str]:
    """Let the team make a brief, show how it does, and return the result, whatever the outcome."""
    supervisor = build_team(model, documents)
    stream = supervisor.stream(
        task,
        is_task_complete=task_complete(documents, model, feedback=feedback),
        request_context={"rubric": rubric},
    )
    async with stream:
        return await watch(stream, plain=plain or None)


def default_files() -> list[Path]:
    """Return this project's own documents, without empty ones."""
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    return [path for path in files if path.is_file() and path.read_bytes().strip()]


def has_model(environment: Mapping[str, str]) -> bool:
    """Return whether the environment names a model to use, by a key or an address."""
    return any(environment.get(name, "").strip() for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))


def _show(documents: Documents, rubric: str, options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        model = _model(stack)
        print(f"documents: {', '.join(documents.names)}\ntask: {options.task}\nrubric:\n{rubric.rstrip()}")
        if options.no_feedback:
            print("feedback: switched off; the supervisor hears no reason, only that it has to try again.")
        print(flush=True)
        if (send := setup_otlp()) is not None:
            stack.callback(send)
        spans = record_spans()

        async def run() -> RunResult[str]:
            return await make_brief(
                documents,
                model,
                task=options.task,
                rubric=rubric,
                feedback=not options.no_feedback,
                plain=options.plain,
            )

        result = anyio.run(run)
        print("\ntrace:")
        print_trace_tree(spans.get_finished_spans())
    if result.outcome == "error":
        return ERROR
    return COMPLETE if result.complete else NOT_COMPLETE


def _model(stack: ExitStack) -> Model:
    """Return the model that the environment names; without any, the stand-in behind its server."""
    if has_model(os.environ):
        name = os.environ.get("ALFINE_MODEL", "").strip() or DEFAULT_MODEL
        model = resolve_model(name)
        print(f"model: {name}")
        return model
    slow = sys.stdout.isatty() and os.environ.get("ALFINE_DEMO_FAST") != "1"
    script = StandIn(DELAY, CHUNK_DELAY) if slow else StandIn()
    server = stack.enter_context(FakeOpenAI(script))
    print(
        f"No key found: a rule-based stand-in answers over HTTP on {server.base_url.removeprefix('http://')}.\n"
        "It is no language model: it really uses the tools, and really acts on the feedback, but by fixed rules, and\n"
        "understands only simple criteria. Set OPENAI_API_KEY or OPENAI_BASE_URL (and ALFINE_MODEL) to use a model."
    )
    return OpenAIChatModel(NAME, base_url=server.base_url, api_key="none")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="A supervisor, a reader and a writer make a brief of text files, are graded, and repair it.",
        epilog="Exit code: 0 complete, 3 not complete, 1 error, 2 wrong usage.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="text files; this project's documents by default")
    parser.add_argument("--task", default=TASK, help="what the brief is for")
    parser.add_argument("--rubric", metavar="TEXT_OR_FILE", help="one criterion a line")
    parser.add_argument("--no-feedback", action="store_true", help="keep the reasons from the supervisor")
    parser.add_argument("--plain", action="store_true", help="plain lines instead of the live view")
    return parser


def _tell(text: str, code: int) -> int:
    print(f"error: {text}", file=sys.stderr)
    return code
