"""One store, several processes; and processes that die or stand still.

The children are real. They talk over pipes, so nobody waits for a clock: a child says
when it is where the test wants it, and a test that kills it reads what it had said.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.store.engine import StoreClosed, StoreFailed, StoreUnusable, Withdrawn
from counterpoint.store.lmdb_engine import LmdbEngine, open_lmdb_engine

pytestmark = pytest.mark.slow

open_engine = partial(open_lmdb_engine, format_version=1)

CHILD = """
import fcntl, os, sys, trio
from math import inf
from pathlib import Path
from counterpoint.store.lmdb_engine import open_lmdb_engine

folder = Path(sys.argv[1])

def say(text):
    os.write(1, text.encode() + b"\\n")

async def put(engine, key, value=b""):
    await engine.write(lambda txn: txn.put(key, value), deadline=inf)

async def main():
    async with open_lmdb_engine(folder, format_version=1, **OPTIONS) as engine:
        BODY

trio.run(main)
"""


@contextmanager
def child(folder: Path, body: str, options: str = "{}") -> Generator[subprocess.Popen[bytes]]:
    """Run `body` with an `engine` in a process of its own; kill it in the end."""
    indented = "\n        ".join(body.strip().splitlines())
    code = CHILD.replace("OPTIONS", options).replace("BODY", indented)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def said(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    line = await trio.to_thread.run_sync(process.stdout.readline)
    assert line, "the child ended"
    return line.decode().strip()


async def go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()


async def put(engine: LmdbEngine, key: bytes, value: bytes = b"") -> None:
    await engine.write(lambda txn: txn.put(key, value), deadline=inf)


def keys_of(engine: LmdbEngine) -> list[bytes]:
    with engine.read() as txn:
        return [key for key, _ in txn.scan(b"", b"\xff")]


HOLDS_THE_LOCK = """
lock = os.open(folder / "write.lock", os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
say("held")
sys.stdin.readline()
os.close(lock)
say("released")
sys.stdin.readline()
"""


@pytest.mark.contract("D18")
async def test_a_stopped_process_that_holds_the_lock_hangs_nobody(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with open_engine(tmp_path) as engine:
        with child(tmp_path, HOLDS_THE_LOCK) as holder:
            assert await said(holder) == "held"
            holder.send_signal(signal.SIGSTOP)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(withdrawn, engine, 5.0)
                await wait_all_tasks_blocked()
                mock_clock.jump(6)
            assert keys_of(engine) == [], "reading needs no lock"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(put, engine, b"patient")
                await wait_all_tasks_blocked()
                holder.kill()  # the kernel gives the lock back
        assert keys_of(engine) == [b"patient"]


async def withdrawn(engine: LmdbEngine, after_s: float) -> None:
    with pytest.raises(Withdrawn):
        await engine.write(
            lambda txn: txn.put(b"late", b""), deadline=trio.current_time() + after_s
        )


@pytest.mark.contract("D18")
async def test_closing_does_not_wait_for_a_process_that_holds_the_lock(tmp_path: Path) -> None:
    with child(tmp_path, HOLDS_THE_LOCK) as holder:
        async with open_engine(tmp_path) as engine, trio.open_nursery() as nursery:
            assert await said(holder) == "held"
            nursery.start_soon(refused_as_closed, engine)
            await wait_all_tasks_blocked()
            await engine.aclose()
        # The thread left behind still waits. It must give the lock back when it gets it.
        async with open_engine(tmp_path) as engine, trio.open_nursery() as nursery:
            nursery.start_soon(put, engine, b"k")
            await wait_all_tasks_blocked()
            await go_on(holder)
            assert await said(holder) == "released"
        async with open_engine(tmp_path) as engine:
            assert keys_of(engine) == [b"k"]


async def refused_as_closed(engine: LmdbEngine) -> None:
    with pytest.raises(StoreClosed):
        await put(engine, b"never")


COUNTS = """
from functools import partial
def increment(txn):
    count = int(txn.get(b"count") or b"0") + 1
    txn.put(b"count", str(count).encode())
    txn.put(b"%s %d" % (sys.argv[1].encode()[-1:], count), b"")
    return count
async def many():
    for _ in range(25):
        await engine.write(increment, deadline=inf)
say("ready")
sys.stdin.readline()
async with trio.open_nursery() as nursery:
    for _ in range(4):
        nursery.start_soon(many)
say("done")
"""


async def test_two_processes_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    with child(tmp_path, COUNTS) as first, child(tmp_path, COUNTS) as second:
        for process in (first, second):
            assert await said(process) == "ready"
        for process in (first, second):
            await go_on(process)
        for process in (first, second):
            assert await said(process) == "done"
    async with open_engine(tmp_path) as engine:
        with engine.read() as txn:
            assert txn.get(b"count") == b"200"


ACKNOWLEDGES = """
async def writer(name):
    number = 0
    while True:
        await put(engine, b"%d-%06d" % (name, number), b"x" * 100)
        say(f"{name}-{number:06d}")
        number += 1
async with trio.open_nursery() as nursery:
    for name in range(4):
        nursery.start_soon(writer, name)
"""


@pytest.mark.contract("E10")
@pytest.mark.parametrize("after", [1, 17, 150])
async def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path, after: int) -> None:
    """SIGKILL between two acknowledgements, whatever the child is doing at that moment."""
    with child(tmp_path, ACKNOWLEDGES) as victim:
        acknowledged = [await said(victim) for _ in range(after)]
        victim.kill()
        assert victim.stdout is not None
        rest = await trio.to_thread.run_sync(victim.stdout.read)
    acknowledged += [line.decode() for line in rest.split(b"\n") if len(line) == len(b"0-000000")]
    async with open_engine(tmp_path) as engine:
        found = {key.decode() for key in keys_of(engine)}
        assert found >= set(acknowledged)
        await put(engine, b"next")
    per_writer = {name: sorted(key for key in found if key[0] == name) for name in "0123"}
    for name, keys in per_writer.items():
        assert keys == [f"{name}-{number:06d}" for number in range(len(keys))], "no gap"
    assert len(found) <= len(acknowledged) + 4, "at most the one that each waited for"


GROWS = """
say("ready")
sys.stdin.readline()
for number in range(60):
    await put(engine, b"%03d" % number, bytes(10_000))
say("grown")
sys.stdin.readline()
"""


async def test_a_store_that_another_process_has_grown_is_read_and_written_on(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path, map_bytes=1 << 17) as engine:
        await put(engine, b"mine")
        with child(tmp_path, GROWS, "dict(map_bytes=1 << 17)") as grower:
            assert await said(grower) == "ready"
            await go_on(grower)
            assert await said(grower) == "grown"
            assert len(keys_of(engine)) == 61, "a reader adopts the new size"
            assert engine.statistics().map_bytes > 1 << 17
    async with open_engine(tmp_path, map_bytes=1 << 17) as engine:
        before = engine.statistics().map_bytes
        with child(tmp_path, GROWS.replace("%03d", "x%03d")) as grower:
            assert await said(grower) == "ready"
            await go_on(grower)
            assert await said(grower) == "grown"
            await put(engine, b"mine too")
            assert engine.statistics().map_bytes > before, "a writer adopts it as well"
            assert len(keys_of(engine)) == 122


async def test_a_snapshot_inside_a_snapshot_can_not_adopt_a_new_size(tmp_path: Path) -> None:
    async with open_engine(tmp_path, map_bytes=1 << 17) as engine:
        with child(tmp_path, GROWS, "dict(map_bytes=1 << 17)") as grower:
            assert await said(grower) == "ready"
            with engine.read() as outer:
                await go_on(grower)
                assert await said(grower) == "grown"
                with pytest.raises(StoreFailed, match="this very thread"), engine.read():
                    pass
                assert list(outer.scan(b"", b"\xff")) == []
            assert len(keys_of(engine)) == 60


TAKES_ALL_READERS = """
from contextlib import ExitStack
snapshots = ExitStack()
for _ in range(12):
    snapshots.enter_context(engine.read())
say("taken")
sys.stdin.readline()
"""


async def test_the_readers_of_a_dead_process_make_room(tmp_path: Path) -> None:
    async with open_engine(tmp_path, readers_max=12) as engine:
        with child(tmp_path, TAKES_ALL_READERS, "dict(readers_max=12)") as reader:
            await go_on(reader)
            reader.wait()
            assert reader.returncode != 0, "one slot is ours, so the twelfth is refused"
        with child(tmp_path, TAKES_ALL_READERS.replace("12", "11")) as reader:
            assert await said(reader) == "taken"
            with engine.read():
                with pytest.raises(StoreFailed, match="READERS_FULL"), engine.read():
                    pass
                reader.kill()
                reader.wait()
                with engine.read():
                    pass


FORKS = """
await put(engine, b"k")
child = os.fork()
if child == 0:
    try:
        engine.read().__enter__()
    except Exception as error:
        say(f"{type(error).__name__}: {error}")
    os._exit(0)
os.waitpid(child, 0)
await put(engine, b"l")
say("parent goes on")
"""


async def test_a_forked_child_is_told_that_it_can_not_use_the_store(tmp_path: Path) -> None:
    with child(tmp_path, FORKS) as parent:
        told = await said(parent)
        assert told.startswith("StoreClosed: the store was open when this process was forked")
        assert await said(parent) == "parent goes on"
    async with open_engine(tmp_path) as engine:
        assert keys_of(engine) == [b"k", b"l"]


async def test_opening_waits_only_so_long_to_create_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpoint.store.store_format.LOCK_WAIT_S", 0)
    async with open_engine(tmp_path / "other"):
        pass
    lock = os.open(tmp_path / "write.lock", os.O_RDWR | os.O_CREAT)
    with child(tmp_path / "other", HOLDS_THE_LOCK.replace("folder /", "folder.parent /")) as holder:
        assert await said(holder) == "held"
        with pytest.raises(StoreUnusable, match="another process has held its write lock"):
            await open_engine(tmp_path).__aenter__()
        await go_on(holder)
        assert await said(holder) == "released"
        async with open_engine(tmp_path) as engine:
            await put(engine, b"k")
    os.close(lock)
