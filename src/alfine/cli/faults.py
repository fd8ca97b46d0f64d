"""What keeps a command from doing its work, with the exit code that says so."""

from __future__ import annotations

import traceback
from pathlib import Path

COMPLETE = 0
ERROR = 1
USAGE = 2
NOT_COMPLETE = 3
INTERRUPTED = 130
CLOSED_PIPE = 141


class Fault(Exception):
    """Something went wrong: the text is for people, and says what to do where that is known."""

    code = ERROR


class UsageFault(Fault):
    """The user gave something that cannot be used."""

    code = USAGE


def describe(error: BaseException) -> str:
    """Return an exception of the user's code in one line: its kind, what it says, and where it was raised."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith("<") and "site-packages" not in Path(f.filename).parts]
    return f"{text} ({own[-1].filename}, line {own[-1].lineno})" if own else text
