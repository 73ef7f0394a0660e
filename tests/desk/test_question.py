"""The words of a question become terms to search for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.desk.question import (
    TERM_CHARACTERS_MAX,
    TERMS_MAX,
    forms,
    language_of,
    pairs,
    terms_of,
)

# fmt: off
CASES: list[tuple[str, tuple[str, ...]]] = [
    ("What is the Sharpe ratio?", ("Sharpe", "ratio")),
    ("什么是最大回撤？", ("最大回撤",)),
    ("黄金与美债的关联", ("黄金", "美债", "关联")),
    ("请解释一下夏普比率", ("夏普比率",)),
    ('Where is "group commit" done?', ("group commit", "done")),
    ("“最大 回撤”是什么", ("最大 回撤",)),
    ("How does `open_runtime` use utf-8 in runs.py?", ("open_runtime", "utf-8", "runs.py")),
    ("比较 MSFT 和 S&P 500", ("MSFT", "S&P", "500")),
    ("IT in the US", ("IT", "US")),
    ("ratio Ratio RATIO", ("ratio",)),
    ("what is it?", ()),
    ("", ()),
    ("???", ()),
]
# fmt: on


@pytest.mark.parametrize(("text", "terms"), CASES, ids=[text for text, _ in CASES])
def test_a_question_is_searched_by_these_terms(text: str, terms: tuple[str, ...]) -> None:
    assert terms_of(text) == terms


def test_a_question_of_function_words_may_be_searched_by_them() -> None:
    assert terms_of("what is it", or_stop_words=True) == ("what", "is", "it")


def test_a_chinese_run_falls_apart_into_pairs() -> None:
    assert pairs("最大回撤") == ("最大", "大回", "回撤")
    assert pairs("回撤") == pairs("ratio") == ()


def test_a_word_is_found_in_its_singular_and_plural() -> None:
    assert forms("Ratios") == ("ratios", "ratio")
    assert forms("ratio") == ("ratios", "ratio")
    assert forms("volatilities") == ("volatilities", "volatility")
    assert forms("loss") == ("losss", "loss")
    assert forms("IBM") == ("ibm",)


def test_the_language_of_an_answer_is_that_of_the_question() -> None:
    assert (language_of("Sharpe ratio"), language_of("比较 MSFT")) == ("en", "zh")


@given(st.text(max_size=400))
def test_any_text_gives_few_and_short_terms(text: str) -> None:
    terms = terms_of(text)
    assert len(terms) <= TERMS_MAX
    assert all(0 < len(term) <= TERM_CHARACTERS_MAX for term in terms)
