"""The live view on a real pseudo-terminal."""

import os
import re
import select
import signal
import struct
import sys
import time
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

import fcntl
import pty
import termios


class Terminal:
    """A command that runs on a pseudo-terminal of a given width."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str], columns: int) -> None:
        self.output = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execvpe(command[0], command, environment)

    def read_until(self, text: str, seconds: float = 30) -> None:
        """Read until `text` has been shown; an empty text never is, so that everything is read."""
        end = time.monotonic() + seconds
        while not text or text not in self.output:
            ready, _, _ = select.select([self._fd], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{text!r} did not come in time"
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                data = b""  # how Linux says that the other side is closed
            if not data:
                assert not text, f"the command ended without {text!r}: {self.output}"
                return
            self.output += data.decode(errors="replace")

    def wait(self) -> int:
        """Read to the end and return the exit code."""
        self.read_until("")
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def words(output: str) -> str:
    """Return what is seen, without what moves the cursor and sets colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r", "")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("columns", [60, 120])
def test_the_live_view_shows_the_run_to_its_end(
    folder: Path, command: list[str], environment: dict[str, str], columns: int
) -> None:
    terminal = Terminal([*command, "run", "Write on tides", "--agent", "team:supervisor"], folder, environment, columns)
    assert terminal.wait() == 0
    seen = words(terminal.output)
    for text in (
        "task Write on tides",
        "→ research Find tides",
        r"✓ [bold]tides[/bold]: twice a day \x1b[31m漢字",
        r"supervisor draft Tides [bold]come[/bold]. \x1b[2J",
        "✗ Gives [red]advice[/red] 漢字 — no advice is given",
        "There is no advice.",
        "a tool prints this",
        "answer\nTides come.\nAdvice: go at noon.\n",
        "complete after 3 steps, 2 checks",
    ):
        assert text in seen
    assert "\x1b[31m漢字" not in terminal.output
    assert terminal.output.count("\x1b[?25l") == terminal.output.count("\x1b[?25h") == 1  # the cursor is back


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_ctrl_c_shows_what_there_is_and_no_traceback(
    folder: Path, command: list[str], environment: dict[str, str]
) -> None:
    terminal = Terminal([*command, "run", "Wait", "--agent", "team:waiting"], folder, environment, 60)
    terminal.read_until("→ ")
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.wait() == 130
    seen = words(terminal.output)
    assert "I wait." in seen
    assert "cancelled after 1 step" in seen
    assert "Traceback" not in seen
