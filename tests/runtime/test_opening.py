"""What opening a runtime by its path brings with it."""

from pathlib import Path

import pytest

from counterpoint.runtime import open_runtime

from .stage import answers


def files() -> list[str]:
    """Return what kinds of file are in the folder of the store's owners."""
    return sorted(path.suffix for path in Path("store/owners").iterdir())


async def test_a_runtime_that_is_opened_by_its_path_hangs_up_its_bell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name must be short
    async with open_runtime("store", agents={"short": answers}):
        assert files() == [".bell", ".lock"]
    assert files() == []
