"""The criteria that the stand-in has rules for: how each is judged, and how a brief is mended to meet it.

The rules are strict: a criterion is understood as a whole or not at all, so that none passes because half of it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .layout import Brief, Quote, Section, count_words, headings, quotes, same_heading
from .notes import Notes
from .sentences import mentions

KEY_POINTS = "Key points"
SOURCES = "Sources"
SUMMARY = "Summary"
NOTHING = "The documents say nothing that belongs here."


class Demand:
    """One criterion that is understood."""

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        """Return what a brief of the documents `names` lacks; None when the criterion is met."""
        raise NotImplementedError

    def mend(self, brief: Brief, notes: Notes) -> None:
        """Change the brief so that the criterion is met, if the notes allow it."""

    def terms(self) -> Sequence[str]:
        """Return what to search the documents for."""
        return ()


@dataclass(frozen=True, slots=True)
class HasSection(Demand):
    """`Has a section named "Risks"`."""

    heading: str

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        if any(same_heading(found, self.heading) for found in headings(text)):
            return None
        return f'There is no heading "{self.heading}"; the headings are: {", ".join(headings(text)) or "none"}.'

    def mend(self, brief: Brief, notes: Notes) -> None:
        if brief.section(self.heading) is None:
            sources = brief.section(SOURCES)
            place = brief.sections.index(sources) if sources else len(brief.sections)
            brief.sections.insert(place, Section(self.heading, _section_blocks(self.heading, brief, notes)))

    def terms(self) -> Sequence[str]:
        return _terms(self.heading)


@dataclass(frozen=True, slots=True)
class Mentions(Demand):
    """`Mentions the word "budget"`."""

    word: str

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        return None if mentions(text, self.word) else f'The text never says "{self.word}".'

    def mend(self, brief: Brief, notes: Notes) -> None:
        found = next((quote for quote in notes.quotes() if mentions(quote.text, self.word)), None)
        if found:
            _ensure(brief, KEY_POINTS).blocks.append(str(found))
        else:
            _ensure(brief, SUMMARY).blocks.append(f"The documents do not mention “{self.word}”.")

    def terms(self) -> Sequence[str]:
        return (self.word,)


@dataclass(frozen=True, slots=True)
class Avoids(Demand):
    """`Does not mention the word "cheap"`."""

    word: str

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        return f'The text says "{self.word}".' if mentions(text, self.word) else None

    def mend(self, brief: Brief, notes: Notes) -> None:
        for section in brief.sections:
            section.blocks = [block for block in section.blocks if not mentions(block, self.word)]
        for name, sentences in notes.sentences.items():
            notes.sentences[name] = [s for s in sentences if not mentions(s, self.word)]


@dataclass(frozen=True, slots=True)
class AtMostWords(Demand):
    """`At most 120 words`. It is met by `trim`, which has to know all the other demands."""

    count: int

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        words = count_words(text)
        return None if words <= self.count else f"It has {words} words, {words - self.count} too many."


@dataclass(frozen=True, slots=True)
class AtLeastWords(Demand):
    """`At least 80 words`."""

    count: int

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        words = count_words(text)
        return None if words >= self.count else f"It has {words} words, {self.count - words} too few."

    def mend(self, brief: Brief, notes: Notes) -> None:
        _quote_until(brief, notes, lambda: self.missing(str(brief), notes.names) is None)


@dataclass(frozen=True, slots=True)
class NamesEachDocument(Demand):
    """`Names each document`."""

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        absent = [name for name in names if not mentions(text, name)]
        if not names:
            return "It is not known which documents there are."
        return f"These are not named: {', '.join(absent)}." if absent else None

    def mend(self, brief: Brief, notes: Notes) -> None:
        sources = _ensure(brief, SOURCES)
        text = str(brief)
        sources.blocks += [f"- {name}" for name in notes.names if not mentions(text, name)]


@dataclass(frozen=True, slots=True)
class QuotesSources(Demand):
    """`Quotes at least 3 sources`; with `count` None, `Quotes each document`."""

    count: int | None

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        quoted = {quote.document for quote in quotes(text) if quote.document}
        if self.count is not None:
            return None if len(quoted) >= self.count else f"It quotes {len(quoted)} of {self.count} sources."
        absent = [name for name in names if name not in quoted]
        if not names:
            return "It is not known which documents there are."
        return f"These are not quoted: {', '.join(absent)}." if absent else None

    def mend(self, brief: Brief, notes: Notes) -> None:
        quoted = {quote.document for quote in quotes(str(brief))}
        for name, sentences in notes.sentences.items():
            if self.missing(str(brief), notes.names) is None:
                return
            if name not in quoted and sentences:
                _ensure(brief, KEY_POINTS).blocks.append(str(Quote(sentences[0], name)))


@dataclass(frozen=True, slots=True)
class QuotesPassages(Demand):
    """`Quotes at least 5 passages`."""

    count: int

    def missing(self, text: str, names: Sequence[str]) -> str | None:
        found = len(quotes(text))
        return None if found >= self.count else f"It has {found} of {self.count} quotes."

    def mend(self, brief: Brief, notes: Notes) -> None:
        _quote_until(brief, notes, lambda: self.missing(str(brief), notes.names) is None)


_QUOTED = r"[\"“”„'‘’«»]+(.+?)[\"“”'‘’«»]+"  # noqa: RUF001
_WHO = r"(?:(?:the |this )?(?:brief|answer|text|output|it) )?(?:(?:has|is|have|be|must have|must be) )?"
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER = rf"(\d{{1,9}}|{'|'.join(_NUMBERS)})"
_EACH = r"(?:each|every|all)(?: of)?(?: the)? (?:documents?|sources?|files?)"
_SAY = r"(?:mention|contain|include|use|say)"
_FORMS: Sequence[tuple[str, Callable[[str], Demand]]] = (
    (rf"{_WHO}a (?:section|heading) (?:named|called|titled|with the title) {_QUOTED}", HasSection),
    (rf"{_WHO}an? {_QUOTED} section", HasSection),
    (rf"{_WHO}(?:does not|doesn't|must not) {_SAY} (?:the (?:word|phrase|term) )?{_QUOTED}", Avoids),
    (rf"{_WHO}(?:must )?{_SAY}s? (?:the (?:word|phrase|term|name) )?{_QUOTED}", Mentions),
    (rf"{_WHO}(?:at most|no more than|not more than|a maximum of) {_NUMBER} words", lambda n: AtMostWords(int(n))),
    (rf"{_WHO}(?:fewer|less) than {_NUMBER} words", lambda n: AtMostWords(int(n) - 1)),
    (rf"{_WHO}(?:at least|no fewer than|a minimum of) {_NUMBER} words", lambda n: AtLeastWords(int(n))),
    (rf"{_WHO}quotes? at least {_NUMBER} (?:sources?|documents?|files?)", lambda n: QuotesSources(int(n))),
    (rf"{_WHO}quotes? at least {_NUMBER} passages?", lambda n: QuotesPassages(int(n))),
    (rf"{_WHO}(quotes?) {_EACH}", lambda _: QuotesSources(None)),
    (rf"{_WHO}(names?|mentions?|lists?) {_EACH}", lambda _: NamesEachDocument()),
)
_PATTERNS = [(re.compile(form, re.IGNORECASE), make) for form, make in _FORMS]


def understand(criterion: str) -> Demand | None:
    """Return the demand that a criterion stands for; None when there is no rule for it.

    >>> understand('Has a section named "Risks"'), understand("At most 120 words."), understand("Is well written")
    (HasSection(heading='Risks'), AtMostWords(count=120), None)
    """
    text = " ".join(criterion.split()).rstrip(".")
    for pattern, make in _PATTERNS:
        if found := pattern.fullmatch(text):
            value = found[1].casefold()
            return make(str(_NUMBERS.index(value)) if value in _NUMBERS else found[1])
    return None


def _ensure(brief: Brief, heading: str) -> Section:
    section = brief.section(heading)
    if section is None:
        section = Section(heading)
        brief.sections.append(section)
    return section


def _terms(heading: str) -> list[str]:
    """Return what to look for to fill a section: its words, without their endings ("Risks" finds "risky" too)."""
    if any(same_heading(heading, own) for own in (SUMMARY, KEY_POINTS, SOURCES)):
        return []
    if "question" in heading.casefold():
        return ["?"]
    return [word if len(word) < 5 else word[: max(4, len(word) - 2)] for word in re.findall(r"\w{4,}", heading)]


def _section_blocks(heading: str, brief: Brief, notes: Notes) -> list[str]:
    if same_heading(heading, SOURCES):
        return [f"- {name}" for name in notes.names]
    terms = [term.casefold() for term in _terms(heading)]
    used = {quote.text for quote in quotes(str(brief))}
    found = [quote for quote in notes.quotes() if any(term in quote.text.casefold() for term in terms)]
    if terms == ["?"]:
        found = [quote for quote in notes.quotes() if quote.text.endswith(("?", "？"))]  # noqa: RUF001
    fresh = [quote for quote in found if quote.text not in used]
    return [str(quote) for quote in (fresh or found)[:2]] or [NOTHING]


def _quote_until(brief: Brief, notes: Notes, enough: Callable[[], bool]) -> None:
    used = {quote.text for quote in quotes(str(brief))}
    for quote in notes.quotes():
        if enough():
            return
        if quote.text not in used:
            _ensure(brief, KEY_POINTS).blocks.append(str(quote))
