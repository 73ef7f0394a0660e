"""Cutting a file into passages: pieces small enough to quote, each with its line range.

Markdown and plain text are cut at blank lines, and a Markdown passage knows the headings it
stands under, so that a paragraph is found by the words of its heading. Source code is cut
where a new top-level block begins. A CSV file gives its header and then blocks of rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

LINES_MAX = 40
CHARACTERS_MAX = 2_000
_CODE_LINES_MIN = 8
_CSV_ROWS = 20

_MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
_PROSE = frozenset({"", ".txt", ".text", ".rst", ".adoc", ".org", ".tex", ".log", ".html", ".htm"})
_TABLES = frozenset({".csv", ".tsv"})
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")


class Passage(msgspec.Struct, frozen=True):
    """Lines `first_line` to `last_line` of a file, counted from 1, both included."""

    first_line: int
    last_line: int
    heading: str
    text: str


def cut(path: str, lines: Sequence[str]) -> Iterator[Passage]:
    """Yield the passages of a file in order. No passage is empty or over the limits.

    A single line that is longer than a passage may be is given in several passages with
    the same line number.
    """
    kind = PurePosixPath(path).suffix.lower()
    if kind in _MARKDOWN:
        blocks = _markdown_blocks(lines)
    elif kind in _PROSE:
        blocks = _prose_blocks(lines)
    elif kind in _TABLES:
        blocks = _table_blocks(lines)
    else:
        blocks = _code_blocks(lines)
    for first, last, heading in blocks:
        yield from _within_limits(lines, first, last, heading)


def is_table(path: str) -> bool:
    """True if the file's name says that it holds rows and columns."""
    return PurePosixPath(path).suffix.lower() in _TABLES


Block = tuple[int, int, str]  # first and last index into the lines, and the heading


def _markdown_blocks(lines: Sequence[str]) -> Iterator[Block]:
    headings: list[tuple[int, str]] = []
    heading_at: int | None = None  # a heading that no paragraph has followed yet
    start: int | None = None
    fence: str | None = None
    trail = ""
    for at, line in enumerate(lines):
        marker = _FENCE.match(line)
        if marker and fence in (None, marker[1]):
            fence = marker[1] if fence is None else None
        title = None if fence or marker else _HEADING.match(line)
        if start is not None and not fence and not marker and (title or not line.strip()):
            yield start, at - 1, trail
            start = None
        if title:
            if heading_at is not None:
                yield heading_at, heading_at, trail
            level = len(title[1])
            headings = [h for h in headings if h[0] < level] + [(level, title[2])]
            trail = " > ".join(text for _, text in headings)
            heading_at = at
        elif start is None and line.strip():
            start, heading_at = at, None
    if start is not None:
        yield start, len(lines) - 1, trail
    elif heading_at is not None:
        yield heading_at, heading_at, trail


def _prose_blocks(lines: Sequence[str]) -> Iterator[Block]:
    start: int | None = None
    for at, line in enumerate(lines):
        if line.strip():
            start = at if start is None else start
        elif start is not None:
            yield start, at - 1, ""
            start = None
    if start is not None:
        yield start, len(lines) - 1, ""


def _table_blocks(lines: Sequence[str]) -> Iterator[Block]:
    if lines:
        yield 0, 0, ""
    for first in range(1, len(lines), _CSV_ROWS):
        yield first, min(first + _CSV_ROWS, len(lines)) - 1, ""


def _code_blocks(lines: Sequence[str]) -> Iterator[Block]:
    start = 0
    for at in range(1, len(lines)):
        opens = lines[at][:1].strip() and not lines[at - 1].strip()
        if at - start >= LINES_MAX or (opens and at - start >= _CODE_LINES_MIN):
            yield start, at - 1, ""
            start = at
    if lines:
        yield start, len(lines) - 1, ""


def _within_limits(lines: Sequence[str], first: int, last: int, heading: str) -> Iterator[Passage]:
    heading = heading[:200]
    start, size = first, 0
    for at in range(first, last + 1):
        length = len(lines[at]) + 1
        if at > start and (at - start == LINES_MAX or size + length > CHARACTERS_MAX):
            yield from _passage(lines, start, at - 1, heading)
            start, size = at, 0
        if length > CHARACTERS_MAX:
            for cut_at in range(0, len(lines[at]), CHARACTERS_MAX):
                piece = lines[at][cut_at : cut_at + CHARACTERS_MAX]
                yield Passage(at + 1, at + 1, heading, piece)
            start, size = at + 1, 0
        else:
            size += length
    if start <= last:
        yield from _passage(lines, start, last, heading)


def _passage(lines: Sequence[str], first: int, last: int, heading: str) -> Iterator[Passage]:
    while first <= last and not lines[first].strip():
        first += 1
    while last >= first and not lines[last].strip():
        last -= 1
    if first <= last:
        yield Passage(first + 1, last + 1, heading, "\n".join(lines[first : last + 1]))
