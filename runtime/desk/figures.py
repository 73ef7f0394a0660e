"""Figures over a window of dated prices. Every formula is named; nothing is filled in.

- period return: last price / first price - 1
- annualised volatility: sample standard deviation (n - 1) of the simple returns, times the
  square root of the periods in a year that were observed (12 for monthly data)
- maximum drawdown: the lowest price / highest price before it - 1
- correlation: Pearson's, of the simple returns over the same periods

A simple return is price / previous price - 1 and is taken only between neighbouring
observations: a return across a missing value would span two periods, so it is left out and
counted. A figure that cannot be computed has no value and says why.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Final, Literal

import msgspec

from .table import Point, Series
from .window import Window

Reason = Literal["", "too few values", "a value is not positive", "irregular dates", "no variation"]
Frequency = Literal["daily", "every day", "weekly", "monthly", "quarterly", "yearly", "irregular"]

PERIODS_A_YEAR: Final[dict[Frequency, int]] = {
    "daily": 252, "every day": 365, "weekly": 52, "monthly": 12, "quarterly": 4, "yearly": 1,
}  # fmt: skip
_BANDS: Final[tuple[tuple[Frequency, int, int], ...]] = (  # days between two observations
    ("weekly", 5, 9),
    ("monthly", 26, 35),
    ("quarterly", 80, 100),
    ("yearly", 350, 380),
)
_REGULAR_SHARE = 0.8  # of the gaps must fit the frequency
_RETURNS_MIN = 2  # a sample standard deviation needs two
_CORRELATED_MIN = 3  # two points always lie on a line


class Figure(msgspec.Struct, frozen=True):
    """A number, or None with the reason why there is none."""

    value: float | None
    reason: Reason = ""


class Drawdown(msgspec.Struct, frozen=True):
    """The deepest fall from a peak. Without a fall the value is 0 and peak and trough are one."""

    figure: Figure
    peak: Point | None = None
    trough: Point | None = None


class ColumnFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One series over one window. Dates and lines are those of the values really used."""

    name: str
    first: Point
    last: Point
    first_line: int
    last_line: int
    values: int
    missing: int
    returns: int
    returns_left_out: int
    frequency: Frequency
    gap_days: int
    """The usual days between two observations, and a bit: less is no gap at the ends."""
    period_return: Figure
    volatility: Figure
    drawdown: Drawdown


class PairFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Two series over one window, over the periods that both have."""

    left: str
    right: str
    first_date: date
    last_date: date
    left_lines: tuple[int, int]
    """The first and last line of the left series' values."""
    right_lines: tuple[int, int]
    returns: int
    correlation: Figure


class Return(msgspec.Struct, frozen=True):
    """A simple return, from one observation to the next."""

    start: date
    end: date
    value: float


def within(series: Series, window: Window) -> tuple[Point, ...]:
    """Return the series' points of a window, from its starting price on.

    The starting price is the last value on or before the window's first date, unless that is
    older than one usual gap between observations: then the first value inside. Empty if the
    window holds no value.
    """
    points = series.points
    days = [point.day for point in points]
    end = bisect_right(days, window.last)
    start = bisect_right(days, window.first)
    oldest = window.first - timedelta(days=min(_usual_gap(days), window.first.toordinal() - 1))
    base = next((at for at in range(start - 1, -1, -1) if points[at].value is not None), None)
    if base is not None and points[base].day >= oldest:
        start = base
    chosen = points[start:end]
    filled = [at for at, point in enumerate(chosen) if point.value is not None]
    if not filled or chosen[filled[-1]].day < window.first:
        return ()
    return chosen[filled[0] : filled[-1] + 1]


def column_figures(series: Series, points: Sequence[Point]) -> ColumnFigures:
    """Compute every figure of one series. `points` come from `within` and are not empty."""
    assert points
    assert points[0].value is not None
    assert points[-1].value is not None
    returns = simple_returns(points)
    frequency = observed_frequency(points, series)
    missing = sum(point.value is None for point in points)
    lines = [point.line for point in points]
    return ColumnFigures(
        name=series.name,
        first=points[0],
        last=points[-1],
        first_line=min(lines),
        last_line=max(lines),
        values=len(points) - missing,
        missing=missing,
        returns=len(returns),
        returns_left_out=len(points) - 1 - len(returns),
        frequency=frequency,
        gap_days=_usual_gap([point.day for point in series.points]),
        period_return=period_return(points),
        volatility=volatility(points, frequency),
        drawdown=maximum_drawdown(points),
    )


def pair_figures(
    left: str, left_points: Sequence[Point], right: str, right_points: Sequence[Point]
) -> PairFigures | None:
    """Compute the correlation of two series; None if they have no period in common."""
    theirs = {(r.start, r.end): r.value for r in simple_returns(right_points)}
    both = [r for r in simple_returns(left_points) if (r.start, r.end) in theirs]
    if not both:
        return None
    first, last = both[0].start, both[-1].end
    values = [point.value for point in (*left_points, *right_points)]
    return PairFigures(
        left=left,
        right=right,
        first_date=first,
        last_date=last,
        left_lines=_lines(left_points, first, last),
        right_lines=_lines(right_points, first, last),
        returns=len(both),
        correlation=Figure(None, "a value is not positive")
        if not _all_positive(values)
        else _correlation([r.value for r in both], [theirs[r.start, r.end] for r in both]),
    )


def simple_returns(points: Sequence[Point]) -> tuple[Return, ...]:
    """Return the returns between neighbouring observations; none next to a missing value."""
    return tuple(
        Return(before.day, after.day, after.value / before.value - 1)
        for before, after in pairwise(points)
        if before.value is not None and before.value != 0 and after.value is not None
    )


def period_return(points: Sequence[Point]) -> Figure:
    """Return last price / first price - 1."""
    first, last = points[0].value, points[-1].value
    if len(points) < 2 or first is None or last is None:
        return Figure(None, "too few values")
    if first <= 0 or last < 0:
        return Figure(None, "a value is not positive")
    return Figure(last / first - 1)


def volatility(points: Sequence[Point], frequency: Frequency) -> Figure:
    """Return stdev(simple returns) * sqrt(periods in a year)."""
    returns = [r.value for r in simple_returns(points)]
    if not _all_positive([point.value for point in points]):
        return Figure(None, "a value is not positive")
    if len(returns) < _RETURNS_MIN:
        return Figure(None, "too few values")
    if frequency == "irregular":
        return Figure(None, "irregular dates")
    return Figure(statistics.stdev(returns) * math.sqrt(PERIODS_A_YEAR[frequency]))


def maximum_drawdown(points: Sequence[Point]) -> Drawdown:
    """Return the lowest price / highest price before it - 1, with both points."""
    if not _all_positive([point.value for point in points]):
        return Drawdown(Figure(None, "a value is not positive"))
    if len(points) < 2:
        return Drawdown(Figure(None, "too few values"))
    filled = [(point, point.value) for point in points if point.value is not None]
    peak = deepest_peak = trough = filled[0]
    depth = 0.0
    for point in filled:
        if point[1] > peak[1]:
            peak = point
        elif point[1] / peak[1] - 1 < depth:
            depth, deepest_peak, trough = point[1] / peak[1] - 1, peak, point
    return Drawdown(Figure(depth), deepest_peak[0], trough[0])


def observed_frequency(points: Sequence[Point], series: Series) -> Frequency:
    """Return how often there is an observation: of the window, or of the whole series if the
    window holds fewer than four gaps.
    """
    chosen = points if len(points) > 4 else series.points
    gaps = [(after.day - before.day).days for before, after in pairwise(chosen)]
    if not gaps:
        return "irregular"
    middle = statistics.median(gaps)
    if middle <= 4:
        fitting = sum(gap <= 4 for gap in gaps)  # a weekend, with a holiday beside it
        single = sum(gap == 1 for gap in gaps)
        name: Frequency = "every day" if single >= 0.95 * len(gaps) else "daily"
        return name if fitting >= _REGULAR_SHARE * len(gaps) and middle == 1 else "irregular"
    for band, low, high in _BANDS:
        if low <= middle <= high:
            fitting = sum(low <= gap <= high for gap in gaps)
            return band if fitting >= _REGULAR_SHARE * len(gaps) else "irregular"
    return "irregular"


def _lines(points: Sequence[Point], first: date, last: date) -> tuple[int, int]:
    lines = [point.line for point in points if first <= point.day <= last]
    return min(lines), max(lines)


def _correlation(left: Sequence[float], right: Sequence[float]) -> Figure:
    if len(left) < _CORRELATED_MIN:
        return Figure(None, "too few values")
    try:
        return Figure(statistics.correlation(left, right))
    except statistics.StatisticsError:
        return Figure(None, "no variation")


def _all_positive(values: Sequence[float | None]) -> bool:
    return all(value > 0 for value in values if value is not None)


def _usual_gap(days: Sequence[date]) -> int:
    """Return the days that a starting price may be older than the window: a gap and a bit."""
    gaps = [(after - before).days for before, after in pairwise(days)]
    return max(7, math.ceil(1.1 * statistics.median(gaps))) if gaps else 7
