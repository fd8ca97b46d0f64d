"""A rubric: what it may be written as, and the criteria that it stands for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from ..runtime.errors import ConfigError

ID_LENGTH = 48
"""Most characters of an id that is made from a description; a suffix such as `-2` may follow."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of a rubric.

    Attributes:
        description: what has to hold, in words; any length, several lines allowed.
        required: whether the output fails without it.
        id: names it in verdicts and in the ledger; one line. When empty, the rubric makes one of the description.

    Raises:
        ConfigError: the description is empty, or a field has a wrong type.
    """

    description: str
    required: bool = True
    id: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.description, str) or not self.description.strip():
            raise ConfigError("description", self.description, "a criterion says in words what has to hold")
        if not isinstance(self.required, bool):
            raise ConfigError("required", self.required, "True or False")
        if not isinstance(self.id, str) or not self.id.isprintable() or self.id != self.id.strip():
            raise ConfigError("id", self.id, "one line of printable text without spaces around it")


Rubric = str | Sequence[Criterion | str | Mapping[str, Any]]


def parse_rubric(value: object, name: str = "criteria") -> tuple[Criterion, ...]:
    """Return the criteria of a rubric, each with an id that is unique in it, in the order in which they were written.

    Args:
        value: a text with one criterion a line; or a list of criteria, texts, and mappings with `description`,
            `required` and `id`, each entry taken word for word; or None. A blank text and an empty list are no rubric.
        name: what the rubric is called in an error.

    Raises:
        ConfigError: an entry is no criterion, or an id is given twice; the error names the entry's place.

    >>> [c.description for c in parse_rubric("- [ ] Names a source\\n-5 degrees is shown\\n---\\n2) 3.5 s at most")]
    ['Names a source', '-5 degrees is shown', '3.5 s at most']
    >>> parse_rubric([{"description": "Names a source", "required": False}])
    (Criterion(description='Names a source', required=False, id='names-a-source'),)
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return _with_ids([Criterion(line) for line in _lines(value)], name)
    if isinstance(value, bytes | bytearray) or not isinstance(value, Sequence):
        raise ConfigError(name, value, "a text with one criterion a line, or a list of criteria")
    return _with_ids([_criterion(entry, f"{name}[{place}]") for place, entry in enumerate(value)], name)


_LIST_MARKER = r"(?:[-*+•]|[0-9]{1,3}[.)])"
_CHECK_BOX = r"\[[ xX]\]"
_MARKERS = re.compile(rf"(?:{_LIST_MARKER}\s+)?(?:{_CHECK_BOX}\s+)?")
_ONLY_MARKERS = re.compile(rf"{_LIST_MARKER}?\s*(?:{_CHECK_BOX})?")
_RULE = re.compile(r"([-*_=~–—─])(?:\s*\1)+")  # noqa: RUF001


def _lines(text: str) -> Iterable[str]:
    for line in text.removeprefix("\ufeff").splitlines():
        line = line.strip()
        if _blank(line):
            continue
        line = _MARKERS.sub("", line, count=1)  # only at the start: there the pattern matches nothing at least
        if not _blank(line):
            yield line


def _blank(line: str) -> bool:
    return bool(_ONLY_MARKERS.fullmatch(line) or _RULE.fullmatch(line))


def _criterion(entry: object, place: str) -> Criterion:
    if isinstance(entry, Criterion):
        return entry
    try:
        if isinstance(entry, str):
            return Criterion(entry.strip())
        if isinstance(entry, Mapping):
            return _from_mapping(entry)
    except ConfigError as error:
        raise ConfigError(f"{place}.{error.argument}", error.value, error.allowed) from None
    raise ConfigError(place, entry, "a Criterion, a text, or a mapping with `description`, `required` and `id`")


def _from_mapping(entry: Mapping[Any, Any]) -> Criterion:
    known = ("description", "required", "id")
    for key in entry:
        if key not in known:
            close = get_close_matches(str(key), known, 1)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            raise ConfigError(str(key), entry[key], f"a criterion has {', '.join(known)}{hint}")
    description = entry.get("description")
    if not isinstance(description, str):
        raise ConfigError("description", description, "a criterion says in words what has to hold")
    return Criterion(description.strip(), entry.get("required", True), "" if entry.get("id") is None else entry["id"])


def _with_ids(criteria: Sequence[Criterion], name: str) -> tuple[Criterion, ...]:
    taken: set[str] = set()
    for place, criterion in enumerate(criteria):
        if criterion.id in taken:
            raise ConfigError(f"{name}[{place}].id", criterion.id, "each id stands once in a rubric")
        if criterion.id:
            taken.add(criterion.id)
    out = []
    counts: dict[str, int] = {}
    for number, criterion in enumerate(criteria, 1):
        if not criterion.id:
            base = _slug(criterion.description) or f"criterion-{number}"
            new_id, count = base, counts.get(base, 1)
            while new_id in taken:
                count += 1
                new_id = f"{base}-{count}"
            counts[base] = count
            taken.add(new_id)
            criterion = replace(criterion, id=new_id)
        out.append(criterion)
    return tuple(out)


def _slug(description: str) -> str:
    # Letters, numbers and the marks that belong to them; `\w` would cut words of scripts that write vowels as marks.
    text = unicodedata.normalize("NFC", description[: 8 * ID_LENGTH]).lower()
    words = "".join(c if unicodedata.category(c)[0] in "LMN" or c == "_" else " " for c in text).split()
    slug = "-".join(words)
    if len(slug) <= ID_LENGTH:
        return slug
    whole = slug[: ID_LENGTH + 1].rpartition("-")[0]
    return whole or slug[:ID_LENGTH]
