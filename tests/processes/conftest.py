"""How large the races are, and a folder whose path is short enough for a socket's name.

`pytest tests/processes --race-ids 1000` races eight processes of eight tasks for a thousand
ids, as the contract has it; by default it is a small race.
"""

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

IDS = 40


class Race(NamedTuple):
    processes: int
    tasks: int
    ids: list[str]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("counterpoint").addoption(
        "--race-ids",
        type=int,
        default=IDS,
        metavar="N",
        help=f"ids that processes race for (default: {IDS}); from 500 on by eight times eight",
    )


@pytest.fixture
def race(request: pytest.FixtureRequest) -> Race:
    # a run of the whole suite finds this option too late to take it
    asked_for: int | None = request.config.getoption("--race-ids", default=IDS)
    count = IDS if asked_for is None else asked_for
    ids = [f"id-{number:04}" for number in range(count)]
    return Race(8, 8, ids) if count >= 500 else Race(3, 4, ids)


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="cp-") as path:
        yield Path(path) / "store"
