"""Which passages of an index answer a search, and in which order.

A term is found whole, or a Chinese run by its pairs of characters. A passage scores for each
term by how rare the term is, and whether it stands there as a word of its own, in the text
or in the heading above it; equal scores go by bm25.
"""

from __future__ import annotations

import math
import re
import sqlite3
from typing import Any

import msgspec

from .question import forms, is_cjk, pairs

_CANDIDATES_MAX = 200
_SCANNED_MAX = 200
_TRIGRAM = 3
_HEADING_WEIGHT = 2.0  # bm25: words of a heading count double
_WITHIN_WORD = 0.2  # "ratio" inside "iteration" is hardly a find
_HEADING_SHARE = 0.8  # of a find in the text itself
_MATCHED = 0.3  # less than that is not called a match
_PAIRS_ONLY = 0.6  # a Chinese run found in pairs of characters, not whole


class Found(msgspec.Struct, frozen=True):
    """A passage that answers a search, best first."""

    path: str
    first_line: int
    last_line: int
    heading: str
    text: str
    score: float
    matched: tuple[str, ...]
    """Those of the searched terms that stand in it."""


def rank(base: sqlite3.Connection, terms: tuple[str, ...]) -> tuple[list[Found], tuple[str, ...]]:
    """Return the passages that hold any of the terms, best first, and the terms that none holds.

    The search is bounded: of a common term only the best 200 passages are looked at.
    """
    full_text = base.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone()
    (total,) = base.execute("SELECT count(*) FROM passages").fetchone()
    rows: dict[int, tuple[Any, ...]] = {}
    weights: dict[str, float] = {}
    for term in terms:
        hits = _candidates(base, forms(term)[-1], full_text is not None)
        if not hits:
            for pair in pairs(term):
                hits += _candidates(base, pair, full_text is not None)
        rows.update((hit[0], hit) for hit in hits)
        weights[term] = math.log(1 + (total + 1) / (len(hits) + 1))
    return _score(list(rows.values()), weights)


def _candidates(base: sqlite3.Connection, needle: str, full_text: bool) -> list[tuple[Any, ...]]:
    """Return up to 200 rows with `needle` in them: id, path, lines, heading, text, bm25."""
    columns = "p.id, p.path, p.first_line, p.last_line, p.heading, p.text"
    if full_text and len(needle) >= _TRIGRAM:
        phrase = '"' + needle.replace('"', '""') + '"'
        return base.execute(
            f"SELECT {columns}, bm25(words, {_HEADING_WEIGHT}, 1.0) AS rank FROM words"
            " JOIN passages p ON p.id = words.rowid WHERE words MATCH ? ORDER BY rank LIMIT ?",
            (phrase, _CANDIDATES_MAX),
        ).fetchall()
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", needle) + "%"
    return base.execute(
        f"SELECT {columns}, 0.0 FROM passages p WHERE p.text LIKE ?1 ESCAPE '\\'"
        " OR p.heading LIKE ?1 ESCAPE '\\' ORDER BY p.path, p.first_line LIMIT ?2",
        (pattern, _SCANNED_MAX),
    ).fetchall()


def _score(
    rows: list[tuple[Any, ...]], weights: dict[str, float]
) -> tuple[list[Found], tuple[str, ...]]:
    found: list[tuple[float, Found]] = []
    met: set[str] = set()
    for _, path, first, last, heading, text, rank in rows:
        title, body = heading.lower(), text.lower()
        strengths = {
            term: _presence(term, body) + _HEADING_SHARE * _presence(term, title)
            for term in weights
        }
        score = sum(weights[term] * strength for term, strength in strengths.items())
        matched = tuple(term for term, strength in strengths.items() if strength >= _MATCHED)
        met.update(matched)
        if matched:
            shown = Found(path, first, last, heading, text, round(score, 3), matched)
            found.append((rank, shown))
    found.sort(key=lambda pair: (-pair[1].score, pair[0], pair[1].path, pair[1].first_line))
    return [passage for _, passage in found], tuple(t for t in weights if t not in met)


def _presence(term: str, place: str) -> float:
    if is_cjk(term):
        if term.lower() in place:
            return 1.0
        parts = pairs(term)
        share = sum(part in place for part in parts) / len(parts) if parts else 0.0
        return _PAIRS_ONLY * share
    for form in forms(term):
        if re.search(rf"(?<![^\W_]){re.escape(form)}(?![^\W_])", place):
            return 1.0
    return _WITHIN_WORD if forms(term)[-1] in place else 0.0
