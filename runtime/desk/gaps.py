"""What was asked for and is not in the report, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .material import Material
from .tools import COLUMNS_MAX, ColumnResult
from .wording import cite, say


def gap_lines(material: Material) -> list[str]:
    """Return one sentence for each gap, in the language of the request; empty if none."""
    return list(dict.fromkeys([*_names(material), *_figures(material), *_sources(material)]))


def _names(material: Material) -> Iterator[str]:
    language = material.brief.language
    search = material.search
    files = search.files if search else 0
    unresolved = [lookup for lookup in material.lookups if not lookup.alias]
    for lookup in unresolved if material.chosen.columns else ():
        if lookup.mention:
            place = cite(lookup.mention.path, lookup.mention.first_line, lookup.mention.last_line)
            yield say(language, "gap_no_column", word=lookup.word, cite=place)
        else:
            yield say(language, "gap_nowhere", word=lookup.word, files=files)
    if unresolved and material.brief.wants_figures:
        if not material.chosen.columns:
            yield say(language, "gap_no_figures")
        used = {column.path for column in material.chosen.columns}
        for table in [t for t in material.tables if t.path in used or not used][:3]:
            names = ", ".join(table.columns[:12])
            place = cite(table.path, table.header_line)
            yield say(language, "gap_columns", names=names, cite=place)
    said = {lookup.word for lookup in unresolved} if material.chosen.columns else set[str]()
    for word in search.missing if search else ():
        if word not in said and word in material.brief.topics:
            yield say(language, "gap_term", word=word, files=files)


def _figures(material: Material) -> Iterator[str]:
    language, brief = material.brief.language, material.brief
    if brief.wants_figures and not material.tables and brief.window:
        yield say(language, "gap_no_tables")
    elif brief.window and material.tables and not material.chosen.columns:
        yield say(language, "gap_window_unused", phrase=brief.window.text.strip())
    if material.chosen.left_out:
        yield say(language, "gap_left_out", count=material.chosen.left_out, most=COLUMNS_MAX)
    for other in material.chosen.elsewhere:
        yield say(language, "gap_elsewhere", name=other.name, path=other.path)
    if material.figures is None:
        return
    for column in material.figures.columns:
        yield from _column(material, column)
    if "correlation" in brief.figures:
        for pair in material.figures.pairs:
            if pair.figures is None and _has_values(material, pair.left, pair.right):
                yield say(
                    language,
                    "gap_no_pair",
                    left=material.shown(pair.left),
                    right=material.shown(pair.right),
                    cite=", ".join(dict.fromkeys((pair.left_path, pair.right_path))),
                )
    for note in material.figures.notes:
        yield say(language, "gap_note", note=note)


def _column(material: Material, column: ColumnResult) -> Iterator[str]:
    assert material.figures is not None
    language, name = material.brief.language, material.shown(column.asked)
    first, last = material.figures.first_date, material.figures.last_date
    figures = column.figures
    values: dict[str, Any] = {"name": name, "first": first, "last": last, "path": column.path}
    if figures is None:
        yield say(
            language,
            "gap_no_values",
            data_first=column.data_first_date,
            data_last=column.data_last_date,
            **values,
        )
        return
    if figures.first.day > first and (figures.first.day - first).days > figures.gap_days:
        place = cite(column.path, figures.first.line)
        yield say(language, "gap_late_start", data_first=figures.first.day, cite=place, **values)
    if (last - figures.last.day).days > figures.gap_days:
        place = cite(column.path, figures.last.line)
        yield say(language, "gap_early_end", data_last=figures.last.day, cite=place, **values)


def _sources(material: Material) -> Iterator[str]:
    language = material.brief.language
    for failure in material.failures:
        yield say(language, "gap_failed", name=failure.name, reason=failure.reason)
    if material.brief.wants_figures:
        for refused in material.tables_refused:
            yield say(language, "gap_note", note=refused)
    if material.search and material.search.files_waiting:
        waiting = material.search.files_waiting
        yield say(language, "gap_waiting", files=material.search.files, waiting=waiting)
    if material.search and not material.search.complete:
        yield say(language, "gap_incomplete", files=material.search.files)
    if material.search and material.search.files_skipped:
        files = "; ".join(material.search.files_skipped)
        yield say(language, "skipped", files=files)


def _has_values(material: Material, *asked: str) -> bool:
    assert material.figures is not None
    filled = {column.asked for column in material.figures.columns if column.figures}
    return filled.issuperset(asked)
