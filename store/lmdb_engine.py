"""The engine on LMDB: durable, several processes, one file. The only file that imports lmdb.

A batch is one LMDB transaction, taken under the lock file. Each transaction of it runs
over its own overlay; what they all wrote is applied at the end, in key order, which LMDB
likes best, and each key once however often it was rewritten.

What is assumed of LMDB and of the disk stands in FORMAT.md.
"""

from __future__ import annotations

import errno
import os
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import lmdb
import msgspec
import trio

from .engine import (
    KEY_FIRST,
    Done,
    OutcomeInDoubt,
    Overlay,
    Statistics,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
    Transaction,
)
from .group_commit import GroupCommit
from .map_gate import MapGate
from .store_format import FORMAT_KEY, Migration, decode_format, encode_format, steps_to_format
from .write_lock import WriteLock, open_lock
from .write_queue import Write, WriteQueue, run_transactions

T = TypeVar("T")

DATA_FILE: Final = "data.mdb"

MAP_BYTES: Final = 1 << 30
MAP_BYTES_MAX: Final = 64 << 30
READERS_MAX: Final = 512

REMAP_WAIT_S: Final = 5.0
"""How long a change of the map waits for open snapshots to be closed."""

LOCK_WAIT_S: Final = 5.0
"""How long opening waits for the write lock, if it has a format to write."""

SETTLED_KEY: Final = b"\0settled"

FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
READ_ONLY: Final = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an environment is opened. Sizes in bytes."""

    folder: Path
    map_bytes: int
    map_bytes_max: int
    readers_max: int
    read_only: bool


Opener = Callable[[Settings], lmdb.Environment]


def open_environment(settings: Settings) -> lmdb.Environment:
    """Open the LMDB files in the folder, durable and with LMDB's checks on."""
    return lmdb.Environment(
        str(settings.folder),
        map_size=settings.map_bytes,
        readonly=settings.read_only,
        create=not settings.read_only,
        mode=0o600,
        max_readers=settings.readers_max,
        max_spare_txns=1,  # keeps a reader's slot between snapshots; py-lmdb keeps one at most
        meminit=False,
    )


class Snapshot:
    """A `ReadTxn` as a context manager: one unchanging view, on the thread that opened it."""

    __slots__ = ("_database", "_thread", "_txn")

    def __init__(self, database: _Database) -> None:
        self._database = database

    def __enter__(self) -> Snapshot:
        self._thread, self._txn = self._database.begin_read()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._txn.abort()
        del self._txn  # py-lmdb keeps the reader's slot for the next one when this is freed
        self._database.gate.leave(self._thread)

    def get(self, key: bytes) -> bytes | None:
        """Return the value at `key`, or None."""
        try:
            return self._txn.get(key)
        except lmdb.Error as error:
            raise _unreadable(error) from error

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(key, value)` for `start <= key < stop`, in key order or against it."""
        return _scan(self._txn, start, stop, reverse=reverse)


class _Base:
    """What the overlays of a batch lie on: an LMDB write transaction, read only."""

    __slots__ = ("_txn",)

    def __init__(self, txn: lmdb.Transaction[bytes]) -> None:
        self._txn = txn

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._txn.get(key)
        except lmdb.Error as error:
            raise _unreadable(error) from error

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return _scan(self._txn, start, stop, reverse=reverse)


def _scan(
    txn: lmdb.Transaction[bytes], start: bytes, stop: bytes, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    start = max(start, KEY_FIRST)
    try:
        cursor = txn.cursor()
        if not reverse:
            if cursor.set_range(start):
                for item in cursor:
                    if item[0] >= stop:
                        return
                    yield item
        elif stop > start and (cursor.prev() if cursor.set_range(stop) else cursor.last()):
            for item in cursor.iterprev():
                if item[0] < start:
                    return
                yield item
    except lmdb.Error as error:
        raise _unreadable(error) from error


def _unreadable(error: lmdb.Error) -> StoreError | ValueError:
    if isinstance(error, lmdb.BadValsizeError):
        return ValueError("not a key of the store")
    return StoreFailed(f"the store could not be read: {error}")


def _code(error: lmdb.Error) -> int:
    if isinstance(error, lmdb.DiskError):
        return errno.ENOSPC
    return getattr(error, "code", 0)  # from py-lmdb 3.0


def _not_stored(error: lmdb.Error) -> StoreError:
    """Say what a failure means after which nothing of the batch is stored."""
    code = _code(error)
    if code in FULL:
        return StoreFull(f"the disk is full: {error}")
    if code in READ_ONLY:
        return StoreReadOnly(f"the store's file can't be written any more: {error}")
    return StoreFailed(f"the store could not be written: {error}")


class _Database:
    """The environment, its map and its lock; runs batches in the writer thread."""

    def __init__(
        self, settings: Settings, opener: Opener, lock: WriteLock | None, env: lmdb.Environment
    ) -> None:
        self._settings = settings
        self._opener = opener
        self._lock = lock
        self._env = env
        self._in_doubt = False  # latched: what is on disk is not known
        self.gate = MapGate()
        self.map_bytes: int = env.info()["map_size"]
        self.failed_commits = 0
        _live.add(self)

    def begin_read(self) -> tuple[int, lmdb.Transaction[bytes]]:
        """Begin a snapshot on the calling thread; give the first value back to the gate."""
        thread = self.gate.enter()
        try:
            return thread, self._env.begin()
        except lmdb.Error as error:
            self.gate.leave(thread)
            self._mend_read(error)
        thread = self.gate.enter()
        try:
            return thread, self._env.begin()
        except lmdb.Error as error:
            self.gate.leave(thread)
            raise StoreFailed(f"no snapshot can be opened: {error}") from error

    def _mend_read(self, error: lmdb.Error) -> None:
        """Remove the cause of a failed begin, if there is one that can be removed."""
        if isinstance(error, lmdb.MapResizedError):
            self._remap(0, "another process has grown the store")
        elif isinstance(error, lmdb.ReadersFullError):
            self._env.reader_check()  # gives the slots of dead processes free
        elif not isinstance(error, lmdb.BadRslotError):  # the lost slot is not used again
            raise StoreFailed(f"no snapshot can be opened: {error}") from error

    def _remap(self, map_bytes: int, why: str) -> None:
        """Change the size of the map; 0 means to what another process has made it."""
        with self.gate.alone(REMAP_WAIT_S) as alone:
            if not alone:
                raise StoreFull(
                    f"{why}, but the map can't be changed while a snapshot is open: one was "
                    f"for {REMAP_WAIT_S:g} s, or is in this thread"
                )
            self._env.set_mapsize(map_bytes)
            self.map_bytes = self._env.info()["map_size"]

    def try_lock(self) -> bool:
        """Take the lock file if it is free."""
        assert self._lock is not None
        return self._lock.try_lock()

    def lock(self) -> None:
        """Take the lock file, however long its holder keeps it."""
        assert self._lock is not None
        self._lock.lock()

    def unlock(self) -> None:
        """Give the lock file back."""
        assert self._lock is not None
        self._lock.unlock()

    def retire(self) -> None:
        """Close the lock file; the last thing that the writer thread does."""
        assert self._lock is not None
        self._lock.close()

    def commit(self, batch: list[Write]) -> bool:
        """Run `batch` as one LMDB transaction; as several if it is too large for one.

        Returns True if anything was stored. Each write carries its own outcome.
        """
        try:
            return self._store(batch)
        except StoreFull as error:
            if len(batch) > 1:
                # Those that fit are stored, in order, and those that do not are told so.
                half = len(batch) // 2
                first = self.commit(batch[:half])
                return self.commit(batch[half:]) or first
            failure: StoreError = error
        except StoreError as error:
            failure = error
        # Refusals are overruled too: they may rest on writes of this batch, now not stored.
        for write in batch:
            write.fail(type(failure)(*failure.args), failure.__cause__)
        return False

    def _store(self, batch: list[Write]) -> bool:
        """Store `batch`, growing the map as needed.

        Raises:
          OutcomeInDoubt: if a commit failed and could not be read back.
          StoreError: if, for another reason, nothing of the batch is stored.
        """
        if self._in_doubt:
            raise OutcomeInDoubt("an earlier commit could not be read back; open the store again")
        while True:
            try:
                return self._attempt(batch)
            except lmdb.MapResizedError:
                self._remap(0, "another process has grown the store")
            except lmdb.MapFullError as error:
                limit = self._settings.map_bytes_max
                if self.map_bytes >= limit:
                    raise StoreFull(f"the map has its largest size, {limit} bytes") from error
                self._remap(min(self.map_bytes * 2, limit), "the map is full")
            except lmdb.Error as error:
                raise _not_stored(error) from error

    def _attempt(self, batch: list[Write]) -> bool:
        """Store `batch`, or raise what LMDB raised: then nothing of it is stored."""
        with self._inside():
            txn = self._env.begin(write=True)
            try:
                writes = run_transactions(batch, _Base(txn))
                if not writes:
                    txn.abort()
                    return False
                _apply(writes, txn)
                number = txn.id()
            except BaseException:
                txn.abort()
                raise
            try:
                txn.commit()
            except (lmdb.MapFullError, lmdb.TxnFullError):
                raise  # found out before anything was written
            except lmdb.Error as error:
                failure = error
            else:
                return True
        if self._read_back(number, failure):
            return True
        raise failure

    def _read_back(self, number: int, failure: lmdb.Error) -> bool:
        """Find out whether the failed commit of transaction `number` happened (D19).

        LMDB numbers its write transactions, and nobody else has committed since ours
        began, because we hold the lock file: so the store's last number says it.

        If LMDB could not write its meta page it refuses to go on, and what the page holds
        on disk may differ from what the page cache shows. Then, and if the commit turns
        out to have happened, one more commit has to succeed: it writes the meta pages
        anew and flushes, which makes the outcome final.
        """
        self.failed_commits += 1
        try:
            doubtful = self._meta_page_failed()
            if doubtful:
                self._reopen()
            with self._inside():
                txn = self._env.begin()
                stored = txn.id() >= number
                txn.abort()
            if stored or doubtful:
                self._settle(number)
        except (lmdb.Error, StoreError) as error:
            self._in_doubt = True
            failure.__context__ = error
            raise OutcomeInDoubt(
                f"a commit failed ({failure}) and could not be read back ({error})"
            ) from failure
        return stored

    def _meta_page_failed(self) -> bool:
        try:
            with self._inside():
                self._env.begin(write=True).abort()
        except lmdb.PanicError:
            return True
        return False

    def _reopen(self) -> None:
        with self.gate.alone(REMAP_WAIT_S) as alone:
            if not alone:
                raise StoreFailed("a snapshot was open for too long")
            self._env.close()
            self._env = self._opener(self._settings)
            self.map_bytes = self._env.info()["map_size"]

    def _settle(self, number: int) -> None:
        with self._inside():
            txn = self._env.begin(write=True)
            txn.put(SETTLED_KEY, number.to_bytes(8))
            txn.commit()

    @contextmanager
    def _inside(self) -> Generator[None]:
        thread = self.gate.enter()
        try:
            yield
        finally:
            self.gate.leave(thread)

    def close(self) -> None:
        """Let nobody in any more and close the files, at once or with the last snapshot."""
        self.gate.close(StoreClosed("the store is closed"), self._close_files)

    def _close_files(self) -> None:
        self._env.close()
        if self._lock is not None:
            self._lock.forget()

    def forked(self) -> None:
        """Refuse everything in a forked child: LMDB's files belong to the parent."""
        self.gate = MapGate()  # another thread may have held its mutex at the fork
        self.gate.close(
            StoreClosed("this process was forked while the store was open; open it in a new one"),
            lambda: None,
        )


_live: weakref.WeakSet[_Database] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for database in _live:
        database.forked()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _apply(writes: list[tuple[bytes, bytes | None]], txn: lmdb.Transaction[bytes]) -> None:
    puts = [(key, value) for key, value in writes if value is not None]
    if len(puts) < len(writes):
        for key, value in writes:
            if value is None:
                txn.delete(key)
    txn.cursor().putmulti(puts)


class LmdbEngine:
    """An `Engine` on one folder. Made by `open_lmdb_engine`."""

    def __init__(self, database: _Database, *, read_only: bool) -> None:
        self._database = database
        self._queue = WriteQueue()
        self._group = None if read_only else GroupCommit(database, self._queue)
        if read_only:
            self._queue.close(StoreReadOnly("the store was opened to be read only"))

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        """See `Engine.write`."""
        return await self._queue.write(transaction, deadline=deadline)

    def enqueue(self, transaction: Transaction[T], *, deadline: float, done: Done[T]) -> None:
        """See `Engine.enqueue`."""
        self._queue.enqueue(transaction, deadline=deadline, done=done)

    def read(self) -> Snapshot:
        """See `Engine.read`.

        The map can't grow while a snapshot is open, so keep it open for a moment only,
        and never over an `await`.

        Raises, on entering:
          StoreClosed: if the engine is closed, or was open when the process was forked.
          StoreFailed: if LMDB has no reader's slot left, or can't be read.
        """
        return Snapshot(self._database)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """See `Engine.on_commit`."""
        self._queue.on_commit(callback)

    def statistics(self) -> Statistics:
        """See `Engine.statistics`."""
        return self._queue.statistics(
            failed_commits=self._database.failed_commits, map_bytes=self._database.map_bytes
        )

    async def aclose(self) -> None:
        """See `Engine.aclose`. With snapshots open, the last of them closes the file."""
        if self._group is not None:
            await self._group.aclose()
        self._database.close()


@asynccontextmanager
async def open_lmdb_engine(
    path: Path,
    *,
    format_version: int,
    migrations: Mapping[int, Migration] = {},
    map_bytes: int = MAP_BYTES,
    map_bytes_max: int = MAP_BYTES_MAX,
    readers_max: int = READERS_MAX,
    read_only: bool = False,
    opener: Opener = open_environment,
) -> AsyncGenerator[LmdbEngine]:
    """Open the store in the folder `path`, creating it, for the time of the block.

    `migrations[n]` turns a store of format version n into one of n + 1; all that are
    needed run in one transaction. `readers_max` bounds the snapshots open at a time, of
    all processes together; the process that creates LMDB's lock file decides it.

    Raises:
      StoreUnusable: if `path` can't be opened as a store; the sentence says why.
    """
    assert 0 < map_bytes <= map_bytes_max
    settings = Settings(
        folder=path,
        map_bytes=map_bytes,
        map_bytes_max=map_bytes_max,
        readers_max=readers_max,
        read_only=read_only,
    )
    database = await trio.to_thread.run_sync(
        partial(_open, settings, opener, format_version, migrations)
    )
    engine = LmdbEngine(database, read_only=read_only)
    try:
        yield engine
    finally:
        await engine.aclose()


def _open(
    settings: Settings,
    opener: Opener,
    format_version: int,
    migrations: Mapping[int, Migration],
) -> _Database:
    folder = settings.folder
    lock = None
    if not settings.read_only:
        lock = open_lock(folder)
    elif not (folder / DATA_FILE).exists():
        raise StoreUnusable(f"{folder} holds no store, and none is created to be read only")
    try:
        env = opener(settings)
        try:
            _check_format(env, lock, folder, format_version, migrations)
        except BaseException:
            env.close()
            raise
    except BaseException as error:
        if lock is not None:
            lock.forget()
            lock.close()
        if isinstance(error, lmdb.Error):
            raise StoreUnusable(_why_unusable(folder, error)) from error
        raise
    return _Database(settings, opener, lock, env)


def _why_unusable(folder: Path, error: lmdb.Error) -> str:
    data = folder / DATA_FILE
    if "already open" in str(error):
        return f"{folder} is open in this process already, or was when it was forked"
    if isinstance(error, lmdb.InvalidError | lmdb.VersionMismatchError | lmdb.CorruptedError):
        return f"{data} is not a store or is damaged ({error}): restore it from a backup"
    if _code(error) in READ_ONLY:
        return f"{folder} can't be opened for writing: {error}"
    if _code(error) in FULL:
        return f"{folder} can't be created: the disk is full"
    return f"{folder} can't be opened as a store: {error}"


def _check_format(
    env: lmdb.Environment,
    lock: WriteLock | None,
    folder: Path,
    wanted: int,
    migrations: Mapping[int, Migration],
) -> None:
    """Create, accept, migrate or refuse what is in the folder."""
    found = _format_of(env, folder)
    if found == wanted:
        return
    if lock is None:
        raise StoreUnusable(
            f"{folder} has format {found}, and read only no other than {wanted} can be opened"
        )
    until = time.monotonic() + LOCK_WAIT_S
    while not lock.try_lock():
        if time.monotonic() > until:
            raise StoreUnusable(
                f"{folder} has to be written to before it can be used, but another process "
                f"has held its write lock for {LOCK_WAIT_S:g} s"
            )
        time.sleep(0.01)
    try:
        found = _format_of(env, folder)  # again: another process may have been quicker
        steps = steps_to_format(found, wanted, migrations, folder=folder)
        if found != wanted:
            _write_format(env, wanted, steps)
    finally:
        lock.unlock()


def _format_of(env: lmdb.Environment, folder: Path) -> int | None:
    txn = env.begin()
    record = txn.get(FORMAT_KEY)
    entries = txn.stat()["entries"]
    txn.abort()
    return decode_format(record, empty=entries == 0, folder=folder)


def _write_format(env: lmdb.Environment, wanted: int, steps: list[Migration]) -> None:
    txn = env.begin(write=True)
    try:
        overlay = Overlay(_Base(txn))
        for step in steps:
            step(overlay)
        _apply(overlay.writes(), txn)
        txn.put(FORMAT_KEY, encode_format(wanted))
    except BaseException:
        txn.abort()
        raise
    txn.commit()
