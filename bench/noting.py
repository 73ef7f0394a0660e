"""An engine in front of another that passes everything on, and notes what was written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from counterpoint.store.engine import Done, Engine, ReadTxn, Statistics, Transaction

T = TypeVar("T")


class NotingEngine(ABC):
    """An `Engine` that passes everything on; what it notes of a transaction its subclass says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @abstractmethod
    def noting(self, transaction: Transaction[T]) -> Transaction[T]:
        """Return `transaction`, made to note what it wrote."""

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        """See `Engine.write`."""
        return await self._engine.write(self.noting(transaction), deadline=deadline)

    def enqueue(self, transaction: Transaction[T], *, deadline: float, done: Done[T]) -> None:
        """See `Engine.enqueue`."""
        self._engine.enqueue(self.noting(transaction), deadline=deadline, done=done)

    def read(self) -> AbstractContextManager[ReadTxn]:
        """See `Engine.read`."""
        return self._engine.read()

    def on_commit(self, callback: Callable[[], None]) -> None:
        """See `Engine.on_commit`."""
        self._engine.on_commit(callback)

    def statistics(self) -> Statistics:
        """See `Engine.statistics`."""
        return self._engine.statistics()

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        await self._engine.aclose()
