"""What a run of the desk has done so far, and the request that follows from it.

`Notes` is the run's checkpoint: the exchanges with the model, each with the results of its
calls. A run that goes on from it repeats nothing that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ...store.revisions import Words as Revision
from ..gateways.protocol import Call, ModelInput, ModelMessage, Tool
from .tools import PrepareAsked, ReadAsked, SearchAsked, TablesAsked, TabulateAsked

NOTES_BYTES_MAX = 600_000
"""Kept of the results: below what one request and one checkpoint may hold."""

_LEFT_OUT = '{"status":"skipped","reason":"left out to keep the request short; ask again"}'

_RULES = """You work over a folder of the user's own files, with tools that only read.
Say only what the results show, and cite path:line for every statement. For a figure name the \
formula and the window's first and last date. List what was asked for and not found. Time \
windows count back from the data's last date. Later messages of the user revise the earlier \
ones: the newest counts. Answer in the language of the user."""
_TASKS = {
    "answer": "Answer the question briefly.",
    "research": "Research the request turn by turn and end with a report.",
}


def _offered(name: str, asked: type[msgspec.Struct], description: str) -> Tool:
    _, schemas = msgspec.json.schema_components([asked])
    kept = ("type", "properties", "required", "additionalProperties")
    schema = {key: schemas[asked.__name__][key] for key in kept}
    return Tool(name=name, description=description, parameters=schema)


OFFERED = (
    _offered(
        "prepare",
        PrepareAsked,
        "Takes the files into the index, for some seconds; says how many wait. Count the steps "
        "from 1. A search does so too.",
    ),
    _offered(
        "tables",
        TablesAsked,
        "Lists the CSV files with a date column, their columns and their first and last dates.",
    ),
    _offered(
        "search",
        SearchAsked,
        "Finds the passages that hold the terms, each with its path and lines, and says which "
        "terms stand nowhere.",
    ),
    _offered(
        "read",
        ReadAsked,
        "Gives lines of a file. Lines count from 1, and both ends are given.",
    ),
    _offered(
        "tabulate",
        TabulateAsked,
        "Computes period return, annualised volatility, maximum drawdown and correlation of "
        "columns of a table, between two dates (YYYY-MM-DD; left out, all the data). A column "
        "of another file is written path:column.",
    ),
)
"""The tools of the desk, as a model is told of them; `tools.Tools` carries them out."""


class Exchange(msgspec.Struct, frozen=True):
    """One reply of the model, and the outcome of each of its calls as JSON."""

    text: str
    calls: tuple[Call, ...]
    results: tuple[str, ...]
    revision: int
    """The number of the newest revision that the request carried; 0 for none."""


class Notes(msgspec.Struct, frozen=True):
    """The exchanges of a run, oldest first."""

    exchanges: tuple[Exchange, ...] = ()
    faults: int = 0
    """How often the provider has failed since the last exchange."""

    @property
    def revision(self) -> int:
        """The number of the newest revision that the model knows; 0 for none."""
        return self.exchanges[-1].revision if self.exchanges else 0

    def with_exchange(self, exchange: Exchange) -> Notes:
        """Return the notes with one more exchange, the oldest results left out if need be.

        What was decided under an older revision goes first; the calls stay, so that every
        call in a request has its result.
        """
        exchanges = [*self.exchanges, exchange]
        size = sum(len(result.encode()) for one in exchanges for result in one.results)
        for at, one in enumerate(exchanges[:-1]):
            if size <= NOTES_BYTES_MAX:
                break
            size -= sum(len(result.encode()) - len(_LEFT_OUT) for result in one.results)
            left_out = tuple(_LEFT_OUT for _ in one.results)
            exchanges[at] = msgspec.structs.replace(one, results=left_out)
        return Notes(tuple(exchanges))


def model_input(
    task: Literal["answer", "research"],
    request: str,
    notes: Notes,
    revisions: tuple[Revision, ...],
    tools: Iterable[Tool],
) -> ModelInput:
    """Return the next request: the task, what was done, and every revision in its own words,
    each after the exchanges that did not know it yet.
    """
    messages = [
        ModelMessage(role="system", text=f"{_RULES}\n{_TASKS[task]}"),
        ModelMessage(role="user", text=request),
    ]
    waiting = list(revisions)
    for exchange in notes.exchanges:
        known = [revision for revision in waiting if revision.number <= exchange.revision]
        waiting = waiting[len(known) :]
        messages += _said(known)
        messages.append(ModelMessage(role="assistant", text=exchange.text, calls=exchange.calls))
        messages += [
            ModelMessage(role="tool", text=result, call_id=call.call_id)
            for call, result in zip(exchange.calls, exchange.results, strict=True)
        ]
    messages += _said(waiting)
    return ModelInput(messages=tuple(messages), tools=tuple(tools))


def _said(revisions: Iterable[Revision]) -> list[ModelMessage]:
    return [ModelMessage(role="user", text=revision.text) for revision in revisions]
