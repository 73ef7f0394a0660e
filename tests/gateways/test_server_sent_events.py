"""The same events come out wherever the network cuts their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.gateways.server_sent_events import EventParser, EventTooLong

# fmt: off
CASES: dict[str, tuple[bytes, list[bytes]]] = {
    "one":               (b"data: a\n\n",                         [b"a"]),
    "two":               (b"data: a\n\ndata: b\n\n",              [b"a", b"b"]),
    "no space":          (b"data:a\n\n",                          [b"a"]),
    "one space is ours": (b"data:  a \n\n",                       [b" a "]),
    "several lines":     (b"data: a\ndata: b\n\n",                [b"a\nb"]),
    "carriage returns":  (b"data: a\r\rdata: b\r\r",              [b"a", b"b"]),
    "one and two":       (b"data: a\r\n\ndata: b\n\r\n",        [b"a", b"b"]),
    "both":              (b"data: a\r\ndata: b\r\n\r\n",          [b"a\nb"]),
    "a comment":         (b": still there\n\ndata: a\n\n",        [b"a"]),
    "other fields":      (b"event: x\nid: 1\ndata: a\nretry\n\n", [b"a"]),
    "an empty one":      (b"data:\n\n",                           [b""]),
    "nothing":           (b"\n\n\r\n",                            []),
    "no last line":      (b"data: a\n\ndata: b",                  [b"a", b"b"]),
    "a colon inside":    (b"data: {\"a\": 1}\n\n",                [b'{"a": 1}']),
    "not a stream":      (b"<html>\n\n</html>",                   []),
}
# fmt: on


def parsed(*chunks: bytes) -> list[bytes]:
    parser = EventParser(1000)
    events: list[bytes] = []
    for chunk in chunks:
        events += parser.feed(chunk)
    return events + parser.end()


@pytest.mark.parametrize(("stream", "events"), CASES.values(), ids=CASES)
def test_a_stream_holds_these_events_however_it_is_cut(stream: bytes, events: list[bytes]) -> None:
    assert parsed(stream) == events
    assert parsed(*(stream[at : at + 1] for at in range(len(stream)))) == events
    for cut in range(len(stream)):
        assert parsed(stream[:cut], b"", stream[cut:]) == events


@given(st.lists(st.sampled_from([b"data: a", b"data:", b":", b"\r", b"\n", b"\r\n", b"x"])))
def test_where_it_is_cut_changes_nothing(pieces: list[bytes]) -> None:
    assert parsed(*pieces) == parsed(b"".join(pieces))


def test_an_event_is_given_as_soon_as_it_is_whole() -> None:
    parser = EventParser(1000)
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\ndata: b") == [b"a"]


@pytest.mark.contract("C50")
@pytest.mark.parametrize(
    "chunk",
    [b"x" * 11, b"data: 123456", b"data: 123\ndata: 456\n", b"data:\n" * 11, b": 23456789012"],
)
def test_an_event_that_is_too_long_is_not_kept(chunk: bytes) -> None:
    with pytest.raises(EventTooLong):
        EventParser(10).feed(chunk)


def test_the_bound_is_for_one_event_and_not_for_the_stream() -> None:
    parser = EventParser(10)
    assert [event for _ in range(100) for event in parser.feed(b"data: 1234\n\n")] == [
        b"1234"
    ] * 100
