"""Repairing a brief: mend what fails, keep what holds, and cut it to length in the end."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from .demands import KEY_POINTS, SOURCES, AtMostWords, Demand
from .layout import Brief, Quote, Section, count_words, quotes
from .notes import Notes
from .sentences import clip

ROUNDS = 3
SHORTER = (16, 8, 4)
_WEIGHTS = {KEY_POINTS: 0, SOURCES: 2}


def repair(brief: Brief, notes: Notes, demands: Sequence[Demand]) -> Brief:
    """Return the brief, mended to meet as many of the demands as the notes allow."""
    brief, notes = copy.deepcopy(brief), copy.deepcopy(notes)
    limits = [demand.count for demand in demands if isinstance(demand, AtMostWords)]
    for _ in range(ROUNDS):
        for demand in demands:
            if demand.missing(str(brief), notes.names):
                demand.mend(brief, notes)
        if limits:
            _Trimmer(brief, min(limits), demands, notes.names).trim()
        if not any(demand.missing(str(brief), notes.names) for demand in demands):
            break
    return brief


class _Trimmer:
    """Cuts a brief to a number of words, as far as this breaks no demand that is met."""

    def __init__(self, brief: Brief, words: int, demands: Sequence[Demand], names: Sequence[str]) -> None:
        self._brief = brief
        self._words = words
        self._names = names
        self._met = [demand for demand in demands if demand.missing(str(brief), names) is None]

    def trim(self) -> None:
        # Key points are the most, and what stands last weighs least. Every section keeps something.
        ordered = sorted(self._brief.sections, key=lambda section: _WEIGHTS.get(section.heading, 1))
        for section in ordered:
            for place in reversed(range(1, len(section.blocks))):
                self._try(section, place, None)
        for words in SHORTER:
            for section in ordered:
                for place in reversed(range(len(section.blocks))):
                    self._try(section, place, _shortened(section.blocks[place], words))

    def _try(self, section: Section, place: int, block: str | None) -> None:
        if count_words(str(self._brief)) <= self._words:
            return
        before = list(section.blocks)
        section.blocks[place : place + 1] = [] if block is None else [block]
        if any(demand.missing(str(self._brief), self._names) for demand in self._met):
            section.blocks = before


def _shortened(block: str, words: int) -> str:
    quoted = quotes(block)
    return str(Quote(clip(quoted[0].text, words), quoted[0].document)) if quoted else clip(block, words)
