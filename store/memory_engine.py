"""The engine in memory: the same protocol and batches, no thread, no disk, no chance.

For tests and seeded simulation. A batch runs in the loop, in the pass after its first
write was queued. A hook is called at named points and may let the process "die" there:
what was not committed is gone, and the next engine opens on what was.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeVar

import trio

from .engine import (
    Done,
    Statistics,
    StoreClosed,
    StoreError,
    Transaction,
)
from .write_queue import QueuedEngine, Write, run_transactions

T = TypeVar("T")

CHUNK_KEYS: Final = 256

Point = Literal["batch.begin", "put", "delete", "commit.before", "commit.after"]


class Crash(BaseException):
    """The process died here. Not an Exception, so no handler can outlive it."""


Faults = Callable[[Point], None]
"""Called at each point. May raise `Crash`, or a `StoreError` that the whole batch ends as."""


Chunk = tuple[list[bytes], list[bytes]]
"""Keys in order, and the value of each."""


class Image:
    """An unchanging sorted mapping. `changed` makes the next one, sharing what stays.

    A list of chunks of at most `CHUNK_KEYS` keys: a change copies the chunks it touches
    and the list of chunks, which is small enough at 100,000 keys.
    """

    __slots__ = ("_firsts", "chunks")

    def __init__(self, chunks: list[Chunk] | None = None) -> None:
        self.chunks = chunks or []
        self._firsts = [keys[0] for keys, _ in self.chunks]

    def get(self, key: bytes) -> bytes | None:
        """Return the value at `key`, or None."""
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return None
        keys, values = self.chunks[at]
        index = bisect_left(keys, key)
        return values[index] if index < len(keys) and keys[index] == key else None

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(key, value)` for `start <= key < stop`, in key order or against it."""
        low = max(0, bisect_right(self._firsts, start) - 1)
        high = max(low, bisect_left(self._firsts, stop))
        for keys, values in (reversed if reverse else iter)(self.chunks[low:high]):
            first, last = bisect_left(keys, start), bisect_left(keys, stop)
            for index in (reversed if reverse else iter)(range(first, last)):
                yield keys[index], values[index]

    def changed(self, writes: list[tuple[bytes, bytes | None]]) -> Image:
        """Return the image after `writes`, which are in key order."""
        chunks = self.chunks.copy()
        # From the last chunk to the first, so that replacing one moves none still to come.
        end = len(writes)
        while end:
            at = max(0, bisect_right(self._firsts, writes[end - 1][0]) - 1)
            floor = self._firsts[at] if at else b""
            begin = bisect_left(writes, floor, 0, end, key=lambda write: write[0])
            chunks[at : at + 1] = _rewritten(chunks[at : at + 1], writes[begin:end])
            end = begin
        return Image(chunks)


def _rewritten(chunk: list[Chunk], writes: list[tuple[bytes, bytes | None]]) -> list[Chunk]:
    keys: list[bytes] = []
    values: list[bytes] = []
    for old_keys, old_values in chunk:  # one, or none in an empty image
        keys += old_keys
        values += old_values
    for key, value in writes:
        at = bisect_left(keys, key)
        there = at < len(keys) and keys[at] == key
        if value is None:
            if there:
                del keys[at], values[at]
        elif there:
            values[at] = value
        else:
            keys.insert(at, key)
            values.insert(at, value)
    step = len(keys) if len(keys) <= CHUNK_KEYS else CHUNK_KEYS // 2
    return [(keys[at : at + step], values[at : at + step]) for at in range(0, len(keys), step or 1)]


def _own_fault(error: Exception) -> Exception | None:
    return None if isinstance(error, StoreError) else error


class MemorySnapshot:
    """A `ReadTxn` as a context manager."""

    __slots__ = ("_engine", "get", "scan")

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine

    def __enter__(self) -> MemorySnapshot:
        image = self._engine.committed()
        self.get = image.get
        self.scan = image.scan
        return self

    def __exit__(self, *_: object) -> None:
        del self.get, self.scan


class MemoryEngine(QueuedEngine):
    """An `Engine` on an `Image`. Made in the loop that uses it."""

    def __init__(self, image: Image | None = None, *, faults: Faults | None = None) -> None:
        super().__init__()
        self._image = image or Image()
        self._faults = faults
        self._scheduled = False
        self._held = 0
        self._closed: BaseException | None = None

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        """See `Engine.write`."""
        self._schedule()
        return await super().write(transaction, deadline=deadline)

    def enqueue(self, transaction: Transaction[T], *, deadline: float, done: Done[T]) -> None:
        """See `Engine.enqueue`."""
        self._schedule()
        super().enqueue(transaction, deadline=deadline, done=done)

    def read(self) -> MemorySnapshot:
        """See `Engine.read`."""
        return MemorySnapshot(self)

    def statistics(self) -> Statistics:
        """See `Engine.statistics`."""
        return self._queue.statistics()

    async def aclose(self) -> None:
        """See `Engine.aclose`. Nothing begins and does not end in one step here."""
        self._closed = self._closed or StoreClosed("the store is closed")
        self._queue.close(StoreClosed("the store was closed before this write began"))
        await trio.lowlevel.checkpoint()

    def committed(self) -> Image:
        """Return what is committed.

        Raises:
          Crash: if the process has died. What survived is `crash_image`.
        """
        if self._closed is not None:
            raise self._closed
        return self._image

    def crash_image(self) -> Image:
        """Return what a new engine would find if the process died now."""
        return self._image

    @contextmanager
    def locked_elsewhere(self) -> Generator[None]:
        """Let no batch begin, as if another process held the write lock."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._held:
            self._scheduled = True
            self._queue.token.run_sync_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._held:
            return
        batch = self._queue.claim(len(self._queue))
        stored = False
        try:
            stored = self._commit(batch)
        except StoreError as error:
            for write in batch:
                write.fail(type(error)(*error.args), error.__cause__)
        except Crash as crash:
            self._closed = crash
            for write in batch:
                write.fail(Crash(*crash.args), crash)
            self._queue.close(Crash(*crash.args))
        self._queue.settle(batch, stored=stored)

    def _commit(self, batch: list[Write]) -> bool:
        self._reach("batch.begin")
        writes = run_transactions(batch, self._image, _own_fault)
        for _, value in writes:
            self._reach("delete" if value is None else "put")
        if not writes:
            return False
        image = self._image.changed(writes)
        self._reach("commit.before")
        self._image = image
        self._reach("commit.after")
        return True

    def _reach(self, point: Point) -> None:
        if self._faults is not None:
            self._faults(point)
