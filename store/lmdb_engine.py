"""The engine on LMDB: durable, several processes, one file. The only file that imports lmdb.

A batch is one LMDB transaction, taken under the lock file. Each transaction of it runs
over its own overlay; what they all wrote is applied at the end, in key order, which LMDB
likes best, and each key once however often it was rewritten.

What is assumed of LMDB and of the disk stands in FORMAT.md.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import lmdb
import trio

from .disk_room import bytes_wanted, lack_of_room
from .engine import (
    KEY_FIRST,
    OutcomeInDoubt,
    Overlay,
    Statistics,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)
from .group_commit import GroupCommit
from .map_gate import MapGate
from .store_format import FORMAT_KEY, Migration, bring_to_format
from .write_lock import WriteLock, open_lock
from .write_queue import QueuedEngine, Write, run_transactions

DATA_FILE: Final = "data.mdb"

MAP_BYTES: Final = 1 << 30
MAP_BYTES_MAX: Final = 64 << 30
READERS_MAX: Final = 512

REMAP_WAIT_S: Final = 5.0  # how long a change of the map waits for open snapshots

SETTLED_KEY: Final = b"\0settled"

FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
READ_ONLY: Final = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))

Opener = Callable[[], lmdb.Environment]


def open_environment(
    folder: Path, *, map_bytes: int, readers_max: int, read_only: bool
) -> lmdb.Environment:
    """Open the LMDB files in `folder`, durable and with LMDB's own checks on."""
    return lmdb.Environment(
        str(folder),
        map_size=map_bytes,
        readonly=read_only,
        create=not read_only,
        mode=0o600,
        max_readers=readers_max,
        max_spare_txns=1,  # a snapshot leaves its reader's slot to the next one
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

    def __exit__(self, *_: object) -> None:
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

    __slots__ = ("_txn", "get")

    def __init__(self, txn: lmdb.Transaction[bytes]) -> None:
        self._txn = txn
        self.get = txn.get  # no frame of ours between

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


def _own_fault(error: Exception) -> Exception | None:
    """Return what a transaction ends as by `error`, or None if the store is to blame."""
    if isinstance(error, lmdb.BadValsizeError):
        return _unreadable(error)
    return None if isinstance(error, lmdb.Error | StoreError) else error


def _code(error: lmdb.Error) -> int:
    if isinstance(error, lmdb.DiskError):
        return errno.ENOSPC
    return getattr(error, "code", 0)  # from py-lmdb 3.0


def _not_stored(error: lmdb.Error, data: Path, wanted_bytes: int) -> StoreError:
    """Say what a failure means after which nothing of the batch is stored."""
    code = _code(error)
    lack = lack_of_room(data, wanted_bytes) if code == errno.EIO else None
    if lack is not None:
        code = lack.errno or code
    if code in FULL:
        return StoreFull(f"the disk is full: {error}")
    if code in READ_ONLY:
        return StoreReadOnly(f"the store's file can't be written any more: {error}")
    return StoreFailed(f"the store could not be written: {error}")


class _Database:
    """The environment, its map and its lock; runs batches in the writer thread."""

    def __init__(
        self, env: lmdb.Environment, opener: Opener, map_bytes_max: int, lock: WriteLock | None
    ) -> None:
        self._env = env
        self._opener = opener
        self._map_bytes_max = map_bytes_max
        self.lock = lock  # None if it is read only
        self._wanted_bytes = 0  # of the batch at hand
        self._in_doubt = False  # latched: what is on disk is not known
        self.gate = MapGate()
        self.map_bytes: int = env.info()["map_size"]
        self.failed_commits = 0

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
                raise StoreFailed(
                    f"{why}, and the map can't be changed while a snapshot is open: one stayed "
                    f"open for {REMAP_WAIT_S:g} s, or is open in this very thread"
                )
            self._env.set_mapsize(map_bytes)
            self.map_bytes = self._env.info()["map_size"]

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
                limit = self._map_bytes_max
                if self.map_bytes >= limit:
                    raise StoreFull(f"the map has its largest size, {limit} bytes") from error
                self._remap(min(self.map_bytes * 2, limit), "the map is full")
            except lmdb.Error as error:
                data = Path(self._env.path()) / DATA_FILE
                raise _not_stored(error, data, self._wanted_bytes) from error

    def _attempt(self, batch: list[Write]) -> bool:
        """Store `batch`, or raise what LMDB raised: then nothing of it is stored."""
        with self.inside():
            txn = self._env.begin(write=True)
            try:
                writes = run_transactions(batch, _Base(txn), _own_fault)
                if not writes:
                    txn.abort()
                    return False
                self._wanted_bytes = bytes_wanted(writes)
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
        doubtful = False
        try:
            try:
                with self.inside():
                    self._env.begin(write=True).abort()
            except lmdb.PanicError:
                doubtful = True
                self._reopen()
            with self.inside():
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

    def _reopen(self) -> None:
        with self.gate.alone(REMAP_WAIT_S) as alone:
            if not alone:
                raise StoreFailed("a snapshot was open for too long")
            self._env.close()
            self._env = self._opener()
            self.map_bytes = self._env.info()["map_size"]

    def _settle(self, number: int) -> None:
        with self.inside():
            txn = self._env.begin(write=True)
            txn.put(SETTLED_KEY, number.to_bytes(8))
            txn.commit()

    @contextmanager
    def inside(self) -> Generator[lmdb.Environment]:
        """Keep the map and the environment as they are, on the calling thread."""
        thread = self.gate.enter()
        try:
            yield self._env
        finally:
            self.gate.leave(thread)

    def close(self) -> None:
        """Let nobody in any more and close the files, at once or with the last snapshot."""
        self.gate.close(StoreClosed("the store is closed"), self._close_files)

    def _close_files(self) -> None:
        self._env.close()
        if self.lock is not None:
            self.lock.forget()


def _apply(writes: list[tuple[bytes, bytes | None]], txn: lmdb.Transaction[bytes]) -> None:
    puts = [(key, value) for key, value in writes if value is not None]
    if len(puts) < len(writes):
        for key, value in writes:
            if value is None:
                txn.delete(key)
    txn.cursor().putmulti(puts)


class LmdbEngine(QueuedEngine):
    """An `Engine` on one folder. Made by `open_lmdb_engine`."""

    def __init__(self, database: _Database) -> None:
        super().__init__()
        self._database = database
        self._group: GroupCommit | None = None
        if database.lock is None:
            self._queue.close(StoreReadOnly("the store was opened to be read only"))
        else:
            self._group = GroupCommit(database.lock, database.commit, self._queue)

    def read(self) -> Snapshot:
        """See `Engine.read`.

        The map can't grow while a snapshot is open, so keep it open for a moment only,
        and never over an `await`.

        Raises, on entering:
          StoreClosed: if the engine is closed, or was open when the process was forked.
          StoreFailed: if LMDB has no reader's slot left, or can't be read.
        """
        return Snapshot(self._database)

    def copy_to(self, folder: Path) -> None:
        """See `Copied.copy_to`."""
        with self._database.inside() as env:
            try:
                env.copy(str(folder), compact=True)
            except lmdb.Error as error:
                raise _not_stored(error, folder / DATA_FILE, 0) from error

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
    opened: Callable[[lmdb.Environment], lmdb.Environment] = lambda env: env,
) -> AsyncGenerator[LmdbEngine]:
    """Open the store in the folder `path`, creating it, for the time of the block.

    `migrations[n]` turns a store of format version n into one of n + 1; all that are
    needed run in one transaction. `readers_max` bounds the snapshots open at a time, of
    all processes together; the process that creates LMDB's lock file decides it. Tests
    put a disk that fails beneath the engine with `opened`.

    Raises:
      StoreUnusable: if `path` can't be opened as a store; the sentence says why.
    """
    assert 0 < map_bytes <= map_bytes_max
    options = {"map_bytes": map_bytes, "readers_max": readers_max}

    def opener() -> lmdb.Environment:
        return opened(open_environment(path, read_only=read_only, **options))

    def open_database() -> _Database:
        with ExitStack() as undo:
            lock = None if read_only else open_lock(path)
            if lock is not None:
                undo.callback(lock.forget)
                undo.callback(lock.close)
            elif not (path / DATA_FILE).exists():
                raise StoreUnusable(f"{path} holds no store, and read only none is created")
            try:
                env = opener()
                undo.callback(env.close)
                bring_to_format(_Formatted(env, path), lock, format_version, migrations)
            except lmdb.Error as error:
                raise StoreUnusable(_why_unusable(path, error)) from error
            undo.pop_all()
        return _Database(env, opener, map_bytes_max, lock)

    engine = LmdbEngine(await trio.to_thread.run_sync(open_database))
    try:
        yield engine
    finally:
        await engine.aclose()


def _why_unusable(folder: Path, error: lmdb.Error) -> str:
    if "already open" in str(error):
        return f"{folder} is open in this process already, or was when it was forked"
    if isinstance(error, lmdb.InvalidError | lmdb.VersionMismatchError | lmdb.CorruptedError):
        return f"{folder / DATA_FILE} is no store or is damaged ({error}): restore a backup"
    if _code(error) in READ_ONLY:
        return f"{folder} can't be written to: {error}"
    return f"{folder} can't be opened as a store: {error}"


class _Formatted:
    """The format record of an environment, as `bring_to_format` wants it."""

    def __init__(self, env: lmdb.Environment, folder: Path) -> None:
        self._env = env
        self.folder = folder

    def record(self) -> tuple[bytes | None, bool]:
        txn = self._env.begin()
        found = txn.get(FORMAT_KEY), txn.stat()["entries"] == 0
        txn.abort()
        return found

    def rewrite(self, record: bytes, steps: list[Migration]) -> None:
        txn = self._env.begin(write=True)
        try:
            overlay = Overlay(_Base(txn))
            for step in steps:
                step(overlay)
            _apply(overlay.writes(), txn)
            txn.put(FORMAT_KEY, record)
        except BaseException:
            txn.abort()
            raise
        txn.commit()
