"""The reader's notes: sentences by the document that they stand in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .layout import Quote

DOCUMENT = "Document: "


@dataclass(slots=True)
class Notes:
    """Sentences, word for word, by document. A document without any sentence is known by its name.

    >>> str(Notes.parse("Document: a.txt\\n- It ends.\\nDocument: b.txt"))
    'Document: a.txt\\n- It ends.\\nDocument: b.txt'
    """

    sentences: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Notes:
        """Read notes as `str` writes them; other lines are skipped."""
        notes, name = cls(), None
        for line in text.splitlines():
            if line.startswith(DOCUMENT):
                name = line.removeprefix(DOCUMENT)
                notes.add(name)
            elif line.startswith("- ") and name is not None:
                notes.add(name, [line[2:]])
        return notes

    def add(self, name: str, sentences: Iterable[str] = ()) -> None:
        """Add what is not yet there."""
        known = self.sentences.setdefault(name, [])
        known += [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]

    def merge(self, other: Notes) -> None:
        """Add all of another's notes."""
        for name, sentences in other.sentences.items():
            self.add(name, sentences)

    @property
    def names(self) -> list[str]:
        """The documents, in order."""
        return list(self.sentences)

    def quotes(self) -> Iterator[Quote]:
        """Yield all sentences as quotes: the first one of each document, then the second ones, and so on."""
        longest = max(map(len, self.sentences.values()), default=0)
        for rank in range(longest):
            for name, sentences in self.sentences.items():
                if rank < len(sentences):
                    yield Quote(sentences[rank], name)

    def __str__(self) -> str:
        lines = []
        for name, sentences in self.sentences.items():
            lines += [f"{DOCUMENT}{name}", *(f"- {sentence}" for sentence in sentences)]
        return "\n".join(lines)
