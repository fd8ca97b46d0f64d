"""The command line's grammar: commands, options and help."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, cast

import typer

from .command import leave, run, tell
from .faults import INTERRUPTED, USAGE
from .options import RunOptions

# The base of all that typer raises for wrong usage; it has no public name there.
_WrongUsage = cast("type[Exception]", typer.BadParameter.__mro__[1])

app = typer.Typer(name="alfine", rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)


class Strategy(StrEnum):
    """How scorers decide together."""

    ALL = "all"
    ANY = "any"


def start(arguments: Sequence[str]) -> int:
    """Read the arguments, run the command and return the exit code."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # it stands in as long as the process lives
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shall not end a run
    try:
        parsed = typer.main.get_command(app).main(list(arguments), prog_name="alfine", standalone_mode=False)
    except _WrongUsage as error:
        return _tell_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return leave(run(parsed)) if isinstance(parsed, RunOptions) else int(parsed or 0)


def _tell_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "alfine"
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context is not None else "", file=sys.stderr)
        return USAGE
    text = getattr(error, "format_message", error.__str__)()
    return tell(f"{text.rstrip('.')}; see {path} --help", USAGE)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"alfine {version('alfine')}")
        raise typer.Exit


@app.callback(no_args_is_help=True)
def _alfine(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Run agents whose answers are graded and corrected until they hold."""


@app.command("run", no_args_is_help=True)
def _run(
    task: Annotated[str, typer.Argument(help="What the agent is to do; - reads it from standard input.")],
    agent: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="The agent, or a function that returns it.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="PROVIDER/NAME", help="A plain agent on this model, instead of --agent.")
    ] = None,
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The plain agent's instructions; with --model.")
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|TEXT",
            help="Criteria, one a line, that a judge grades the answer by. Added to the agent's own scorers.",
        ),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="PROVIDER/NAME", help="The judge's model; the agent's unless given.")
    ] = None,
    strategy: Annotated[
        Strategy | None, typer.Option(help="All scorers must pass, or any one; instead of the agent's own.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(metavar="N", help="At most so many steps.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="End the run after this time.")] = None,
    budget_requests: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many model calls, sub-agents and judges included.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many tokens, sub-agents and judges included.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write each event as one line of JSON, and nothing else.")] = (
        False
    ),
) -> RunOptions:
    """Run an agent on a task and show what happens, live in a terminal and as plain lines elsewhere.

    \b
    Examples:
      alfine run "What is a fugue?" --model openai/gpt-5-mini
      alfine run "Write a brief on tides" --agent team:supervisor --rubric rubric.md
      alfine run - --agent path/to/team.py:supervisor --json < task.txt
      alfine run "Name three rivers" --model ollama/qwen3 \\
          --rubric "Names exactly three rivers" --judge openai/gpt-5-mini --max-steps 5

    MODULE is looked for in the current directory too. Keys come from the environment, such as OPENAI_API_KEY. With
    OTEL_EXPORTER_OTLP_ENDPOINT set, traces and evaluation events are exported there (pip install 'alfine[otlp]').

    \b
    Exit codes:
      0    complete: the answer was accepted
      1    an error: the model, a scorer or the agent's module failed
      2    wrong usage
      3    not complete: max_steps, stalled, budget, stopped, or bailed
           (a sub-agent's answer was delivered without a check)
      130  interrupted by Ctrl-C
      141  nobody reads the output any more
    """
    return RunOptions(
        task=task,
        agent=agent,
        model=model,
        instructions=instructions,
        rubric=rubric,
        judge=judge,
        strategy=strategy.value if strategy else None,
        max_steps=max_steps,
        timeout=timeout,
        budget_requests=budget_requests,
        budget_tokens=budget_tokens,
        json=json,
    )
