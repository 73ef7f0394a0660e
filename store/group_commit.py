"""Group commit by hand-over: the loop collects, one thread commits.

Writes collect on the trio loop. Whenever no batch is in flight, the loop lets the one
writer thread go; the thread claims everything that waits, runs it as one batch, and
wakes all waiters in one hop. So a batch grows to the number of callers by itself.

Two things happen in a trio instrument's `before_io_wait`, which the loop calls once a
pass, with the time that it is about to sleep (0 when tasks are runnable):

- *The hand-over.* Not at the first write, but when the loop has nothing else to do: the
  tasks that this pass made runnable may be about to write too. A loop that is always
  busy hands over after a few passes all the same.
- *The GIL hook.* CPython gives a waiting thread the GIL only after the holder has kept
  it for a whole switch interval (5 ms), and trio lets go of it every pass, so a busy
  loop starves the thread: two commits a second were measured instead of thousands. The
  hook sleeps a moment each pass while a batch is in flight.

Crossings between loop and thread, all of them: `_go` (a lock used as a semaphore: the
loop releases it, the thread acquires it), `WriteQueue.claim`, the flags `_blocked` and
`_closed` (each written by one side), and `run_sync_soon` back into the loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from .engine import OutcomeInDoubt, StoreClosed
from .write_lock import WriteLock
from .write_queue import Write, WriteQueue

BATCH_MAX: Final = 1_024
"""Transactions in one batch: bounds the time that a batch holds the lock."""

BUSY_PASSES_MAX: Final = 3
"""Passes that a busy loop gets to add to a batch: an ask and its answer take two."""

GIL_YIELD_S: Final = 0.000_03
"""The GIL hook's sleep; the kernel's timer slack makes about 80 us of it."""

log = logging.getLogger(__name__)


class GroupCommit(trio.abc.Instrument):
    """The loop's side and the thread's side of handing batches over.

    Made, used and closed in one trio loop. `commit` runs a batch in the writer thread,
    under `lock`: it gives each write its outcome and returns True if anything was stored.
    The thread closes `lock` when it ends.
    """

    def __init__(
        self, lock: WriteLock, commit: Callable[[list[Write]], bool], queue: WriteQueue
    ) -> None:
        self._lock = lock
        self._commit = commit
        self._queue = queue
        self._in_flight = False
        self._blocked = False  # the thread waits for another process
        self._closed = False
        self._idle = trio.Event()
        self._passes = 0
        self._go = threading.Lock()
        self._go.acquire()
        trio.lowlevel.add_instrument(self)
        threading.Thread(target=self._serve, name="counterpoint-writer", daemon=True).start()

    async def aclose(self) -> None:
        """Refuse what waits, and wait for the batch that has begun.

        A batch that is still blocked by another process has not begun: its thread is left
        behind. When it gets the lock it gives it back at once and ends; until then it
        touches nothing but the lock file.
        """
        if self._closed:
            return
        self._closed = True
        self._queue.close(StoreClosed("the store was closed before this write began"))
        if self._queue.begun:
            with trio.CancelScope(shield=True):
                await self._idle.wait()
        if not self._in_flight:
            self._go.release()
        try:
            trio.lowlevel.remove_instrument(self)
        except KeyError:
            log.exception("the hand-over instrument had been removed from the loop")

    def before_io_wait(self, timeout: float) -> None:
        """Hand over, or yield the GIL. See the module.

        trio removes an instrument that raises, and then no write would ever begin, so
        nothing here can.
        """
        if self._in_flight:
            if timeout <= 0 and not self._blocked:
                time.sleep(GIL_YIELD_S)
        elif self._queue:
            if timeout <= 0 and self._passes < BUSY_PASSES_MAX:
                self._passes += 1
                return
            self._passes = 0
            self._in_flight = True
            self._go.release()

    def _finish(self, batch: list[Write], stored: bool) -> None:
        self._in_flight = False
        self._queue.settle(batch, stored=stored)
        if self._closed:
            self._idle.set()

    def _serve(self) -> None:
        """Run batches until closed. The writer thread."""
        batch: list[Write] = []
        try:
            while True:
                self._go.acquire()
                if self._closed:
                    return
                batch = []
                stored = self._turn(batch)
                self._queue.token.run_sync_soon(self._finish, batch, stored)
                if self._closed:
                    return
        except trio.RunFinishedError:
            pass  # the loop ended without closing the engine: nobody is left to tell
        except BaseException as error:
            # A bug of ours, or the lock file failed. Nobody may wait for this thread.
            with suppress(trio.RunFinishedError):
                self._queue.token.run_sync_soon(self._died, batch, error)
            raise
        finally:
            self._lock.close()

    def _turn(self, batch: list[Write]) -> bool:
        """Wait for the lock file, then move what waits into `batch` and commit it."""
        if not self._lock.try_lock():
            self._blocked = True
            self._lock.lock()
            self._blocked = False
        try:
            batch += self._queue.claim(BATCH_MAX)
            return bool(batch) and self._commit(batch)
        finally:
            self._lock.unlock()

    def _died(self, batch: list[Write], error: BaseException) -> None:
        why = OutcomeInDoubt("the writer thread died; open the store again")
        for write in batch:
            write.fail(OutcomeInDoubt(*why.args), error)
        self._queue.close(why)
        self._finish(batch, stored=False)
