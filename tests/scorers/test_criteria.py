"""What a rubric may be written as."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alfine.runtime.errors import ConfigError
from alfine.scorers.criteria import ID_LENGTH, Criterion, parse_rubric

MARKED = [
    ("- dash", "dash"),
    ("* star", "star"),
    ("+ plus", "plus"),
    ("• dot", "dot"),
    ("1. one", "one"),
    ("10. ten", "ten"),
    ("2) two", "two"),
    ("  - nested", "nested"),
    ("-\ttab", "tab"),
    ("- [ ] open box", "open box"),
    ("- [x] ticked box", "ticked box"),
    ("1. [X] numbered box", "numbered box"),
    ("[ ] box alone", "box alone"),
]
WHOLE = [
    "3.5 s at most",
    "-5 degrees is shown",
    "*bold* is used",
    "+1 is named",
    "1.5 percent",
    "2)two",
    "[x]ticked",
    "a) letter",
    "# Heading",
    "2024. was a good year",
    "plain line",
    "--- is shown as a rule",
]


def descriptions(rubric: object) -> list[str]:
    return [c.description for c in parse_rubric(rubric)]


@pytest.mark.parametrize(("line", "description"), MARKED)
def test_a_marker_before_a_space_is_no_part_of_the_criterion(line: str, description: str) -> None:
    assert descriptions(line) == [description]


@pytest.mark.parametrize("line", WHOLE)
def test_a_line_that_only_looks_marked_stays_whole(line: str) -> None:
    assert descriptions(line) == [line]


@pytest.mark.parametrize(
    "line", ["", "   ", "-", "- ", "*", "1.", "2)", "- [ ]", "[x]", "---", "* * *", "___", "====="]
)
def test_blank_lines_markers_alone_and_rules_are_no_criteria(line: str) -> None:
    assert descriptions(f"first\n{line}\nlast") == ["first", "last"]


@pytest.mark.parametrize("nothing", [None, "", " \n\t\n", "-\n---\n", []])
def test_a_blank_rubric_is_none(nothing: object) -> None:
    assert parse_rubric(nothing) == ()


def test_every_line_of_a_text_is_required() -> None:
    assert all(c.required for c in parse_rubric("- a\n- b"))


def test_a_file_that_begins_with_a_byte_order_mark_is_read_like_others() -> None:
    assert descriptions("\ufeff- a\r\n- b\r\n") == ["a", "b"]


def test_list_entries_are_criteria_texts_and_mappings_and_are_taken_word_for_word() -> None:
    rubric = parse_rubric([Criterion("one", False), "- two", {"description": "three\nlines\n", "required": False}])
    assert [(c.description, c.required) for c in rubric] == [("one", False), ("- two", True), ("three\nlines", False)]


@pytest.mark.parametrize(
    ("rubric", "argument"),
    [
        (["a", "  "], "criteria[1].description"),
        (["a", {"description": ""}], "criteria[1].description"),
        ([{}], "criteria[0].description"),
        ([{"description": 5}], "criteria[0].description"),
        ([{"description": "a", "required": "yes"}], "criteria[0].required"),
        ([{"description": "a", "id": 7}], "criteria[0].id"),
        ([{"description": "a", "id": "two\nlines"}], "criteria[0].id"),
        ([{"description": "a", "id": "half \ud800"}], "criteria[0].id"),
        ([{"description": "a", "id": " a"}], "criteria[0].id"),
        ([Criterion("a", id="x"), Criterion("b", id="x")], "criteria[1].id"),
        (["a", 5], "criteria[1]"),
        (5, "criteria"),
        ({"description": "a"}, "criteria"),
        (b"a", "criteria"),
    ],
)
def test_what_is_no_criterion_is_named_with_its_place(rubric: object, argument: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rubric(rubric)
    assert caught.value.argument == argument


def test_a_misspelt_key_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match="did you mean `required`") as caught:
        parse_rubric([{"description": "a", "requird": False}])
    assert caught.value.argument == "criteria[0].requird"


def test_a_criterion_without_words_cannot_be_made() -> None:
    with pytest.raises(ConfigError, match="description"):
        Criterion(" ")


@pytest.mark.parametrize(
    ("description", "id"),
    [
        ("Names 3 sources!", "names-3-sources"),
        ("Läuft unter Ümlauten", "läuft-unter-ümlauten"),
        ("हिन्दी में है", "हिन्दी-में-है"),
        ("包含分析部分", "包含分析部分"),
        ("?!", "criterion-1"),
        ("word " * 30, "word-word-word-word-word-word-word-word-word"),
    ],
)
def test_an_id_is_made_of_the_words(description: str, id: str) -> None:
    assert parse_rubric(description)[0].id == id


def test_equal_descriptions_get_different_ids() -> None:
    rubric = [Criterion("other", id="a-2"), "a", "a", "a", "!", "!"]
    assert [c.id for c in parse_rubric(rubric)] == ["a-2", "a", "a-3", "a-4", "criterion-5", "criterion-6"]


def test_a_rubric_of_equal_lines_takes_linear_time() -> None:
    assert len({c.id for c in parse_rubric("same\n" * 20_000)}) == 20_000


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_rubric(text: str) -> None:
    rubric = parse_rubric(text)
    ids = [c.id for c in rubric]
    assert len(set(ids)) == len(ids)
    assert all(0 < len(i) <= ID_LENGTH + 12 and i == i.strip() for i in ids)
    assert parse_rubric(text) == rubric
    assert parse_rubric(rubric) == rubric


LINES = st.sampled_from([line for line, _ in MARKED] + WHOLE + ["-", "", "---"])


@settings(deadline=None)
@given(st.lists(LINES))
def test_the_order_of_lines_is_kept(lines: list[str]) -> None:
    expected = [d for line in lines for d in descriptions(line)]
    assert descriptions("\n".join(lines)) == expected


@settings(deadline=None)
@given(st.lists(st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1)))
def test_any_list_of_texts_is_kept_as_it_is(texts: list[str]) -> None:
    assert descriptions(texts) == texts
