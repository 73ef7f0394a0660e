"""What may be opened as a store, and the sentence that says why another thing may not."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from functools import partial
from math import inf
from pathlib import Path

import pytest

from counterpoint.store.engine import StoreReadOnly, StoreUnusable, Txn
from counterpoint.store.lmdb_engine import DATA_FILE, LmdbEngine, open_lmdb_engine

open_engine = partial(open_lmdb_engine, format_version=1)


async def put(engine: LmdbEngine, key: bytes, value: bytes = b"") -> None:
    await engine.write(lambda txn: txn.put(key, value), deadline=inf)


def keys_of(engine: LmdbEngine) -> list[bytes]:
    with engine.read() as txn:
        return [key for key, _ in txn.scan(b"", b"\xff")]


async def refused(path: Path, match: str, *, format_version: int = 1) -> None:
    with pytest.raises(StoreUnusable, match=match) as caught:
        async with open_lmdb_engine(path, format_version=format_version):
            pass
    assert str(path) in str(caught.value), "the sentence names the path"


async def test_a_folder_is_made_with_its_parents_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    async with open_engine(path) as engine:
        await put(engine, b"k")
        modes = {entry.name: entry.stat().st_mode & 0o777 for entry in path.iterdir()}
    assert path.stat().st_mode & 0o777 == 0o700
    assert set(modes) == {"data.mdb", "lock.mdb", "write.lock"}
    assert set(modes.values()) == {0o600}


async def test_what_was_written_is_there_at_the_next_opening(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await put(engine, b"k")
    async with open_engine(tmp_path) as engine:
        assert keys_of(engine) == [b"k"], "the engine's own records are not shown"


async def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("something else")
    await refused(tmp_path / "file", "is a file, and a store is a folder")
    await refused(tmp_path / "file" / "below", "is a file, and a store is a folder")


@pytest.mark.parametrize("content", [b"x" * 10_000, b"\0" * 8192, b"short"])
async def test_a_data_file_of_something_else_is_refused_and_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / DATA_FILE).write_bytes(content)
    await refused(tmp_path, "is no store or is damaged")
    assert (tmp_path / DATA_FILE).read_bytes() == content


async def test_the_store_of_another_program_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("counterpoint.store.store_format.MAGIC", b"another program")
        async with open_engine(tmp_path) as engine:
            await put(engine, b"theirs")
    before = (tmp_path / DATA_FILE).read_bytes()
    await refused(tmp_path, "holds an LMDB file of something else")
    assert (tmp_path / DATA_FILE).read_bytes() == before


async def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with open_lmdb_engine(tmp_path, format_version=3) as engine:
        await put(engine, b"k")
    before = (tmp_path / DATA_FILE).read_bytes()
    await refused(tmp_path, "written by a newer version: it has format 3", format_version=2)
    assert (tmp_path / DATA_FILE).read_bytes() == before


async def test_an_older_store_without_a_migration_is_refused(tmp_path: Path) -> None:
    async with open_engine(tmp_path):
        pass
    await refused(tmp_path, "has format 1, which this version can't bring", format_version=2)


async def test_an_older_store_is_migrated_step_by_step_and_once(tmp_path: Path) -> None:
    def to_2(txn: Txn) -> None:
        txn.put(b"two", b"")

    def to_3(txn: Txn) -> None:
        assert txn.get(b"two") is not None
        txn.delete(b"one")

    migrations = {1: to_2, 2: to_3}
    async with open_engine(tmp_path) as engine:
        await put(engine, b"one")
    for _ in range(2):
        async with open_lmdb_engine(tmp_path, format_version=3, migrations=migrations) as engine:
            assert keys_of(engine) == [b"two"]
    await refused(tmp_path, "has format 3", format_version=2)


async def test_a_migration_that_fails_leaves_the_old_store(tmp_path: Path) -> None:
    def fails(txn: Txn) -> None:
        txn.put(b"half", b"")
        raise LookupError

    async with open_engine(tmp_path):
        pass
    with pytest.raises(LookupError):
        await open_lmdb_engine(tmp_path, format_version=2, migrations={1: fails}).__aenter__()
    async with open_engine(tmp_path) as engine:
        assert keys_of(engine) == []


async def test_a_store_that_is_open_here_is_not_opened_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    async with open_engine(tmp_path / "store") as engine:
        await refused(tmp_path / "store", "open in this process already")
        await refused(tmp_path / "link", "open in this process already")
        await put(engine, b"k")
    async with open_engine(tmp_path / "link") as engine:
        assert keys_of(engine) == [b"k"]


async def test_read_only_reads_and_refuses_to_write(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await put(engine, b"k")
    async with open_engine(tmp_path, read_only=True) as engine:
        assert keys_of(engine) == [b"k"]
        with pytest.raises(StoreReadOnly):
            await put(engine, b"l")


async def test_read_only_makes_and_migrates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="holds no store"):
        await open_engine(tmp_path / "nowhere", read_only=True).__aenter__()
    assert not (tmp_path / "nowhere").exists()
    async with open_engine(tmp_path):
        pass
    with pytest.raises(StoreUnusable, match="has format 1"):
        await open_lmdb_engine(
            tmp_path, format_version=2, migrations={1: lambda _: None}, read_only=True
        ).__aenter__()


@pytest.fixture
def shared_folder() -> Generator[Path]:
    """A folder that another user can reach: pytest's own are for one user only."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


OPENS = """
import os, sys, trio
from pathlib import Path
from counterpoint.store.lmdb_engine import open_lmdb_engine
if os.geteuid() == 0:
    os.setuid(65_534)  # root can write everywhere; after the imports, which may be root's alone
async def main():
    try:
        async with open_lmdb_engine(Path(sys.argv[1]), format_version=1):
            print("opened")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["", "store", "below/store"])
def test_a_folder_that_can_not_be_written_to_is_refused(shared_folder: Path, where: str) -> None:
    if where == "store":
        (shared_folder / where).mkdir(mode=0o555)
    if os.geteuid() != 0:
        shared_folder.chmod(0o555)
    ended = subprocess.run(
        [sys.executable, "-c", OPENS, str(shared_folder / where)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    shared_folder.chmod(0o755)
    assert ended.stdout.startswith("StoreUnusable: ")
    assert "can't be written to: Permission denied" in ended.stdout
