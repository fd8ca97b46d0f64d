"""Repairing a brief: mend what fails, keep what holds, and cut it to length in the end."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from .demands import AtMostWords, Demand
from .layout import Brief, Quote, count_words, quotes
from .notes import Notes
from .sentences import clip

ROUNDS = 3
SHORTER = (16, 8, 4)


def repair(brief: Brief, notes: Notes, demands: Sequence[Demand]) -> Brief:
    """Return the brief, mended to meet as many of the demands as the notes allow."""
    brief = copy.deepcopy(brief)
    for _ in range(ROUNDS):
        for demand in demands:
            if demand.missing(str(brief), notes.names):
                demand.mend(brief, notes)
        limits = [demand.count for demand in demands if isinstance(demand, AtMostWords)]
        if limits:
            others = [demand for demand in demands if not isinstance(demand, AtMostWords)]
            brief = trim(brief, min(limits), others, notes.names)
        if not any(demand.missing(str(brief), notes.names) for demand in demands):
            break
    return brief


def trim(brief: Brief, words: int, keep: Sequence[Demand], names: Sequence[str]) -> Brief:
    """Return the brief, cut to a number of words as far as this breaks none of the demands in `keep`."""
    met = [demand for demand in keep if demand.missing(str(brief), names) is None]
    for shorter in _cuts(copy.deepcopy(brief)):
        if count_words(str(brief)) <= words:
            break
        if all(demand.missing(str(shorter.brief), names) is None for demand in met):
            brief = copy.deepcopy(shorter.brief)
        else:
            shorter.undo()
    return brief


class _Cut:
    """One block that is left out or shortened, for now."""

    def __init__(self, brief: Brief, section: int, block: int, replacement: str | None) -> None:
        self.brief = brief
        self._blocks = brief.sections[section].blocks
        self._place = block
        self._old = self._blocks[block]
        if replacement is None:
            del self._blocks[block]
        else:
            self._blocks[block] = replacement

    def undo(self) -> None:
        if len(self._blocks) > self._place and self._blocks[self._place] != self._old:
            self._blocks[self._place] = self._old
"""placeholder"""
