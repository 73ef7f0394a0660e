"""The words of a question, as terms to search for. English and Chinese, also mixed.

A term is a word, an identifier, a quoted phrase or a run of Chinese characters between
function words. Chinese has no spaces, so a run such as 黄金与美债的关联 is cut at function
words into 黄金, 美债, 关联; where a run is not found whole, the index looks for its pairs of
characters (`pairs`).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from .stop_words import CHINESE_STOP_WORDS, ENGLISH_STOP_WORDS

Language = Literal["en", "zh"]

TERMS_MAX = 16
TERM_CHARACTERS_MAX = 80

_CJK: Final = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af"
_HAN = re.compile(f"[{_CJK}]")
_QUOTED = re.compile(r'"([^"\n]{2,80})"|“([^”\n]{2,80})”|「([^」\n]{2,80})」|`([^`\n]{2,80})`')
# A word may hold . - & ' inside (`utf-8`, `S&P`, `runs.py`), not at its end.
_WORD = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+(?:[.\-&'][^\W{_CJK}]+)*")

_CHINESE_CUT = re.compile("|".join(CHINESE_STOP_WORDS))


def language_of(text: str) -> Language:
    """Return the language to answer in: Chinese if the text holds any Chinese character."""
    return "zh" if _HAN.search(text) else "en"


def is_cjk(term: str) -> bool:
    """True if the term has a Chinese, Japanese or Korean character in it."""
    return _HAN.search(term) is not None


def terms_of(text: str, *, or_stop_words: bool = False) -> tuple[str, ...]:
    """Return what to search for, in the order of the text, each once, at most `TERMS_MAX`.

    A quoted phrase is one term. Function words are dropped; with `or_stop_words` they are
    kept where nothing else is there ("what is it" has nothing better to go by).
    """
    phrases = [next(filter(None, found.groups())).strip() for found in _QUOTED.finditer(text)]
    rest = _QUOTED.sub(" ", text)
    words = [word for piece in _WORD.findall(rest) for word in _split(piece)]
    found = _distinct([*phrases, *(word for word in words if not _is_stop_word(word))])
    return found or (_distinct(words) if or_stop_words else ())


def pairs(term: str) -> tuple[str, ...]:
    """Return the overlapping pairs of characters of a Chinese run: what to try if the whole
    is not found. Empty for a run of two and for words in letters.
    """
    if len(term) < 3 or not all(_HAN.match(character) for character in term):
        return ()
    return _distinct([term[at : at + 2] for at in range(len(term) - 1)])


def forms(word: str) -> tuple[str, ...]:
    """Return the word in lower case and its plain plural or singular, longest first."""
    word = word.lower()
    if not word.isascii() or not word.isalpha() or len(word) < 4:
        return (word,)
    if word.endswith("ies"):
        return (word, word[:-3] + "y")
    if word.endswith("s") and not word.endswith("ss"):
        return (word, word[:-1])
    return (word + "s", word)


def _split(piece: str) -> list[str]:
    if not _HAN.search(piece):
        return [piece.removesuffix("'s")]
    return [run.strip() for run in _CHINESE_CUT.split(piece) if run.strip()]


def _is_stop_word(word: str) -> bool:
    if len(word) == 1 and not word.isdigit():
        return True  # one letter, or what a function word has left over of a Chinese run
    # "IT" and "US" are names where the person wrote them in capitals.
    return word.lower() in ENGLISH_STOP_WORDS and not (word.isupper() and len(word) > 1)


def _distinct(words: list[str]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for word in words:
        kept.setdefault(word.lower(), word[:TERM_CHARACTERS_MAX])
    return tuple(list(kept.values())[:TERMS_MAX])
