"""What is demanded of a brief: by code, where code can tell, and by a judge, who reads the rubric of the run."""

from __future__ import annotations

from alfine import FunctionScorer, Model, Score, TaskComplete, Verdict, create_rubric_scorer
from alfine.scorers import grade, parse_rubric

from .demands import KEY_POINTS, SOURCES, SUMMARY
from .documents import Documents
from .layout import Quote, count_words, headings, quotes, same_heading

RUBRIC = """\
- Has a section named "Open questions"
- Quotes each document
- Names each document
"""
"""The rubric, unless the user brings one."""

SECTIONS = (SUMMARY, KEY_POINTS, SOURCES)
WORDS, WORDS_A_DOCUMENT = 200, 20
NO_FEEDBACK = "Try again."


def task_complete(documents: Documents, judge: Model | str, *, feedback: bool = True) -> TaskComplete:
    """Return when a brief of these documents is done: all scorers pass.

    Args:
        feedback: False keeps every reason from the supervisor; it only hears that it has to try again.
    """
    limit = WORDS + WORDS_A_DOCUMENT * len(documents.names)
    return TaskComplete(
        scorers=[
            FunctionScorer(grade_sections, "sections"),
            FunctionScorer(lambda output: grade_length(output, limit), "length"),
            FunctionScorer(lambda output: grade_quotes(output, documents), "quotes"),
            create_rubric_scorer(model=judge, id="rubric"),
        ],
        feedback=None if feedback else lambda report: NO_FEEDBACK,
        stall_after=3,
    )


def grade_sections(output: str) -> Score:
    """Grade whether the sections are there that every brief has."""
    there = headings(output)
    return _score(
        {
            f'Has a section named "{name}"': (
                any(same_heading(name, heading) for heading in there),
                f"The headings are: {', '.join(there) or 'none'}.",
            )
            for name in SECTIONS
        }
    )


def grade_length(output: str, limit: int) -> Score:
    """Grade whether the brief is brief."""
    words = count_words(output)
    return _score({f"At most {limit} words": (words <= limit, f"It has {words} words.")})


def grade_quotes(output: str, documents: Documents) -> Score:
    """Grade whether there are quotes, and whether each stands in the document that it names."""
    found = quotes(output)
    wrong = [problem for quote in found if (problem := _problem(quote, documents))]
    return _score(
        {
            "Quotes at least one passage": (bool(found), f"It quotes {len(found)}."),
            "Each quote stands word for word in the document that it names": (
                not wrong,
                " ".join(wrong[:5]) or "They do.",
            ),
        }
    )


def _problem(quote: Quote, documents: Documents) -> str | None:
    shown = f"“{quote.text[:80]}”"
    if not quote.document:
        return f"{shown} names no document; the line after it has to be `> — name`."
    if quote.document not in documents.names:
        return f"{shown} names {quote.document}, which is no document; there are {', '.join(documents.names)}."
    if not documents.holds(quote.document, quote.text):
        return f"{shown} does not stand in {quote.document}."
    return None


def _score(findings: dict[str, tuple[bool, str]]) -> Score:
    """Return the score that says of each criterion whether it is met, and what was found."""
    criteria = parse_rubric(list(findings))
    return grade(criteria, [Verdict(c.id, c.description, True, *findings[c.description]) for c in criteria])
