"""Text that is safe and short enough for a terminal."""

import pytest

from alfine.cli.text import head, one_line, safe, tail


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[31mred", r"\x1b[31mred", id="an escape sequence is written out"),
        pytest.param("a\x00b\x7f\x9b", r"a\x00b\x7f\x9b", id="other control characters too"),
        pytest.param("a\r\nb\rc", "a\nb\\x0dc", id="a line end of Windows is a line end, a lone return is not"),
        pytest.param("a\u202eb", r"a\u202eb", id="marks that turn the direction are written out"),
        pytest.param("a\ud800b", "a\ufffdb", id="half a pair cannot be printed"),
        pytest.param("漢字 [bold] 👩‍👩‍👧\t.", "漢字 [bold] 👩‍👩‍👧\t.", id="everything else stays"),
    ],
)
def test_nothing_is_left_that_a_terminal_would_obey(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_one_line_says_how_much_it_leaves_out() -> None:
    assert one_line("a\n\n  b") == "a b"
    assert one_line("x" * 1_000, 10) == "x" * 10 + "… (+990)"


def test_head_and_tail_cut_long_texts() -> None:
    assert head("abc", 3) == "abc"
    assert head("abcdef", 3) == "abc…\n(+3 characters)"
    assert tail(["ab", "cd"], 4) == "abcd"
    assert tail(["ab", "cd", "ef"], 3) == "…def"
