"""A reply that a thread may wait for with `get()` and a trio task with `await`.

Two sides meet here, possibly in two threads: one sets the future once, any number of
others wait. There is no lock. What they share is one list, changed only by operations that
the interpreter makes whole, and one order on each side:

- the setter takes the right to set out of the list, writes the result, wakes who is in it;
- a waiter puts itself into the list, and then looks for the result before it sleeps.

Whichever comes second sees the other.
"""

from __future__ import annotations

import functools
import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, cast

import pykka
import trio
from trio.lowlevel import wait_task_rescheduled

from .waiting import Loop, TaskWaiter

T = TypeVar("T")
J = TypeVar("J")
M = TypeVar("M")
R = TypeVar("R")

ExcInfo: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
Result: TypeAlias = tuple[Any, ExcInfo | None]
Waiters: TypeAlias = list[Callable[[], object]]


def _right_to_set() -> None:
    """Stand first in a future's waiters until somebody set it."""


# In place of a result: the get hook makes it.
_BY_HOOK: Result = (None, None)


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

    # Pykka's own state, on the class: only futures with a hook have it on themselves.
    _get_hook: Callable[[float | None], T] | None = None

    _result: Result | None = None
    # Reentrant, as pykka's is: a hook may read its own future.
    _hook_lock: Any = None
    # The futures that the hook reads: once these are done, the hook does not block.
    _sources: tuple[pykka.Future[Any], ...] | None = None

    def __init__(self) -> None:
        self._waiters: Waiters = [_right_to_set]

    def __repr__(self) -> str:
        if self._result is None:
            return "<TrioFuture pending>"
        if self._result is _BY_HOOK:
            return "<TrioFuture by hook>"
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
        if self._result is None:
            self._block(timeout)
        if self._result is _BY_HOOK:
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
        if self._result is None:
            loop = Loop.current()
            waiter = TaskWaiter(loop)
            self._waiters.append(waiter)

            def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
                self._dismiss(waiter)
                return trio.lowlevel.Abort.SUCCEEDED

            if self._result is not None:  # set by another thread since we looked
                self._dismiss(waiter)
                await trio.lowlevel.checkpoint()
            elif timeout is None or timeout == math.inf:
                await wait_task_rescheduled(abort)
            else:
                queue_of_timeout = loop.expect(waiter, timeout)
                try:
                    await wait_task_rescheduled(abort)
                finally:
                    queue_of_timeout.pop(waiter, None)
                if self._result is None:
                    self._dismiss(waiter)
                    raise _timed_out(timeout)
        else:
            await trio.lowlevel.checkpoint()
        if self._result is _BY_HOOK:
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
        # `_settle`, spelled out: this is on the path of every ask.
        waiters = self._waiters
        try:
            waiters.remove(_right_to_set)
        except ValueError:
            raise queue.Full from None
        self._result = (value, None)
        if waiters:
            _wake(waiters)

    def set_exception(self, exc_info: ExcInfo | None = None) -> None:
        """Set an exception, by default the one being handled; from any thread.

        Raises:
          queue.Full: the future was set before, or has a get hook.
        """
        assert exc_info is None or len(exc_info) == 3
        self._settle((None, exc_info or sys.exc_info()))

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Let `func(timeout)` produce the value, in the thread of the first reader.

        A trio task that awaits it has it run in a worker thread, since it may block.

        Raises:
          queue.Full: the future was set before.
        """
        if self._result is not _BY_HOOK:
            self._hook_lock = threading.RLock()
            super().__init__()
            self._get_hook = func
            self._settle(_BY_HOOK)
        self._get_hook = func

    @staticmethod
    def derived(compute: Callable[[float | None], R], *sources: pykka.Future[Any]) -> TrioFuture[R]:
        """Return a future whose value is `compute(timeout)`, called once, by the first reader.

        `compute` may read `sources` and must not wait for anything else: it is called when
        all of them are done, with the time-out to pass on to their `get()`.
        """
        future: TrioFuture[R] = TrioFuture()
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
        waiters = self._waiters
        try:
            waiters.remove(_right_to_set)
        except ValueError:
            raise queue.Full from None
        self._result = result
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

    def _dismiss(self, waiter: Callable[[], object]) -> None:
        if isinstance(waiter, TaskWaiter):
            waiter.forget()
        with suppress(ValueError):
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
        self._waiters.append(woken.release)
        try:
            if self._result is None:
                woken.acquire(
                    timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)
                )
        finally:
            self._dismiss(woken.release)
        if self._result is None:
            raise _timed_out(timeout)

    def _leaves(self) -> list[TrioFuture[Any]] | None:
        """Return the futures that this one is read from; None when a hook may block."""
        if self._result is not _BY_HOOK:
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
        deadline = math.inf if timeout is None else trio.current_time() + timeout
        for leaf in leaves:
            try:
                await leaf.wait(timeout=deadline - trio.current_time())
            except Exception:
                if leaf._result is None:
                    raise
        return self.get(timeout=0)


def _wake(waiters: Waiters) -> None:
    for waiter in list(waiters):  # a copy: others may take themselves out meanwhile
        waiter()
    waiters.clear()


def _timed_out(timeout: float | None) -> pykka.Timeout:
    return pykka.Timeout(f"{timeout} seconds")
