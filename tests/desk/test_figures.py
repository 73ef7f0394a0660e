"""Figures equal numbers that are computed here, independently, by the standard library.

Method: the shipped prices, read by this test with `csv` alone, and small series whose figures
can be seen; every way in which a figure cannot be computed has a case with its reason.
"""

from __future__ import annotations

import csv
import math
import statistics
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.desk import sample_folder
from counterpoint.runtime.desk.figures import (
    ColumnFigures,
    Reason,
    column_figures,
    maximum_drawdown,
    pair_figures,
    within,
)
from counterpoint.runtime.desk.folder import Folder
from counterpoint.runtime.desk.table import Point, Series, read_table
from counterpoint.runtime.desk.window import Window

EVERYTHING = Window(date(1900, 1, 1), date(2100, 1, 1))


def sample_prices(name: str, first: str, last: str) -> list[float]:
    with (sample_folder() / "prices.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if first <= row["date"] <= last]


def returns(prices: list[float]) -> list[float]:
    return [after / before - 1 for before, after in pairwise(prices)]


def deepest_fall(prices: list[float]) -> float:
    pairs = ((at, later) for at in range(len(prices)) for later in range(at, len(prices)))
    return min(prices[later] / prices[at] - 1 for at, later in pairs)


def figures_of(values: list[float | None], step_days: int = 1) -> ColumnFigures:
    series = series_of(values, step_days)
    return column_figures(series, within(series, EVERYTHING))


def series_of(values: list[float | None], step_days: int = 1, name: str = "X") -> Series:
    start = date(2020, 1, 1)
    return Series(
        name,
        tuple(
            Point(start + timedelta(days=step_days * at), value, at + 2)
            for at, value in enumerate(values)
        ),
    )


@pytest.mark.parametrize("name", ["MSFT", "IBM", "GOOG"])
@pytest.mark.parametrize("first", ["2009-03-01", "2007-03-01", "2005-06-01"])
def test_the_sample_gives_the_figures_that_the_standard_library_gives(
    name: str, first: str
) -> None:
    table = read_table(Folder(sample_folder()), "prices.csv")
    series = table.find(name)
    assert series is not None
    window = Window(date.fromisoformat(first), date(2010, 3, 1))
    figures = column_figures(series, within(series, window))

    prices = sample_prices(name, first, "2010-03-01")
    assert figures.values == len(prices)
    assert figures.frequency == "monthly"
    assert figures.period_return.value == pytest.approx(prices[-1] / prices[0] - 1)
    assert figures.volatility.value == pytest.approx(
        statistics.stdev(returns(prices)) * math.sqrt(12)
    )
    assert figures.drawdown.figure.value == pytest.approx(deepest_fall(prices))


def test_three_years_of_monthly_prices_are_36_returns_from_the_lines_cited() -> None:
    table = read_table(Folder(sample_folder()), "prices.csv")
    series = table.find("msft")
    assert series is not None
    points = within(series, Window(date(2007, 3, 1), date(2010, 3, 1)))
    figures = column_figures(series, points)
    assert figures.returns == 36
    lines = (sample_folder() / "prices.csv").read_text().splitlines()
    assert lines[figures.first_line - 1].startswith("2007-03-01")
    assert lines[figures.last_line - 1].startswith("2010-03-01")


def test_correlation_is_of_returns_over_the_periods_that_both_have() -> None:
    table = read_table(Folder(sample_folder()), "prices.csv")
    ibm, goog = table.find("IBM"), table.find("GOOG")
    assert ibm is not None
    assert goog is not None
    pair = pair_figures("IBM", within(ibm, EVERYTHING), "GOOG", within(goog, EVERYTHING))
    assert pair is not None
    assert pair.first_date == date(2004, 8, 1)  # before that GOOG has no price
    expected = statistics.correlation(
        returns(sample_prices("IBM", "2004-08-01", "2010-03-01")),
        returns(sample_prices("GOOG", "2004-08-01", "2010-03-01")),
    )
    assert pair.correlation.value == pytest.approx(expected)
    assert pair.returns == 67


def test_the_drawdown_names_its_peak_and_its_trough() -> None:
    drawdown = maximum_drawdown(series_of([100, 120, 90, 130, 70, 140]).points)
    assert drawdown.figure.value == pytest.approx(70 / 130 - 1)
    assert drawdown.peak is not None
    assert drawdown.trough is not None
    assert (drawdown.peak.value, drawdown.peak.line) == (130, 5)
    assert (drawdown.trough.value, drawdown.trough.line) == (70, 6)


def test_prices_that_only_rise_have_a_drawdown_of_zero() -> None:
    assert maximum_drawdown(series_of([1, 2, 3]).points).figure.value == 0


def test_no_return_is_taken_across_a_missing_value() -> None:
    figures = figures_of([100, None, 110, 121])
    assert (figures.values, figures.missing) == (3, 1)
    assert (figures.returns, figures.returns_left_out) == (1, 2)
    assert figures.period_return.value == pytest.approx(0.21)


FEW: Reason = "too few values"
LOW: Reason = "a value is not positive"
ODD: Reason = "irregular dates"
# fmt: off
CASES: list[tuple[str, list[float | None], int, Reason, Reason, Reason]] = [
    # what it is, values, days between them, reason for no return, no volatility, no drawdown
    ("one value",        [5],                 1,  FEW, FEW, FEW),
    ("two values",       [5, 6],              1,  "",  FEW, ""),
    ("a zero",           [5, 0, 6],           1,  "",  LOW, LOW),
    ("a negative first", [-5, 4, 6],          1,  LOW, LOW, LOW),
    ("odd dates",        [5, 6, 7, 8, 9, 10], 17, "",  ODD, ""),
    ("all is well",      [5, 6, 7, 8, 9, 10], 1,  "",  "",  ""),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_what_cannot_be_computed_says_why(
    case: tuple[str, list[float | None], int, Reason, Reason, Reason],
) -> None:
    _, values, step, no_return, no_volatility, no_drawdown = case
    figures = figures_of(values, step)
    found = (figures.period_return, figures.volatility, figures.drawdown.figure)
    assert tuple(figure.reason for figure in found) == (no_return, no_volatility, no_drawdown)
    assert all((figure.value is None) == bool(figure.reason) for figure in found)


def test_a_series_that_does_not_vary_has_no_correlation() -> None:
    flat = series_of([5.0] * 6).points
    pair = pair_figures("A", flat, "B", series_of([1, 2, 3, 5, 8, 13]).points)
    assert pair is not None
    assert (pair.correlation.value, pair.correlation.reason) == (None, "no variation")


def test_series_without_a_common_period_have_no_pair() -> None:
    left = series_of([1, 2, None, None])
    right = series_of([None, None, 1, 2])
    left_points, right_points = within(left, EVERYTHING), within(right, EVERYTHING)
    assert pair_figures("L", left_points, "R", right_points) is None


# fmt: off
FREQUENCIES = [  # days between two values, what they are called, periods a year
    (1, "every day", 365), (7, "weekly", 52), (30, "monthly", 12), (91, "quarterly", 4),
    (365, "yearly", 1), (45, "irregular", None),
]
# fmt: on


@pytest.mark.parametrize(("step", "name", "periods"), FREQUENCIES)
def test_volatility_is_annualised_by_the_frequency_observed(
    step: int, name: str, periods: int | None
) -> None:
    values: list[float | None] = [100, 103, 99, 104, 108, 101]
    figures = figures_of(values, step)
    assert figures.frequency == name
    if periods is None:
        assert figures.volatility.value is None
    else:
        prices = [value for value in values if value is not None]
        expected = statistics.stdev(returns(prices)) * math.sqrt(periods)
        assert figures.volatility.value == pytest.approx(expected)


def test_trading_days_with_weekends_are_daily() -> None:
    days = [date(2023, 1, 2) + timedelta(days=at) for at in range(40)]
    weekdays = [day for day in days if day.weekday() < 5]
    points = tuple(Point(day, 100.0 + at, at + 2) for at, day in enumerate(weekdays))
    assert column_figures(Series("X", points), points).frequency == "daily"


def test_the_first_price_is_the_last_one_on_or_before_the_window() -> None:
    series = series_of([10, 11, 12, 13], step_days=30)  # 1 Jan, 31 Jan, 1 Mar, 31 Mar 2020
    inside = within(series, Window(date(2020, 2, 15), date(2020, 3, 31)))
    assert [point.value for point in inside] == [11, 12, 13]


def test_a_price_much_older_than_the_window_does_not_start_it() -> None:
    day = date(2020, 1, 1)
    points = [Point(day + timedelta(days=at), 10.0 + at, at + 2) for at in range(5)]
    late = [Point(date(2021, 1, at), 90.0 + at, at + 10) for at in range(1, 4)]
    inside = within(Series("X", (*points, *late)), Window(date(2020, 12, 1), date(2021, 2, 1)))
    assert [point.line for point in inside] == [11, 12, 13]


def test_a_window_without_a_value_is_empty() -> None:
    series = series_of([10, 11, None, None])
    assert within(series, Window(date(2030, 1, 1), date(2031, 1, 1))) == ()
    assert within(series, Window(date(2019, 1, 1), date(2019, 2, 1))) == ()
    assert within(series, Window(date(2020, 1, 3), date(2020, 1, 9))) == ()


@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=40))
def test_the_drawdown_is_the_deepest_fall_of_all(values: list[float]) -> None:
    drawdown = maximum_drawdown(series_of(list(values)).points)
    assert drawdown.figure.value == pytest.approx(deepest_fall(values))
    assert drawdown.peak is not None
    assert drawdown.trough is not None
    assert drawdown.peak.day <= drawdown.trough.day
