"""The two stores that a story must be the same on."""

from pathlib import Path

import pytest

from .stage import InMemory, OnDisk, Place


@pytest.fixture(params=["memory", "lmdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return InMemory() if request.param == "memory" else OnDisk(tmp_path / "store")
