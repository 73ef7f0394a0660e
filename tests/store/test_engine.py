"""What every engine promises, tried on both.

Time is a `MockClock` that only the test moves, so a deadline passes when the test says
so, also where a thread is at work. `Rig.held` keeps batches from beginning, as another
process would: a write that the test wants to see waiting is waiting for certain.
"""

import fcntl
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import inf
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.store.engine import (
    Engine,
    ReadTxn,
    StoreClosed,
    Txn,
    Withdrawn,
)
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.memory_engine import MemoryEngine
from counterpoint.store.write_lock import FILE_NAME
from counterpoint.store.write_queue import PENDING_MAX


class Rule(Exception):
    """A rule refused."""


class Told:
    """A `done` that collects the errors it was called with."""

    def __init__(self, errors: list[BaseException | None]) -> None:
        self._errors = errors

    def __call__(self, result: object, error: BaseException | None) -> None:
        assert result is None
        self._errors.append(error)


class Rig:
    """An open engine, and a way to keep its batches from beginning."""

    def __init__(self, engine: Engine, held: Callable[[], AbstractContextManager[None]]) -> None:
        self.engine = engine
        self.held = held

    async def write(self, *pairs: tuple[bytes, bytes]) -> None:
        await self.engine.write(partial(put_all, pairs=pairs), deadline=inf)

    def content(self) -> list[tuple[bytes, bytes]]:
        with self.engine.read() as txn:
            return everything(txn)


def put_all(txn: Txn, pairs: tuple[tuple[bytes, bytes], ...]) -> None:
    for key, value in pairs:
        txn.put(key, value)


def everything(txn: ReadTxn) -> list[tuple[bytes, bytes]]:
    return list(txn.scan(b"", b"\xff"))


@contextmanager
def flocked(folder: Path) -> Generator[None]:
    """Hold the lock file as another process would: by another open file."""
    lock = os.open(folder / FILE_NAME, os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


@pytest.fixture(params=["memory", "lmdb"])
async def rig(
    request: pytest.FixtureRequest, tmp_path: Path, mock_clock: MockClock
) -> AsyncGenerator[Rig]:
    assert mock_clock.rate == 0
    if request.param == "memory":
        memory = MemoryEngine()
        yield Rig(memory, memory.locked_elsewhere)
        await memory.aclose()
    else:
        async with open_lmdb_engine(tmp_path / "store", format_version=1) as engine:
            yield Rig(engine, partial(flocked, tmp_path / "store"))


async def test_a_write_returns_what_its_transaction_returns_and_is_then_read(rig: Rig) -> None:
    def transaction(txn: Txn) -> int:
        txn.put(b"k", b"v")
        assert txn.get(b"k") == b"v"
        return 7

    assert await rig.engine.write(transaction, deadline=inf) == 7
    assert rig.content() == [(b"k", b"v")]


async def test_a_refusal_leaves_nothing_and_disturbs_no_other_of_its_batch(rig: Rig) -> None:
    outcomes: dict[str, object] = {}

    def refused(txn: Txn) -> None:
        txn.put(b"b", b"refused")
        txn.delete(b"a")
        raise Rule

    def sees(txn: Txn) -> tuple[bytes | None, bytes | None]:
        return txn.get(b"a"), txn.get(b"b")

    def note(name: str, result: object, error: BaseException | None) -> None:
        outcomes[name] = result if error is None else type(error)

    with rig.held():
        engine = rig.engine
        put = partial(put_all, pairs=((b"a", b"1"),))
        engine.enqueue(put, deadline=inf, done=partial(note, "put"))
        engine.enqueue(refused, deadline=inf, done=partial(note, "refused"))
        engine.enqueue(sees, deadline=inf, done=partial(note, "sees"))
    await rig.write((b"z", b""))
    assert outcomes == {"put": None, "refused": Rule, "sees": (b"1", None)}
    assert rig.content() == [(b"a", b"1"), (b"z", b"")]
    assert engine.statistics().batches == 1, "they were one batch"


async def test_transactions_run_in_the_order_in_which_they_were_enqueued(rig: Rig) -> None:
    told: list[int] = []

    def append(txn: Txn, number: int) -> int:
        txn.put(b"k", (txn.get(b"k") or b"") + bytes((number,)))
        return number

    def done(result: int | None, error: BaseException | None) -> None:
        assert error is None
        assert result is not None
        told.append(result)

    for number in range(50):
        rig.engine.enqueue(partial(append, number=number), deadline=inf, done=done)
    assert told == [], "`done` is never called before `enqueue` has returned"
    await rig.write((b"z", b""))
    assert told == list(range(50))
    with rig.engine.read() as txn:
        assert txn.get(b"k") == bytes(range(50))


async def test_a_bad_key_fails_its_own_transaction_only(rig: Rig) -> None:
    errors: list[BaseException | None] = []
    with rig.held():
        for key in (b"good", b"\0bad", b"x" * 600):
            transaction = partial(put_all, pairs=((key, b""),))
            rig.engine.enqueue(transaction, deadline=inf, done=Told(errors))
    await rig.write((b"z", b""))
    assert [type(error) for error in errors] == [type(None), ValueError, ValueError]
    assert [key for key, _ in rig.content()] == [b"good", b"z"]


async def test_looking_up_a_key_that_can_not_exist_finds_nothing(rig: Rig) -> None:
    assert await rig.engine.write(lambda txn: txn.get(b"x" * 600), deadline=inf) is None
    with rig.engine.read() as txn:
        assert txn.get(b"x" * 600) is None


async def test_a_scan_sees_a_transactions_own_writes_and_those_before_it(rig: Rig) -> None:
    await rig.write(*((bytes((65 + at,)), b"old") for at in range(6)))

    def transaction(txn: Txn) -> tuple[list[bytes], list[bytes]]:
        txn.delete(b"B")
        txn.put(b"AA", b"new")
        keys = [key for key, _ in txn.scan(b"A", b"E")]
        back = [key for key, _ in txn.scan(b"A", b"E", reverse=True)]
        return keys, back

    keys, back = await rig.engine.write(transaction, deadline=inf)
    assert keys == [b"A", b"AA", b"C", b"D"]
    assert back == keys[::-1]
    with rig.engine.read() as txn:
        assert [key for key, _ in txn.scan(b"A", b"E")] == keys
        assert [key for key, _ in txn.scan(b"A", b"E", reverse=True)] == back
        assert [key for key, _ in txn.scan(b"E", b"z", reverse=True)] == [b"F", b"E"]
        assert list(txn.scan(b"E", b"A")) == []
        assert list(txn.scan(b"E", b"A", reverse=True)) == []


async def test_a_snapshot_does_not_change_while_others_write(rig: Rig) -> None:
    await rig.write((b"k", b"1"))
    with rig.engine.read() as before:
        await rig.write((b"k", b"2"), (b"l", b""))
        assert everything(before) == [(b"k", b"1")]
        with rig.engine.read() as after:
            assert everything(after) == [(b"k", b"2"), (b"l", b"")]
        assert before.get(b"l") is None


@pytest.mark.contract("D18")
async def test_a_write_that_can_not_begin_is_withdrawn_at_its_deadline(
    rig: Rig, mock_clock: MockClock
) -> None:
    ended: list[str] = []

    async def doomed(after_s: float) -> None:
        with pytest.raises(Withdrawn):
            await rig.engine.write(
                partial(put_all, pairs=((b"k", b""),)), deadline=trio.current_time() + after_s
            )
        ended.append(f"{after_s:g} s")

    async with trio.open_nursery() as nursery:
        with rig.held():
            nursery.start_soon(doomed, 5.0)
            await wait_all_tasks_blocked()
            nursery.start_soon(doomed, 1.0)
            await wait_all_tasks_blocked()
            assert rig.engine.statistics().pending == 2
            mock_clock.jump(2)
            await wait_all_tasks_blocked()
            assert ended == ["1 s"], "the later one had begun to wait first"
            mock_clock.jump(4)
            await wait_all_tasks_blocked()
            assert ended == ["1 s", "5 s"]
    await rig.write((b"z", b""))
    assert rig.content() == [(b"z", b"")], "what was withdrawn is not stored, now or later"
    assert rig.engine.statistics().withdrawn == 2


async def test_a_deadline_that_has_passed_already_withdraws_at_once(rig: Rig) -> None:
    with pytest.raises(Withdrawn):
        await rig.engine.write(partial(put_all, pairs=((b"k", b""),)), deadline=trio.current_time())
    assert rig.content() == []


async def test_cancelling_a_write_that_has_not_begun_withdraws_it(rig: Rig) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            with rig.held():
                nursery.start_soon(rig.write, (b"k", b""))
                await wait_all_tasks_blocked()
                scope.cancel()
    await rig.write((b"z", b""))
    assert rig.content() == [(b"z", b"")]


async def test_on_commit_is_called_before_the_waiters_and_only_if_something_was_stored(
    rig: Rig,
) -> None:
    seen: list[str] = []
    rig.engine.on_commit(lambda: seen.append("commit"))

    def done(_result: object, _error: BaseException | None) -> None:
        seen.append("done")

    rig.engine.enqueue(partial(put_all, pairs=((b"k", b""),)), deadline=inf, done=done)
    await rig.write((b"z", b""))
    assert seen == ["commit", "done"]
    await rig.engine.write(lambda txn: txn.get(b"k"), deadline=inf)
    assert seen == ["commit", "done"]


async def test_a_callback_that_fails_takes_nothing_from_the_others(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug of the caller")

    errors: list[BaseException | None] = []
    rig.engine.on_commit(fails)
    put = partial(put_all, pairs=((b"k", b""),))
    rig.engine.enqueue(put, deadline=inf, done=fails)
    rig.engine.enqueue(put, deadline=inf, done=Told(errors))
    await rig.write((b"z", b""))
    assert errors == [None]
    assert len(caplog.records) == 2


@pytest.mark.slow
@pytest.mark.contract("C50")
async def test_one_write_too_many_is_withdrawn_at_once(rig: Rig) -> None:
    errors: list[BaseException | None] = []
    put = partial(put_all, pairs=((b"k", b""),))
    async with trio.open_nursery() as nursery:
        with rig.held():
            nursery.start_soon(rig.write, (b"l", b""))
            await wait_all_tasks_blocked()
            for _ in range(PENDING_MAX - 1):
                rig.engine.enqueue(put, deadline=inf, done=Told(errors))
            with pytest.raises(Withdrawn, match=f"{PENDING_MAX} writes wait already"):
                await rig.write((b"m", b""))
    await rig.write((b"z", b""))  # there is room again, and it is after all of them
    assert errors == [None] * (PENDING_MAX - 1)


async def test_closing_refuses_what_waits_and_all_that_comes(rig: Rig) -> None:
    errors: list[BaseException | None] = []
    put = partial(put_all, pairs=((b"k", b""),))
    async with trio.open_nursery() as nursery:
        with rig.held():
            rig.engine.enqueue(put, deadline=inf, done=Told(errors))
            nursery.start_soon(refused_as_closed, rig)
            await wait_all_tasks_blocked()
            await rig.engine.aclose()  # does not wait for the lock
        await refused_as_closed(rig)
    rig.engine.enqueue(put, deadline=inf, done=Told(errors))
    await wait_all_tasks_blocked()
    assert [type(error) for error in errors] == [StoreClosed, StoreClosed]
    with pytest.raises(StoreClosed), rig.engine.read():
        pass
    await rig.engine.aclose()  # once more does nothing


async def refused_as_closed(rig: Rig) -> None:
    with pytest.raises(StoreClosed):
        await rig.write((b"k", b""))


async def test_many_writers_share_batches_and_nothing_is_lost(rig: Rig) -> None:
    def increment(txn: Txn) -> int:
        count = int(txn.get(b"count") or b"0") + 1
        txn.put(b"count", str(count).encode())
        return count

    results: list[int] = []

    async def writer() -> None:
        results.extend([await rig.engine.write(increment, deadline=inf) for _ in range(20)])

    async with trio.open_nursery() as nursery:
        for _ in range(16):
            nursery.start_soon(writer)
    assert sorted(results) == list(range(1, 321))
    statistics = rig.engine.statistics()
    assert statistics.transactions == 320
    assert statistics.batches < 320
    assert statistics.mean_batch > 1
