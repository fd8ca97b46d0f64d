"""Sentences of a plain or Markdown text, each as it stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORDS = 30
MOST_CHARACTERS = 200

_STARTS_ALONE = re.compile(r"\s*(?:[-*+•]\s+|\d{1,3}[.)]\s+|#{1,6}\s+|>\s*|\|)")
_FENCE = re.compile(r"\s*(```|~~~)")
_END = re.compile(r"(?<=[.!?…])[\"”’)\]]*\s+|(?<=[。！？])")  # noqa: RUF001
_WORD = re.compile(r"\w")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; without any, its headings and fragments, or else its lines.

    White space is one space, and what is too long is cut after a word: each one can be found in the text again.

    >>> sentences("# Title\\n\\nIt repeats\\nuntil done. Then it ends.")
    ['It repeats until done.', 'Then it ends.']
    """
    whole: list[str] = []
    fragments: list[str] = []
    for paragraph in _paragraphs(text):
        is_heading = paragraph.startswith("#")
        marker = _STARTS_ALONE.match(paragraph)
        plain = "" if paragraph.startswith("|") else paragraph[marker.end() if marker else 0 :]
        for piece in _END.split(plain):
            sentence = clip(piece)
            if not _WORD.search(sentence):
                continue
            (fragments if is_heading or not _is_sentence(sentence) else whole).append(sentence)
    lines = [clip(line) for line in text.splitlines() if line.strip() and not _FENCE.match(line)]
    return list(dict.fromkeys(whole or fragments or lines))


def clip(text: str, words: int = MOST_WORDS) -> str:
    """Return the beginning of a text, on one line, of at most so many words."""
    text = " ".join(text.split()[:words])
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS].rpartition(" ")[0] or text[:MOST_CHARACTERS]


def mentions(text: str, word: str) -> bool:
    """Return whether a text has a word or a phrase as such, in any case, not as a part of a longer word."""
    before, after = (r"(?<!\w)" if word[:1].isalnum() else ""), (r"(?!\w)" if word[-1:].isalnum() else "")
    phrase = r"\s+".join(re.escape(part) for part in word.split())
    return re.search(before + phrase + after, text, re.IGNORECASE) is not None


def _is_sentence(text: str) -> bool:
    return text[-1] in '.!?…。！？"”’)' and (len(text.split()) > 3 or len(text) > 8)  # noqa: RUF001


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs, items and headings, each on one line; code blocks and comments are left out."""
    lines: list[str] = []
    in_code = False
    for line in [*text.splitlines(), ""]:
        if _FENCE.match(line):
            in_code = not in_code
        if in_code or _FENCE.match(line) or not line.strip() or _STARTS_ALONE.match(line):
            if lines:
                yield " ".join(lines)
            lines = []
        if not in_code and line.strip() and not _FENCE.match(line):
            lines.append(line.strip())
            if line.lstrip().startswith("#"):
                yield " ".join(lines)
                lines = []
