"""From the names a person uses to columns of the folder's tables.

A name is a column ("MSFT"), a file ("AAPL" for `AAPL.csv`, its closing price), a table as a
whole ("prices.csv"), or a word that a file of the folder explains: a line that begins with a
column's name and holds the word, such as `| MSFT | Microsoft | 微软 |`, says what it means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import msgspec

from .brief import Brief, find_names, is_noise
from .ranking import Found
from .tools import COLUMNS_MAX, TableListed

_PRICE_NAMES = (
    "adj close", "adjusted close", "adj_close", "close", "price", "nav", "value",
    "复权收盘价", "收盘价", "收盘", "单位净值", "净值", "价格",
)  # fmt: skip
_LINE_START = re.compile(r"^[\s|*#>`-]*")
_EXPLANATION_CHARACTERS_MAX = 240


class Column(msgspec.Struct, frozen=True):
    """A column to tabulate. `shown` is how the report calls it."""

    path: str
    name: str
    shown: str


class Alias(msgspec.Struct, frozen=True):
    """A word that a line of a file explains as a column."""

    word: str
    name: str
    path: str
    line: int


class Chosen(msgspec.Struct, frozen=True):
    """The columns to tabulate, and what had to be decided to get there."""

    columns: tuple[Column, ...]
    left_out: int
    """Columns beyond the most that are tabulated at once."""
    elsewhere: tuple[Column, ...]
    """Columns of the same name in other files, which were not used."""


def known_names(tables: Sequence[TableListed]) -> tuple[str, ...]:
    """Return every name that can stand for a column: columns, files, and files' stems."""
    names: dict[str, None] = {}
    for table in tables:
        names.update(dict.fromkeys(table.columns))
        names.update(dict.fromkeys((table.path, PurePosixPath(table.path).name)))
        if not is_noise(PurePosixPath(table.path).stem):
            names[PurePosixPath(table.path).stem] = None
    return tuple(names)


def column_names(tables: Sequence[TableListed]) -> tuple[str, ...]:
    """Return the names of columns alone."""
    return tuple(dict.fromkeys(name for table in tables for name in table.columns))


def choose(brief: Brief, aliases: Iterable[Alias], tables: Sequence[TableListed]) -> Chosen:
    """Return the columns that the brief names. A column that is in several files is taken
    from the file that is named, else from the first.
    """
    names = list(dict.fromkeys([*brief.names, *(alias.name for alias in aliases)]))
    named_tables = [t for t in tables if _is_table_name(t, names)]
    among = named_tables or list(tables)
    columns: list[Column] = []
    elsewhere: list[Column] = []
    for name in names:
        homes = [table for table in among if _holds(table, name)]
        if homes:
            columns.append(Column(homes[0].path, name, name))
            elsewhere.extend(Column(home.path, name, name) for home in homes[1:])
            continue
        columns.extend(_price_of(t, name) for t in tables if PurePosixPath(t.path).stem == name)
    if not columns and (brief.every_column or named_tables):
        columns = [Column(t.path, name, name) for t in among for name in t.columns]
    columns = [c for c in dict.fromkeys(columns) if c.name not in brief.dropped]
    left_out = max(len(columns) - COLUMNS_MAX, 0)
    return Chosen(tuple(columns[:COLUMNS_MAX]), left_out, tuple(elsewhere))


def find_alias(word: str, passages: Iterable[Found], columns: Sequence[str]) -> Alias | None:
    """Return the column that a line of the passages explains the word as; None if none does."""
    present = re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", re.IGNORECASE)
    for passage in passages:
        for at, line in enumerate(passage.text.split("\n")):
            if len(line) > _EXPLANATION_CHARACTERS_MAX or not present.search(line):
                continue
            names, _ = find_names(line, columns)
            begins = names and line[_LINE_START.match(line).end() :].startswith(names[0])  # type: ignore[union-attr]
            if begins and len(names) == 1:
                return Alias(word, names[0], passage.path, passage.first_line + at)
    return None


def _holds(table: TableListed, name: str) -> bool:
    return any(column.lower() == name.lower() for column in table.columns)


def _is_table_name(table: TableListed, names: Sequence[str]) -> bool:
    return any(name in (table.path, PurePosixPath(table.path).name) for name in names)


def _price_of(table: TableListed, shown: str) -> Column:
    """Return the price column of a table that is one thing's: `AAPL.csv` with Open, Close…"""
    by_name = {column.lower(): column for column in table.columns}
    name = next((by_name[known] for known in _PRICE_NAMES if known in by_name), table.columns[0])
    return Column(table.path, name, shown)
