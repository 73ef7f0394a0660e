"""One run's steps: steer, deliver, stop, a request and an effect, against bare LMDB commits.

Each is measured beside 1, 100 and 1,000 live runs, round after round; in the same round bare
LMDB writes what the same steps wrote, one commit for each of theirs. The gateway needs no
time, so what is measured is ours.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trio

from .admission import machine
from .admission_report import quantile
from .run_load import opened, write_raw


class Size(NamedTuple):
    """How much of each to do. Many short rounds: a disk's pace changes within seconds."""

    rounds: int
    repeats: int
    live: tuple[int, ...]


FULL = Size(rounds=24, repeats=5, live=(1, 100, 1_000))
QUICK = Size(rounds=6, repeats=5, live=(1, 100, 1_000))
TINY = Size(rounds=1, repeats=2, live=(1, 3))
"""For the test of this bench."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One step beside so many live runs. Times in ms."""

    live_runs: int
    step: str
    count: int
    commits: float
    """Transactions that one such step made."""
    p50_ms: float
    p99_ms: float
    raw_p50_ms: float
    """As many bare commits of the same bytes as the step made."""
    to_raw: float
    """The median over the rounds of the ratio of the medians."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is written as JSON."""

    bench: str
    quick: bool
    machine: dict[str, Any]
    rows: list[Row]


async def measure(folder: Path, live: int, size: Size) -> list[Row]:
    """Measure every step beside `live` runs, the measured one included."""
    ours: defaultdict[str, list[list[float]]] = defaultdict(list)
    raw: defaultdict[str, list[float]] = defaultdict(list)
    commits: dict[str, float] = {}
    async with opened(folder / f"store-{live}", size.repeats) as (runtime, load):
        await load.park(runtime, live)
        for number in range(size.rounds):
            await load.round(runtime)
            for step, times in load.times.items():
                written = load.engine.written[step]
                each = write_raw(folder / f"raw-{live}-{number}", written)
                ours[step].append(times)
                raw[step].append(statistics.median(each) * len(each) / len(times))
                commits[step] = len(each) / len(times)
            load.times.clear()
            load.engine.written.clear()
    return [_row(live, step, commits[step], ours[step], raw[step]) for step in ours]


def _row(
    live: int, step: str, commits: float, ours: Sequence[Sequence[float]], raw: Sequence[float]
) -> Row:
    every = [one for times in ours for one in times]
    ratios = [statistics.median(times) / bare for times, bare in zip(ours, raw, strict=True)]
    return Row(
        live_runs=live,
        step=step,
        count=len(every),
        commits=commits,
        p50_ms=quantile(every, 0.5) * 1e3,
        p99_ms=quantile(every, 0.99) * 1e3,
        raw_p50_ms=statistics.median(raw) * 1e3,
        to_raw=statistics.median(ratios),
    )


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "live  step                   count  commits   p50 ms   p99 ms   raw ms   of raw"
    for row in rows:
        yield (
            f"{row.live_runs:4}  {row.step:20} {row.count:7} {row.commits:8.1f} {row.p50_ms:8.2f} "
            f"{row.p99_ms:8.2f} {row.raw_p50_ms:8.2f} {row.to_raw:8.2f}"
        )


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write JSON; `--quick` takes less than a minute."""
    parser = argparse.ArgumentParser(prog="bench run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute, rough figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--folder", type=Path, help="where the stores are made: which disk")
    parser.add_argument("--size", choices=("full", "quick", "tiny"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    chosen = options.size or ("quick" if options.quick else "full")
    size = {"full": FULL, "quick": QUICK, "tiny": TINY}[chosen]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        for live in size.live:
            if sys.stderr.isatty():
                print(f"\r\033[K{live} live runs", end="", file=sys.stderr, flush=True)
            rows += trio.run(measure, Path(folder), live, size)
    report = Report(bench="run", quick=chosen != "full", machine=machine(), rows=rows)
    print(report.machine)
    for line in table(rows):
        print(line)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    return 0
