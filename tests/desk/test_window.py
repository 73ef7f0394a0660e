"""The window of time that a person asks for becomes the right dates.

Method: a table of phrases in English and Chinese, each with the dates it means for data from
2000-01-01 to 2010-03-01; then the rules that hold for any date, as properties.
"""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.desk.window import (
    Between,
    CalendarYear,
    Everything,
    Past,
    find_phrases,
    latest_phrase,
    resolve,
    without_phrases,
)

FIRST, LAST = date(2000, 1, 1), date(2010, 3, 1)

# fmt: off
CASES = [  # what a person says, the window's first date, its last date
    ("past three years", "2007-03-01", "2010-03-01"),
    ("over the last 3 years", "2007-03-01", "2010-03-01"),
    ("only the last year, please", "2009-03-01", "2010-03-01"),
    ("last year", "2009-03-01", "2010-03-01"),
    ("the past year", "2009-03-01", "2010-03-01"),
    ("past 6 months", "2009-09-01", "2010-03-01"),
    ("the last couple of years", "2008-03-01", "2010-03-01"),
    ("half a year", "2009-09-01", "2010-03-01"),
    ("the last two quarters", "2009-09-01", "2010-03-01"),
    ("in the last 90 days", "2009-12-01", "2010-03-01"),
    ("last 2 weeks", "2010-02-15", "2010-03-01"),
    ("make it two years", "2008-03-01", "2010-03-01"),
    ("a 3-year window", "2007-03-01", "2010-03-01"),
    ("2008 to 2009", "2008-01-01", "2009-12-31"),
    ("2008-2009", "2008-01-01", "2009-12-31"),
    ("2008–2009", "2008-01-01", "2009-12-31"),
    ("from 2008-03 to 2009-06", "2008-03-01", "2009-06-30"),
    ("between March 2008 and June 2009", "2008-03-01", "2009-06-30"),
    ("2008-03-15 to 2008-04-20", "2008-03-15", "2008-04-20"),
    ("2009 to 2008", "2008-01-01", "2009-12-31"),
    ("since 2007", "2007-01-01", "2010-03-01"),
    ("from 2007 onwards", "2007-01-01", "2010-03-01"),
    ("after 2007", "2008-01-01", "2010-03-01"),
    ("until 2008", "2000-01-01", "2008-12-31"),
    ("before 2008", "2000-01-01", "2007-12-31"),
    ("in 2009", "2009-01-01", "2009-12-31"),
    ("2009 only", "2009-01-01", "2009-12-31"),
    ("2009", "2009-01-01", "2009-12-31"),
    ("Q1 2009", "2009-01-01", "2009-03-31"),
    ("in February 2008", "2008-02-01", "2008-02-29"),
    ("this year", "2010-01-01", "2010-03-01"),
    ("all the data", "2000-01-01", "2010-03-01"),
    ("近三年", "2007-03-01", "2010-03-01"),
    ("过去两年", "2008-03-01", "2010-03-01"),
    ("过去三十年", "1980-03-01", "2010-03-01"),
    ("只看最近一年", "2009-03-01", "2010-03-01"),
    ("那改成近一年呢？", "2009-03-01", "2010-03-01"),
    ("近6个月", "2009-09-01", "2010-03-01"),
    ("最近十二个月", "2009-03-01", "2010-03-01"),
    ("半年", "2009-09-01", "2010-03-01"),
    ("近一年半", "2008-09-01", "2010-03-01"),
    ("三年以来", "2007-03-01", "2010-03-01"),
    ("2008年到2009年", "2008-01-01", "2009-12-31"),
    ("2008年3月至2009年6月", "2008-03-01", "2009-06-30"),
    ("2008年", "2008-01-01", "2008-12-31"),
    ("2008年2月", "2008-02-01", "2008-02-29"),
    ("2007年至今", "2007-01-01", "2010-03-01"),
    ("2009年之前", "2000-01-01", "2008-12-31"),
    ("去年", "2009-01-01", "2009-12-31"),
    ("今年以来", "2010-01-01", "2010-03-01"),
    ("全部数据", "2000-01-01", "2010-03-01"),
    # Where several are named, the last one counts, and one that is refused does not.
    ("not the past three years, only the last year", "2009-03-01", "2010-03-01"),
    ("the last year instead of the past three years", "2009-03-01", "2010-03-01"),
    ("把近三年改成近一年", "2009-03-01", "2010-03-01"),
    ("不要近三年，看近两年", "2008-03-01", "2010-03-01"),
]
NO_WINDOW = [
    "10-year bond yields", "sp500-2009 file", "three years ago", "version 2.2009", "what is gold?",
    "past 0 years", "2008-13-45 to nowhere", "比较 MSFT 和 IBM", "",
]
# fmt: on


@pytest.mark.parametrize(("text", "first", "last"), CASES, ids=[case[0] for case in CASES])
def test_a_phrase_means_these_dates(text: str, first: str, last: str) -> None:
    phrase = latest_phrase([text])
    assert phrase is not None
    window = resolve(phrase.span, FIRST, LAST)
    assert (window.first.isoformat(), window.last.isoformat()) == (first, last)


@pytest.mark.parametrize("text", NO_WINDOW)
def test_what_is_no_window_is_not_taken_for_one(text: str) -> None:
    assert latest_phrase([text]) is None


def test_a_later_text_wins_and_one_without_a_window_changes_nothing() -> None:
    texts = ["Compare them over the past three years", "only the last year", "add AMZN"]
    phrase = latest_phrase(texts)
    assert phrase is not None
    assert phrase.span == Past(1, "year")


def test_a_day_that_the_month_does_not_have_becomes_its_last() -> None:
    window = resolve(Past(1, "year"), FIRST, date(2008, 2, 29))
    assert window.first == date(2007, 2, 28)
    assert resolve(Past(1, "month"), FIRST, date(2009, 3, 31)).first == date(2009, 2, 28)


def test_the_words_of_a_window_are_not_searched_for() -> None:
    text = without_phrases("Compare MSFT over the past three years since 2005 with IBM")
    assert text.split() == ["Compare", "MSFT", "over", "the", "with", "IBM"]


def test_an_impossible_date_is_no_window() -> None:
    assert find_phrases("since 2009-02-30") == ()


@given(
    st.one_of(
        st.builds(
            Past,
            st.integers(1, 10**6),
            st.sampled_from(["day", "week", "month", "quarter", "year"]),
        ),
        st.builds(Between, st.none() | st.dates(), st.none() | st.dates()),
        st.builds(CalendarYear, st.integers(0, 5)),
        st.just(Everything()),
    ),
    st.dates(),
    st.dates(),
)
def test_a_window_never_ends_before_it_begins(
    span: Past | Between | CalendarYear | Everything, one: date, other: date
) -> None:
    window = resolve(span, min(one, other), max(one, other))
    assert window.first <= window.last


@given(st.text(max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    for phrase in find_phrases(text):
        assert text[phrase.start : phrase.end] == phrase.text
    assert len(without_phrases(text)) == len(text)
