"""Text of models, tools and users, made safe and short enough for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from alfine.runtime.messages import clean

# A terminal would obey control characters, and direction marks would change how the rest of the line reads.
_CONTROLS = [c for c in (*range(0x20), *range(0x7F, 0xA0)) if chr(c) not in "\n\t"]
_MARKS = [0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
_ESCAPES = {c: f"\\x{c:02x}" for c in _CONTROLS} | {c: f"\\u{c:04x}" for c in _MARKS}


def safe(text: str) -> str:
    """Return `text` with everything that a terminal would obey written out.

    >>> safe("a\\x1b[31mb\\r\\n")
    'a\\\\x1b[31mb\\n'
    """
    return clean(text).replace("\r\n", "\n").translate(_ESCAPES)


def one_line(text: str, most: int = 200) -> str:
    """Return the beginning of `text` in one safe line, with the number of characters that were left out.

    >>> one_line("first\\nsecond", 8)
    'first se… (+4)'
    """
    short = safe(" ".join(text[: most * 4].split()))
    left_out = max(len(short) - most, 0) + max(len(text) - most * 4, 0)
    return f"{short[:most]}… (+{left_out:,})" if left_out else short


def head(text: str, most: int) -> str:
    """Return the beginning of `text`, safe, with a note of what was left out."""
    if len(text) <= most:
        return safe(text)
    return f"{safe(text[:most])}…\n(+{len(text) - most:,} characters)"


def tail(pieces: Sequence[str], most: int) -> str:
    """Return the end of a text that comes in pieces, safe, without joining all of it."""
    kept: list[str] = []
    size = 0
    for piece in reversed(pieces):
        kept.append(piece)
        size += len(piece)
        if size > most:
            break
    text = "".join(reversed(kept))
    return safe(text) if size <= most else "…" + safe(text[-most:])
