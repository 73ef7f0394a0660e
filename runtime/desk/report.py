"""The report of a research run: every statement with the lines it stands on.

A figure cites the rows it was computed from and names its window's first and last date; a
passage cites its lines; a formula is named once. What was asked for and not found is listed
at the end, so that a reader sees what the report does not cover.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .brief import FigureName
from .figures import PERIODS_A_YEAR, ColumnFigures, Figure
from .gaps import gap_lines
from .material import Excerpt, Material
from .question import Language
from .tools import ColumnResult
from .wording import cite, say

_EXCERPT_CHARACTERS = 900
_TITLE_CHARACTERS = 200


def write_report(material: Material) -> str:
    """Return the report in Markdown, its frame words in the language of the request."""
    language = material.brief.language
    lines = [f"# {say(language, 'title', request=_one_line(material.request))}", ""]
    for number, text in enumerate(material.revisions, start=1):
        lines.append(f"- {say(language, 'revised', number=number, text=_one_line(text))}")
    lines += _figures(material)
    lines += _passages(material)
    lines += ["", f"## {say(language, 'gaps')}", ""]
    lines += [f"- {line}" for line in gap_lines(material)] or [say(language, "no_gaps")]
    return "\n".join(lines) + "\n"


def percent(value: float, *, sign: bool = False) -> str:
    """Return a share as a percentage with two decimals: 0.807 is 80.70%."""
    return f"{value:+.2%}" if sign else f"{value:.2%}"


def _figures(material: Material) -> Iterator[str]:
    found, language = material.figures, material.brief.language
    if found is None or material.window is None:
        return
    key = "window_asked" if material.brief.window else "window_all"
    phrase = material.brief.window.text.strip() if material.brief.window else ""
    yield f"- {say(language, key, first=found.first_date, last=found.last_date, phrase=phrase)}"
    for lookup in material.lookups:
        if lookup.alias:
            place = cite(lookup.alias.path, lookup.alias.line)
            name = lookup.alias.name
            yield f"- {say(language, 'alias', word=lookup.word, name=name, cite=place)}"
    yield from ("", f"## {say(language, 'figures')}", "")
    yield from figure_lines(material)
    yield from _side_by_side(material)
    yield from _years(material)
    yield from ("", f"## {say(language, 'method')}", "")
    for name in material.brief.figures:
        if name != "correlation" or found.pairs:
            yield f"- {say(language, f'formula_{name}')}"
    yield f"- {say(language, 'formula_first')}"


def figure_lines(material: Material) -> Iterator[str]:
    """Yield the lines of every column and pair that was tabulated, each with its place."""
    for column in material.figures.columns if material.figures else ():
        if column.figures:
            yield from _column(material, column, column.figures)
    yield from _pairs(material)


def _column(material: Material, column: ColumnResult, figures: ColumnFigures) -> Iterator[str]:
    language, path = material.brief.language, column.path
    place = cite(path, figures.first_line, figures.last_line)
    ends = cite(path, figures.first.line) + ", " + cite(path, figures.last.line)
    frequency = say(language, figures.frequency)
    first, last = figures.first, figures.last
    head = {"name": material.shown(column.asked), "first": first.day, "last": last.day}
    yield "- " + say(
        language, "column", values=figures.values, frequency=frequency, cite=place, **head
    )
    if "return" in material.brief.figures:
        yield _figure(
            language,
            "return",
            figures.period_return,
            ends,
            value=_signed(figures.period_return),
            first_value=_number(first.value),
            last_value=_number(last.value),
            first=first.day,
            last=last.day,
        )
    if "volatility" in material.brief.figures:
        yield _figure(
            language,
            "volatility",
            figures.volatility,
            place,
            value=_plain(figures.volatility),
            returns=figures.returns,
            frequency=frequency,
            periods=PERIODS_A_YEAR.get(figures.frequency),
        )
    if "drawdown" in material.brief.figures:
        yield _drawdown(language, path, figures, place)
    if figures.missing:
        left_out, missing = figures.returns_left_out, figures.missing
        yield "  - " + say(
            language, "returns_left_out", missing=missing, count=left_out, cite=place
        )


def _figure(language: Language, name: FigureName, figure: Figure, place: str, **values: Any) -> str:
    if figure.value is None:
        reason = say(language, figure.reason)
        title = say(language, f"{name}_name")
        return "  - " + say(language, "none", figure=title, reason=reason, cite=place)
    return "  - " + say(language, name, cite=place, **values)


def _drawdown(language: Language, path: str, figures: ColumnFigures, place: str) -> str:
    drawdown = figures.drawdown
    if drawdown.figure.value == 0:
        return "  - " + say(language, "no_drawdown", cite=place)
    peak, trough = drawdown.peak, drawdown.trough
    if peak is None or trough is None:
        return _figure(language, "drawdown", drawdown.figure, place)
    return _figure(
        language,
        "drawdown",
        drawdown.figure,
        place,
        value=_plain(drawdown.figure),
        peak=peak.day,
        peak_value=_number(peak.value),
        peak_cite=cite(path, peak.line),
        trough=trough.day,
        trough_value=_number(trough.value),
        trough_cite=cite(path, trough.line),
    )


def _pairs(material: Material) -> Iterator[str]:
    if material.figures is None or "correlation" not in material.brief.figures:
        return
    language = material.brief.language
    for pair in material.figures.pairs:
        figures = pair.figures
        if figures is None:
            continue
        places = (
            cite(pair.left_path, *figures.left_lines),
            cite(pair.right_path, *figures.right_lines),
        )
        place = ", ".join(dict.fromkeys(places))
        left, right = material.shown(pair.left), material.shown(pair.right)
        if figures.correlation.value is None:
            title = f"{say(language, 'correlation_name')} {left}, {right}"
            reason = say(language, figures.correlation.reason)
            yield "- " + say(language, "none", figure=title, reason=reason, cite=place)
            continue
        yield "- " + say(
            language,
            "correlation",
            left=left,
            right=right,
            value=f"{figures.correlation.value:.2f}",
            returns=figures.returns,
            first=figures.first_date,
            last=figures.last_date,
            cite=place,
        )


def _side_by_side(material: Material) -> Iterator[str]:
    """Name the highest and lowest of each figure, only over the same dates."""
    assert material.figures is not None
    language = material.brief.language
    columns = [(c, c.figures) for c in material.figures.columns if c.figures]
    if len(columns) < 2:
        return
    yield from ("", f"## {say(language, 'comparison')}", "")
    if len({(figures.first.day, figures.last.day) for _, figures in columns}) > 1:
        yield f"- {say(language, 'gap_not_comparable')}"
        return
    for name in material.brief.figures:
        if name == "correlation":
            continue
        ranked = sorted(
            (
                (figure.value, material.shown(c.asked), cite(c.path, f.first_line, f.last_line))
                for c, f in columns
                if (figure := _figure_of(f, name)).value is not None
            ),
            reverse=True,
        )
        if len(ranked) < 2:
            continue
        best, worst = ranked[0], ranked[-1]
        yield "- " + say(
            language,
            "mildest" if name == "drawdown" else "most",
            figure=say(language, f"{name}_name"),
            best=best[1],
            best_value=percent(best[0], sign=name == "return"),
            best_cite=best[2],
            worst=worst[1],
            worst_value=percent(worst[0], sign=name == "return"),
            worst_cite=worst[2],
        )


def _figure_of(figures: ColumnFigures, name: FigureName) -> Figure:
    if name == "drawdown":
        return figures.drawdown.figure
    return figures.period_return if name == "return" else figures.volatility


def _years(material: Material) -> Iterator[str]:
    language = material.brief.language
    if not material.years:
        return
    yield from ("", f"## {say(language, 'years')}", "")
    for year in material.years:
        for column in year.columns:
            figures = column.figures
            if figures is None or figures.values < 2:
                continue
            yield "- " + say(
                language,
                "year",
                name=material.shown(column.asked),
                first=figures.first.day,
                last=figures.last.day,
                value=_signed(figures.period_return),
                drawdown=_plain(figures.drawdown.figure),
                cite=cite(column.path, figures.first_line, figures.last_line),
            )


def _passages(material: Material) -> Iterator[str]:
    if not material.excerpts:
        return
    yield from ("", f"## {say(material.brief.language, 'passages')}", "")
    for excerpt in material.excerpts:
        yield from (quote(excerpt), "")


def quote(excerpt: Excerpt) -> str:
    """Return lines of a file as a quotation with its heading and its place."""
    read = excerpt.lines
    text, last = read.text, read.last_line
    if len(text) > _EXCERPT_CHARACTERS:
        cut = text.rfind("\n", 0, _EXCERPT_CHARACTERS)
        text = text[: cut if cut > 0 else _EXCERPT_CHARACTERS]
        last = read.first_line + text.count("\n")
        text += " …"
    head = f"**{excerpt.heading}** " if excerpt.heading else ""
    body = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    return f"{head}[{cite(read.path, read.first_line, last)}]\n{body}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.10g}"


def _signed(figure: Figure) -> str:
    return "–" if figure.value is None else percent(figure.value, sign=True)


def _plain(figure: Figure) -> str:
    return "–" if figure.value is None else percent(figure.value)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARACTERS else f"{line[:_TITLE_CHARACTERS]}…"
