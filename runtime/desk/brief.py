"""What a person asked for, after everything they have added, changed and taken back since.

The request comes first, then each revision in the order it was accepted. Each text is cut at
the words that add ("also", "with", 加上), take away ("drop", "without", 去掉) or narrow down
("only", 只看), and what is named behind them is added, taken away or kept alone. A window in
a later text replaces the one before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from .question import Language, is_cjk, language_of, terms_of
from .stop_words import WORDS_OF_THE_WORK
from .window import Phrase, latest_phrase, without_phrases

FigureName = Literal["return", "volatility", "drawdown", "correlation"]
FIGURE_NAMES: Final[tuple[FigureName, ...]] = ("return", "volatility", "drawdown", "correlation")

_FIGURES: Final[dict[FigureName, str]] = {
    "return": r"\b(?:return|gain)(?:s|ed)?\b|\b(?:rise|rose|risen|fell|fallen|lost|grew|grown)\b"
    r"|(?:区间|累计)?收益率?|回报率?|涨幅|涨跌幅?|[上下]?[涨跌]了?",
    "volatility": r"\b(?:annuali[sz]ed\s+)?volatil(?:ity|e)\b"
    r"|(?:年化)?波动率?",
    "drawdown": r"\b(?:max(?:imum)?\s+)?draw-?downs?\b|最大回撤|回撤",
    "correlation": r"\bcorrelat\w+\b|相关系数|相关性|关联度|关联性?",
}
_FIGURE: Final[dict[FigureName, re.Pattern[str]]] = {
    name: re.compile(pattern, re.IGNORECASE) for name, pattern in _FIGURES.items()
}
_OVERALL = re.compile(
    r"\bcompar\w+\b|\bversus\b|\bvs\b|\bperform\w*\b|\bfared?\b|比较|对比|相比|表现|走势",
    re.IGNORECASE,
)
_EVERY = re.compile(
    r"\b(?:all|every|each)\b(?!\s+(?:the\s+)?(?:data|history|years|dates|period))"
    r"|所有|全部|每一?[只个支]|各[只个支]",
    re.IGNORECASE,
)
_ADD = (
    r"\b(?:add|include|also|plus|with|for|use|but|compare|by|then)\b"
    r"|加上|加入|增加|添加|换成|改成|替换[为成]|再看|比较"
)
_REMOVE = (
    r"\b(?:drop|remove|without|exclud(?:e|ing)|except(?:\s+for)?|leave\s+out|skip|ignore|forget"
    r"|instead\s+of|rather\s+than|replace|swap|all\s+but|apart\s+from|other\s+than|no\s+longer)\b"
    r"|去掉|去除|删除|删掉|不要|排除|除了(?![^。；]*?[还也再])|不看|不含|而不是|剔除"
    r"|把(?=[^。；]*?(?:换成|改成|替换|去掉|删|剔除|排除))"
)
_ONLY = (
    r"\b(?:only|just|solely)\b(?:\s+(?:for|compare|use|show|with)\b)?"
    r"|只看|只要|只比较|仅看|仅比较|只"
)
_MARK = re.compile(
    rf"(?P<remove>{_REMOVE})|(?P<only>{_ONLY})|(?P<deny>\bnot\b)|(?P<add>{_ADD})"
    r"|(?P<stop>[.;!?\n](?=\s|$)|[。；！？])",
    re.IGNORECASE,
)


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is asked for now."""

    language: Language
    window: Phrase | None
    names: tuple[str, ...]
    """Columns and files of the folder that are asked for, as the folder spells them."""
    dropped: tuple[str, ...]
    """Names that were taken back."""
    topics: tuple[str, ...]
    """What else is asked for, in the person's words."""
    figure_words: tuple[str, ...]
    """The person's own words for the figures."""
    figures: tuple[FigureName, ...]
    every_column: bool
    wants_figures: bool
    """True if the words are about figures at all: a comparison, a figure, a window."""

    @property
    def concerns_tables(self) -> bool:
        """True if figures over a table are asked for."""
        return bool(self.names) or self.every_column


class _Asked(msgspec.Struct):
    """The fold's state."""

    names: dict[str, None]
    dropped: dict[str, None]
    topics: dict[str, str]
    figures: dict[FigureName, None]
    figures_dropped: dict[FigureName, None]
    figure_words: dict[str, str]
    every_column: bool = False
    overall: bool = False


def read_brief(texts: Sequence[str], known: Sequence[str]) -> Brief:
    """Return what the texts ask for together; the request first, then each revision.

    `known` are the names of the folder's columns and tables; None of them is guessed: only
    a name that stands in a text counts.
    """
    asked = _Asked({}, {}, {}, {}, {}, {})
    for text in texts:
        plain = without_phrases(text)
        asked.overall |= _OVERALL.search(plain) is not None
        asked.every_column |= _EVERY.search(plain) is not None
        for mode, segment in _segments(plain):
            _take(asked, mode, segment, known)
    on_tables = bool(asked.names) or (asked.every_column and bool(known))
    topics = asked.topics if on_tables else {**asked.topics, **asked.figure_words}
    noise = WORDS_OF_THE_WORK if on_tables else frozenset[str]()
    figures = FIGURE_NAMES if asked.overall or not asked.figures else tuple(asked.figures)
    return Brief(
        language=language_of(texts[0]),
        window=latest_phrase(texts),
        names=tuple(asked.names),
        dropped=tuple(asked.dropped),
        topics=tuple(word for key, word in topics.items() if key not in noise),
        figure_words=tuple(asked.figure_words.values()),
        figures=tuple(
            name for name in FIGURE_NAMES if name in figures and name not in asked.figures_dropped
        ),
        every_column=asked.every_column and bool(known) and not asked.names,
        wants_figures=asked.overall or bool(asked.figures) or latest_phrase(texts) is not None,
    )


def find_names(text: str, known: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the known names that stand in a text, in its order, and the text without them.

    The longest name wins ("Adj Close" before "Close"). A name of letters must stand as a word
    of its own; a name such as IT that is also a common word must be written in its own case.
    """
    found: list[tuple[int, str]] = []
    present = text.lower()  # most of a folder's names are not in a text: a cheap test first
    known = [name for name in set(known) if name.lower() in present]
    for name in sorted(known, key=lambda name: (-len(name), name)):
        word = re.escape(name)
        if not is_cjk(name):
            word = rf"(?<![A-Za-z0-9_]){word}(?![A-Za-z0-9_])"
        common = len(name) < 3 or not terms_of(name.lower()) or name.lower() in WORDS_OF_THE_WORK
        pattern = re.compile(word, re.NOFLAG if common else re.IGNORECASE)
        match = pattern.search(text)
        if match:
            found.append((match.start(), name))
            text = pattern.sub(lambda m: " " * len(m.group()), text)
    return tuple(name for _, name in sorted(found)), text


def _segments(text: str) -> list[tuple[str, str]]:
    segments: list[tuple[str, str]] = []
    mode, start = "add", 0
    for mark in _MARK.finditer(text):
        segments.append((mode, text[start : mark.start()]))
        mode = "add" if mark.lastgroup == "stop" else str(mark.lastgroup)
        start = mark.end()
    segments.append((mode, text[start:]))
    return segments


def _take(asked: _Asked, mode: str, segment: str, known: Sequence[str]) -> None:
    names, rest = find_names(segment, known)
    figures: dict[FigureName, None] = {}
    for figure, pattern in _FIGURE.items():
        for word in pattern.findall(rest):
            figures[figure] = None
            asked.figure_words.setdefault(word.lower(), word)
        rest = pattern.sub(" ", rest)
    topics = {term.lower(): term for term in terms_of(rest)}
    if mode in ("remove", "deny"):
        for name in names:
            asked.names.pop(name, None)
            asked.dropped[name] = None
    if mode == "remove":
        for figure in figures:
            asked.figures.pop(figure, None)
            asked.figures_dropped[figure] = None
        for topic in topics:
            asked.topics.pop(topic, None)
        return
    if mode == "only" and names:
        asked.dropped.update(dict.fromkeys(name for name in asked.names if name not in names))
        asked.names.clear()
        asked.topics.clear()
    if mode == "only" and figures:
        asked.figures.clear()
        asked.overall = False
    if mode != "deny":
        for name in names:
            asked.names[name] = None
            asked.dropped.pop(name, None)
    for figure in figures:
        asked.figures[figure] = None
        asked.figures_dropped.pop(figure, None)
    asked.topics.update((key, term) for key, term in topics.items() if key not in asked.topics)


def is_noise(word: str) -> bool:
    """True for a word about the work itself, such as "prices", that names nothing."""
    return word.lower() in WORDS_OF_THE_WORK or not terms_of(word)
