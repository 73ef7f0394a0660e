"""What dead processes left: orphans settled a second, start-up by runs that ended, memory a run.

*settled*: a store in which so many runs were under way when their process went is opened,
and everything is settled before the opening returns. *start-up*: a store with so many runs
that have ended is opened and left again; the time must not grow with them. *memory*: what
the process has grown by for each run that is executed and waits.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from counterpoint.runtime import Config, Limits, RunContext, open_runtime
from counterpoint.runtime.opening import FORMAT_VERSION
from counterpoint.store import admission, endings, requests, runs, settlement
from counterpoint.store.engine import Txn
from counterpoint.store.identity import text_hash
from counterpoint.store.ids import ClientId, ConversationId, IdSource, OwnerId, RunId, ScopeId
from counterpoint.store.lmdb_engine import LmdbEngine, open_lmdb_engine
from counterpoint.store.records import Depth, Owner, Reason, Verb

OPENINGS = 5
SHORT_SLOTS = 100_000
LIMITS = Limits(capacity={"short": SHORT_SLOTS}, live_runs_of_conversation_max=SHORT_SLOTS)
CONFIG = Config(limits=LIMITS, live_runs_max=SHORT_SLOTS, map_bytes=8 << 30, drain_s=0.1)
RUNS_OF_CONVERSATION = 50
RUNS_A_COMMIT = 2_000
TEXT = "Compare the two over the past year, please"


class Size(msgspec.Struct, frozen=True):
    """How much of each to do."""

    orphans: int
    ended: tuple[int, ...]
    live: int


FULL = Size(orphans=10_000, ended=(1_000, 100_000, 1_000_000), live=2_000)
QUICK = Size(orphans=10_000, ended=(1_000, 100_000), live=1_000)
TINY = Size(orphans=20, ended=(10, 60), live=5)
"""For the test of this bench."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """How long a store with so many runs that have ended takes to open."""

    ended: int
    median_ms: float
    max_ms: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed, and written as JSON."""

    bench: str
    cores: int | None
    load: float
    orphans: int
    settled_s: float
    settled_rate: float
    openings: tuple[Opening, ...]
    live: int
    live_run_bytes: float


class Filler:
    """Writes runs into a store by the rules alone, many a commit."""

    def __init__(self, engine: LmdbEngine) -> None:
        self._engine = engine
        self._ids = IdSource(lambda: time.time_ns() // 1_000_000)
        self._count = 0
        self._conversation = ConversationId("")
        self.owner: OwnerId = self._ids.owner()

    async def fill(self, count: int, *, end: bool) -> None:
        """Admit `count` runs of a process that is gone, and end them or leave them so."""
        await self._write(self._register)
        for first in range(0, count, RUNS_A_COMMIT):
            many = min(RUNS_A_COMMIT, count - first)
            await self._write(partial(self._admit_many, many=many, end=end))

    async def _write(self, rule: Callable[[Txn], None]) -> None:
        await self._engine.write(rule, deadline=trio.current_time() + 600)

    def _register(self, txn: Txn) -> None:
        owner = Owner(owner=self.owner, pid=0, host="bench", started_at_ms=self._ids.now_ms())
        settlement.register(txn, owner)

    def _admit_many(self, txn: Txn, many: int, *, end: bool) -> None:
        for _ in range(many):
            scope = ScopeId(f"scope-{self._count // RUNS_OF_CONVERSATION}")
            if self._count % RUNS_OF_CONVERSATION == 0:
                self._open(txn, scope)
            self._count += 1
            self._admit(txn, scope, end=end)

    def _open(self, txn: Txn, scope: ScopeId) -> None:
        self._conversation = self._ids.conversation()
        opening = admission.Opening(
            scope=scope,
            client_id=ClientId(f"c-{self._conversation}"),
            title="",
            conversation=self._conversation,
            now_ms=self._ids.now_ms(),
        )
        admission.open_conversation(txn, opening)

    def _admit(self, txn: Txn, scope: ScopeId, *, end: bool) -> None:
        run = self._ids.run()
        submission = admission.Submission(
            scope=scope,
            conversation=self._conversation,
            client_id=ClientId(f"m-{run}"),
            verb=Verb.PLAIN,
            text=TEXT,
            text_sha256=text_hash(TEXT),
            depth=Depth.NORMAL,
            message=self._ids.message(),
            run=run,
            owner=self.owner,
            now_ms=self._ids.now_ms(),
            disposition="answer",
        )
        admission.admit(txn, LIMITS, submission)
        if not end:
            requests.begin(txn, self._request(run))  # so that it is interrupted, not started
            return
        ending = endings.Ending(
            run=run,
            owner=self.owner,
            cue=runs.Cue.COMPLETE,
            reason=Reason.ANSWERED,
            publication=self._ids.publication(),
            now_ms=self._ids.now_ms(),
            text=TEXT,
        )
        endings.finish(txn, ending)

    def _request(self, run: RunId) -> requests.Outgoing:
        return requests.Outgoing(
            run=run,
            owner=self.owner,
            gateway="bench",
            input_sha256=text_hash(TEXT),
            model_input=TEXT.encode(),
            revision=0,
            now_ms=self._ids.now_ms(),
        )


async def fill(folder: Path, count: int, *, end: bool) -> None:
    """Make a store, or go on with one."""
    async with open_lmdb_engine(
        folder, format_version=FORMAT_VERSION, map_bytes=CONFIG.map_bytes
    ) as engine:
        await Filler(engine).fill(count, end=end)


async def rests(_: RunContext) -> None:
    """An agent that is executed and waits."""
    await trio.sleep_forever()


async def opening_s(folder: Path) -> float:
    """Return how long opening takes, everything settled."""
    began = time.perf_counter()
    async with open_runtime(folder, agents={"short": rests}, config=CONFIG):
        return time.perf_counter() - began


def opening(folder: Path, ended: int) -> Opening:
    """Measure the openings of a store in which `ended` runs have ended."""
    trio.run(opening_s, folder)  # the first one forgets the process that filled it
    times = [trio.run(opening_s, folder) * 1e3 for _ in range(OPENINGS)]
    return Opening(ended=ended, median_ms=statistics.median(times), max_ms=max(times))


def openings(folder: Path, counts: tuple[int, ...], say: Callable[[str], None]) -> list[Opening]:
    """Measure with more and more runs in one and the same store."""
    found: list[Opening] = []
    before = 0
    for count in counts:
        say(f"start-up: {count:,} runs that have ended")
        trio.run(partial(fill, folder, count - before, end=True))
        before = count
        found.append(opening(folder, count))
    return found


def resident_bytes() -> int:
    """Return the memory that this process has of its own: Linux counts its pages."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


async def live_run_bytes(folder: Path, count: int) -> float:
    """Return by how much each run that is executed and waits makes the process grow."""
    async with open_runtime(folder, agents={"short": rests}, config=CONFIG) as runtime:
        opened = await runtime.open_conversation(scope="ann", client_id="c")

        async def submit(n: int) -> None:
            await runtime.submit(
                scope="ann", conversation=opened.conversation, client_id=f"m-{n}", text=TEXT
            )

        for n in range(20):  # what is made once is made by now
            await submit(n)
        before = resident_bytes()
        for n in range(20, 20 + count):
            await submit(n)
        return (resident_bytes() - before) / count


def measure(size: Size, work: Path, say: Callable[[str], None]) -> Report:
    """Measure all of it in folders of `work`."""
    say(f"memory: {size.live:,} live runs")
    per_run = trio.run(live_run_bytes, work / "live", size.live)
    say(f"settling: {size.orphans:,} orphans")
    trio.run(partial(fill, work / "orphans", size.orphans, end=False))
    settled_s = trio.run(opening_s, work / "orphans")
    started = openings(work / "ended", size.ended, say)
    return Report(
        bench="settling",
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        orphans=size.orphans,
        settled_s=settled_s,
        settled_rate=size.orphans / settled_s,
        openings=tuple(started),
        live=size.live,
        live_run_bytes=per_run,
    )


def show(report: Report) -> None:
    """Print the table."""
    print(f"{report.cores} cores, load {report.load:.1f}")
    print(
        f"settled   {report.orphans:>9,} orphans in {report.settled_s:.2f} s: "
        f"{report.settled_rate:,.0f}/s"
    )
    for one in report.openings:
        print(
            f"start-up  {one.ended:>9,} ended runs: {one.median_ms:.1f} ms, "
            f"at most {one.max_ms:.1f} ms"
        )
    print(f"memory    {report.live:>9,} live runs: {report.live_run_bytes / 1024:.1f} KiB each")


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write JSON."""
    parser = argparse.ArgumentParser(prog="bench settling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no store with a million runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--folder", type=Path, help="where the stores are made: which disk")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    size = TINY if options.tiny else QUICK if options.quick else FULL

    def say(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        report = measure(size, Path(folder), say)
    show(report)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    return 0
