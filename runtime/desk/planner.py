"""The desk's own decision maker: offline, without a model, always the same for the same input.

It is a `Gateway`, so that an offline run goes the very way of a run with a model: the same
requests, the same effects, and revisions that count because they stand in the request.

It keeps nothing between requests. From the user's messages it derives the calls that the
report needs; those whose results are not in the messages yet are the next calls; when all
are there, it writes the report from exactly these. So a result that was fetched for a window
or a column that has since been changed is not used: no needed call has its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Literal, TypeVar

import msgspec

from ..gateways.protocol import Call, ModelInput, Reply, ReplyStream
from .brief import Brief, read_brief
from .columns import Chosen, choose, column_names, find_alias, known_names
from .material import Excerpt, Failure, Lookup, Material
from .passages import is_table
from .ranking import Found
from .report import write_report
from .tools import (
    PrepareResult,
    ReadResult,
    SearchResult,
    TableListed,
    TablesResult,
    TabulateResult,
)
from .window import Window, resolve

STEPS_MAX = 30  # of indexing, half of the requests that a run has by default
LOOKUPS_MAX = 6
YEARS_MAX = 12
YEARLY_COLUMNS_MAX = 6
_PASSAGES = 3
_PASSAGES_DEEP = 8
_RELEVANT_SHARE = 0.4  # of the best passage's score

_Result = TypeVar("_Result")


class ToolOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one call, as it stands in a message of role `tool`."""

    status: Literal["done", "skipped", "failed", "unknown"]
    value: Any = None
    reason: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """A call that the report needs."""

    name: str
    arguments: dict[str, Any]


class Missing(Exception):
    """The plan cannot go on before these calls are made."""

    def __init__(self, calls: Sequence[Wanted]) -> None:
        super().__init__()
        self.calls = calls


class OfflinePlanner:
    """A gateway that plans research from the words of the request and the results so far."""

    name = "offline-planner"

    def __init__(self, *, deep: bool = False) -> None:
        """With `deep`, more passages are read and each calendar year is tabulated as well."""
        self._deep = deep

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        """Return the next calls, or the report. The same input always gives the same reply."""
        texts = [message.text for message in model_input.messages if message.role == "user"]
        results = Results(model_input)
        try:
            material = plan(texts, results, deep=self._deep)
        except Missing as missing:
            emit.calling()
            return Reply(text="", calls=results.numbered(missing.calls))
        text = write_report(material)
        emit(text)
        return Reply(text=text)


class Results:
    """The outcomes of the calls in a model's input, by what was called."""

    def __init__(self, model_input: ModelInput) -> None:
        calls = {call.call_id: call for m in model_input.messages for call in m.calls}
        self._calls_made = len(calls)
        self._outcomes: dict[tuple[str, bytes], ToolOutcome] = {}
        for message in model_input.messages:
            call = calls.get(message.call_id or "")
            if message.role != "tool" or call is None:
                continue
            outcome = msgspec.json.decode(message.text, type=ToolOutcome)
            if outcome.status != "skipped":  # decided under an older revision and not made
                self._outcomes[_key(call.name, call.arguments)] = outcome

    def find(self, wanted: Wanted) -> ToolOutcome | None:
        """Return the outcome of exactly this call, or None if it has not been made."""
        return self._outcomes.get(_key(wanted.name, wanted.arguments))

    def get(self, wanted: Wanted, type_: type[_Result]) -> _Result | Failure:
        """Return the result of this call, or why it failed.

        Raises:
          Missing: if it has not been made.
        """
        outcome = self.find(wanted)
        if outcome is None:
            raise Missing([wanted])
        if outcome.status != "done":
            return Failure(wanted.name, wanted.arguments, outcome.reason)
        return msgspec.convert(outcome.value, type_)

    def need(self, calls: Sequence[Wanted]) -> None:
        """Raise `Missing` with those of the calls that have not been made, if any."""
        missing = [call for call in calls if self.find(call) is None]
        if missing:
            raise Missing(missing)

    def numbered(self, calls: Sequence[Wanted]) -> tuple[Call, ...]:
        """Return the calls with ids that no earlier call of this input has."""
        return tuple(
            Call(call_id=f"call-{self._calls_made + at}", name=c.name, arguments=c.arguments)
            for at, c in enumerate(calls, start=1)
        )


def plan(texts: Sequence[str], results: Results, *, deep: bool) -> Material:
    """Return everything the report is written from.

    Raises:
      Missing: with the next calls to make, if something is not there yet.
    """
    failures: list[Failure] = []
    _prepare(results, failures)
    listing = _unless_failed(results.get(Wanted("tables", {}), TablesResult), failures)
    tables = listing.tables if listing else ()
    brief = read_brief(texts, known_names(tables))

    topics = _search(brief, results, failures)
    lookups = _look_up(brief, tables, results, failures)
    chosen = choose(brief, [one.alias for one in lookups if one.alias], tables)
    window, main, years = _tabulate(brief, chosen, tables, results, failures, deep=deep)
    excerpts = _read(topics, results, failures, _PASSAGES_DEEP if deep else _PASSAGES)
    return Material(
        request=texts[0],
        revisions=tuple(texts[1:]),
        brief=brief,
        tables=tables,
        tables_refused=listing.refused if listing else (),
        search=topics,
        lookups=lookups,
        chosen=chosen,
        window=window,
        figures=main,
        years=years,
        excerpts=excerpts,
        failures=tuple(failures),
    )


def _prepare(results: Results, failures: list[Failure]) -> None:
    """Have the folder indexed, step by step; beside the first step the tables are listed."""
    results.need([Wanted("prepare", {"step": 1}), Wanted("tables", {})])
    for step in range(1, STEPS_MAX + 1):
        call = Wanted("prepare", {"step": step})
        found = _unless_failed(results.get(call, PrepareResult), failures)
        if found is None or found.waiting == 0:
            return


def _search(brief: Brief, results: Results, failures: list[Failure]) -> SearchResult | None:
    terms = [*brief.names, *brief.topics]
    terms += [word for word in brief.figure_words if word not in terms]
    if not terms:
        return None
    return _unless_failed(results.get(Wanted("search", {"terms": terms}), SearchResult), failures)


def _look_up(
    brief: Brief, tables: Sequence[TableListed], results: Results, failures: list[Failure]
) -> tuple[Lookup, ...]:
    """Look each word up that may name a column in the words of a file."""
    if not tables or not (brief.names or brief.wants_figures):
        return ()
    words = [word for word in brief.topics if word not in brief.figure_words][:LOOKUPS_MAX]
    calls = {word: Wanted("search", {"terms": [word]}) for word in words}
    results.need(list(calls.values()))
    lookups: list[Lookup] = []
    for word, call in calls.items():
        found = _unless_failed(results.get(call, SearchResult), failures)
        passages = [p for p in found.passages if not is_table(p.path)] if found else []
        alias = find_alias(word, passages, column_names(tables))
        lookups.append(Lookup(word, alias, passages[0] if passages else None))
    return tuple(lookups)


def _tabulate(
    brief: Brief,
    chosen: Chosen,
    tables: Sequence[TableListed],
    results: Results,
    failures: list[Failure],
    *,
    deep: bool,
) -> tuple[Window | None, TabulateResult | None, tuple[TabulateResult, ...]]:
    if not chosen.columns:
        return None, None, ()
    window = window_of(brief, chosen, tables)
    main = _unless_failed(results.get(tabulation(chosen, window), TabulateResult), failures)
    if not deep or len(chosen.columns) > YEARLY_COLUMNS_MAX:
        return window, main, ()
    years = range(max(window.first.year, window.last.year - YEARS_MAX + 1), window.last.year + 1)
    calls = [
        tabulation(
            chosen,
            Window(max(window.first, date(year, 1, 1)), min(window.last, date(year, 12, 31))),
        )
        for year in years
    ]
    results.need(calls)
    found = [_unless_failed(results.get(call, TabulateResult), failures) for call in calls]
    return window, main, tuple(year for year in found if year is not None)


def window_of(brief: Brief, chosen: Chosen, tables: Sequence[TableListed]) -> Window:
    """Return the dates of the window asked for, by the dates of the tables that are used."""
    used = [table for table in tables if table.path in {c.path for c in chosen.columns}]
    first, last = min(t.first_date for t in used), max(t.last_date for t in used)
    return resolve(brief.window.span, first, last) if brief.window else Window(first, last)


def tabulation(chosen: Chosen, window: Window) -> Wanted:
    """Return the call that computes the figures of the chosen columns over a window."""
    path = chosen.columns[0].path
    one_file = all(column.path == path for column in chosen.columns)
    return Wanted(
        "tabulate",
        {
            "path": path,
            "columns": [c.name if one_file else f"{c.path}:{c.name}" for c in chosen.columns],
            "first_date": window.first.isoformat(),
            "last_date": window.last.isoformat(),
        },
    )


def _read(
    topics: SearchResult | None, results: Results, failures: list[Failure], limit: int
) -> tuple[Excerpt, ...]:
    """Read the best passages in full. Rows of tables are not prose: figures are their part."""
    passages: list[Found] = [p for p in topics.passages if not is_table(p.path)] if topics else []
    passages = [p for p in passages if p.score >= _RELEVANT_SHARE * passages[0].score][:limit]
    calls = [
        Wanted("read", {"path": p.path, "first_line": p.first_line, "last_line": p.last_line})
        for p in passages
    ]
    results.need(calls)
    excerpts: list[Excerpt] = []
    for passage, call in zip(passages, calls, strict=True):
        found = _unless_failed(results.get(call, ReadResult), failures)
        if found:
            excerpts.append(Excerpt(passage.heading, found))
    return tuple(excerpts)


def _unless_failed(result: _Result | Failure, failures: list[Failure]) -> _Result | None:
    if isinstance(result, Failure):
        failures.append(result)
        return None
    return result


def _key(name: str, arguments: dict[str, Any]) -> tuple[str, bytes]:
    return name, msgspec.json.encode(arguments, order="deterministic")
