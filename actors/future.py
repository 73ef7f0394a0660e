"""A reply that a thread may wait for with `get()` and a trio task with `await`.

Two sides meet here, possibly in two threads: one sets the future once, any number of
others wait. What they share changes under the future's own lock, held for a few
instructions; nobody is woken inside it.
"""

from __future__ import annotations

import functools
import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, cast

import pykka
import trio

from .waiting import TaskWaiter, Timeouts

T = TypeVar("T")
J = TypeVar("J")
M = TypeVar("M")
R = TypeVar("R")

ExcInfo: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
Result: TypeAlias = tuple[Any, ExcInfo | None]


class WouldBlockLoop(RuntimeError):
    """A thread that runs a trio loop was about to wait for a reply without trio.

    The loop would stand still for as long as that takes, and for good when the reply has
    to come from the same loop. Nothing was waited for. In a task, `await` the future or
    `await ask(...)`; in plain code on that thread, pass `block=False` and let a task wait.
    """


class TrioFuture(pykka.Future[T]):
    """A `pykka.Future`, set once from any thread, and read from any thread or trio task.

    In a trio task use `await future` or `await future.wait(timeout=...)`; in other threads
    `future.get(timeout=...)`. Giving up, by time-out or by cancellation, takes only that
    waiter away: the future stays valid, and the work behind it goes on.
    """

    _result: Result | None = None
    _waiters: list[Callable[[], object]] | None = None
    # Set together with the hook. Reentrant, as pykka's is: a hook may read its own future.
    _hook_lock: Any = None
    # The futures that the hook reads: once these are done, the hook does not block.
    _sources: tuple[pykka.Future[Any], ...] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        if self._get_hook is not None:
            return "<TrioFuture derived>"
        if self._result is None:
            return "<TrioFuture pending>"
        return "<TrioFuture set>" if self._result[1] is None else "<TrioFuture failed>"

    def done(self) -> bool:
        """Return whether `get()` would return or raise without waiting.

        A future with a get hook of the host's own is never done: only the hook knows.
        """
        leaves = self._leaves()
        return leaves is not None and all(leaf._result is not None for leaf in leaves)

    def get(self, *, timeout: float | None = None) -> T:
        """Return the value, waiting in this thread for at most `timeout` seconds.

        On a thread that runs a trio loop this never waits: a future that is done gives its
        value, `timeout=0` looks and does not wait, anything else is refused.

        Raises:
          pykka.Timeout: not set in time; what it stands for may still happen.
          WouldBlockLoop: this thread runs a trio loop and the future is not done.
          BaseException: the one that was set.
        """
        if self._get_hook is not None:
            return self._get_by_hook(timeout)
        if self._result is None:
            self._block(timeout)
        if self._get_hook is not None:  # set while this thread waited
            return self._get_by_hook(timeout)
        return self._reveal()

    async def wait(self, *, timeout: float | None = None) -> T:
        """Return the value, letting other tasks run meanwhile; always a checkpoint.

        `timeout` is in seconds. Any trio task in any loop may wait, and any number of them.
        Cancellation, like a time-out, leaves the future and the work behind it untouched.

        Raises:
          pykka.Timeout: not set in time; what it stands for may still happen.
          BaseException: the one that was set.
        """
        if self._get_hook is not None:
            return await self._wait_by_hook(timeout)
        if self._result is None:
            await self._park(timeout)
        else:
            await trio.lowlevel.checkpoint()
        if self._get_hook is not None:  # set while this task waited
            return await self._wait_by_hook(timeout)
        return self._reveal()

    def __await__(self) -> Generator[Any, Any, T]:
        """Wait as `wait()` does in a trio task; in another async library, as pykka does.

        That is, outside of trio this yields once and then blocks the thread in `get()`.
        """
        if trio.lowlevel.in_trio_task():
            return (yield from self.wait().__await__())
        yield
        return self.get()

    __iter__ = __await__

    def set(self, value: T | None = None) -> None:
        """Set the value and wake whoever waits; from any thread.

        Raises:
          queue.Full: the future was set before, or has a get hook.
        """
        self._settle((value, None))

    def set_exception(self, exc_info: ExcInfo | None = None) -> None:
        """Set an exception, by default the one being handled; from any thread.

        Raises:
          queue.Full: the future was set before, or has a get hook.
        """
        assert exc_info is None or len(exc_info) == 3
        self._settle((None, exc_info or sys.exc_info()))

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Let `func(timeout)` produce the value, in the thread of the first reader.

        An awaiting trio task runs it in a worker thread, since it may block.

        Raises:
          queue.Full: the future was set before.
        """
        with self._lock:
            if self._result is not None:
                raise queue.Full
            if self._hook_lock is None:
                self._hook_lock = threading.RLock()
            super().set_get_hook(func)
            waiters, self._waiters = self._waiters, None
        _wake(waiters)

    @staticmethod
    def derived(compute: Callable[[float | None], R], *sources: pykka.Future[Any]) -> TrioFuture[R]:
        """Return a future whose value is `compute(timeout)`, called once, by the first reader.

        `compute` may read `sources` and must not wait for anything else: it is called when
        all of them are done, with the time-out to pass on to their `get()`.
        """
        future = TrioFuture[R]()
        future.set_get_hook(compute)
        future._sources = sources
        return future

    def filter(
        self: pykka.Future[Iterable[J]], func: Callable[[J], bool]
    ) -> pykka.Future[Iterable[J]]:
        """Return a future with those items of this one's value that `func` accepts."""

        def compute(timeout: float | None) -> Iterable[J]:
            return list(filter(func, self.get(timeout=timeout)))

        return TrioFuture.derived(compute, self)

    def join(self: pykka.Future[Any], *futures: pykka.Future[Any]) -> pykka.Future[Iterable[Any]]:
        """Return a future with the list of this one's value and those of `futures`."""

        def compute(timeout: float | None) -> Iterable[Any]:
            return [future.get(timeout=timeout) for future in (self, *futures)]

        return TrioFuture.derived(compute, self, *futures)

    def map(self, func: Callable[[T], M]) -> pykka.Future[M]:
        """Return a future with `func(value)`."""

        def compute(timeout: float | None) -> M:
            return func(self.get(timeout=timeout))

        return TrioFuture.derived(compute, self)

    def reduce(
        self: pykka.Future[Iterable[J]], func: Callable[[R, J], R], *args: R
    ) -> pykka.Future[R]:
        """Return a future with the items of this one's value folded from the left."""

        def compute(timeout: float | None) -> R:
            return functools.reduce(func, self.get(timeout=timeout), *args)

        return TrioFuture.derived(compute, self)

    def _settle(self, result: Result) -> None:
        with self._lock:
            if self._result is not None or self._get_hook is not None:
                raise queue.Full
            self._result = result
            waiters, self._waiters = self._waiters, None
        _wake(waiters)

    def _reveal(self) -> T:
        assert self._result is not None
        value, exc_info = self._result
        if exc_info is None:
            return cast("T", value)
        exception_type, exception, traceback = exc_info
        assert exception_type is not None
        if exception is None:
            exception = exception_type()
        # Every reader raises the same object: give it back the traceback it was set with,
        # so that it does not grow by one reader's frames after another.
        raise exception.with_traceback(traceback)

    def _enlist(self, waiter: Callable[[], object]) -> bool:
        """Have `waiter` called when the future is set; false when it already is."""
        with self._lock:
            if self._result is not None or self._get_hook is not None:
                return False
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            return True

    def _dismiss(self, waiter: Callable[[], object]) -> None:
        with self._lock:
            if self._waiters is not None and waiter in self._waiters:
                self._waiters.remove(waiter)

    def _block(self, timeout: float | None) -> None:
        """Keep this thread until the future is set, or refuse to."""
        if timeout is not None and timeout <= 0:
            raise _timed_out(timeout)
        if trio.lowlevel.in_trio_run():
            raise WouldBlockLoop(
                "get() would keep a thread that runs a trio loop waiting: await the future there"
            )
        woken = threading.Lock()
        woken.acquire()
        if not self._enlist(woken.release):
            return
        in_time = False
        try:
            in_time = woken.acquire(
                timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            )
        finally:
            if not in_time:
                self._dismiss(woken.release)
        if not in_time and self._result is None:
            raise _timed_out(timeout)

    async def _park(self, timeout: float | None) -> None:
        """Park this task until the future is set or `timeout` seconds passed."""
        waiter = TaskWaiter()
        if not self._enlist(waiter):
            await trio.lowlevel.checkpoint()
            return

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            waiter.forget()
            self._dismiss(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        if timeout is None or timeout == math.inf:
            await trio.lowlevel.wait_task_rescheduled(abort)
            return
        timeouts = Timeouts.of_this_run()
        timeouts.add(waiter, timeout)
        try:
            await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            timeouts.discard(waiter, timeout)
        if self._result is None and self._get_hook is None:
            self._dismiss(waiter)
            raise _timed_out(timeout)

    def _leaves(self) -> list[TrioFuture[Any]] | None:
        """Return the futures that this one is read from; None when a hook may block."""
        if self._get_hook is None:
            return [self]
        if self._sources is None:
            return None
        leaves: list[TrioFuture[Any]] = []
        for source in self._sources:
            found = source._leaves() if isinstance(source, TrioFuture) else None
            if found is None:
                return None
            leaves += found
        return leaves

    def _get_by_hook(self, timeout: float | None) -> T:
        leaves = self._leaves()
        if leaves is not None:
            # Wait before taking the lock, so that whoever holds it does not wait.
            deadline = None if timeout is None else time.monotonic() + timeout
            for leaf in leaves:
                if leaf._result is None:
                    leaf._block(None if deadline is None else deadline - time.monotonic())
        elif trio.lowlevel.in_trio_run():
            if not self._hook_lock.acquire(blocking=False):
                raise WouldBlockLoop("another thread is in this future's get hook: await it here")
            self._hook_lock.release()
        with self._hook_lock:
            return super().get(timeout=timeout)

    async def _wait_by_hook(self, timeout: float | None) -> T:
        leaves = self._leaves()
        if leaves is None:
            get = functools.partial(self.get, timeout=timeout)
            return await trio.to_thread.run_sync(get, abandon_on_cancel=True)
        await trio.lowlevel.checkpoint()
        deadline = math.inf if timeout is None else trio.current_time() + timeout
        for leaf in leaves:
            if leaf._result is None:
                await leaf._park(deadline - trio.current_time())
        return self.get(timeout=0)


def _wake(waiters: Iterable[Callable[[], object]] | None) -> None:
    for waiter in waiters or ():
        waiter()


def _timed_out(timeout: float | None) -> pykka.Timeout:
    return pykka.Timeout(f"{timeout} seconds")
