"""Agents on scripted models, for tests of the command line."""

import time

import anyio

from alfine import Agent, ModelError, Score, TaskComplete, Verdict, tool
from alfine.testing import ScriptedModel, SeenRequest, Turn, call


@tool
def search(query: str) -> str:
    """Search for a word."""
    print("a tool prints this")  # noqa: T201
    return f"[bold]{query}[/bold]: twice a day \x1b[31m漢字"


@tool
async def wait() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return "never"


@tool
def block() -> str:
    """Hold a thread for a minute."""
    time.sleep(60)
    return "late"


def advises(output: str) -> Score:
    """Grade by two criteria."""
    found = "Advice" in output
    verdicts = (
        Verdict("tides", "Speaks of tides", True, True, "it does"),
        Verdict("advice", "Gives [red]advice[/red] 漢字", True, found, "yes" if found else "no advice is given"),
    )
    return Score(float(found), 1, found, "good" if found else "There is no advice.", verdicts)


def echo(request: SeenRequest) -> str:
    return f"You said: {request.texts[-1]}"


def supervisor() -> Agent[str]:
    asks = Turn("Let me look.", tool_calls=[call("search", {"query": "tides"})])
    research = Agent(
        "research", model=ScriptedModel([asks, "Tides come\ntwice a day. \x07"], name="small"), tools=[search]
    )
    script: list[Turn | str] = [
        Turn("I ask.", tool_calls=[call("delegate_research", {"prompt": "Find tides"})]),
        "Tides [bold]come[/bold]. \x1b[2J",
        "Tides come.\nAdvice: go at noon.",
    ]
    check = TaskComplete(scorers=[advises])
    return Agent("supervisor", model=ScriptedModel(script), agents=[research], is_task_complete=check)


good = Agent("good", model=ScriptedModel(echo))
never = Agent(
    "never",
    model=ScriptedModel([Turn("again", repeat=True)]),
    max_steps=2,
    is_task_complete={"scorers": [lambda output: False]},
)
broken = Agent("broken", model=ScriptedModel([Turn("half", error=ModelError("the server is gone"))]))
waiting = Agent("waiting", model=ScriptedModel([Turn("I wait.", tool_calls=[call("wait")])]), tools=[wait])
blocking = Agent("blocking", model=ScriptedModel([Turn("I block.", tool_calls=[call("block")])]), tools=[block])
talker = Agent("talker", model=ScriptedModel(["line\n" * 100_000]))
number = 7


def judged() -> Agent[str]:
    """An agent whose model is its own judge too, and cannot judge."""
    return Agent("judged", model=ScriptedModel([Turn("no verdicts", repeat=True)]))


def asks_for_more(more: str) -> Agent[str]:
    return Agent(more, model=ScriptedModel(["x"]))


def fails() -> Agent[str]:
    raise RuntimeError("no such weather")


async def coming() -> Agent[str]:
    return good
