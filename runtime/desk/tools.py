"""The desk's tools: what its agent may do, as plain async functions of JSON arguments.

Each returns plain JSON values and is bounded in what it reads and in what it returns. None
writes to the person's files. Wrong arguments and unreadable files are `ToolRefused`, with a
sentence for whoever asked, model or person.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from pathlib import PurePosixPath
from typing import Any, TypeVar

import msgspec
import trio

from .figures import ColumnFigures, PairFigures, column_figures, pair_figures, within
from .folder import BINARY, FileRefused, FileState, Folder, Skipped
from .index import FolderIndex, IndexUnavailable
from .passages import is_table
from .ranking import Found
from .table import Series, Table, TableRefused, read_table
from .window import Window

PASSAGES_MAX = 12
EXCERPT_CHARACTERS_MAX = 700
READ_LINES_MAX = 120
READ_CHARACTERS_MAX = 12_000
COLUMNS_MAX = 12
TABLES_MAX = 40
NAMES_LISTED_MAX = 200
TERMS_MAX = 24
STEP_SECONDS = 4.0  # of indexing in one call: a person or a run waits no longer than that
SKIPPED_NAMED_MAX = 10
_DOCUMENTS = frozenset({".pdf", ".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".epub"})

_Asked = TypeVar("_Asked")
Tool = Callable[[dict[str, Any]], Awaitable[Any]]


class ToolRefused(Exception):
    """The call cannot be carried out as it was asked. Nothing was changed.

    The sentence says what to ask for instead; the same call will be refused again unless
    the files change.
    """


class PrepareAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `prepare`. Counting the steps makes each a call of its own."""

    step: int = 1


class SearchAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `search`."""

    terms: list[str]


class ReadAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `read`. Lines count from 1; both are included."""

    path: str
    first_line: int = 1
    last_line: int = READ_LINES_MAX


class TabulateAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `tabulate`. A column of another file is written `other.csv:column`."""

    path: str
    columns: list[str]
    first_date: date | None = None
    last_date: date | None = None


class TablesAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tables` takes no arguments."""


class PrepareResult(msgspec.Struct, frozen=True):
    """How far the index is."""

    files: int
    waiting: int


class SearchResult(msgspec.Struct, frozen=True):
    """The best passages and the terms that stand nowhere."""

    passages: tuple[Found, ...]
    missing: tuple[str, ...]
    files: int
    files_waiting: int
    """Not in the index yet; another search takes in more of them."""
    files_skipped: tuple[str, ...]
    """The first of those not read, each with the reason."""
    complete: bool


class ReadResult(msgspec.Struct, frozen=True):
    """Lines of a file. `last_line` is the last one given, which may be before the one asked."""

    path: str
    first_line: int
    last_line: int
    lines_total: int
    text: str


class TableListed(msgspec.Struct, frozen=True):
    """A table of the folder: what it holds and where its header stands."""

    path: str
    columns: tuple[str, ...]
    header_line: int
    first_date: date
    last_date: date
    notes: tuple[str, ...]


class TablesResult(msgspec.Struct, frozen=True):
    """The tables with dates, and the CSV files that are none, each with the reason."""

    tables: tuple[TableListed, ...]
    refused: tuple[str, ...]
    complete: bool


class ColumnResult(msgspec.Struct, frozen=True):
    """One asked column: its figures, or None where the window holds no value of it."""

    asked: str
    path: str
    data_first_date: date
    data_last_date: date
    figures: ColumnFigures | None


class PairResult(msgspec.Struct, frozen=True):
    """Two columns and, if they have periods in common, how they moved together."""

    left: str
    right: str
    left_path: str
    right_path: str
    figures: PairFigures | None


class TabulateResult(msgspec.Struct, frozen=True):
    """Figures of the asked columns over one window."""

    first_date: date
    last_date: date
    columns: tuple[ColumnResult, ...]
    pairs: tuple[PairResult, ...]
    not_found: tuple[str, ...]
    notes: tuple[str, ...]


class Tools:
    """The tools over one folder. Call them in the trio loop: files are read in a thread.

    On cancellation the call returns at once; a reading that is under way in its thread ends
    by itself and its result is thrown away.
    """

    def __init__(self, folder: Folder, index: FolderIndex) -> None:
        self._folder = folder
        self._index = index
        self._mutex = threading.Lock()  # tools run in several worker threads at once
        self._tables: dict[str, tuple[FileState, Table | str]] = {}
        self.by_name: dict[str, Tool] = {
            "prepare": self.prepare,
            "tables": self.tables,
            "search": self.search,
            "read": self.read,
            "tabulate": self.tabulate,
        }

    async def prepare(self, arguments: dict[str, Any]) -> Any:
        """`{"step": 1}` -> `PrepareResult`: takes files into the index for `STEP_SECONDS`."""
        _arguments(arguments, PrepareAsked)

        def prepare() -> PrepareResult:
            found = self._index.update(STEP_SECONDS)
            return PrepareResult(found.files, found.waiting)

        return await _in_thread(prepare)

    async def search(self, arguments: dict[str, Any]) -> Any:
        """`{"terms": [...]}` -> `SearchResult`: the passages that hold the terms, best first."""
        asked = _arguments(arguments, SearchAsked)
        if not any(term.strip() for term in asked.terms):
            raise ToolRefused("search needs at least one term.")
        return await _in_thread(lambda: self._search(asked))

    async def read(self, arguments: dict[str, Any]) -> Any:
        """`{"path", "first_line", "last_line"}` -> `ReadResult`, at most `READ_LINES_MAX` lines."""
        asked = _arguments(arguments, ReadAsked)
        if not 1 <= asked.first_line <= asked.last_line:
            raise ToolRefused("Lines count from 1, and first_line is not after last_line.")
        return await _in_thread(lambda: self._read(asked))

    async def tables(self, arguments: dict[str, Any]) -> Any:
        """`{}` -> `TablesResult`: which CSV files have a date column, and their columns."""
        _arguments(arguments, TablesAsked)
        return await _in_thread(self._list_tables)

    async def tabulate(self, arguments: dict[str, Any]) -> Any:
        """`{"path", "columns", "first_date", "last_date"}` -> `TabulateResult`.

        The starting price is the last one on or before `first_date` (see `figures.within`).
        """
        asked = _arguments(arguments, TabulateAsked)
        if not 1 <= len(asked.columns) <= COLUMNS_MAX:
            raise ToolRefused(f"Name 1 to {COLUMNS_MAX} columns.")
        if asked.first_date and asked.last_date and asked.first_date > asked.last_date:
            raise ToolRefused("first_date is after last_date.")
        return await _in_thread(lambda: self._tabulate(asked))

    def _search(self, asked: SearchAsked) -> SearchResult:
        found = self._index.search(asked.terms[:TERMS_MAX], PASSAGES_MAX, STEP_SECONDS)
        return SearchResult(
            passages=tuple(
                msgspec.structs.replace(passage, text=passage.text[:EXCERPT_CHARACTERS_MAX])
                for passage in found.passages
            ),
            missing=found.missing,
            files=found.files,
            files_waiting=found.waiting,
            files_skipped=_worth_naming(found.skipped),
            complete=found.complete,
        )

    def _read(self, asked: ReadAsked) -> ReadResult:
        lines = self._folder.read(asked.path)
        if asked.first_line > max(len(lines), 1):
            raise ToolRefused(f"{asked.path} has {len(lines)} lines.")
        last = min(asked.last_line, asked.first_line + READ_LINES_MAX - 1, len(lines))
        text = "\n".join(lines[asked.first_line - 1 : last])
        if len(text) > READ_CHARACTERS_MAX:
            text = text[:READ_CHARACTERS_MAX]
            last = asked.first_line + text.count("\n")
        return ReadResult(asked.path, asked.first_line, last, len(lines), text)

    def _list_tables(self) -> TablesResult:
        scan = self._folder.scan()
        files = [state for state in scan.files if is_table(state.path)]
        listed: list[TableListed] = []
        refused: list[str] = []
        for state in files[:TABLES_MAX]:
            table = self._table(state)
            if isinstance(table, str):
                refused.append(table)
                continue
            names = tuple(series.name for series in table.series[:NAMES_LISTED_MAX])
            listed.append(
                TableListed(
                    path=table.path,
                    columns=names,
                    header_line=table.header_line,
                    first_date=table.first_date,
                    last_date=table.last_date,
                    notes=table.notes,
                )
            )
        complete = scan.complete and len(files) <= TABLES_MAX
        return TablesResult(tuple(listed), tuple(refused), complete)

    def _table(self, state: FileState) -> Table | str:
        """Return the table of a file, read again only when the file has changed."""
        with self._mutex:
            kept = self._tables.get(state.path)
        if kept and kept[0] == state:
            return kept[1]
        try:
            table: Table | str = read_table(self._folder, state.path)
        except (FileRefused, TableRefused) as refusal:
            table = str(refusal)
        with self._mutex:
            self._tables.pop(state.path, None)
            while len(self._tables) >= TABLES_MAX:
                self._tables.pop(next(iter(self._tables)))
            self._tables[state.path] = (state, table)
        return table

    def _tabulate(self, asked: TabulateAsked) -> TabulateResult:
        chosen: list[tuple[str, Table, Series]] = []
        not_found: list[str] = []
        for column in dict.fromkeys(asked.columns):
            name, table = column, self._opened(asked.path)
            series = table.find(name)
            if series is None and ":" in column:
                path, _, name = column.rpartition(":")
                table = self._opened(path)
                series = table.find(name)
            if series is None:
                not_found.append(column)
            else:
                chosen.append((column, table, series))
        known = [table for _, table, _ in chosen] or [self._opened(asked.path)]
        first = asked.first_date or min(table.first_date for table in known)
        last = asked.last_date or max(table.last_date for table in known)
        if first > last:
            raise ToolRefused(f"The window {first} to {last} is empty.")
        return _tabulated(chosen, Window(first, last), tuple(not_found))

    def _opened(self, path: str) -> Table:
        table = self._table(self._folder.state(path))
        if isinstance(table, str):
            raise ToolRefused(table)
        return table


def _worth_naming(skipped: Sequence[Skipped]) -> tuple[str, ...]:
    """Return the files that a person would have expected to be read: no pictures, no programs."""
    named = [
        one
        for one in skipped
        if not one.why.endswith(BINARY) or PurePosixPath(one.path).suffix.lower() in _DOCUMENTS
    ]
    return tuple(f"{one.path}: {one.why}" for one in named[:SKIPPED_NAMED_MAX])


def _tabulated(
    chosen: list[tuple[str, Table, Series]], window: Window, not_found: tuple[str, ...]
) -> TabulateResult:
    points = [within(series, window) for _, _, series in chosen]
    columns = tuple(
        ColumnResult(
            asked=column,
            path=table.path,
            data_first_date=table.first_date,
            data_last_date=table.last_date,
            figures=column_figures(series, values) if values else None,
        )
        for (column, table, series), values in zip(chosen, points, strict=True)
    )
    pairs = tuple(
        PairResult(
            left=chosen[left][0],
            right=chosen[right][0],
            left_path=chosen[left][1].path,
            right_path=chosen[right][1].path,
            figures=pair_figures(chosen[left][0], points[left], chosen[right][0], points[right]),
        )
        for left in range(len(chosen))
        for right in range(left + 1, len(chosen))
    )
    notes = tuple(dict.fromkeys(note for _, table, _ in chosen for note in table.notes))
    return TabulateResult(window.first, window.last, columns, pairs, not_found, notes)


def _arguments(arguments: dict[str, Any], type_: type[_Asked]) -> _Asked:
    try:
        return msgspec.convert(arguments, type_)
    except msgspec.ValidationError as error:
        raise ToolRefused(f"The arguments are not right: {error}.") from error


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Run `work` in a worker thread and return its result as plain JSON values."""

    def refusing() -> Any:
        try:
            return msgspec.json.decode(msgspec.json.encode(work()))
        except (FileRefused, TableRefused, IndexUnavailable) as refusal:
            raise ToolRefused(str(refusal)) from refusal

    return await trio.to_thread.run_sync(refusing, abandon_on_cancel=True)
