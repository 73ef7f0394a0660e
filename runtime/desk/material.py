"""What a report is written from: the brief, and the results that its plan asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from .brief import Brief
from .columns import Alias, Chosen
from .ranking import Found
from .tools import ReadResult, SearchResult, TableListed, TabulateResult
from .window import Window


class Failure(msgspec.Struct, frozen=True):
    """A needed call that failed, with the sentence it failed with."""

    name: str
    arguments: dict[str, Any]
    reason: str


class Excerpt(msgspec.Struct, frozen=True):
    """Lines that were read because they answer the search, and the heading above them."""

    heading: str
    lines: ReadResult


class Lookup(msgspec.Struct, frozen=True):
    """A word that is no column: what a file explains it as, or where it is mentioned."""

    word: str
    alias: Alias | None
    mention: Found | None


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known when the report is written."""

    request: str
    revisions: tuple[str, ...]
    brief: Brief
    tables: tuple[TableListed, ...]
    tables_refused: tuple[str, ...]
    search: SearchResult | None
    lookups: tuple[Lookup, ...]
    chosen: Chosen
    window: Window | None
    figures: TabulateResult | None
    years: tuple[TabulateResult, ...]
    excerpts: tuple[Excerpt, ...]
    failures: tuple[Failure, ...]

    def shown(self, asked: str) -> str:
        """Return how the report calls a column that was tabulated as `asked`."""
        for column in self.chosen.columns:
            if asked in (column.name, f"{column.path}:{column.name}"):
                return column.shown
        return asked
