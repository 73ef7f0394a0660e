"""The writes that wait to begin, seen from the trio loop.

A write is *pending* until somebody claims it; from then on it has *begun*. Only a
pending write can be withdrawn: by its deadline, by cancellation, or because the engine
is closed. `claim` is the one place where the two meet, and the only method that may be
called from another thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Final, TypeVar

import msgspec
import trio

from .engine import Done, Overlay, ReadTxn, Statistics, Transaction, Withdrawn

T = TypeVar("T")

PENDING_MAX: Final = 16_384
"""Writes that may wait at a time; one more is `Withdrawn` at once."""

ALARM_STEP_S: Final = 0.001
"""Overdue writes are looked for at most this often, so that many deadlines cost one pass."""

log = logging.getLogger(__name__)


class Write(msgspec.Struct, eq=False):
    """One transaction on its way: who waits for it and what became of it."""

    transaction: Transaction[Any]
    deadline: float
    task: trio.lowlevel.Task | None = None
    done: Done[Any] | None = None
    result: Any = None
    error: BaseException | None = None

    def fail(self, error: BaseException, cause: BaseException | None = None) -> None:
        """Settle as `error`. Each write needs its own: it is raised in its own task."""
        self.result = None
        self.error = error
        if cause is not None:
            error.__cause__ = cause


def run_transactions(
    batch: list[Write], base: ReadTxn, own_fault: Callable[[Exception], Exception | None]
) -> list[tuple[bytes, bytes | None]]:
    """Run each transaction of `batch` over `base`, and return what they all wrote.

    In key order, and each key once. A transaction sees what those before it wrote. One
    that raises leaves nothing but what `own_fault` makes of its error; if that is None,
    the store is to blame, and the run ends with the error.
    """
    whole = Overlay(base)
    for write in batch:
        mine = Overlay(whole)
        write.error = None
        try:
            write.result = write.transaction(mine)
        except Exception as error:
            blame = own_fault(error)
            if blame is None:
                raise
            write.fail(blame)
        else:
            whole.absorb(mine)
    return whole.writes()


class WriteQueue:
    """Collects writes, withdraws those whose time is up, and wakes their waiters.

    Everything but `claim` is called in the loop in which the queue was made.
    """

    def __init__(self, *, pending_max: int = PENDING_MAX) -> None:
        self._pending: deque[Write] = deque()
        self._pending_max = pending_max
        # Held to claim and to withdraw, never to enqueue: appending to a deque is atomic.
        self._claiming = threading.Lock()
        self._begun = 0  # claimed and not yet settled
        self._closed: BaseException | None = None
        self._on_commit: list[Callable[[], None]] = []
        self._token = trio.lowlevel.current_trio_token()
        self._now = trio.lowlevel.current_clock().current_time
        self._batches = self._transactions = self._withdrawn = 0
        # One alarm for all writes. It is set when a write is due earlier than it, which in
        # a steady stream is once in the time that writes are given, not once a write.
        self._alarm = trio.CancelScope()
        self._alarm_at = inf
        trio.lowlevel.spawn_system_task(self._watch)

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def begun(self) -> int:
        """Writes that were claimed and are not settled."""
        return self._begun

    @property
    def token(self) -> trio.lowlevel.TrioToken:
        """The loop that this queue belongs to."""
        return self._token

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        """Wait until `transaction` is committed and return its result, as `Engine.write`."""
        refusal = self._refusal(deadline)
        if refusal is not None:
            await trio.lowlevel.checkpoint()
            raise refusal
        write = Write(transaction, deadline, trio.lowlevel.current_task())
        self._pending.append(write)
        if deadline < self._alarm_at:
            self._set_alarm(deadline)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            withdrawn = self._withdraw(write)
            return trio.lowlevel.Abort.SUCCEEDED if withdrawn else trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if write.error is not None:
            try:
                raise write.error
            finally:
                del write, abort  # the traceback would hold them, and they the traceback
        result: T = write.result
        return result

    def enqueue(self, transaction: Transaction[T], *, deadline: float, done: Done[T]) -> None:
        """Queue `transaction`, as `Engine.enqueue`."""
        refusal = self._refusal(deadline)
        if refusal is not None:
            write = Write(transaction, deadline, done=done)
            self._token.run_sync_soon(self._wake, write, refusal)
            return
        self._pending.append(Write(transaction, deadline, None, done))
        if deadline < self._alarm_at:
            self._set_alarm(deadline)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback()` after each batch that stored something."""
        self._on_commit.append(callback)

    def claim(self, batch_max: int) -> list[Write]:
        """Begin up to `batch_max` writes, oldest first. From any thread."""
        with self._claiming:
            pending = self._pending
            # One by one: the loop may append while this thread is here.
            batch = [pending.popleft() for _ in range(min(len(pending), batch_max))]
            self._begun += len(batch)
            return batch

    def settle(self, batch: list[Write], *, stored: bool) -> None:
        """Tell the waiters of `batch`, whose writes carry their outcome."""
        self._begun -= len(batch)
        if batch:
            self._batches += 1
            self._transactions += len(batch)
        if stored:
            for callback in self._on_commit:
                try:
                    callback()
                except Exception:
                    log.exception("a callback of on_commit failed")
        reschedule = trio.lowlevel.reschedule
        for write in batch:
            if write.task is not None:
                reschedule(write.task)
            else:
                self._wake(write)

    def close(self, why: BaseException) -> None:
        """Refuse what is pending and all that comes, with errors like `why`."""
        self._closed = why
        for write in tuple(self._pending):
            if self._withdraw(write):
                self._wake(write, self._refusal(inf))
        self._alarm_at = -inf
        self._alarm.cancel()

    def statistics(self, *, failed_commits: int = 0, map_bytes: int = 0) -> Statistics:
        """Count what went through this queue."""
        return Statistics(
            batches=self._batches,
            transactions=self._transactions,
            withdrawn=self._withdrawn,
            pending=len(self._pending),
            failed_commits=failed_commits,
            map_bytes=map_bytes,
        )

    def _refusal(self, deadline: float) -> BaseException | None:
        """Return why a write can't even be queued, or None."""
        if self._closed is not None:
            return type(self._closed)(*self._closed.args)
        if deadline <= self._now():
            return Withdrawn("the deadline had passed before the write was queued")
        if len(self._pending) >= self._pending_max:
            return Withdrawn(f"{self._pending_max} writes wait already")
        return None

    def _set_alarm(self, deadline: float) -> None:
        self._alarm.deadline = self._alarm_at = deadline

    def _withdraw(self, write: Write) -> bool:
        with self._claiming:
            try:
                self._pending.remove(write)
            except ValueError:
                return False  # it has begun
        self._withdrawn += 1
        return True

    def _wake(self, write: Write, error: BaseException | None = None) -> None:
        if error is not None:
            write.fail(error)
        if write.task is not None:
            trio.lowlevel.reschedule(write.task)
            return
        assert write.done is not None
        try:
            write.done(write.result, write.error)
        except Exception:
            # The others of the batch must be told all the same.
            log.exception("a `done` callback failed")

    async def _watch(self) -> None:
        while self._closed is None:
            with trio.CancelScope(deadline=self._alarm_at) as self._alarm:
                await trio.sleep_forever()
            self._withdraw_overdue()

    def _withdraw_overdue(self) -> None:
        now = self._now()
        next_at = inf
        for write in tuple(self._pending):
            if write.deadline > now:
                next_at = min(next_at, write.deadline)
            elif self._withdraw(write):
                self._wake(
                    write,
                    Withdrawn(
                        "the store was busy until the deadline: another process or an "
                        "earlier batch held it"
                    ),
                )
        self._alarm_at = max(next_at, now + ALARM_STEP_S)


class QueuedEngine:
    """The part of an `Engine` that is its queue."""

    def __init__(self) -> None:
        self._queue = WriteQueue()

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        """See `Engine.write`."""
        return await self._queue.write(transaction, deadline=deadline)

    def enqueue(self, transaction: Transaction[T], *, deadline: float, done: Done[T]) -> None:
        """See `Engine.enqueue`."""
        self._queue.enqueue(transaction, deadline=deadline, done=done)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """See `Engine.on_commit`."""
        self._queue.on_commit(callback)
