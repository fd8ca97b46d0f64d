"""The demo's documents: what is taken, what is refused, and what the reader's tools return."""

import os
from pathlib import Path

import pytest
from brief_demo import documents, grading, sentences, tools

from alfine import ToolError


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param("Grün.".encode(), "Grün.", id="UTF-8"),
        pytest.param("\ufeffA.".encode(), "A.", id="with a mark"),
        pytest.param(b"Gr\xfcn.", "Gr�n.", id="Latin-1"),
        pytest.param("Grün.".encode("utf-16"), "Grün.", id="UTF-16"),
        pytest.param(b"a\r\nb\rc", "a\nb\nc", id="line ends"),
        pytest.param(b"a\x1b[31mb", "a[31mb", id="terminal codes"),
    ],
)
def test_a_text_is_decoded_whatever_it_is_written_in(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert documents.read_text(path) == text


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "is empty"), (b" \n\t", "is empty"), (b"\x7fELF\0\0", "is a binary file")]
)
def test_a_file_without_text_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    with pytest.raises(documents.DocumentError, match=reason):
        documents.Documents.load([path])


def test_equal_names_are_told_apart_by_their_folders_and_the_same_file_counts_once(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "notes.txt" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("Text.")
    assert documents.Documents.load([*paths, paths[0]]).names == ("a/notes.txt", "b/notes.txt")


def test_pages_make_up_the_whole_document() -> None:
    text = "".join(f"Line {n}.\n" for n in range(2000))
    _, read, _ = tools.document_tools(documents.Documents({"a": text}))
    pages, start = [], 0
    while start < len(text):
        page = read("a", start)
        pages.append(page["text"])
        start = page["end"]
    assert len(pages) > 2
    assert "".join(pages) == text


def test_an_unknown_document_is_answered_with_the_names_that_there_are() -> None:
    _, read, _ = tools.document_tools(documents.Documents({"a.txt": "A."}))
    with pytest.raises(ToolError, match=r"There are: a\.txt"):
        read("../secret.txt")


def test_a_search_finds_a_phrase_over_line_ends_and_in_every_document_first() -> None:
    found = documents.Documents({"a": "the Red\nfox. red fox", "b": "No red fox here"}).search("red fox", most=2)
    assert [(hit.name, "fox" in hit.text) for hit in found] == [("a", True), ("b", True)]


@pytest.mark.parametrize("query", ["", "  ", "(", "absent"])
def test_a_search_for_nothing_that_is_there_finds_nothing(query: str) -> None:
    assert documents.Documents({"a": "Some text"}).search(query) == []


def test_sentences_stand_in_the_text_as_they_are() -> None:
    text = "# Head\n\n- An item with + signs, 2 + 3 of them.\n\nA line\nthat goes on. ```x```\n"
    found = sentences.sentences(text)
    known = documents.Documents({"a": text})
    assert found[0] == "An item with + signs, 2 + 3 of them."
    assert all(known.holds("a", sentence) for sentence in found)


@pytest.mark.parametrize(
    ("quote", "passed"),
    [
        ("> It ends.\n> — a.txt", True),
        ("> It   ends.\n>\n> — a.txt", True),
        ("> It never ends.\n> — a.txt", False),
        ("> It ends.\n> — b.txt", False),
        ("> It ends.", False),
        ("It ends.", False),
    ],
)
def test_a_quote_passes_only_if_it_stands_in_the_document_that_it_names(quote: str, passed: bool) -> None:
    score = grading.grade_quotes(quote, documents.Documents({"a.txt": "It repeats. It\nends."}))
    assert score.passes() is passed


def test_names_that_look_alike_once_cleaned_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / "two  spaces.txt", tmp_path / "two spaces.txt"]
    for path in paths:
        path.write_text(f"This is {path.name}.")
    loaded = documents.Documents.load(paths)
    assert set(loaded.names) == {"two spaces.txt", "two spaces.txt (2)"}
    assert {loaded.text(name) for name in loaded.names} == {f"This is {path.name}." for path in paths}


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(documents.DocumentError, match="no regular file"):
        documents.Documents.load([pipe])
