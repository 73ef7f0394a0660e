"""A CSV file becomes dated values, each with its line; what cannot be read is never guessed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from counterpoint.runtime.desk.folder import Folder
from counterpoint.runtime.desk.table import Table, TableRefused, number, read_table


def table_of(tmp_path: Path, text: str, encoding: str = "utf-8") -> Table:
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    return read_table(Folder(tmp_path), "t.csv")


def values(table: Table, name: str) -> list[tuple[str, float | None, int]]:
    series = table.find(name)
    assert series is not None
    return [(point.day.isoformat(), point.value, point.line) for point in series.points]


def test_a_wide_table_gives_one_series_a_column(tmp_path: Path) -> None:
    table = table_of(tmp_path, "date,A,B\n2020-01-01,1,10\n2020-02-01,2,\n")
    assert [series.name for series in table.series] == ["A", "B"]
    assert values(table, "a") == [("2020-01-01", 1, 2), ("2020-02-01", 2, 3)]
    assert values(table, "B") == [("2020-01-01", 10, 2), ("2020-02-01", None, 3)]
    assert (table.first_date, table.last_date) == (date(2020, 1, 1), date(2020, 2, 1))


def test_a_long_table_gives_one_series_a_symbol(tmp_path: Path) -> None:
    text = "symbol,date,price\nX,Jan 1 2000,1\nX,Feb 1 2000,2\nY,Jan 1 2000,7\nY,Feb 1 2000,8\n"
    table = table_of(tmp_path, text)
    assert values(table, "Y") == [("2000-01-01", 7, 4), ("2000-02-01", 8, 5)]


# fmt: off
FORMATS = [  # two days as a file writes them: 2009-03-02 and 2009-03-31
    ("2009-03-02", "2009-03-31"), ("2009/3/2", "2009/3/31"), ("20090302", "20090331"),
    ("2009年3月2日", "2009年3月31日"), ("2009-03-02T09:30:00", "2009-03-31 00:00:00"),
    ("Mar 2 2009", "March 31, 2009"), ("2 Mar 2009", "31 Mar 2009"), ("02-Mar-2009", "31-Mar-2009"),
    ("02.03.2009", "31.03.2009"), ("02/03/2009", "31/03/2009"), ("03/02/2009", "03/31/2009"),
]
# fmt: on


@pytest.mark.parametrize(("one", "other"), FORMATS)
def test_dates_are_read_in_the_format_of_the_file(tmp_path: Path, one: str, other: str) -> None:
    table = table_of(tmp_path, f'date,A\n"{one}",1\n"{other}",2\n')
    assert (table.first_date, table.last_date) == (date(2009, 3, 2), date(2009, 3, 31))


def test_months_and_years_stand_for_their_first_day(tmp_path: Path) -> None:
    assert table_of(tmp_path, "month,A\n2009-03,1\n2009-04,2\n").last_date == date(2009, 4, 1)
    assert table_of(tmp_path, "month,A\n200903,1\n200904,2\n").last_date == date(2009, 4, 1)
    assert table_of(tmp_path, "year,A\n2009,1\n2010,2\n").last_date == date(2010, 1, 1)


def test_day_and_month_are_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(TableRefused, match="day first or month first"):
        table_of(tmp_path, "date,A\n02/03/2009,1\n03/04/2009,2\n")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_chinese_spreadsheets_are_read_in_their_encoding(tmp_path: Path, encoding: str) -> None:
    table = table_of(tmp_path, "日期,黄金\r\n2023-01-01,400\r\n2023-02-01,410\r\n", encoding)
    assert values(table, "黄金") == [("2023-01-01", 400, 2), ("2023-02-01", 410, 3)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_that_of_the_header(tmp_path: Path, delimiter: str) -> None:
    text = "date,A\n2020-01-01,1\n2020-01-02,2\n".replace(",", delimiter)
    assert len(values(table_of(tmp_path, text), "A")) == 2


def test_rows_out_of_order_are_sorted_and_keep_their_lines(tmp_path: Path) -> None:
    table = table_of(tmp_path, "date,A\n2020-02-01,2\n2020-01-01,1\n")
    assert values(table, "A") == [("2020-01-01", 1, 3), ("2020-02-01", 2, 2)]


def test_a_quoted_cell_over_two_lines_does_not_shift_the_lines_after_it(tmp_path: Path) -> None:
    text = 'date,A,note\n2020-01-01,1,"two\nlines"\n2020-01-02,2,x\n2020-01-03,3,y\n'
    assert [line for _, _, line in values(table_of(tmp_path, text), "A")] == [2, 4, 5]


def test_what_is_wrong_with_the_file_is_noted_with_its_line(tmp_path: Path) -> None:
    text = (
        "# exported by hand\n\ndate,A\n2020-01-01,1\n2020-01-02,2\n2020-01-03,oops\n"
        "2020-01-04,4\n2020-01-05,5\nnever,6\n2020-01-05,7\n2020-01-06,\n"
    )
    table = table_of(tmp_path, text)
    assert table.header_line == 3
    assert [value for _, value, _ in values(table, "A")] == [1, 2, None, 4, 5, None]
    notes = "\n".join(table.notes)
    assert "1 rows without a readable date left out, first at line 9" in notes
    assert "1 cells are not numbers and count as missing, first at line 6" in notes
    assert "1 more values of A on a date already read are left out, first at line 10" in notes


# fmt: off
REFUSED = [  # why, the file's text, what the sentence says
    ("empty",       "",                       "no header"),
    ("header only", "date,A\n",               "no header with rows"),
    ("no dates",    "name,A\nx,1\ny,2\n",     "no column of dates"),
    ("no numbers",  "date,A\n2020-01-01,x\n", "no column of numbers"),
    ("numbers",     "id,A\n2008,1\n2009,2\n", "no column of dates"),
]
# fmt: on


@pytest.mark.parametrize(("why", "text", "says"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_is_no_table_is_refused(tmp_path: Path, why: str, text: str, says: str) -> None:
    with pytest.raises(TableRefused, match=says):
        table_of(tmp_path, text)


# fmt: off
NUMBERS = [  # a cell, its number, whether it is clear
    ("1", 1.0, True), (" 1.5 ", 1.5, True), ("-2", -2.0, True), ("1,234.5", 1234.5, True),
    ("$12", 12.0, True), ("￥1,200", 1200.0, True), ("12%", 12.0, True), ("(3.5)", -3.5, True),
    ("1e3", 1000.0, True), ("", None, True), ("N/A", None, True), ("nan", None, True),
    ("—", None, True), ("abc", None, False), ("1,5", None, False), ("1_000", None, False),
    ("inf", None, False), ("1e999", None, False), ("１２", 12.0, True),
]
# fmt: on


@pytest.mark.parametrize(("cell", "value", "clear"), NUMBERS)
def test_a_cell_is_a_number_or_missing_or_unclear(
    cell: str, value: float | None, clear: bool
) -> None:
    assert number(cell) == (value, clear)
