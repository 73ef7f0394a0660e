"""What opening a runtime by its path brings with it."""

from pathlib import Path

import pytest

from counterpoint.runtime import open_runtime

from .stage import answers


async def test_a_runtime_that_is_opened_by_its_path_hangs_up_its_bell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name must be short
    async with open_runtime("store", agents={"short": answers}):
        assert len(list(Path("store/owners").glob("*.bell"))) == 1
    assert not list(Path("store/owners").iterdir())
