"""The tools give bounded JSON and refuse wrong arguments with a sentence.

Method: each tool is called as an agent calls it, with plain JSON arguments, on small folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from counterpoint.runtime.desk import sample_folder
from counterpoint.runtime.desk.folder import Folder
from counterpoint.runtime.desk.index import FolderIndex
from counterpoint.runtime.desk.tools import (
    COLUMNS_MAX,
    EXCERPT_CHARACTERS_MAX,
    PASSAGES_MAX,
    READ_CHARACTERS_MAX,
    READ_LINES_MAX,
    ToolRefused,
    Tools,
)


def tools_of(tmp_path: Path, folder: Path | None = None) -> Tools:
    opened = Folder(folder or sample_folder())
    return Tools(opened, FolderIndex(opened, tmp_path / ".index"))


# fmt: off
REFUSED: list[tuple[str, dict[str, Any], str]] = [  # tool, arguments, what the sentence says
    ("search", {}, "terms"),
    ("search", {"terms": []}, "at least one term"),
    ("search", {"terms": [" "]}, "at least one term"),
    ("search", {"terms": "Sharpe"}, "Expected `array`"),
    ("search", {"terms": ["x"], "limit": 9}, "unknown field"),
    ("read", {"path": "missing.md"}, "does not exist"),
    ("read", {"path": "../secret"}, "not a path inside the folder"),
    ("read", {"path": "/etc/passwd"}, "not a path inside the folder"),
    ("read", {"path": "glossary.md", "first_line": 0}, "Lines count from 1"),
    ("read", {"path": "glossary.md", "first_line": 9, "last_line": 8}, "not after"),
    ("read", {"path": "glossary.md", "first_line": 10**6, "last_line": 10**6}, "lines"),
    ("tables", {"path": "prices.csv"}, "unknown field"),
    ("tabulate", {"path": "prices.csv", "columns": []}, "Name 1 to"),
    ("tabulate", {"path": "prices.csv", "columns": ["A"] * (COLUMNS_MAX + 1)}, "Name 1 to"),
    ("tabulate", {"path": "glossary.md", "columns": ["A"]}, "not a CSV file"),
    ("tabulate", {"path": "prices.csv", "columns": ["x.csv:A"]}, "does not exist"),
    ("tabulate", {"path": "prices.csv", "columns": ["IBM"], "first_date": "soon"}, "date"),
    ("tabulate", {"path": "prices.csv", "columns": ["IBM"], "first_date": "2009-01-01",
                  "last_date": "2008-01-01"}, "after last_date"),
]
# fmt: on


@pytest.mark.parametrize(("tool", "arguments", "says"), REFUSED)
async def test_wrong_arguments_are_refused_with_a_sentence(
    tmp_path: Path, tool: str, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ToolRefused, match=says):
        await tools_of(tmp_path).by_name[tool](arguments)


async def test_results_are_plain_json_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(
        "\n\n".join(f"apples {at} " + "x" * 1500 for at in range(40))
    )
    (tmp_path / "lines.txt").write_text("line\n" * 500)
    tools = tools_of(tmp_path, tmp_path)

    found = await tools.search({"terms": ["apples"]})
    assert len(found["passages"]) == PASSAGES_MAX
    assert all(len(passage["text"]) <= EXCERPT_CHARACTERS_MAX for passage in found["passages"])
    lines = await tools.read({"path": "lines.txt", "first_line": 11, "last_line": 400})
    assert (lines["first_line"], lines["last_line"]) == (11, 10 + READ_LINES_MAX)
    assert lines["lines_total"] == 500
    long = await tools.read({"path": "long.txt"})
    assert len(long["text"]) <= READ_CHARACTERS_MAX
    assert long["last_line"] == 1 + long["text"].count("\n")
    for result in (found, lines, long):
        assert msgspec.json.decode(msgspec.json.encode(result)) == result


async def test_tables_lists_columns_dates_and_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("date,X\n2020-01-01,1\n2020-01-02,2\n")
    (tmp_path / "b.csv").write_text("name,X\nn,1\n")
    found = await tools_of(tmp_path, tmp_path).tables({})
    assert [(table["path"], table["columns"]) for table in found["tables"]] == [("a.csv", ["X"])]
    assert found["tables"][0]["last_date"] == "2020-01-02"
    assert found["refused"] == ["b.csv has no column of dates. Its columns: name, X."]


async def test_a_table_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("date,X\n2020-01-01,1\n2020-01-02,2\n")
    tools = tools_of(tmp_path, tmp_path)
    await tools.tables({})
    path.write_text("date,X,Y\n2020-01-01,1,5\n2020-01-03,2,6\n")
    (listed,) = (await tools.tables({}))["tables"]
    assert (listed["columns"], listed["last_date"]) == (["X", "Y"], "2020-01-03")


async def test_columns_of_two_files_are_compared(tmp_path: Path) -> None:
    for name, factor in (("a", 1), ("b", -1)):
        rows = "".join(f"2020-01-{at:02},{100 + factor * at * at}\n" for at in range(1, 6))
        (tmp_path / f"{name}.csv").write_text(f"date,close\n{rows}")
    found = await tools_of(tmp_path, tmp_path).tabulate(
        {"path": "a.csv", "columns": ["a.csv:close", "b.csv:close", "c"]}
    )
    assert [column["path"] for column in found["columns"]] == ["a.csv", "b.csv"]
    assert found["not_found"] == ["c"]
    (pair,) = found["pairs"]
    assert pair["figures"]["correlation"]["value"] < 0
    assert pair["figures"]["left_lines"] == [2, 6]
