"""How long a trio loop stands still, as something else on the same loop would notice.

A timer of the kernel is due every few milliseconds and the loop is told of it as of any
other I/O; how late the loop gets to it is how long it stood still. That counts all that
keeps a loop from its work, whoever does: a long pass, a wait for the GIL, a sleep in an
instrument. Instants that a long stand-still skipped count too, each with its own delay, so
the figures are shares of the time and not of the passes.

Beside it an instrument takes the processor time of every pass, which other programs of the
machine can hardly disturb, and of every pass of Python's garbage collector, which stops the
loop in whichever thread it runs.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import time
from collections.abc import Generator
from contextlib import contextmanager

import trio

PERIOD_NS = 2_300_000
"""Prime to the usual milliseconds of other timers. Costs the loop one or two percent."""

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("first", _TimeSpec))


def _open_timer(first_ns: int, period_ns: int) -> int:
    """Return a descriptor that is readable at `first_ns` and every `period_ns` after it."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    second = 1_000_000_000
    spec = _TimerSpec(
        _TimeSpec(period_ns // second, period_ns % second),
        _TimeSpec(first_ns // second, first_ns % second),
    )
    if libc.timerfd_settime(fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None):
        os.close(fd)
        raise OSError(ctypes.get_errno(), "timerfd_settime")
    return fd


class LoopWatch(trio.abc.Instrument):
    """What was seen of one loop. Everything in seconds."""

    def __init__(self) -> None:
        self.stood_still: list[float] = []
        self.pass_cpu: list[float] = []
        self.collector_cpu: list[float] = []
        self._pass_began: float | None = None
        self._collection_began = 0.0

    def after_io_wait(self, timeout: float) -> None:
        """A pass begins."""
        self._pass_began = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        """A pass ends."""
        if self._pass_began is not None:
            self.pass_cpu.append(time.thread_time() - self._pass_began)

    def collector(self, phase: str, _: dict[str, int]) -> None:
        """The garbage collector starts or stops."""
        if phase == "start":
            self._collection_began = time.thread_time()
        else:
            self.collector_cpu.append(time.thread_time() - self._collection_began)

    async def follow_timer(self) -> None:
        """Note how late each instant is served, until cancelled."""
        due_ns = time.monotonic_ns() + PERIOD_NS
        fd = _open_timer(due_ns, PERIOD_NS)
        try:
            while True:
                await trio.lowlevel.wait_readable(fd)
                try:
                    instants = int.from_bytes(os.read(fd, 8), "little")
                except OSError as error:
                    if error.errno == errno.EAGAIN:
                        continue
                    raise
                now_ns = time.monotonic_ns()
                for _ in range(instants):
                    self.stood_still.append((now_ns - due_ns) / 1e9)
                    due_ns += PERIOD_NS
        finally:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


@contextmanager
def watched(nursery: trio.Nursery) -> Generator[LoopWatch]:
    """Watch the loop of `nursery` for the time of the block."""
    watch = LoopWatch()
    nursery.start_soon(watch.follow_timer)
    trio.lowlevel.add_instrument(watch)
    gc.callbacks.append(watch.collector)
    try:
        yield watch
    finally:
        gc.callbacks.remove(watch.collector)
        trio.lowlevel.remove_instrument(watch)
