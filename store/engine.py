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
- `OutcomeInDoubt`: it began, and whether it was committed could not be read back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

T = TypeVar("T")


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
        done: Callable[[T | None, BaseException | None], None],
    ) -> None:
        """As `write`, but returns at once and calls `done(result, error)` in the loop.

        Transactions run in the order in which they were enqueued. `done` must not raise.
        """
        ...

    def read(self) -> AbstractContextManager[ReadTxn]:
        """Open a snapshot of what is committed, on the calling thread."""
        ...

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback()` in the loop after each batch that stored something,
        before the waiters of that batch run on."""
        ...

    async def aclose(self) -> None:
        """Finish what has begun, refuse the rest with `StoreClosed`, close the file."""
        ...


class Overlay:
    """A `Txn` over a `ReadTxn` or another `Txn`: holds writes back until they are applied."""

    __slots__ = ("_base", "_keys", "_writes")

    def __init__(self, base: ReadTxn) -> None:
        self._base = base
        self._writes: dict[bytes, bytes | None] = {}
        self._keys: list[bytes] = []  # the written keys in order, for scans

    def get(self, key: bytes) -> bytes | None:
        """Return what this transaction wrote at `key`, or else what stands below."""
        if key in self._writes:
            return self._writes[key]
        return self._base.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Set `key`, visible to this overlay only."""
        if key not in self._writes:
            insort(self._keys, key)
        self._writes[key] = value

    def delete(self, key: bytes) -> None:
        """Remove `key`, visible to this overlay only."""
        if key not in self._writes:
            insort(self._keys, key)
        self._writes[key] = None

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Merge the held-back writes into what stands below."""
        low = bisect_left(self._keys, start)
        high = bisect_left(self._keys, stop)
        mine = self._keys[low:high]
        below = self._base.scan(start, stop, reverse=reverse)
        if not mine:
            return below
        if reverse:
            mine.reverse()
        return self._merge(mine, below, reverse=reverse)

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

    def writes(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield `(key, value)` in key order; a value of None is a removal."""
        for key in self._keys:
            yield key, self._writes[key]

    @property
    def empty(self) -> bool:
        """True if nothing was written."""
        return not self._keys
