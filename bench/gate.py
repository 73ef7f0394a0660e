"""The gate: admissions by many callers and processes, replays, refusals, and a large store.

What is compared is taken in turn within one run: the machine's speed wanders by more than
what is compared. An empty and a filled store go round after round, and their ratio is the
median of the rounds' ratios; so is the ratio of a replay to an admission.

A replay and a conflict are one read, which G9 asks for: that no transaction was run for them
is counted. A refusal for want of a slot is decided in a transaction, which stores nothing.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trio

from .admission import machine
from .admission_load import Load, Slice
from .admission_report import Goal, quantile
from .gate_fill import Kept, fill
from .gate_load import PARKED, Answered, Cost, admitting, answering, child, together

BUSIEST = 64


class Size(NamedTuple):
    """How much of each to do."""

    rounds: int
    callers: dict[int, int]
    """Admissions in a slice, by the number of callers; a process takes 2,000 live runs."""
    processes: tuple[int, ...]
    messages: int
    """In the filled store."""


FULL = Size(5, {1: 400, 16: 1_600, 64: 1_920, 256: 1_792}, (2, 4), 1_000_000)
QUICK = Size(3, {1: 120, 16: 480, 64: 1_280, 256: 1_792}, (2, 4), 20_000)
TINY = Size(1, {1: 3, 4: 12}, (2,), 300)
"""For the test of this bench."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of load. Rates a second, times in ms, sizes in bytes; medians of the rounds."""

    what: str
    processes: int
    callers: int
    """In each process."""
    rate: float
    p50_ms: float
    p99_ms: float
    mean_batch: float
    written_bytes: float
    """Written to disk an answer."""
    transactions: float | None = None
    """Run an answer, where none was admitted."""
    to_admissions: float | None = None
    """The rate, to that of admissions by as many callers in the same round."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is written as JSON."""

    bench: str
    quick: bool
    machine: dict[str, Any]
    client_ids: str
    rows: list[Row]
    kept: Kept
    filled_to_empty: float
    """The rate of admissions into the filled store, to that into an empty one."""
    goals: list[Goal]


Say = Callable[[str], None]
Round = Sequence[Slice]
"""What each process of a round measured."""


def row(what: str, callers: int, rounds: Sequence[Round], **more: float) -> Row:
    """Return the medians of a load's rounds."""

    def median(figure: Callable[[Round], float]) -> float:
        return statistics.median(map(figure, rounds))

    def of_all(share: float) -> Callable[[Round], float]:
        return lambda one: quantile([s for each in one for s in each.latencies], share) * 1e3

    return Row(
        what=what,
        processes=len(rounds[0]),
        callers=callers,
        rate=median(rate),
        p50_ms=median(of_all(0.5)),
        p99_ms=median(of_all(0.99)),
        mean_batch=median(lambda one: statistics.mean(each.mean_batch for each in one)),
        written_bytes=median(lambda one: statistics.mean(each.written for each in one)),
        **more,
    )


def rate(one: Round) -> float:
    """Return answers a second of all processes together: they begin at once."""
    return sum(each.admitted for each in one) / max(each.took for each in one)


class Bench:
    """Takes the slices, each on a store of its own."""

    def __init__(self, size: Size, work: Path, say: Say, *, in_order: bool) -> None:
        self._size = size
        self._work = work
        self._say = say
        self._in_order = in_order
        callers = list(size.callers)
        self._busiest = BUSIEST if BUSIEST in callers else callers[-1]

    def _new(self) -> Path:
        folder = self._work / "store"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def _load(self, callers: int) -> Load:
        return Load(PARKED, callers, self._size.callers[callers])

    def _admitting(self, folder: Path, callers: int, name: str = "person") -> Slice:
        load = self._load(callers)
        one = functools.partial(admitting, folder, load, in_order=self._in_order, name=name)
        return trio.run(one)

    def admissions(self) -> list[Row]:
        """Measure every number of callers and of processes."""
        one: defaultdict[int, list[Round]] = defaultdict(list)
        many: defaultdict[int, list[Round]] = defaultdict(list)
        for number in range(self._size.rounds):
            for callers in self._size.callers:
                self._say(f"round {number + 1}: {callers} callers")
                one[callers].append([self._admitting(self._new(), callers)])
            for processes in self._size.processes:
                self._say(f"round {number + 1}: {processes} processes")
                load = self._load(self._busiest)
                found = together(self._new(), processes, load, in_order=self._in_order)
                many[processes].append(found)
        return [
            *(row("admit", callers, rounds) for callers, rounds in one.items()),
            *(row("admit", self._busiest, rounds) for rounds in many.values()),
        ]

    def answers(self) -> list[Row]:
        """Measure replays and refusals, by one caller and by many."""
        rows: list[Row] = []
        for callers in dict.fromkeys((next(iter(self._size.callers)), self._busiest)):
            costs: defaultdict[str, list[Cost]] = defaultdict(list)
            ratios: defaultdict[str, list[float]] = defaultdict(list)
            for number in range(self._size.rounds):
                self._say(f"round {number + 1}: replays and refusals, {callers} callers")
                admitted = rate([self._admitting(self._new(), callers)])
                one = functools.partial(
                    answering, self._new(), self._load(callers), in_order=self._in_order
                )
                for kind, cost in trio.run(one).items():
                    costs[kind].append(cost)
                    ratios[kind].append(rate([cost.slice]) / admitted)
            for kind, found in costs.items():
                spent = sum(cost.transactions for cost in found)
                given = sum(cost.slice.admitted for cost in found)
                rows.append(
                    row(
                        kind,
                        callers,
                        [[cost.slice] for cost in found],
                        transactions=spent / given,
                        to_admissions=statistics.median(ratios[kind]),
                    )
                )
        return rows

    def growth(self) -> tuple[list[Row], Kept, float]:
        """Fill a store, and measure admissions into it and into an empty one, in turn."""
        filled = self._work / "filled"
        filling = functools.partial(
            fill, filled, self._size.messages, in_order=self._in_order, say=self._say
        )
        kept = trio.run(filling)
        empty: list[Round] = []
        full: list[Round] = []
        for number in range(2 * self._size.rounds):
            self._say(f"round {number + 1}: an empty store and a filled one")
            empty.append([self._admitting(self._new(), self._busiest)])
            full.append([self._admitting(filled, self._busiest, f"round-{number}")])
        ratio = statistics.median(rate(f) / rate(e) for f, e in zip(full, empty, strict=True))
        rows = [
            row("into an empty store", self._busiest, empty),
            row(f"into {self._size.messages:,} messages", self._busiest, full),
        ]
        return rows, kept, ratio


def goals(rows: Sequence[Row], filled_to_empty: float, messages: int) -> Iterator[Goal]:
    """Yield the goals that this bench says something about."""

    def goal(name: str, asks: str, measured: str, *, reached: bool) -> Goal:
        return Goal(goal=name, asks=asks, flush_delay_ms=0.0, measured=measured, reached=reached)

    for one in rows:
        if one.what == Answered.REPLAY:
            yield goal(
                "G9",
                f"{one.callers} callers: a replay is a read, never a commit",
                f"{one.rate:,.0f}/s, {one.transactions:g} transactions",
                reached=one.transactions == 0,
            )
        if one.what == "admit" and one.callers == BUSIEST and one.processes == 1:
            yield goal(
                "G16",
                "64 callers: <= 2 KiB written an admission",
                f"{one.written_bytes / 1024:.1f} KiB",
                reached=one.written_bytes <= 2048,
            )
    yield goal(
        "G17",
        f"flat within 1.2 x up to {messages:,} messages",
        f"{1 / filled_to_empty:.2f}",
        reached=filled_to_empty * 1.2 >= 1,
    )


HEADINGS = (
    ("what", 24), ("processes", 9), ("callers", 7), ("rate/s", 9), ("p50 ms", 8),
    ("p99 ms", 8), ("batch", 6), ("KiB", 6), ("txn each", 8), ("x admit", 7),
)  # fmt: skip


def show(report: Report) -> None:
    """Print the table and the goals."""
    print(f"{report.machine}, client ids {report.client_ids}")
    print("  ".join(name.rjust(width) for name, width in HEADINGS))
    for one in report.rows:
        cells = (
            one.what,
            str(one.processes),
            str(one.callers),
            f"{one.rate:,.0f}",
            f"{one.p50_ms:.2f}",
            f"{one.p99_ms:.2f}",
            f"{one.mean_batch:.1f}",
            f"{one.written_bytes / 1024:.2f}",
            "" if one.transactions is None else f"{one.transactions:.2f}",
            "" if one.to_admissions is None else f"{one.to_admissions:.2f}",
        )
        print(
            "  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, HEADINGS, strict=True))
        )
    kept = report.kept
    print(
        f"kept on disk, a message and its answer: {kept.file:,.0f} bytes of file, "
        f"{kept.records:,.0f} of keys and values: "
        + ", ".join(f"{name} {size:.0f}" for name, size in kept.families.items())
    )
    for goal in report.goals:
        verdict = "reached" if goal.reached else "MISSED"
        print(f"{goal.goal:4} {verdict:8} {goal.measured:>28}   {goal.asks}")


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench gate", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute, rough figures")
    parser.add_argument("--messages", type=int, metavar="N", help="how many to fill a store with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--folder", type=Path, help="where the stores are made: which disk")
    parser.add_argument("--client-ids", choices=("in-order", "random"), default="in-order")
    parser.add_argument("--size", choices=("full", "quick", "tiny"), help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.size = options.size or ("quick" if options.quick else "full")
    return options


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write JSON; `--quick` takes about a minute."""
    options = _options(argv)
    if options.child is not None:
        child(options.child)
        return 0
    size = {"full": FULL, "quick": QUICK, "tiny": TINY}[options.size]
    if options.messages is not None:
        size = size._replace(messages=options.messages)

    def say(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        bench = Bench(size, Path(folder), say, in_order=options.client_ids == "in-order")
        rows = [*bench.admissions(), *bench.answers()]
        growth, kept, filled_to_empty = bench.growth()
        say("")
    report = Report(
        bench="gate",
        quick=options.size != "full",
        machine=machine(),
        client_ids=options.client_ids,
        rows=[*rows, *growth],
        kept=kept,
        filled_to_empty=filled_to_empty,
        goals=list(goals(rows, filled_to_empty, size.messages)),
    )
    show(report)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    return 0
