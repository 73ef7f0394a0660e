"""A brief is the request and every revision of it, folded in their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.desk.brief import FIGURE_NAMES, find_names, read_brief

KNOWN = ("MSFT", "AMZN", "IBM", "GOOG", "Adj Close", "Close", "IT", "黄金", "prices.csv")

# fmt: off
NAMES: list[tuple[list[str], tuple[str, ...]]] = [  # texts, names asked for in the end
    (["Compare MSFT and IBM over the past three years, with drawdown"], ("MSFT", "IBM")),
    (["compare msft with ibm"], ("MSFT", "IBM")),
    (["比较 MSFT 和黄金近三年的表现"], ("MSFT", "黄金")),
    (["Compare MSFT and IBM", "only the last year, please"], ("MSFT", "IBM")),
    (["Compare MSFT and IBM", "also compare with AMZN"], ("MSFT", "IBM", "AMZN")),
    (["比较 MSFT 和 IBM", "加上黄金"], ("MSFT", "IBM", "黄金")),
    (["Compare MSFT and IBM", "drop IBM"], ("MSFT",)),
    (["Compare MSFT and IBM", "drop IBM and add GOOG"], ("MSFT", "GOOG")),
    (["Compare MSFT and IBM", "without IBM", "add IBM again"], ("MSFT", "IBM")),
    (["Compare MSFT and IBM", "replace IBM with AMZN"], ("MSFT", "AMZN")),
    (["Compare MSFT and IBM", "AMZN instead of IBM"], ("MSFT", "AMZN")),
    (["Compare MSFT and IBM", "not IBM"], ("MSFT",)),
    (["Compare MSFT and IBM", "only AMZN"], ("AMZN",)),
    (["Compare MSFT and IBM", "just IBM, over two years"], ("IBM",)),
    (["比较 MSFT 和 IBM", "去掉 IBM"], ("MSFT",)),
    (["比较 MSFT 和 IBM", "把 IBM 换成 AMZN"], ("MSFT", "AMZN")),
    (["比较 MSFT 和 IBM", "只看 AMZN"], ("AMZN",)),
    (["比较 MSFT 和 IBM", "除了 IBM 还要看 GOOG"], ("MSFT", "IBM", "GOOG")),
    (["Is it true of IBM?"], ("IBM",)),       # "it" is no column, though IT is one
    (["Is IT better than IBM?"], ("IT", "IBM")),
    (["MSFTX and AIBM"], ()),                 # names stand as words of their own
    (["the Adj Close of it"], ("Adj Close",)),
]
# fmt: on


@pytest.mark.parametrize(("texts", "names"), NAMES, ids=[" / ".join(t) for t, _ in NAMES])
def test_names_are_added_taken_back_and_replaced(texts: list[str], names: tuple[str, ...]) -> None:
    assert read_brief(texts, KNOWN).names == names


def test_what_is_no_column_is_a_topic_in_the_persons_words() -> None:
    brief = read_brief(["Compare MSFT with Tesla and 白银 over the past year"], KNOWN)
    assert (brief.names, brief.topics) == (("MSFT",), ("Tesla", "白银"))


def test_without_a_column_the_words_for_figures_are_topics() -> None:
    brief = read_brief(["What does maximum drawdown mean for 黄金与美债的关联?"], ())
    assert not brief.concerns_tables
    assert set(brief.topics) == {"maximum drawdown", "黄金", "美债", "关联"}


# fmt: off
FIGURES = [  # texts, figures in the report
    (["Compare MSFT and IBM, with drawdown"], FIGURE_NAMES),
    (["MSFT and IBM"], FIGURE_NAMES),
    (["the drawdown of MSFT"], ("drawdown",)),
    (["MSFT 的收益率和最大回撤"], ("return", "drawdown")),
    (["the drawdown of MSFT", "add the volatility"], ("volatility", "drawdown")),
    (["Compare MSFT and IBM", "only the drawdown"], ("drawdown",)),
    (["Compare MSFT and IBM", "without correlation"], ("return", "volatility", "drawdown")),
]
# fmt: on


@pytest.mark.parametrize(("texts", "figures"), FIGURES, ids=[" / ".join(t) for t, _ in FIGURES])
def test_figures_are_those_asked_for_or_all(texts: list[str], figures: tuple[str, ...]) -> None:
    assert read_brief(texts, KNOWN).figures == figures


def test_every_column_may_be_asked_for_at_once() -> None:
    brief = read_brief(["Compare all stocks over the past year"], KNOWN)
    assert (brief.every_column, brief.names, brief.topics) == (True, (), ())
    assert not read_brief(["use all the data for MSFT"], KNOWN).every_column


def test_a_later_window_replaces_an_earlier_one() -> None:
    texts = ["MSFT over the past three years", "add IBM", "最近一年"]
    window = read_brief(texts, KNOWN).window
    assert window is not None
    assert window.text == "最近一年"


def test_the_longest_name_wins() -> None:
    assert find_names("Adj Close and Close", KNOWN)[0] == ("Adj Close", "Close")
    assert find_names("only adj close", KNOWN)[0] == ("Adj Close",)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_any_texts_can_be_read(texts: list[str]) -> None:
    brief = read_brief(texts, KNOWN)
    assert not set(brief.names) & set(brief.dropped)
