"""Who looks into the memory map, so that it is replaced only when nobody does.

LMDB may change the size of its map only while no transaction is open in this process.
Every transaction passes this gate; growing waits for a moment without any. Transactions
are short, so such moments are frequent; newcomers are never held up by the wait itself,
only for the moment of the change.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import get_ident
from time import monotonic
from weakref import WeakSet

from .engine import StoreClosed, StoreError

_gates: WeakSet[MapGate] = WeakSet()


class MapGate:
    """Counts open transactions by thread. From any thread."""

    __slots__ = (
        "__weakref__",
        "_changed",
        "_changing",
        "_closed",
        "_mutex",
        "_open",
        "_when_empty",
    )

    def __init__(self) -> None:
        self._renew()
        self._closed: StoreError | None = None
        _gates.add(self)

    def _renew(self) -> None:
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._open: dict[int, int] = {}
        self._changing = False
        self._when_empty: Callable[[], None] | None = None

    def enter(self) -> int:
        """Come in, and return what `leave` wants back.

        Raises:
          StoreError: the one that `close` was given.
        """
        thread = get_ident()
        with self._mutex:
            if self._closed is not None:
                raise type(self._closed)(*self._closed.args)
            while self._changing:
                self._changed.wait()
            self._open[thread] = self._open.get(thread, 0) + 1
        return thread

    def leave(self, thread: int) -> None:
        """Go out again; from any thread."""
        when_empty = None
        with self._mutex:
            left = self._open[thread] - 1
            if left:
                self._open[thread] = left
            else:
                del self._open[thread]
                if not self._open:
                    self._changed.notify_all()
                    when_empty, self._when_empty = self._when_empty, None
        if when_empty is not None:
            when_empty()

    @contextmanager
    def alone(self, wait_s: float) -> Generator[bool]:
        """Hold everybody out, waiting up to `wait_s` for those inside to leave.

        Yields False, and holds nobody out, if they did not leave in time, or if this very
        thread is inside and would wait for itself.
        """
        with self._mutex:
            until = monotonic() + wait_s
            while self._open or self._changing:
                left = until - monotonic()
                if left <= 0 or get_ident() in self._open or not self._changed.wait(left):
                    break
            mine = not self._open and not self._changing
            if mine:
                self._changing = True
        try:
            yield mine
        finally:
            if mine:
                with self._mutex:
                    self._changing = False
                    self._changed.notify_all()

    def close(self, why: StoreError, when_empty: Callable[[], None]) -> None:
        """Let nobody in any more, and call `when_empty` once the last one has left."""
        with self._mutex:
            if self._closed is not None:
                return
            self._closed = why
            if self._open:
                self._when_empty = when_empty
                return
        when_empty()

    def shut_after_fork(self) -> None:
        """Let nobody in: LMDB's files and its reader's slots belong to the parent."""
        self._renew()  # a thread that is not here any more may have held the mutex
        self._closed = StoreClosed(
            "the store was open when this process was forked, and can't be used in the child; "
            "start the process anew instead (multiprocessing: 'spawn')"
        )


def _after_fork_in_child() -> None:
    for gate in _gates:
        gate.shut_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
