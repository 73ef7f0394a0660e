"""From slices to rows, from rows to a table and to the goals reached or not.

A row's figures are medians over the rounds; a ratio is the median of the rounds' ratios,
each between slices that were taken one right after the other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

import msgspec

from .admission_load import Kind, Load, Slice
from .admission_records import Raw


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One row in one round: what raw LMDB and then we did."""

    ours: Slice
    raw: Raw | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one load. Rates a second; times in ms or us, sizes in bytes."""

    kind: str
    callers: int
    busy_ms: float
    """The turns of a loop that is never idle; 0 for an idle one."""
    flush_delay_ms: float
    rounds: int
    rate: float
    p50_ms: float
    p99_ms: float
    mean_batch: float
    stood_still_p50_ms: float
    stood_still_p99_ms: float
    stood_still_max_ms: float
    pass_cpu_p99_ms: float
    """The processor time of the loop's passes: what of it is ours, whoever else is running."""
    collector_max_ms: float
    """The longest time that Python's garbage collector took at once, in whichever thread."""
    collector_us: float
    """What the garbage collector took an admission: part of the next two."""
    loop_cpu_us: float | None
    """Processor time of the loop's thread an admission; None beside a busy loop, and with one
    caller, where what watches the loop takes a good part of it."""
    other_cpu_us: float | None
    """Processor time of the other threads an admission: that is the writer."""
    written_bytes: float
    """Written an admission, as LMDB hands it to the kernel: in whole pages."""
    raw_rate: float | None = None
    raw_commit_p50_ms: float | None = None
    raw_written_bytes: float | None = None
    rate_to_raw: float | None = None
    p50_to_raw_commit: float | None = None


Figure = Callable[[Round], float]


def row(load: Load, flush_delay_ms: float, rounds: Sequence[Round]) -> Row:
    """Return the medians of a load's rounds."""

    def median(figure: Figure) -> float:
        return statistics.median(map(figure, rounds))

    def of_raw(figure: Callable[[Round, Raw], float]) -> float | None:
        found = [figure(one, one.raw) for one in rounds if one.raw is not None]
        return statistics.median(found) if found else None

    told = load.busy_ms == 0 and load.callers > 1
    return Row(
        kind=str(load.kind),
        callers=load.callers,
        busy_ms=load.busy_ms,
        flush_delay_ms=flush_delay_ms,
        rounds=len(rounds),
        rate=median(_rate),
        p50_ms=median(lambda one: quantile(one.ours.latencies, 0.5)) * 1e3,
        p99_ms=median(lambda one: quantile(one.ours.latencies, 0.99)) * 1e3,
        mean_batch=median(lambda one: one.ours.mean_batch),
        stood_still_p50_ms=median(lambda one: quantile(one.ours.stood_still, 0.5)) * 1e3,
        stood_still_p99_ms=median(lambda one: quantile(one.ours.stood_still, 0.99)) * 1e3,
        stood_still_max_ms=max(quantile(one.ours.stood_still, 1.0) for one in rounds) * 1e3,
        pass_cpu_p99_ms=median(lambda one: quantile(one.ours.pass_cpu, 0.99)) * 1e3,
        collector_max_ms=max(quantile(one.ours.collector_cpu, 1.0) for one in rounds) * 1e3,
        collector_us=median(lambda one: sum(one.ours.collector_cpu) / one.ours.admitted) * 1e6,
        loop_cpu_us=median(lambda one: one.ours.loop_cpu) * 1e6 if told else None,
        other_cpu_us=median(lambda one: one.ours.other_cpu) * 1e6 if told else None,
        written_bytes=median(lambda one: one.ours.written),
        raw_rate=of_raw(lambda _, raw: raw.rate),
        raw_commit_p50_ms=of_raw(lambda _, raw: quantile(raw.commit_s, 0.5) * 1e3),
        raw_written_bytes=of_raw(lambda _, raw: raw.written),
        rate_to_raw=of_raw(lambda one, raw: _rate(one) / raw.rate),
        p50_to_raw_commit=of_raw(
            lambda one, raw: quantile(one.ours.latencies, 0.5) / quantile(raw.commit_s, 0.5)
        ),
    )


def _rate(one: Round) -> float:
    return one.ours.admitted / one.ours.took


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One goal, beside what was measured."""

    goal: str
    asks: str
    flush_delay_ms: float
    measured: str
    reached: bool


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return every goal that the rows say something about."""
    return [
        goal
        for delay_ms in sorted({row.flush_delay_ms for row in rows})
        for goal in _of_delay([row for row in rows if row.flush_delay_ms == delay_ms], delay_ms)
    ]


def _of_delay(rows: Sequence[Row], delay_ms: float) -> Iterator[Goal]:
    """Yield the goals that are told from the rows of one delay."""

    def goal(name: str, asks: str, measured: str, *, reached: bool) -> Goal:
        return Goal(
            goal=name, asks=asks, flush_delay_ms=delay_ms, measured=measured, reached=reached
        )

    admitting = [row for row in rows if row.kind == Kind.PARKED]
    for one in admitting:
        if one.busy_ms or one.rate_to_raw is None or one.p50_to_raw_commit is None:
            continue
        if one.callers == 1:
            yield goal(
                "G4",
                "1 caller: p50 <= 1.6 x a bare commit",
                f"{one.p50_to_raw_commit:.2f}",
                reached=one.p50_to_raw_commit <= 1.6,
            )
        if one.callers == 64:
            share = one.mean_batch / one.callers
            spread = one.p99_ms / one.p50_ms
            yield goal(
                "G3",
                "64 callers: rate >= 0.5 of raw LMDB",
                f"{one.rate_to_raw:.2f}",
                reached=one.rate_to_raw >= 0.5,
            )
            yield goal(
                "G3", "64 callers: batch >= 0.8 x callers", f"{share:.2f}", reached=share >= 0.8
            )
            yield goal("G5", "64 callers: p99 <= 3 x p50", f"{spread:.2f}", reached=spread <= 3)
            yield goal(
                "G13",
                "64 callers: the loop stands still <= 2 ms at p99",
                f"{one.stood_still_p99_ms:.2f} ms",
                reached=one.stood_still_p99_ms <= 2,
            )
            yield goal(
                "G16",
                "64 callers: <= 2 KiB written an admission",
                f"{one.written_bytes / 1024:.1f} KiB",
                reached=one.written_bytes <= 2048,
            )
            if delay_ms:
                yield _of_slow_flushes(one, admitting, delay_ms)
    yield from _of_busy_loops(admitting, delay_ms)


def _of_slow_flushes(one: Row, rows: Sequence[Row], delay_ms: float) -> Goal:
    """Against as many admissions a commit as there are callers, and bare commits of one."""
    bare = next(row.raw_rate for row in rows if row.callers == 1 and not row.busy_ms)
    assert bare is not None
    share = one.rate / (one.callers * bare)
    return Goal(
        goal="G15",
        asks="64 callers: rate >= 0.7 x callers x bare commits/s",
        flush_delay_ms=delay_ms,
        measured=f"{share:.2f}",
        reached=share >= 0.7,
    )


def _of_busy_loops(rows: Sequence[Row], delay_ms: float) -> Iterator[Goal]:
    idle = next((row.rate for row in rows if row.callers == 64 and not row.busy_ms), None)
    for one in rows:
        if not one.busy_ms or idle is None:
            continue
        share = one.rate / idle
        yield Goal(
            goal="G14",
            asks=f"busy in {one.busy_ms:g} ms turns: >= 2,000/s, >= 0.1 of idle, p99 <= 50 ms",
            flush_delay_ms=delay_ms,
            measured=f"{one.rate:,.0f}/s, {share:.2f}, {one.p99_ms:.0f} ms",
            reached=one.rate >= 2_000 and share >= 0.1 and one.p99_ms <= 50,
        )


HEADINGS = (
    ("what", 22), ("callers", 7), ("loop", 9), ("flush", 7), ("rate/s", 8), ("p50 ms", 8),
    ("p99 ms", 8), ("batch", 6), ("raw/s", 8), ("of raw", 6), ("still p50", 9), ("p99", 7),
    ("max", 7), ("pass cpu", 8), ("gc max", 6), ("cpu us", 9), ("KiB", 5),
)  # fmt: skip


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "  ".join(name.rjust(width) for name, width in HEADINGS)
    for one in rows:
        cells = (
            one.kind,
            str(one.callers),
            f"{one.busy_ms:g} ms" if one.busy_ms else "idle",
            f"+{one.flush_delay_ms:g} ms" if one.flush_delay_ms else "",
            f"{one.rate:,.0f}",
            f"{one.p50_ms:.2f}",
            f"{one.p99_ms:.2f}",
            f"{one.mean_batch:.1f}",
            "" if one.raw_rate is None else f"{one.raw_rate:,.0f}",
            "" if one.rate_to_raw is None else f"{one.rate_to_raw:.2f}",
            f"{one.stood_still_p50_ms:.2f}",
            f"{one.stood_still_p99_ms:.2f}",
            f"{one.stood_still_max_ms:.1f}",
            f"{one.pass_cpu_p99_ms:.2f}",
            f"{one.collector_max_ms:.1f}",
            ""
            if one.loop_cpu_us is None or one.other_cpu_us is None
            else f"{one.loop_cpu_us:.0f}+{one.other_cpu_us:.0f}",
            f"{one.written_bytes / 1024:.1f}",
        )
        yield "  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, HEADINGS, strict=True))
