"""From lines to commands, and from bytes to lines: all of it pure."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.commands import json_lines, reports, shown, typed_lines
from counterpoint.runtime.commands.command import (
    AnyCommand,
    Background,
    Deep,
    Export,
    Help,
    Inspect,
    ListRuns,
    Lookup,
    Mistake,
    Plain,
    Quit,
    Steer,
    Stop,
    View,
)
from counterpoint.runtime.commands.json_lines import LINE_BYTES_MAX, LongLine
from counterpoint.runtime.commands.labels import Labels
from counterpoint.runtime.commands.pipes import LineSplitter
from counterpoint.store.ids import ConversationId, RunId
from counterpoint.store.views import EventView

# fmt: off
JSON = [
    (b'{"id": "1", "text": "Hi"}', Plain(id="1", text="Hi")),
    (b'{"entry": "plain", "id": "1", "text": "Hi"}\r', Plain(id="1", text="Hi")),
    (b'{"entry": "background", "id": "1", "text": "Hi"}', Background(id="1", text="Hi")),
    (b'{"entry": "background", "id": "1", "text": "Hi", "depth": "deep"}',
     Background(id="1", text="Hi", depth="deep")),
    (b'{"entry": "deep", "id": "1", "text": "Hi"}', Deep(id="1", text="Hi")),
    (b'{"entry": "steer", "id": "1", "run": "r1", "text": "Hi"}',
     Steer(id="1", run="r1", text="Hi")),
    (b'{"entry": "steer", "id": "1", "run": "r1", "text": "Hi", "expected_revision": 0}',
     Steer(id="1", run="r1", text="Hi", expected_revision=0)),
    (b'{"entry": "stop", "id": "1", "run": "r1"}', Stop(id="1", run="r1")),
    (b'{"entry": "inspect", "run": "r1"}', Inspect(run="r1")),
    (b'{"entry": "export", "run": "r1", "ordinal": 2}', Export(run="r1", ordinal=2)),
    (b'{"entry": "view", "before": 9, "id": "q"}', View(before=9, id="q")),
    (b'{"entry": "lookup", "id": "1"}', Lookup(id="1")),
    (b'{"entry": "runs"}', ListRuns()),
    (b'{"entry": "quit"}', Quit()),
    (b"", None),
    (b" \t\r", None),
]

MISTAKES = [  # line, its id, its words, what the sentence names
    (b"nope", None, None, "not JSON"),
    (b"{", None, None, "not JSON"),
    (b'{"id": "1"} {}', None, None, "not JSON"),
    (b'{"id": "1", "text": "\xff"}', None, None, "UTF-8"),
    (b'{"id": "1", "text": "\\ud800"}', None, None, "not JSON"),
    (b"[" * 100_000, None, None, "nests"),
    (b"[]", None, None, "object"),
    (b'"Hi"', None, None, "object"),
    (b'{"text": "Hi"}', None, "Hi", "`id`"),
    (b'{"id": "1"}', "1", None, "`text`"),
    (b'{"id": 1, "text": "Hi"}', None, "Hi", "`id`"),
    (b'{"id": "1", "text": "Hi", "texts": 1}', "1", "Hi", "`texts`"),
    (b'{"id": "1", "text": "Hi", "entry": "shout"}', "1", "Hi", "'shout'"),
    (b'{"id": "1", "text": "Hi", "entry": 7}', "1", "Hi", "7"),
    (b'{"id": "1", "text": "Hi", "entry": "help"}', "1", "Hi", "'help'"),
    (b'{"id": "1", "entry": "stop"}', "1", None, "`run`"),
    (b'{"entry": "export", "run": "r1", "ordinal": "2"}', None, None, "`ordinal`"),
    (b'{"id": "1", "run": "r1", "text": "Hi", "entry": "steer", "expected_revision": 1.5}',
     "1", "Hi", "`expected_revision`"),
]

TYPED = [
    ("Hello there", Plain(id="7", text="Hello there")),
    ("  夏普比率是什么  ", Plain(id="7", text="夏普比率是什么")),
    ("//etc/hosts says", Plain(id="7", text="/etc/hosts says")),
    ("/research compare", Background(id="7", text="compare")),
    ("/deep  compare  both", Deep(id="7", text="compare  both")),
    ("/steer r1 only the last year", Steer(id="7", run="r1", text="only the last year")),
    ("/steer  r1\nless\nand later", Steer(id="7", run="r1", text="less\nand later")),
    ("/stop r1", Stop(id="7", run="r1")),
    ("/inspect r1", Inspect(run="r1")),
    ("/runs", ListRuns()),
    ("/help", Help()),
    ("/quit", Quit()),
    ("", None),
    ("   ", None),
]

TYPED_MISTAKES = [
    "/research", "/deep ", "/steer", "/steer r1", "/stop", "/stop r1 r2", "/stop please r1",
    "/inspect", "/runs r1", "/quit now", "/help me", "/researchx", "/", "/etc/hosts says",
]
# fmt: on


@pytest.mark.parametrize(("line", "command"), JSON)
def test_a_line_of_json_is_a_command(line: bytes, command: AnyCommand | None) -> None:
    assert json_lines.parse(line) == command


@pytest.mark.contract("C4")
@pytest.mark.parametrize(("line", "identifier", "text", "named"), MISTAKES)
def test_a_line_that_is_no_command_is_refused_with_its_words(
    line: bytes, identifier: str | None, text: str | None, named: str
) -> None:
    mistake = json_lines.parse(line)
    assert isinstance(mistake, Mistake)
    assert mistake.refused.code == "invalid"
    assert named in mistake.refused.sentence
    assert (mistake.id, mistake.refused.text) == (identifier, text)


@given(st.binary(max_size=64))
def test_no_line_is_anything_else(line: bytes) -> None:
    assert isinstance(json_lines.parse(line), Mistake | None)


def test_every_entry_is_in_the_protocol_as_it_is_told() -> None:
    unknown = json_lines.parse(b'{"entry": "?"}')
    assert isinstance(unknown, Mistake)
    told = json_lines.__doc__ or ""
    for line, command in JSON:
        if command is not None:
            entry = command.__struct_config__.tag
            assert str(entry) in unknown.refused.sentence, line
            assert f'"{entry}"' in told, line


def test_everything_that_can_be_shown_is_in_the_protocol_as_it_is_told() -> None:
    told = json_lines.__doc__ or ""
    for kind in shown.Shown.__subclasses__():
        # help is asked for at a terminal only, and reports are of other commands than `chat`
        if kind is not shown.Helped and kind.__module__ != reports.__name__:
            assert str(kind.__struct_config__.tag) in told, kind


@pytest.mark.parametrize(("line", "command"), TYPED)
def test_a_typed_line_is_a_command(line: str, command: AnyCommand | None) -> None:
    assert typed_lines.parse(line, lambda: "7") == command


@pytest.mark.parametrize("line", TYPED_MISTAKES)
def test_a_mistyped_line_is_refused_in_a_sentence(line: str) -> None:
    mistake = typed_lines.parse(line, lambda: "7")
    assert isinstance(mistake, Mistake)
    assert mistake.refused.sentence.endswith(".")


def test_everything_that_can_be_typed_is_in_the_help() -> None:
    for line, command in TYPED:
        if command is not None and line.startswith("/"):
            assert line.split()[0].removesuffix("etc/hosts") in typed_lines.HELP


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 40)))
def test_lines_are_cut_alike_however_the_bytes_come(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(pieces)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    splitter = LineSplitter(bytes_max=8)
    lines: list[bytes | LongLine] = []
    for start, end in itertools.pairwise(edges):
        lines += splitter.feed(data[start:end])
    lines += splitter.end()
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert lines == [line if len(line) <= 8 else LongLine(len(line)) for line in expected]


@pytest.mark.contract("C50")
def test_a_line_over_its_limit_is_refused_and_the_next_is_taken() -> None:
    splitter = LineSplitter()
    lines = splitter.feed(b"x" * LINE_BYTES_MAX) + splitter.feed(b'x\n{"entry": "runs"}\n')
    long, following = map(json_lines.parse, lines)
    assert isinstance(long, Mistake)
    assert long.refused.code == "too_large"
    assert long.refused.facts["actual"] == LINE_BYTES_MAX + 1
    assert following == ListRuns()


def admitted(number: int, run: str) -> EventView:
    return EventView(
        conversation=ConversationId("c"),
        number=number,
        kind="message_admitted",
        at_ms=0,
        run=RunId(run),
        message=None,
        client_id=None,
        facts={},
    )


@pytest.mark.contract("B53")
def test_labels_count_the_runs_in_the_order_of_admission() -> None:
    labels = Labels()
    one, two = "r" + "a" * 24, "r" + "1" * 24  # the second id sorts first
    for event in (admitted(1, one), admitted(2, two), admitted(1, one)):
        labels.learn(event)
    assert (labels.of(one), labels.of(two), labels.of("r" + "f" * 24)) == ("r1", "r2", None)
    assert (labels.run("r1"), labels.run("r3"), labels.run(two)) == (one, None, None)
    assert sorted((two, one), key=labels.place) == [one, two]
    assert labels.in_words(f"Run {two} holds it, not {one}x.") == f"Run r2 holds it, not {one}x."
