"""Every row of the contract is a test, or stands in a list that only shrinks.

The contract is kept beside the checkout. Where it is not at hand, what needs it is
skipped; the list is held to the tests all the same. The cases from the field may be
cited too, but none of them has to be: a case becomes a test when it fails.

`pytest tests/house/test_rows.py --rewrite-rows` strikes the rows that have a test now.
It never adds one: a row that lost its test, or a new one, is written in by hand.
"""

import functools
import os
import re
from pathlib import Path

import pytest

from . import rules
from .tree import ROOT, code, listed, name, needs_checkout, parsed

pytestmark = needs_checkout

LIST = ROOT / "tests" / "house" / "rows_without_a_test.txt"
SHARED = ROOT.parent / "shared"
ROW = re.compile(r"^- \*\*([A-EP]\d+[a-z]?)\*\*", re.MULTILINE)


@functools.cache
def rows_of(document: str) -> frozenset[str]:
    path = SHARED / document
    if not path.is_file():
        pytest.skip(f"{document} is not beside this checkout")
    rows = frozenset(ROW.findall(path.read_text()))
    assert rows, f"no row found in {document}"
    return rows


def cited() -> dict[str, str]:
    """Return each row that a test proves, with the last place that says so."""
    return {
        row: f"{name(path)}:{line}"
        for path in code("tests")
        for line, row in rules.citations(parsed(path))
        if row is not None
    }


def in_order(row: str) -> tuple[str, int, str]:
    part = re.fullmatch(r"([A-Z])(\d+)([a-z]?)", row)
    assert part is not None, f"{row!r} is not the name of a row"
    return part[1], int(part[2]), part[3]


@pytest.fixture
def untested(request: pytest.FixtureRequest) -> list[str]:
    """The rows in the list, struck first of those with a test if that was asked for."""
    rows = LIST.read_text().split()
    if request.config.getoption("--rewrite-rows"):
        rows = [row for row in rows if row not in cited()]
        _replace(LIST, "".join(f"{row}\n" for row in rows))
    return rows


def test_every_row_outside_the_list_has_a_test(untested: list[str]) -> None:
    missing = rows_of("CONTRACT.md") - cited().keys() - set(untested)
    in_turn = sorted(missing, key=in_order)
    assert not in_turn, listed(in_turn)


def test_no_row_in_the_list_has_a_test(untested: list[str]) -> None:
    tested = [f"{row} by {where}" for row, where in cited().items() if row in untested]
    assert not tested, f"strike them with --rewrite-rows; {listed(tested)}"


def test_the_list_names_rows_of_the_contract_once_and_in_order(untested: list[str]) -> None:
    assert untested == sorted(set(untested), key=in_order)
    unknown = set(untested) - rows_of("CONTRACT.md")
    assert not unknown, listed(unknown)


def test_every_row_that_a_test_cites_exists() -> None:
    rows = rows_of("CONTRACT.md") | rows_of("CASES.md")
    unknown = [f"{row} by {where}" for row, where in cited().items() if row not in rows]
    assert not unknown, listed(unknown)


def test_every_citation_spells_the_row_out() -> None:
    unreadable = [
        f"{name(path)}:{line}"
        for path in code("tests")
        for line, row in rules.citations(parsed(path))
        if row is None
    ]
    assert not unreadable, listed(unreadable)


def _replace(path: Path, text: str) -> None:
    # In one step: several workers may do the same at once.
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)
