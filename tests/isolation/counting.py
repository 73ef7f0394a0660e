"""An engine that counts what is asked of it, so that two questions can be compared.

What a question costs is what somebody with a clock could tell it by: reads of a snapshot,
reads within a transaction, and transactions, which wait for the lock and the disk.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import msgspec

from counterpoint.store.engine import Done, ReadTxn, Statistics, Transaction, Txn
from counterpoint.store.memory_engine import MemoryEngine

T = TypeVar("T")


class Cost(msgspec.Struct):
    """How often each thing was done."""

    snapshots: int = 0
    gets: int = 0
    scans: int = 0
    transactions: int = 0


class _Counted:
    """A view that counts; what it is a view of decides what is seen."""

    def __init__(self, txn: ReadTxn, cost: Cost) -> None:
        self._below = txn
        self._cost = cost

    def get(self, key: bytes) -> bytes | None:
        self._cost.gets += 1
        return self._below.get(key)

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self._cost.scans += 1
        return self._below.scan(start, stop, reverse=reverse)


class _CountedTxn(_Counted):
    def __init__(self, txn: Txn, cost: Cost) -> None:
        super().__init__(txn, cost)
        self.put = txn.put
        self.delete = txn.delete


class CountingEngine:
    """A `MemoryEngine` that counts."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self._cost = Cost()

    @contextmanager
    def counted(self) -> Generator[Cost]:
        """Count what is done inside."""
        before, self._cost = self._cost, Cost()
        try:
            yield self._cost
        finally:
            self._cost = before

    def _counting(self, transaction: Transaction[T]) -> Transaction[T]:
        self._cost.transactions += 1
        return lambda txn: transaction(_CountedTxn(txn, self._cost))

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        return await self.engine.write(self._counting(transaction), deadline=deadline)

    def enqueue(self, transaction: Transaction[T], *, deadline: float, done: Done[T]) -> None:
        self.engine.enqueue(self._counting(transaction), deadline=deadline, done=done)

    def read(self) -> AbstractContextManager[ReadTxn]:
        return self._read()

    @contextmanager
    def _read(self) -> Generator[ReadTxn]:
        self._cost.snapshots += 1
        with self.engine.read() as txn:
            yield _Counted(txn, self._cost)

    def on_commit(self, callback: Callable[[], None]) -> None:
        self.engine.on_commit(callback)

    def statistics(self) -> Statistics:
        return self.engine.statistics()

    async def aclose(self) -> None:
        await self.engine.aclose()
