"""The engine protocol: transactions, snapshots, and what the end of a write means.

A transaction is a plain function of a `Txn`. It has no clock, no randomness and no
I/O of its own (all of that is bound to it by its caller), so an engine may run it
again. It reads through an overlay: its writes become visible all together when it
returns, and not at all when it raises.

What a write may end as (contract C2, D18, D19):

- it returns: committed, and durable before anyone is told;
- the transaction's own exception: refused by a rule, nothing of it is stored;
- `Withdrawn`: it never began within its deadline, nothing of it is stored;
- `StoreFull`: the disk or the map is full, nothing of it is stored;
- `StoreReadOnly`, `StoreClosed`: nothing of it is stored;
- `StoreFailed`: the disk failed, and read-back shows that nothing of it is stored;
- `OutcomeInDoubt`: it began, and whether it was committed could not be read back.

Keys are 1 to 511 bytes and do not begin with a NUL byte: those are the engine's own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, Protocol, TypeVar

import msgspec

T = TypeVar("T")

KEY_BYTES_MAX: Final = 511  # LMDB's compiled-in limit
KEY_FIRST: Final = b"\x01"  # keys below it are the engine's own and never shown


class StoreError(Exception):
    """Something about the store itself, not about what was asked of it."""


class Withdrawn(StoreError):
    """The write never began before its deadline: nothing was stored.

    Somebody else held the store's write lock for all that time. The same write may be
    tried again unchanged.
    """


class StoreFull(StoreError):
    """The disk is full, or the map has reached its configured size.

    Nothing of this write was stored, and everything stored before is intact. Free space
    or configure a larger `map_bytes_max`, then try the same write again.
    """


class StoreReadOnly(StoreError):
    """The store's folder or file can't be written. Nothing was stored."""


class StoreClosed(StoreError):
    """The engine was closed before this write began. Nothing was stored."""


class StoreUnusable(StoreError):
    """The path can't be opened as a store: the sentence says why and what to do."""


class StoreFailed(StoreError):
    """The disk or its driver failed. Nothing of this write was stored: it was read back.

    Everything stored before is intact as far as the disk tells. The same write may be
    tried again, but find out first what is wrong with the disk; the cause is chained.
    """


class OutcomeInDoubt(StoreError):
    """A commit failed and what is on disk could not be read back.

    The write may or may not be stored. The engine is latched: every later write raises
    this too. Open the store again; opening reads back what was really committed.
    """


class ReadTxn(Protocol):
    """One unchanging view of the store, bytes to bytes, ordered by key."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value at `key`, or None."""
        ...

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(key, value)` for `start <= key < stop`, in key order or against it.

        The transaction must not write while it iterates: collect first.
        """
        ...


class Txn(ReadTxn, Protocol):
    """A read-write view: what this transaction wrote, over what was committed before it."""

    def put(self, key: bytes, value: bytes) -> None:
        """Set `key` to `value`."""
        ...

    def delete(self, key: bytes) -> None:
        """Remove `key`; no error if it is not there."""
        ...


Transaction = Callable[[Txn], T]
Done = Callable[[T | None, BaseException | None], None]


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine has done since it was opened."""

    batches: int
    """Batches that were run, whether or not they stored something."""
    transactions: int
    """Transactions in those batches, refused ones included."""
    withdrawn: int
    """Writes that never began: deadline, cancellation, or the engine was closed."""
    pending: int
    """Writes that wait to begin, at this moment."""
    failed_commits: int
    """Commits that failed and were read back."""
    map_bytes: int
    """The size up to which the store can grow without remapping; 0 if it has no map."""

    @property
    def mean_batch(self) -> float:
        """Transactions a batch, on average."""
        return self.transactions / self.batches if self.batches else 0.0


class Engine(Protocol):
    """A store of ordered bytes with group commit. One instance an open store.

    `write` and `aclose` are called in the trio loop that opened the engine; `read` from
    any thread.
    """

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        """Run `transaction` and commit it durably together with others; return its result.

        `deadline` is in the loop's `trio.current_time()`. Up to it the wait for the write
        lock is bounded (D18). Raises as the module says. Cancellation withdraws a
        transaction that has not begun; one that has begun is waited for, because its
        outcome is a fact by then (the cancellation is delivered at the next checkpoint).
        """
        ...

    def enqueue(
        self,
        transaction: Transaction[T],
        *,
        deadline: float,
        done: Done[T],
    ) -> None:
        """As `write`, but returns at once and calls `done(result, error)` later in the loop.

        Transactions run in the order in which they were enqueued. `done` must not raise,
        and is never called before `enqueue` has returned.
        """
        ...

    def read(self) -> AbstractContextManager[ReadTxn]:
        """Open a snapshot of what is committed, on the calling thread."""
        ...

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback()` in the loop after each batch that stored something,
        before the waiters of that batch run on."""
        ...

    def statistics(self) -> Statistics:
        """Return what this engine has done so far."""
        ...

    async def aclose(self) -> None:
        """Finish what has begun, refuse the rest with `StoreClosed`, close the file."""
        ...


_ABSENT: Final = object()


class Overlay:
    """A `Txn` over a `ReadTxn` or another `Txn`: holds writes back until they are applied.

    Keys are checked as they are written, so that a bad one fails the transaction that
    wrote it and not the batch that it shares.
    """

    __slots__ = ("_get", "_keys", "_scan", "_writes")

    def __init__(self, base: ReadTxn) -> None:
        self._get = base.get
        self._scan = base.scan
        self._writes: dict[bytes, bytes | None] = {}
        # The written keys in order, made when a scan needs them, which is seldom. Those not
        # in it yet are the last ones of `_writes`: a dict keeps the order of insertion.
        self._keys: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        """Return what this transaction wrote at `key`, or else what stands below."""
        if key in self._writes:
            return self._writes[key]
        return self._get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Set `key`, visible to this overlay only.

        Raises:
          ValueError: if `key` is not one that the store may hold.
          TypeError: if either is not bytes.
        """
        if key < KEY_FIRST or len(key) > KEY_BYTES_MAX:
            raise ValueError(f"not a key of the store: {key!r}")
        if value.__class__ is not bytes:
            raise TypeError(f"a value is bytes, not {type(value).__name__}")
        self._writes[key] = value

    def delete(self, key: bytes) -> None:
        """Remove `key`, visible to this overlay only. Raises as `put`."""
        if key < KEY_FIRST or len(key) > KEY_BYTES_MAX:
            raise ValueError(f"not a key of the store: {key!r}")
        self._writes[key] = None

    def absorb(self, upper: Overlay) -> None:
        """Take over the writes of an overlay that lies on this one."""
        self._writes.update(upper._writes)

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Merge the held-back writes into what stands below."""
        below = self._scan(start, stop, reverse=reverse)
        if not self._writes:
            return below
        keys = self._ordered()
        low = bisect_left(keys, start)
        mine = keys[low : bisect_left(keys, stop, low)] if start < stop else []
        if not mine:
            return below
        if reverse:
            mine.reverse()
        return self._merge(mine, below, reverse=reverse)

    def _ordered(self) -> list[bytes]:
        keys = self._keys
        fresh = list(islice(self._writes, len(keys), None))
        if len(fresh) * 8 < len(keys):
            for key in fresh:
                insort(keys, key)
        elif fresh:
            keys += fresh
            keys.sort()
        return keys

    def _merge(
        self, mine: list[bytes], below: Iterator[tuple[bytes, bytes]], *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        at = 0
        for key, value in below:
            while at < len(mine) and (mine[at] > key if reverse else mine[at] < key):
                written = self._writes[mine[at]]
                if written is not None:
                    yield mine[at], written
                at += 1
            if at < len(mine) and mine[at] == key:
                written = self._writes[key]
                if written is not None:
                    yield key, written
                at += 1
            else:
                yield key, value
        for key in mine[at:]:
            written = self._writes[key]
            if written is not None:
                yield key, written

    def writes(self) -> list[tuple[bytes, bytes | None]]:
        """Return each `(key, value)` in key order; a value of None is a removal."""
        return sorted(self._writes.items())

    @property
    def empty(self) -> bool:
        """True if nothing was written."""
        return not self._writes
