"""A CSV file with a date column, as series of dated values, each with its line in the file.

Two shapes are read: wide (one column a series: `date,MSFT,IBM`) and long (one row a value:
`symbol,date,price`), which is turned into one series a symbol. What cannot be read is never
guessed: an empty or unreadable cell is a missing value and counted, a row without a date is
left out and named, and a date column whose day and month cannot be told apart is refused.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

import msgspec

from .folder import Folder
from .passages import is_table

ROWS_MAX = 200_000
SERIES_MAX = 400
_SAMPLE_ROWS = 200

_DATE_NAMES = (
    "date",
    "日期",
    "time",
    "时间",
    "datetime",
    "timestamp",
    "month",
    "月份",
    "day",
    "year",
    "年份",
)
_MISSING = frozenset(
    {"", "-", "--", "—", ".", "na", "n/a", "nan", "null", "none", "#n/a", "missing", "无", "缺失"}
)
_NAME = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS: Final = {name: month for month, name in enumerate(_MONTH_NAMES.split(), start=1)}
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_CURRENCY = re.compile(r"^\s*(?:[$€£¥￥]|usd|cny|eur)\s*|\s*%\s*$", re.IGNORECASE)


class TableRefused(Exception):
    """The file is not a table of dated values. The sentence says what is missing.

    Nothing was computed; the same file will be refused again.
    """


class Point(msgspec.Struct, frozen=True):
    """One cell: its date, its value (None if it is missing) and its line in the file."""

    day: date
    value: float | None
    line: int


class Series(msgspec.Struct, frozen=True):
    """One column's values in the order of their dates, one a date."""

    name: str
    points: tuple[Point, ...]


class Table(msgspec.Struct, frozen=True):
    """The dated values of one file. Not empty: at least one series with one value."""

    path: str
    date_column: str
    header_line: int
    series: tuple[Series, ...]
    first_date: date
    last_date: date
    notes: tuple[str, ...]
    """What was found wrong with the file, each with the lines it concerns."""

    def find(self, name: str) -> Series | None:
        """Return the series of that name, in any case of letters."""
        for series in self.series:
            if series.name.lower() == name.strip().lower():
                return series
        return None


class _Row(msgspec.Struct, frozen=True):
    line: int
    cells: list[str]


def read_table(folder: Folder, path: str) -> Table:
    """Read one CSV file.

    Raises:
      FileRefused: if the path cannot be read.
      TableRefused: if it has no header, no readable date column or no column of numbers, or
        more rows than `ROWS_MAX`.
    """
    if not is_table(path):
        raise TableRefused(f"{path} is not a CSV file.")
    lines = folder.read(path)
    header, rows = _rows(path, lines)
    names = [name.strip() or f"column {at + 1}" for at, name in enumerate(header.cells)]
    at = _date_column(path, names, rows)
    parse = _date_parser(path, names[at], [row.cells[at] for row in rows])
    notes: list[str] = []
    dated: list[tuple[date, _Row]] = []
    undated: list[int] = []
    for row in rows:
        day = parse(row.cells[at])
        if day is None:
            undated.append(row.line)
        else:
            dated.append((day, row))
    if undated:
        notes.append(
            f"{path}: {len(undated)} rows without a readable date left out, "
            f"first at line {undated[0]}"
        )
    days = [day for day, _ in dated]
    if days != sorted(days):
        dated.sort(key=lambda pair: pair[0])
    series = _series(path, names, at, dated, notes)
    if not series:
        raise TableRefused(f"{path} has a date column, {names[at]}, but no column of numbers.")
    return Table(path, names[at], header.line, series, min(days), max(days), tuple(notes))


def _rows(path: str, lines: Sequence[str]) -> tuple[_Row, list[_Row]]:
    delimiter = _delimiter(lines)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    rows: list[_Row] = []
    start = 1
    try:
        for cells in reader:
            comment = not rows and cells and cells[0].lstrip().startswith("#")
            if any(cell.strip() for cell in cells) and not comment:
                rows.append(_Row(start, cells))
            start = reader.line_num + 1
            if len(rows) > ROWS_MAX:
                raise TableRefused(f"{path} has more than {ROWS_MAX:,} rows.")
    except csv.Error as error:
        raise TableRefused(f"{path}, line {start}: {error}.") from error
    if len(rows) < 2:
        raise TableRefused(f"{path} has no header with rows below it.")
    width = len(rows[0].cells)
    for row in rows[1:]:
        row.cells.extend([""] * (width - len(row.cells)))
    return rows[0], rows[1:]


def _delimiter(lines: Sequence[str]) -> str:
    head = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return max(",\t;|", key=lambda mark: (head.count(mark), mark == ","))


def _date_column(path: str, names: Sequence[str], rows: Sequence[_Row]) -> int:
    named = [at for at, name in enumerate(names) if name.lower() in _DATE_NAMES]
    for at in [*named, *(at for at in range(len(names)) if at not in named)]:
        cells = [row.cells[at] for row in rows[:_SAMPLE_ROWS] if row.cells[at].strip()]
        readable = sum(any(read(cell) for read in _FORMATS) for cell in cells)
        # A bare number such as 2008 is a year only where the header says so.
        numbers = sum(cell.strip().isdigit() for cell in cells)
        if cells and readable >= 0.8 * len(cells) and (at in named or numbers < len(cells)):
            return at
    raise TableRefused(f"{path} has no column of dates. Its columns: {', '.join(names[:20])}.")


def _date_parser(path: str, name: str, cells: Sequence[str]) -> Callable[[str], date | None]:
    """Return the one format that reads the most cells; day and month are never guessed."""
    filled = [cell for cell in cells if cell.strip()]
    sample = filled[:_SAMPLE_ROWS]
    best = max(_FORMATS, key=lambda read: sum(read(cell) is not None for cell in sample))
    if best not in (_day_first, _month_first):
        return best
    day_first = sum(_day_first(cell) is not None for cell in filled)
    month_first = sum(_month_first(cell) is not None for cell in filled)
    if day_first == month_first and any(_day_first(c) != _month_first(c) for c in filled):
        raise TableRefused(
            f"{path}: the dates in {name}, such as {filled[0]}, can be read day first or"
            " month first. Write them as YYYY-MM-DD."
        )
    return _day_first if day_first >= month_first else _month_first


def _series(
    path: str,
    names: Sequence[str],
    date_at: int,
    dated: Sequence[tuple[date, _Row]],
    notes: list[str],
) -> tuple[Series, ...]:
    numeric = [at for at in range(len(names)) if at != date_at and _is_numeric(at, dated)]
    label = _label_column(names, date_at, numeric, dated)
    found: dict[str, list[Point]] = {}
    unreadable: list[int] = []
    for day, row in dated:
        for at in numeric:
            value, clear = number(row.cells[at])
            if not clear:
                unreadable.append(row.line)
            if label is None:
                name = names[at]
            elif len(numeric) == 1:
                name = row.cells[label].strip()
            else:
                name = f"{row.cells[label].strip()} {names[at]}"
            found.setdefault(name, []).append(Point(day, value, row.line))
    if unreadable:
        notes.append(
            f"{path}: {len(unreadable)} cells are not numbers and count as missing, "
            f"first at line {unreadable[0]}"
        )
    if len(found) > SERIES_MAX:
        notes.append(f"{path}: only the first {SERIES_MAX} of {len(found)} series are read")
    kept = list(found.items())[:SERIES_MAX]
    return tuple(Series(name, _one_a_date(path, name, points, notes)) for name, points in kept)


def _one_a_date(
    path: str, name: str, points: Sequence[Point], notes: list[str]
) -> tuple[Point, ...]:
    days: dict[date, Point] = {}
    repeated: list[int] = []
    for point in points:
        if point.day in days:
            repeated.append(point.line)
        else:
            days[point.day] = point
    if repeated:
        notes.append(
            f"{path}: {len(repeated)} more values of {name} on a date already read are "
            f"left out, first at line {repeated[0]}"
        )
    return tuple(days.values())


def _label_column(
    names: Sequence[str],
    date_at: int,
    numeric: Sequence[int],
    dated: Sequence[tuple[date, _Row]],
) -> int | None:
    """Return the column that names the series of a long table; None for a wide one."""
    if len({day for day, _ in dated}) == len(dated):
        return None
    for at in range(len(names)):
        if at == date_at or at in numeric:
            continue
        keys = Counter((day, row.cells[at].strip()) for day, row in dated)
        if keys.most_common(1)[0][1] == 1 and all(name for _, name in keys):
            return at
    return None


def _is_numeric(at: int, dated: Sequence[tuple[date, _Row]]) -> bool:
    values = [number(row.cells[at]) for _, row in dated]
    readable = sum(value is not None for value, _ in values)
    filled = sum(value is not None or not clear for value, clear in values)
    return readable > 0 and readable >= 0.5 * filled


def number(cell: str) -> tuple[float | None, bool]:
    """Return the number in a cell, and False if something is there that is not one.

    `1,234.5`, `$12`, `(3.5)` for a negative and a percent sign are read (12% is 12).
    """
    text = cell.strip()
    if text.lower() in _MISSING:
        return None, True
    text = _CURRENCY.sub("", text)
    if text.startswith("(") and text.endswith(")"):
        text = f"-{text[1:-1]}"
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", text):
        text = text.replace(",", "")
    if not _NUMBER.fullmatch(text):
        return None, False
    value = float(text)
    return (value, True) if abs(value) < 1e300 else (None, False)


def _iso(cell: str) -> date | None:
    """2008-03-01, 2008/3/1, 2008.03.01, 2008年3月1日, with a time or not; 2008-03 is its 1st."""
    found = re.fullmatch(
        r"(\d{4})[-/.年](\d{1,2})(?:(?:[-/.月](\d{1,2})日?)(?:[T ].*)?|月)?", cell.strip()
    )
    return _day(found[1], found[2], found[3] or "1") if found else None


def _compact(cell: str) -> date | None:
    """20080301, and 200803 for a month."""
    found = re.fullmatch(r"(\d{4})(\d\d)(\d\d)?", cell.strip())
    return _day(found[1], found[2], found[3] or "1") if found else None


def _named_month(cell: str) -> date | None:
    """Jan 1 2000, January 1, 2000, 1 Jan 2000, 01-Jan-2000, Jan 2000."""
    text = cell.strip()
    found = re.fullmatch(rf"(?P<m>{_NAME})[ -](?:(?P<d>\d{{1,2}}),? )?(?P<y>\d{{4}})", text, re.I)
    found = found or re.fullmatch(
        rf"(?P<d>\d{{1,2}})[ -](?P<m>{_NAME})[ -](?P<y>\d{{4}})", text, re.I
    )
    if not found:
        return None
    return _day(found["y"], str(_MONTHS[found["m"][:3].lower()]), found["d"] or "1")


def _day_first(cell: str) -> date | None:
    """31/12/2009, 31.12.2009, 31-12-2009."""
    found = re.fullmatch(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})", cell.strip())
    return _day(found[3], found[2], found[1]) if found else None


def _month_first(cell: str) -> date | None:
    """12/31/2009, 12-31-2009."""
    found = re.fullmatch(r"(\d{1,2})[-/](\d{1,2})[-/](\d{4})", cell.strip())
    return _day(found[3], found[1], found[2]) if found else None


def _year(cell: str) -> date | None:
    """2009, read as its first day."""
    found = re.fullmatch(r"(1[5-9]\d\d|20\d\d)年?", cell.strip())
    return _day(found[1], "1", "1") if found else None


def _day(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


_FORMATS: Final = (_iso, _compact, _named_month, _day_first, _month_first, _year)
