"""Our actors against pykka's threads: ask, tell, start and stop, and an idle actor's memory.

Every figure is taken in turn with its peer in the same run, because the machine's speed
wanders by more than what is compared: round after round, ours and theirs one after the
other, and the median of the rounds' ratios is what counts.

Pykka is measured twice. *As run* is how a program meets it, with the interpreter's threads
wherever the kernel puts them; *pinned* keeps the process on one core, which is pykka's best
case, since a switch of threads then never crosses cores. Ours runs unpinned.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pykka
import trio

from counterpoint.actors.kernel import (
    ActorSystem,
    TrioActor,
    ask,
    open_actor_system,
)

TELL_BURST_LEN = 1_000  # below the bound of our mailbox
ASK_TIMEOUT_SECONDS = 30.0
STARTED_TOGETHER = 100


class Size(NamedTuple):
    """How much of each to do."""

    rounds: int
    asks: int
    tells: int
    starts: int
    idle: int
    idle_threads: int


FULL = Size(rounds=7, asks=6_000, tells=60_000, starts=2_000, idle=100_000, idle_threads=2_000)
QUICK = Size(rounds=3, asks=1_000, tells=10_000, starts=300, idle=5_000, idle_threads=300)


class OursEcho(TrioActor):
    """Answers with what it was asked."""

    def on_receive(self, message: Any) -> Any:
        return message


class TheirsEcho(pykka.ThreadingActor):
    """Answers with what it was asked."""

    def on_receive(self, message: Any) -> Any:
        return message


@contextlib.contextmanager
def pinned() -> Generator[None]:
    """Keep this process, and the threads it starts, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def rate(count: int, started: float) -> float:
    """Return `count` per second since `started`."""
    return count / (time.perf_counter() - started)


async def our_asks(size: Size, callers: int, system: ActorSystem) -> float:
    """Return asks a second of one actor by `callers` tasks."""
    ref = OursEcho.start(system=system)

    async def call() -> None:
        for _ in range(size.asks // callers):
            await ask(ref, 1, timeout=ASK_TIMEOUT_SECONDS)

    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(callers):
            nursery.start_soon(call)
    per_second = rate(size.asks, started)
    await ref.stop(block=False)
    return per_second


def their_asks(size: Size) -> float:
    """Return asks a second of one pykka thread by this thread."""
    ref = TheirsEcho.start()
    started = time.perf_counter()
    for _ in range(size.asks):
        ref.ask(1, timeout=ASK_TIMEOUT_SECONDS)
    per_second = rate(size.asks, started)
    ref.stop()
    return per_second


async def our_tells(size: Size, system: ActorSystem) -> float:
    """Return tells a second, sent in bursts and all served."""
    ref = OursEcho.start(system=system)
    started = time.perf_counter()
    for _ in range(size.tells // TELL_BURST_LEN):
        for _ in range(TELL_BURST_LEN):
            ref.tell(1)
        await ask(ref, 1, timeout=ASK_TIMEOUT_SECONDS)
    per_second = rate(size.tells, started)
    await ref.stop(block=False)
    return per_second


def their_tells(size: Size) -> float:
    """Return tells a second, sent in the same bursts and all served."""
    ref = TheirsEcho.start()
    started = time.perf_counter()
    for _ in range(size.tells // TELL_BURST_LEN):
        for _ in range(TELL_BURST_LEN):
            ref.tell(1)
        ref.ask(1, timeout=ASK_TIMEOUT_SECONDS)
    per_second = rate(size.tells, started)
    ref.stop()
    return per_second


async def our_starts(size: Size, together: int, system: ActorSystem) -> float:
    """Return actors started and stopped a second, `together` of them at a time."""
    started = time.perf_counter()
    for _ in range(size.starts // together):
        refs = [OursEcho.start(system=system) for _ in range(together)]
        for stopped in [ref.stop(block=False) for ref in refs]:
            await stopped
    return rate(size.starts, started)


def their_starts(size: Size, together: int) -> float:
    """Return pykka threads started and stopped a second, `together` of them at a time."""
    started = time.perf_counter()
    for _ in range(size.starts // together):
        refs = [TheirsEcho.start() for _ in range(together)]
        for stopped in [ref.stop(block=False) for ref in refs]:
            stopped.get()
    return rate(size.starts, started)


Ours = Callable[[Size, ActorSystem], Awaitable[float]]
Theirs = Callable[[Size], float]


async def compare(name: str, size: Size, ours: Ours, theirs: Theirs, *, pin: bool) -> None:
    """Run both in turn and print the median rates and the median ratio."""
    our_rates: list[float] = []
    their_rates: list[float] = []
    async with open_actor_system() as system:
        for _ in range(size.rounds):
            gc.collect()
            our_rates.append(await ours(size, system))
            gc.collect()
            # Blocks this loop, on purpose: theirs should have the process to itself.
            with pinned() if pin else contextlib.nullcontext():
                their_rates.append(theirs(size))
    ratio = statistics.median(
        ours / theirs for ours, theirs in zip(our_rates, their_rates, strict=True)
    )
    peer = "pinned" if pin else "as run"
    print(
        f"{name:26} ours {statistics.median(our_rates):>11,.0f}/s   "
        f"pykka {peer} {statistics.median(their_rates):>9,.0f}/s   {ratio:6.2f} x"
    )


def resident_bytes() -> int:
    """Return what this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def our_idle(count: int) -> None:
    """Print the bytes an idle actor of ours holds, and leave the process."""
    async with open_actor_system() as system:
        gc.collect()
        before = resident_bytes()
        refs = [OursEcho.start(system=system) for _ in range(count)]
        await ask(refs[-1], 1, timeout=ASK_TIMEOUT_SECONDS)
        await trio.lowlevel.checkpoint()
        gc.collect()
        leave_with((resident_bytes() - before) // count)


def their_idle(count: int) -> None:
    """Print the bytes an idle pykka thread holds, and leave the process."""
    gc.collect()
    before = resident_bytes()
    refs = [TheirsEcho.start() for _ in range(count)]
    refs[-1].ask(1)
    gc.collect()
    leave_with((resident_bytes() - before) // count)


def leave_with(figure: int) -> None:
    """Print `figure` and end at once: nobody needs the actors stopped one by one."""
    print(figure, flush=True)
    os._exit(0)


def idle_bytes(who: str, count: int) -> int:
    """Return the bytes an idle actor holds, measured in a fresh process."""
    command = [sys.executable, "-m", "bench.actors", "--idle", who, str(count)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(size: Size) -> None:
    """Print every figure."""

    async def run() -> None:
        one, sixteen = _asks(1), _asks(16)
        await compare("ask, 1 caller", size, one, their_asks, pin=False)
        await compare("ask, 1 caller", size, one, their_asks, pin=True)
        await compare("ask, 16 callers", size, sixteen, their_asks, pin=True)
        await compare("tell", size, our_tells, their_tells, pin=False)
        await compare("tell", size, our_tells, their_tells, pin=True)
        for together in (1, STARTED_TOGETHER):
            name = f"start + stop, {together} at once"
            await compare(name, size, *_starts(together), pin=False)

    trio.run(run)
    ours = idle_bytes("ours", size.idle)
    theirs = idle_bytes("theirs", size.idle_threads)
    print(
        f"{'idle actor':26} ours {ours:>11,} B, one of {size.idle:,}   "
        f"pykka {theirs:,} B, one of {size.idle_threads:,}"
    )


def _asks(callers: int) -> Ours:
    return lambda size, system: our_asks(size, callers, system)


def _starts(together: int) -> tuple[Ours, Theirs]:
    return (
        lambda size, system: our_starts(size, together, system),
        lambda size: their_starts(size, together),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison; `--quick` for a look that takes seconds."""
    parser = argparse.ArgumentParser(prog="bench actors", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, rough figures")
    parser.add_argument("--idle", nargs=2, metavar=("WHO", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.idle is not None:
        who, count = options.idle[0], int(options.idle[1])
        if who == "ours":
            trio.run(our_idle, count)
        else:
            their_idle(count)
        return
    measure(QUICK if options.quick else FULL)


if __name__ == "__main__":
    main()
