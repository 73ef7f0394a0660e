"""A short answer: the passages that answer a question, or the figures that it names.

Nothing is made up: an answer is quoted from the files with `path:line`, or it says that
nothing was found.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..gateways.protocol import ModelInput, Reply, ReplyStream
from .brief import read_brief
from .columns import choose, known_names
from .gaps import gap_lines
from .material import Excerpt, Failure, Material
from .passages import is_table
from .planner import Missing, Results, Wanted, tabulation, window_of
from .question import Language, language_of, terms_of
from .ranking import Found
from .report import figure_lines, quote
from .tools import ReadResult, SearchResult, TablesResult, TabulateResult
from .window import without_phrases
from .wording import listed, say

PASSAGES_MAX = 3
_RELEVANT_SHARE = 0.55  # of the best passage's score
_MATCHED_SHARE = 1 / 3  # of the question's terms must stand in the best passage
_CHARACTERS_MAX = 600


class OfflineAnswerer:
    """A gateway that answers from one search, and one tabulation if columns are named."""

    name = "offline-answerer"

    def __init__(self, folder_name: str) -> None:
        self._folder_name = folder_name

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        """Return the next calls, or the answer. The same input always gives the same reply."""
        texts = [message.text for message in model_input.messages if message.role == "user"]
        results = Results(model_input)
        try:
            text = self._answer(texts, results)
        except Missing as missing:
            emit.calling()
            return Reply(text="", calls=results.numbered(missing.calls))
        emit(text)
        return Reply(text=text)

    def _answer(self, texts: Sequence[str], results: Results) -> str:
        language = language_of(texts[0])
        terms = list(
            dict.fromkeys(term for text in texts for term in terms_of(without_phrases(text)))
        )
        if not terms:
            return say(language, "nothing_terms")
        search, tables = Wanted("search", {"terms": terms}), Wanted("tables", {})
        results.need([search, tables])
        figures = _figures(texts, results, results.get(tables, TablesResult))
        if figures:
            return figures
        found = results.get(search, SearchResult)
        if isinstance(found, Failure):
            return say(language, "unavailable", reason=found.reason)
        return passages_answer(language, terms, found, self._folder_name)


def passages_answer(
    language: Language, terms: Sequence[str], found: SearchResult, folder_name: str
) -> str:
    """Return the best passages with their places, and which terms stand nowhere."""
    shown = best_passages(found.passages, len(terms))
    notes: list[str] = []
    if found.files_waiting:
        notes.append(say(language, "gap_waiting", files=found.files, waiting=found.files_waiting))
    if found.files_skipped:
        notes.append(say(language, "skipped", files="; ".join(found.files_skipped[:3])))
    if not shown:
        words = listed(language, list(terms))
        nothing = say(language, "nothing", folder=folder_name, terms=words, files=found.files)
        return "\n".join([nothing, *notes])
    if found.missing:
        notes.insert(0, say(language, "not_mentioned", terms=listed(language, found.missing)))
    parts = [quote(_excerpt(passage)) for passage in shown]
    return "\n\n".join([*parts, "\n".join(notes)] if notes else parts)


def best_passages(passages: Sequence[Found], terms: int) -> list[Found]:
    """Return the few passages worth quoting; none if even the best holds too few terms.

    Rows of a table are quoted only where no other file has the words.
    """
    prose = [passage for passage in passages if not is_table(passage.path)] or list(passages)
    if not prose or len(prose[0].matched) < _MATCHED_SHARE * terms:
        return []
    least = _RELEVANT_SHARE * prose[0].score
    return [passage for passage in prose if passage.score >= least][:PASSAGES_MAX]


def _figures(texts: Sequence[str], results: Results, listing: TablesResult | Failure) -> str | None:
    """Return the figures of the columns that the question names, if it asks for any."""
    if isinstance(listing, Failure):
        return None
    brief = read_brief(texts, known_names(listing.tables))
    chosen = choose(brief, (), listing.tables)
    if not chosen.columns or not brief.wants_figures:
        return None
    window = window_of(brief, chosen, listing.tables)
    figures = results.get(tabulation(chosen, window), TabulateResult)
    if isinstance(figures, Failure):
        return say(brief.language, "gap_failed", name=figures.name, reason=figures.reason)
    material = Material(
        request=texts[0],
        revisions=tuple(texts[1:]),
        brief=msgspec.structs.replace(brief, topics=()),
        tables=listing.tables,
        tables_refused=(),
        search=None,
        lookups=(),
        chosen=chosen,
        window=window,
        figures=figures,
        years=(),
        excerpts=(),
        failures=(),
    )
    return "\n".join([*figure_lines(material), *(f"- {gap}" for gap in gap_lines(material))])


def _excerpt(passage: Found) -> Excerpt:
    """Return a passage cut to what is quoted: for a long one, the lines around its terms."""
    lines = passage.text.split("\n")
    first, last = 0, len(lines) - 1
    if len(passage.text) > _CHARACTERS_MAX:
        words = [term.lower() for term in passage.matched]
        hits = [sum(word in line.lower() for word in words) for line in lines]
        first, last = _around(lines, hits.index(max(hits)))
    start, end = passage.first_line + first, min(passage.first_line + last, passage.last_line)
    text = "\n".join(lines[first : last + 1])
    return Excerpt(passage.heading, ReadResult(passage.path, start, end, end, text))


def _around(lines: Sequence[str], at: int) -> tuple[int, int]:
    """Return the first and last of the lines around one of them that fit, before and after."""
    first = last = at
    size = len(lines[at])
    grown = True
    while grown:
        grown = False
        for beside in (first - 1, last + 1):
            if 0 <= beside < len(lines) and size + len(lines[beside]) < _CHARACTERS_MAX:
                size += len(lines[beside]) + 1
                first, last = min(first, beside), max(last, beside)
                grown = True
    return first, last
