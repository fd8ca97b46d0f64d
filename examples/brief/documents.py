"""The text files that a brief is made of."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# A terminal obeys some of these, and no text needs them.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SNIFFED = 8192


class DocumentError(ValueError):
    """A file cannot be used; the text is for the person who named it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A place that a search found: `text` is what stands around it, from character `start` on."""

    name: str
    start: int
    text: str


class Documents:
    """Texts by name, to be listed, read in pages and searched."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)
        self._plain: dict[str, str] = {}

    @classmethod
    def load(cls, paths: Iterable[Path]) -> Documents:
        """Read files. A file that is named twice counts once; equal names are told apart by their folders.

        Raises:
            DocumentError: a file is missing, a folder, binary, empty or unreadable; or there is none.
        """
        files = list({path.resolve(): path for path in paths}.values())
        if not files:
            raise DocumentError("there is no document to read")
        names = _names(files)
        return cls({name: read_text(path) for name, path in zip(names, files, strict=True)})

    @property
    def names(self) -> Sequence[str]:
        """The names, in the order of the files."""
        return tuple(self._texts)

    def text(self, name: str) -> str:
        """Return a whole text.

        Raises:
            KeyError: there is no such document.
        """
        return self._texts[name]

    def search(self, query: str, *, most: int = 8, around: int = 300) -> list[Hit]:
        """Return the first places of each document that hold the words of `query`, in any case, side by side."""
        words = [re.escape(word) for word in query.split()]
        pattern = re.compile(r"\s+".join(words), re.IGNORECASE)
        ranked: list[tuple[int, Hit]] = []
        for name, text in self._texts.items() if words else ():
            found = zip(range(most), pattern.finditer(text), strict=False)
            ranked += [(rank, _hit(name, text, match, around)) for rank, match in found]
        # The first place of each document comes before the second of any.
        return [hit for _, hit in sorted(ranked, key=lambda entry: entry[0])[:most]]

    def holds(self, name: str, quote: str) -> bool:
        """Return whether a document holds `quote` word for word; white space does not count."""
        if name not in self._texts:
            return False
        if name not in self._plain:
            self._plain[name] = " ".join(self._texts[name].split())
        return " ".join(quote.split()) in self._plain[name]


def read_text(path: Path) -> str:
    """Return the text of a file; bytes that are no UTF-8 become replacement characters.

    Raises:
        DocumentError: the file is missing, a folder, binary, empty or unreadable.
    """
    if path.is_dir():
        raise DocumentError(f"{path} is a folder; name the files in it")
    if path.exists() and not path.is_file():
        raise DocumentError(f"{path} is no regular file")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DocumentError(f"there is no file {path}") from None
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:_SNIFFED]:
        raise DocumentError(f"{path} is a binary file, not a text")
    else:
        text = data.decode("utf-8-sig", "replace")
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.strip():
        raise DocumentError(f"{path} is empty")
    return text


def _names(files: Sequence[Path]) -> list[str]:
    """Return a name for each file: its last part, with as many folders before it as tell it from the others."""
    resolved = [tuple(map(_printable, path.resolve().parts)) for path in files]
    names: list[str] = []
    for parts in resolved:
        size = 1
        while size < len(parts) and any(other[-size:] == parts[-size:] for other in resolved if other != parts):
            size += 1
        name = wanted = "/".join(parts[-size:])
        count = 1
        while name in names:
            # Different files, named alike once what cannot be shown is gone.
            count += 1
            name = f"{wanted} ({count})"
        names.append(name)
    return names


def _printable(name: str) -> str:
    return " ".join(_CONTROL.sub(" ", os.fsencode(name).decode("utf-8", "replace")).split())


def _hit(name: str, text: str, match: re.Match[str], around: int) -> Hit:
    start, end = max(0, match.start() - around), min(len(text), match.end() + around)
    # The paragraph, where it is short enough.
    before, after = text.rfind("\n\n", start, match.start()), text.find("\n\n", match.end(), end)
    start, end = before + 2 if before >= 0 else start, after if after >= 0 else end
    return Hit(name, start, text[start:end])
