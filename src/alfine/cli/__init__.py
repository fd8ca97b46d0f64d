"""The command line: `alfine run` and what it is made of.

`watch` (in `view`) shows any stream in the terminal, `setup_otlp` (in `otlp`) exports traces and evaluation events, and
`trace_tree` renders finished spans. Everything but `main` is loaded when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: without the program's name; `sys.argv[1:]` unless given.
    """
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        text = f"error: the command line needs {' and '.join(missing)}: pip install 'alfine[cli]'"
        print(text, file=sys.stderr)
        return 2
    from .app import start

    return start(sys.argv[1:] if arguments is None else arguments)
