"""The stand-in as the writer: it arranges notes into a brief, and mends a draft."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from .demands import KEY_POINTS, SUMMARY, Demand, understand
from .layout import Brief, Section
from .notes import Notes
from .repair import repair

TASK, MEND, KEEP, DRAFT = "Task: ", "Mend: ", "Keep: ", "| "
FIRST_DOCUMENTS = 3
"""Of how many documents the first draft makes use."""


@dataclass(slots=True)
class NotePad:
    """What the supervisor gives to the writer: every line of it begins with a mark."""

    task: str = ""
    notes: Notes = field(default_factory=Notes)
    mend: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    draft: str = ""

    @classmethod
    def parse(cls, prompt: str) -> NotePad:
        """Read a prompt as `prompt` writes it."""
        lines = prompt.splitlines()

        def marked(mark: str) -> list[str]:
            return [line.removeprefix(mark) for line in lines if line.startswith(mark)]

        draft = "\n".join(line.removeprefix(DRAFT.rstrip()).removeprefix(" ") for line in lines if line[:1] == "|")
        return cls("".join(marked(TASK)), Notes.parse(prompt), marked(MEND), marked(KEEP), draft)

    def take(self, notes: str) -> None:
        """Add what the reader noted."""
        self.notes.merge(Notes.parse(notes))

    def prompt(self, order: str) -> str:
        """Return the prompt."""
        lines = [order, TASK + " ".join(self.task.split()), *(MEND + line for line in self.mend)]
        lines += [*(KEEP + line for line in self.keep), str(self.notes)]
        return "\n".join([*lines, *((DRAFT + line).rstrip() for line in self.draft.splitlines())])


def write(prompt: str) -> str:
    """Return the brief that a prompt asks for."""
    pad = NotePad.parse(prompt)
    if not pad.draft:
        return str(_first_draft(pad.notes))
    demands: list[Demand] = [demand for line in [*pad.mend, *pad.keep] if (demand := understand(line))]
    return str(repair(Brief.parse(pad.draft), pad.notes, demands))


def _first_draft(notes: Notes) -> Brief:
    """Arrange the notes as best as one can without knowing what will be demanded."""
    first = Notes(dict(islice(notes.sentences.items(), FIRST_DOCUMENTS)))
    opening = next((sentences[0] for sentences in first.sentences.values() if sentences), "There is nothing to say.")
    if not opening[0].isalnum():
        opening = f"“{opening}”"  # what it begins with could be a mark of Markdown
    points = [str(quote) for quote in islice(first.quotes(), 2 * FIRST_DOCUMENTS)]
    return Brief("Brief", [Section(SUMMARY, [opening]), Section(KEY_POINTS, points)])
