"""`watch`: shows a stream and returns its result."""

import io

import pytest
from rich.console import Console

from alfine import Agent, ModelError
from alfine.cli.view import watch
from alfine.testing import Gate, ScriptedModel, Turn

FAILING = [Turn("half of it", error=ModelError("the server is gone"))]


def terminal(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=24, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_the_live_view_ends_with_answer_ledger_outcome_and_usage() -> None:
    check = {"scorers": [lambda output: "better" in output]}
    agent = Agent("boss", model=ScriptedModel(["good", "better"]), is_task_complete=check)
    console = terminal()
    async with agent.stream("Go") as stream:
        result = await watch(stream, console)
    assert result.complete
    end = shown(console)[-400:].replace("\r", "")
    assert "answer\nbetter\n" in end
    assert "complete after 2 steps, 2 checks\n2 requests, 0 tool calls, 20 + 10 tokens\n" in end


async def test_an_answer_that_stands_in_the_log_is_not_repeated() -> None:
    console = terminal()
    async with Agent("boss", model=ScriptedModel(["the answer"])).stream("Go") as stream:
        await watch(stream, console)
    assert "\nanswer\n" not in shown(console)


@pytest.mark.parametrize("plain", [True, False])
async def test_a_run_that_fails_is_shown_and_raises_nothing(plain: bool) -> None:
    console = terminal()
    async with Agent("boss", model=ScriptedModel(FAILING)).stream("Go") as stream:
        result = await watch(stream, console, plain=plain)
    assert result.outcome == "error"
    assert "error after 1 step: the server is gone" in shown(console)
    assert "half of it" in shown(console)


async def test_the_live_view_moves_while_the_model_is_silent() -> None:
    gate, drawn = Gate(), terminal()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            if "the first half" in text:
                gate.open()  # only now may the model go on
            return super().write(text)

    drawn.file = Watched()
    turn = Turn(deltas=["the first half", " and the second"], wait=gate, wait_after=1)
    async with Agent("boss", model=ScriptedModel([turn])).stream("Go") as stream:
        result = await watch(stream, drawn)
    assert result.text == "the first half and the second"


async def test_without_a_terminal_there_are_plain_lines_without_escapes() -> None:
    console = Console(file=io.StringIO(), width=80)
    async with Agent("boss", model=ScriptedModel(["an [bold]answer[/bold]"])).stream("Go") as stream:
        await watch(stream, console)
    assert "\x1b" not in shown(console)
    assert "\nanswer:\nan [bold]answer[/bold]\n" in shown(console)


async def test_an_output_of_ten_megabytes_is_printed_whole() -> None:
    console = terminal()
    text = "word " * 2_000_000
    async with Agent("boss", model=ScriptedModel([Turn(deltas=[text])])).stream("Go") as stream:
        await watch(stream, console)
    assert text in shown(console)
