"""Durable admissions: rate, delay and batch against raw LMDB, and how long the loop stood still.

Every row goes round after round, raw LMDB and we in turn, because the machine's speed
wanders by more than what is compared. Raw LMDB writes the records of real admissions, with
as many of them a transaction as there are callers (see `admission_records`).

All of it is done twice, the second time in a child process whose flushes each take 1 ms
longer (see `flush_delay`): many disks are slower than the one that one develops on.

Three kinds of row: *admit* is what the goals are about, `Runtime.submit` with runs that
start and then wait until the clock has stopped; *admit + end*, where each run ends at once,
so that its end shares the batches; *store alone*, the rule through the engine, with no API,
no actor and no run, which tells where the time goes.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgspec
import trio

from . import flush_delay
from .admission_load import Kind, Load, Slice, idle, record, through_api, through_store
from .admission_records import Raw, write_raw
from .admission_report import Goal, Round, Row, goals, quantile, row, table

DELAY_US = 1_000


class Size(NamedTuple):
    """How much of each to do."""

    rounds: int
    admissions: dict[int, int]
    """In a slice, by the number of callers; fewer than the 2,000 live runs of a process."""
    idle_s: float


FULL = Size(rounds=9, admissions={1: 400, 16: 1_600, 64: 1_920, 256: 1_792}, idle_s=2.0)
QUICK = Size(rounds=2, admissions={1: 80, 16: 320, 64: 960, 256: 1_024}, idle_s=0.5)
TINY = Size(rounds=1, admissions={1: 3, 4: 12}, idle_s=0.05)
"""For the test of this bench."""

BUSY_MS = (0.05, 0.5)


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured."""

    rows: list[Row]
    idle_stood_still_p99_ms: float
    """The floor: an open runtime with nothing to do."""
    flushes_a_commit: float | None
    """Counted where the shim is loaded."""
    records: dict[str, dict[str, float]]
    """What an admission puts: puts and bytes by the first letter of the key."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is written as JSON."""

    bench: str
    quick: bool
    machine: dict[str, Any]
    client_ids: str
    results: list[Results]
    goals: list[Goal]
    skipped: list[str]


def loads(size: Size) -> list[Load]:
    """Return every row, in the order in which a round takes them."""
    callers = list(size.admissions)
    busiest = 64 if 64 in callers else callers[-1]
    found = [Load(Kind.PARKED, many, size.admissions[many]) for many in callers]
    found += [
        Load(Kind.PARKED, busiest, size.admissions[busiest], busy_ms=turn, seconds_max=2.0)
        for turn in BUSY_MS
    ]
    found.append(Load(Kind.ENDING, busiest, size.admissions[busiest]))
    found += [Load(Kind.STORE, many, size.admissions[many]) for many in (1, busiest)]
    return found


def measure(size: Size, *, in_order: bool, delay_ms: float, work: Path, say: Say) -> Results:
    """Measure every row in this process."""
    most = max(size.admissions.values())
    say("recording what admissions write")
    load = Load(Kind.PARKED, 64, most, seconds_max=600.0)
    recorded = trio.run(functools.partial(record, work / "recorded", load, in_order=in_order))
    floor: list[float] = []
    rounds: defaultdict[Load, list[Round]] = defaultdict(list)
    flushes_a_commit: float | None = None
    for number in range(size.rounds):
        floor += trio.run(idle, _new(work), size.idle_s)
        for load in loads(size):
            say(f"round {number + 1} of {size.rounds}: {load.kind}, {load.callers} callers")
            raw: Raw | None = None
            if not load.busy_ms:
                before = flush_delay.flushes()
                raw = write_raw(_new(work), recorded, load.admissions, load.callers)
                after = flush_delay.flushes()
                if before is not None and after is not None:
                    # the two that a new store takes aside
                    flushes_a_commit = (after - before) / (len(raw.commit_s) + 1)
            rounds[load].append(Round(ours=_slice(load, _new(work), in_order), raw=raw))
    return Results(
        rows=[row(load, delay_ms, slices) for load, slices in rounds.items()],
        idle_stood_still_p99_ms=quantile(floor, 0.99) * 1e3,
        flushes_a_commit=flushes_a_commit,
        records=recorded.families(),
    )


Say = Callable[[str], None]


def _slice(load: Load, folder: Path, in_order: bool) -> Slice:
    through = through_store if load.kind is Kind.STORE else through_api
    return trio.run(functools.partial(through, folder, load, in_order=in_order))


def _new(work: Path) -> Path:
    """Return a folder that is not there, in place of the last one."""
    folder = work / "store"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def measure_with_slow_flushes(options: argparse.Namespace, work: Path) -> Results:
    """Measure every row in a child process whose flushes take longer.

    Raises:
      NotBuilt: the shim can't be had here.
    """
    library = flush_delay.build(work)
    answer = work / "child.json"
    command = [sys.executable, "-m", "bench", "admission", "--child", str(answer)]
    command += ["--size", options.size, "--folder", str(work), "--client-ids", options.client_ids]
    checkout = Path(__file__).parents[1]
    slow = flush_delay.environment(library, DELAY_US)
    subprocess.run(command, env=slow, cwd=checkout, check=True)
    return msgspec.json.decode(answer.read_bytes(), type=Results)


def show(report: Report) -> None:
    """Print the table and the goals."""
    facts = ", ".join(f"{name} {fact}" for name, fact in report.machine.items())
    print(f"{facts}, client ids {report.client_ids}")
    for line in table([one for results in report.results for one in results.rows]):
        print(line)
    for results in report.results:
        counted = results.flushes_a_commit
        print(
            f"an idle loop stands still {results.idle_stood_still_p99_ms:.2f} ms at p99"
            + ("" if counted is None else f"; {counted:.1f} flushes a commit, each +1 ms")
        )
    puts = report.results[0].records.items()
    written = ", ".join(f"{family} {kind['bytes']:.0f}" for family, kind in puts)
    print(f"bytes an admission by family, keys and values: {written}")
    for goal in report.goals:
        flush = f"+{goal.flush_delay_ms:g} ms a flush" if goal.flush_delay_ms else ""
        verdict = "reached" if goal.reached else "MISSED"
        print(f"{goal.goal:4} {verdict:8} {goal.measured:>24}   {goal.asks}   {flush}")
    for sentence in report.skipped:
        print(sentence)


async def _checkpoint_us(count: int = 5_000) -> float:
    """Return what a bare checkpoint costs here: 7 us where the goals were set."""
    began = time.thread_time()
    for _ in range(count):
        await trio.lowlevel.checkpoint()
    return round((time.thread_time() - began) / count * 1e6, 1)


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "checkpoint_us": min(trio.run(_checkpoint_us) for _ in range(5)),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "trio": trio.__version__,
        "lmdb": ".".join(map(str, lmdb.version())),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
    }


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench admission", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute, rough figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--folder", type=Path, help="where the stores are made: which disk")
    parser.add_argument("--client-ids", choices=("in-order", "random"), default="in-order")
    parser.add_argument("--no-slow-flushes", action="store_true", help="leave those rows out")
    parser.add_argument("--size", choices=("full", "quick", "tiny"), help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.size = options.size or ("quick" if options.quick else "full")
    return options


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write JSON; `--quick` takes less than a minute."""
    options = _options(argv)
    size = {"full": FULL, "quick": QUICK, "tiny": TINY}[options.size]
    in_order = options.client_ids == "in-order"

    def say(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        work = Path(folder)
        if options.child is not None:
            found = measure(size, in_order=in_order, delay_ms=DELAY_US / 1e3, work=work, say=say)
            options.child.write_bytes(msgspec.json.encode(found))
            return 0
        results = [measure(size, in_order=in_order, delay_ms=0.0, work=work, say=say)]
        skipped: list[str] = []
        if not options.no_slow_flushes:
            try:
                results.append(measure_with_slow_flushes(options, work))
            except flush_delay.NotBuilt as why:
                skipped.append(f"skipped: the rows with slower flushes, because {why}")
        say("")
        report = Report(
            bench="admission",
            quick=options.size != "full",
            machine=machine(),
            client_ids=options.client_ids,
            results=results,
            goals=goals([one for result in results for one in result.rows]),
            skipped=skipped,
        )
    show(report)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    return 0
