"""How a brief is laid out: Markdown with a title, sections, and quotes that name their document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
_SOURCE = re.compile(r">\s*[—–-]{1,2}\s*(.+)")  # noqa: RUF001
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Quote:
    """A quoted passage, and the document that it is said to be from; empty where none is named."""

    text: str
    document: str

    def __str__(self) -> str:
        return f"> {self.text}\n> — {self.document}"


@dataclass(slots=True)
class Section:
    """A heading and the blocks under it: paragraphs, quotes, items of a list."""

    heading: str
    blocks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Brief:
    """A brief in parts."""

    title: str = "Brief"
    sections: list[Section] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Brief:
        """Take a Markdown text apart. Text before the first section counts as a section without a heading."""
        brief = cls("", [Section("")])
        block: list[str] = []

        def close() -> None:
            if block:
                brief.sections[-1].blocks.append("\n".join(block))
                block.clear()

        for line in text.splitlines():
            heading = _HEADING.fullmatch(line)
            if heading or not line.strip() or line.startswith("- "):
                close()
            if heading and len(heading[1]) == 1 and not brief.title:
                brief.title = heading[2]
            elif heading:
                brief.sections.append(Section(heading[2]))
            elif line.strip():
                block.append(line)
        close()
        if not brief.sections[0].blocks:
            del brief.sections[0]
        return brief

    def section(self, heading: str) -> Section | None:
        """Return the section of this name, in any case."""
        return next((s for s in self.sections if same_heading(s.heading, heading)), None)

    def __str__(self) -> str:
        parts = [f"# {self.title}"] if self.title else []
        for section in self.sections:
            if section.heading:
                parts.append(f"## {section.heading}")
            parts += section.blocks
        out = ""
        for before, part in zip(["", *parts], parts, strict=False):
            is_list = before.startswith("- ") and part.startswith("- ")
            out += ("" if not out else "\n" if is_list else "\n\n") + part
        return out


def same_heading(one: str, other: str) -> bool:
    """Return whether two headings are the same; case and a colon at the end do not count."""
    return one.strip().rstrip(":").casefold() == other.strip().rstrip(":").casefold()


def headings(text: str) -> list[str]:
    """Return the section headings of a Markdown text, without what stands in code blocks."""
    found, in_code = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code and (heading := _HEADING.fullmatch(line)):
            found.append(heading[2])
    return found


def quotes(text: str) -> list[Quote]:
    """Return the quotes of a Markdown text: lines that begin with `>`, the last of which names the document.

    >>> quotes("> Repeat until the end.\\n> — README.md")
    [Quote(text='Repeat until the end.', document='README.md')]
    """
    return [_quote(block) for block in _quoted(text.splitlines())]


def count_words(text: str) -> int:
    """Return how many words a text has, as word processors count them: by white space."""
    return len(text.split())


def _quoted(lines: Sequence[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(">"):
            blocks[-1].append(line)
            if not _SOURCE.fullmatch(line) or len(blocks[-1]) == 1:
                continue
        blocks.append([])
    return [block for block in blocks if block]


def _quote(lines: list[str]) -> Quote:
    source = _SOURCE.fullmatch(lines[-1]) if len(lines) > 1 else None
    text = lines[:-1] if source else lines
    return Quote(" ".join(line[1:].strip() for line in text).strip(), source[1].strip("*` ") if source else "")
