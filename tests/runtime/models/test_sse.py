"""Events come out the same however the network has cut them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alfine.runtime.models.sse import Event, EventSplitter


def split(*chunks: bytes) -> list[Event]:
    splitter = EventSplitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)] + splitter.end()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(b"data: a\n\n", [b"a"], id="one event"),
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="two events"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="two data lines are one event"),
        pytest.param(b"data:a\n\n", [b"a"], id="no space"),
        pytest.param(b"data:  a\n\n", [b" a"], id="only one space goes"),
        pytest.param(b": ping\n\ndata: a\n\n: ping\n\n", [b"a"], id="comments"),
        pytest.param(b": ping\ndata: a\n\n", [b"a"], id="a comment inside an event"),
        pytest.param(b"\n\n\ndata: a\n\n\n\n", [b"a"], id="blank lines"),
        pytest.param(b"id: 1\nretry: 5\ndata: a\n\n", [b"a"], id="other fields"),
        pytest.param(b"data: a\n\ndata: b", [b"a", b"b"], id="no blank line at the end"),
        pytest.param(b"data: a\n\ndata: b\n", [b"a", b"b"], id="one line feed at the end"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="byte order mark"),
        pytest.param(b'{"error": 1}\n\n', [b'{"error": 1}'], id="JSON without a field name"),
        pytest.param(b"event: ping\n\ndata: a\n\n", [b"a"], id="an event without data"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_what_servers_send_becomes_events(sent: bytes, expected: list[bytes]) -> None:
    assert [data for _, data in split(sent)] == expected


def test_an_event_has_its_own_name_only() -> None:
    sent = b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n"
    assert split(sent) == [(b"error", b"a"), (b"", b"b"), (b"", b"c")]


LINE = st.sampled_from(
    [
        "data: a",
        "data: €😀",
        "data:",
        "data: ",
        ": comment",
        "event: error",
        "id: 7",
        "",
        "",
        '{"a": 1}',
        "data: [DONE]",
    ]
)


@given(st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n", "\r"]))), st.data())
def test_any_cutting_gives_the_same_events(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    sent = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    chunks = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert split(*chunks) == split(sent)
    assert split(*(bytes([byte]) for byte in sent)) == split(sent)


@given(st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n"]))))
def test_line_ends_make_no_difference(lines: list[tuple[str, str]]) -> None:
    mixed = "".join(line + end for line, end in lines).encode()
    assert split(mixed) == split("".join(line + "\n" for line, _ in lines).encode())


def cpu_of(size: int) -> float:
    chunks = [b"data: ", *(b"xy" for _ in range(size // 2)), b"\n\n"]
    start = time.process_time()
    events = split(*chunks)
    assert len(events[0][1]) == size
    return time.process_time() - start


def test_a_large_event_in_tiny_pieces_takes_linear_time() -> None:
    # Quadratic time would make the second 64 times as dear, not 8.
    small = max(min(cpu_of(250_000) for _ in range(3)), 1e-3)
    assert cpu_of(2_000_000) < 30 * small


def test_ten_megabytes_in_one_event_arrive_whole() -> None:
    big = b"x" * 10_000_000
    sent = b"data: " + big + b"\n\n"
    assert split(*(sent[i : i + 65_536] for i in range(0, len(sent), 65_536))) == [(b"", big)]
