"""What is LMDB's alone: the map, the disk, the writer thread, and what a folder may hold.

A transaction runs in the writer thread, so a test can stop a batch in its middle: the
transaction waits for a `threading.Event`. A disk that fails is a wrapper around the
environment, put beneath the engine by `opened`; `tests/store/test_lmdb_engine_disk.py`
has real ones.
"""

import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, cast

import lmdb
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.store.engine import (
    OutcomeInDoubt,
    StoreClosed,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
    Txn,
)
from counterpoint.store.group_commit import BUSY_PASSES_MAX, GIL_YIELD_S
from counterpoint.store.lmdb_engine import LmdbEngine, open_lmdb_engine

KIB = 1024
open_engine = partial(open_lmdb_engine, format_version=1)


async def put(engine: LmdbEngine, key: bytes, value: bytes = b"") -> None:
    await engine.write(lambda txn: txn.put(key, value), deadline=inf)


def keys_of(engine: LmdbEngine) -> list[bytes]:
    with engine.read() as txn:
        return [key for key, _ in txn.scan(b"", b"\xff")]


class Stop:
    """A transaction that begins, says so in the loop, and goes on when it is told to."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.entered = threading.Event()
        self.go = threading.Event()
        self._token = trio.lowlevel.current_trio_token()

    def __call__(self, txn: Txn) -> str:
        self.entered.set()
        self._token.run_sync_soon(self.begun.set)
        assert self.go.wait(60)
        txn.put(b"stopped", b"and gone on")
        return "done"


@pytest.mark.contract("D18")
async def test_a_write_that_has_begun_is_waited_for_past_its_deadline_and_cancellation(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    results: list[str] = []
    stop = Stop()
    async with open_engine(tmp_path) as engine:

        async def write() -> None:
            results.append(await engine.write(stop, deadline=trio.current_time() + 5))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await stop.begun.wait()
            mock_clock.jump(10)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked()
                assert results == []
            stop.go.set()
        assert results == ["done"], "its outcome is a fact, so it is told"
        assert keys_of(engine) == [b"stopped"]


async def test_closing_waits_for_what_has_begun_and_refuses_the_rest(tmp_path: Path) -> None:
    outcomes: list[object] = []
    stop = Stop()

    def note(result: object, error: BaseException | None) -> None:
        outcomes.append(result if error is None else type(error))

    async with open_engine(tmp_path) as engine, trio.open_nursery() as nursery:
        engine.enqueue(stop, deadline=inf, done=note)
        await stop.begun.wait()
        engine.enqueue(lambda txn: txn.put(b"rest", b""), deadline=inf, done=note)
        nursery.start_soon(engine.aclose)
        await wait_all_tasks_blocked()
        assert outcomes == [StoreClosed]
        stop.go.set()
    assert outcomes == [StoreClosed, "done"]
    async with open_engine(tmp_path) as engine:
        assert keys_of(engine) == [b"stopped"]


async def test_writes_that_come_while_a_batch_is_in_flight_are_the_next_batch(
    tmp_path: Path,
) -> None:
    stop = Stop()
    async with open_engine(tmp_path) as engine, trio.open_nursery() as nursery:
        nursery.start_soon(partial(engine.write, stop, deadline=inf))
        await stop.begun.wait()
        for number in range(10):
            nursery.start_soon(put, engine, b"%d" % number)
        await wait_all_tasks_blocked()
        assert engine.statistics().pending == 10
        stop.go.set()
    assert engine.statistics().batches == 2
    assert engine.statistics().transactions == 11


async def test_a_busy_loop_yields_once_a_pass_and_only_while_a_batch_is_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GIL hook: without it a busy loop hardly ever lets the writer thread run."""
    yields: list[float] = []
    stop = Stop()
    async with open_engine(tmp_path) as engine:
        with monkeypatch.context() as patch:
            patch.setattr("counterpoint.store.group_commit.time.sleep", yields.append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(engine.write, stop, deadline=inf))
                await stop.begun.wait()
                yields.clear()
                for _ in range(10):
                    await trio.lowlevel.checkpoint()
                assert yields == [GIL_YIELD_S] * 10
                await wait_all_tasks_blocked()
                stop.go.set()
            yields.clear()
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            assert yields == []


async def test_a_busy_loop_hands_over_after_a_few_passes(tmp_path: Path) -> None:
    stop = Stop()
    async with open_engine(tmp_path) as engine:
        engine.enqueue(stop, deadline=inf, done=lambda _result, _error: None)
        for _ in range(BUSY_PASSES_MAX):
            assert engine.statistics().pending == 1, "others may still join it"
            await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert stop.entered.wait(60), "it began although the loop was never idle"
        stop.go.set()


async def test_batches_complete_while_the_loop_is_never_idle(tmp_path: Path) -> None:
    done = 0
    passes = 0
    async with open_engine(tmp_path) as engine, trio.open_nursery() as nursery:

        async def writer() -> None:
            nonlocal done
            for number in range(20):
                await put(engine, b"%d" % number)
                done += 1

        nursery.start_soon(writer)
        while done < 20:
            passes += 1
            assert passes < 100_000
            for _ in range(1_000):
                pass
            await trio.lowlevel.checkpoint()
    assert engine.statistics().batches == 20


async def test_two_engines_in_one_loop_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with open_engine(tmp_path / "a") as first:
        async with open_engine(tmp_path / "b") as second, trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(put, first, b"first %d" % number)
                nursery.start_soon(put, second, b"second %d" % number)
        await put(first, b"last")
        assert len(keys_of(first)) == 11


async def test_a_bug_that_ends_the_thread_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = threading.Event()

    def report(_arguments: object) -> None:
        reported.set()

    monkeypatch.setattr(threading, "excepthook", report)

    def exits(_txn: Txn) -> None:
        raise SystemExit

    async with open_engine(tmp_path) as engine:
        with pytest.raises(OutcomeInDoubt):
            await engine.write(exits, deadline=inf)
        with pytest.raises(OutcomeInDoubt):
            await put(engine, b"k")
        assert keys_of(engine) == []
    assert await trio.to_thread.run_sync(reported.wait, 60), "as any thread's death is"
    async with open_engine(tmp_path) as engine:
        await put(engine, b"k")


@pytest.mark.slow
async def test_snapshots_are_read_from_any_thread_while_others_write(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:

        def reader() -> None:
            last = 0
            while last < 20:
                with engine.read() as txn:
                    values = [value for _, value in txn.scan(b"a", b"c")]
                assert len(set(values)) <= 1, "both keys are always written together"
                last = int(values[0]) if values else 0

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(trio.to_thread.run_sync, reader)
            for number in range(1, 21):

                def write(txn: Txn, value: bytes = b"%d" % number) -> None:
                    txn.put(b"a", value)
                    txn.put(b"b", value)

                await engine.write(write, deadline=inf)


async def test_the_last_snapshot_closes_a_closed_engines_file(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await put(engine, b"k", b"v")
        with engine.read() as txn:
            await engine.aclose()
            assert txn.get(b"k") == b"v"
            with pytest.raises(StoreUnusable, match="open in this process already"):
                await open_engine(tmp_path).__aenter__()
    async with open_engine(tmp_path) as engine:
        assert keys_of(engine) == [b"k"]


@pytest.mark.slow
@pytest.mark.contract("D19")
async def test_the_map_grows_by_itself(tmp_path: Path) -> None:
    async with open_engine(tmp_path, map_bytes=64 * KIB, map_bytes_max=8192 * KIB) as engine:
        for number in range(100):
            await put(engine, b"%03d" % number, bytes(10 * KIB))
        assert 1024 * KIB < engine.statistics().map_bytes <= 8192 * KIB
        assert len(keys_of(engine)) == 100


async def test_the_map_grows_as_soon_as_no_snapshot_is_open(tmp_path: Path) -> None:
    async with open_engine(tmp_path, map_bytes=64 * KIB) as engine:
        opened, close = threading.Event(), threading.Event()

        def reader() -> None:
            with engine.read():
                opened.set()
                assert close.wait(60)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, reader)
            await trio.to_thread.run_sync(opened.wait)
            nursery.start_soon(put, engine, b"large", bytes(500 * KIB))
            await wait_all_tasks_blocked()
            close.set()
        assert keys_of(engine) == [b"large"]


@pytest.mark.slow
@pytest.mark.contract("D19")
async def test_a_full_map_refuses_what_does_not_fit_and_nothing_else(tmp_path: Path) -> None:
    sizes = dict.fromkeys((b"a", b"b", b"c", b"d", b"e"), KIB) | {b"c": 900 * KIB}
    outcomes: dict[bytes, object] = {}
    async with open_engine(tmp_path, map_bytes=64 * KIB, map_bytes_max=512 * KIB) as engine:

        async def write(key: bytes) -> None:
            try:
                await put(engine, key, bytes(sizes[key]))
                outcomes[key] = "stored"
            except StoreFull as error:
                outcomes[key] = error

        async with trio.open_nursery() as nursery:
            for key in sizes:
                nursery.start_soon(write, key)
        full = outcomes.pop(b"c")
        assert isinstance(full, StoreFull)
        assert isinstance(full.__cause__, lmdb.MapFullError)
        assert outcomes == dict.fromkeys((b"a", b"b", b"d", b"e"), "stored")
        assert keys_of(engine) == [b"a", b"b", b"d", b"e"]
        fits = 0
        with suppress(StoreFull):
            for fits in range(1000):
                await put(engine, b"%03d" % fits, bytes(KIB))
        assert 50 < fits < 500
        assert len(keys_of(engine)) == 4 + fits
        await put(engine, b"a", b"smaller")
        assert len(keys_of(engine)) == 4 + fits, "what fits is still stored"


class FailingDisk:
    """An environment whose commits fail: before they happen, or after."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self.fail_next: list[tuple[str, lmdb.Error]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False) -> Any:
        txn = self._env.begin(write=write)
        return FailingTxn(txn, self.fail_next) if write else txn


class FailingTxn:
    def __init__(self, txn: Any, fail_next: list[tuple[str, lmdb.Error]]) -> None:
        self._txn = txn
        self._fail_next = fail_next

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        when, error = self._fail_next.pop(0) if self._fail_next else ("never", None)
        if when == "before":
            self._txn.abort()
        else:
            self._txn.commit()
        if error is not None:
            raise error


def disk_error(code: int) -> lmdb.Error:
    error = lmdb.Error("mdb_txn_commit")
    error.code = code  # type: ignore[misc]
    return error


def failing(disks: list[FailingDisk]) -> Callable[[lmdb.Environment], lmdb.Environment]:
    def opened(env: lmdb.Environment) -> lmdb.Environment:
        disks.append(FailingDisk(env))
        return cast("lmdb.Environment", disks[-1])

    return opened


# fmt: off
FAILED_COMMITS = [  # errno, error of the waiter
    (errno.ENOSPC, StoreFull),
    (errno.EDQUOT, StoreFull),
    (errno.EFBIG,  StoreFull),
    (errno.EROFS,  StoreReadOnly),
    (errno.EIO,    StoreFailed),
]
# fmt: on


@pytest.mark.contract("D19", "C2")
@pytest.mark.parametrize(("code", "told"), FAILED_COMMITS)
async def test_a_failed_commit_that_did_not_happen_is_a_definite_refusal(
    tmp_path: Path, code: int, told: type[Exception]
) -> None:
    disks: list[FailingDisk] = []
    async with open_engine(tmp_path, opened=failing(disks)) as engine:
        await put(engine, b"before")
        disks[0].fail_next.append(("before", disk_error(code)))
        with pytest.raises(told) as caught:
            await put(engine, b"failed")
        assert isinstance(caught.value.__cause__, lmdb.Error)
        await put(engine, b"after")
        assert keys_of(engine) == [b"after", b"before"]
        assert engine.statistics().failed_commits == 1


@pytest.mark.contract("D19", "C2")
async def test_a_failed_commit_that_happened_all_the_same_is_told_as_committed(
    tmp_path: Path,
) -> None:
    disks: list[FailingDisk] = []
    async with open_engine(tmp_path, opened=failing(disks)) as engine:
        disks[0].fail_next.append(("after", disk_error(errno.EIO)))
        await put(engine, b"k")
        assert keys_of(engine) == [b"k"]
        await put(engine, b"l")


@pytest.mark.contract("D19", "C2")
async def test_a_commit_that_can_not_be_read_back_is_in_doubt_and_so_is_all_after_it(
    tmp_path: Path,
) -> None:
    disks: list[FailingDisk] = []
    async with open_engine(tmp_path, opened=failing(disks)) as engine:
        # The second failure is that of the commit which should make the first one final.
        disks[0].fail_next += [("after", disk_error(errno.EIO)), ("before", disk_error(errno.EIO))]
        with pytest.raises(OutcomeInDoubt):
            await put(engine, b"k")
        with pytest.raises(OutcomeInDoubt, match="open the store again"):
            await put(engine, b"l")
    async with open_engine(tmp_path) as engine:
        assert keys_of(engine) == [b"k"], "opening reads back what really was committed"


async def test_a_refusal_in_a_batch_that_failed_is_overruled(tmp_path: Path) -> None:
    """It may rest on a write of the same batch, which is not stored now."""
    disks: list[FailingDisk] = []
    errors: list[BaseException | None] = []
    both = trio.Event()

    def note(_result: object, error: BaseException | None) -> None:
        errors.append(error)
        if len(errors) == 2:
            both.set()

    def refused_if_there(txn: Txn) -> None:
        if txn.get(b"k") is not None:
            raise LookupError
        txn.put(b"k", b"")

    async with open_engine(tmp_path, opened=failing(disks)) as engine:
        disks[0].fail_next.append(("before", disk_error(errno.EIO)))
        for _ in range(2):
            engine.enqueue(refused_if_there, deadline=inf, done=note)
        await both.wait()
    assert [type(error) for error in errors] == [StoreFailed, StoreFailed]
