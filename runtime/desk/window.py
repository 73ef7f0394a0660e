"""The window of time that a person asks for, in English or Chinese, and its dates.

Data seldom ends today, so every relative phrase counts back from the data's LAST date:

- "past three years", "last 3 years", "近三年" with data up to D: D minus three years to D. The
  price that a return starts from is the last one on or before the window's first date, so
  three years of monthly prices give 37 prices and 36 returns (see `figures`).
- "last year" and "the last year" are the past twelve months, as "最近一年" is. "去年" is the
  calendar year before D's; "this year" and "今年" are D's calendar year up to D.
- "2008 to 2009" is 2008-01-01 to 2009-12-31; a month stands for all its days.
- A month has no 31st or 29th: then its last day stands for it.

Where a text names several windows the last one counts ("not three years, one year"), and a
later text wins over an earlier one.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Final, Literal

import msgspec

Unit = Literal["day", "week", "month", "quarter", "year"]


class Past(msgspec.Struct, frozen=True):
    """So much time back from the data's last date."""

    count: int
    unit: Unit


class Between(msgspec.Struct, frozen=True):
    """From one date to another, both included. None: as far as the data goes."""

    first: date | None
    last: date | None


class CalendarYear(msgspec.Struct, frozen=True):
    """The calendar year of the data's last date, or the one so many years before it."""

    years_back: int


class Everything(msgspec.Struct, frozen=True):
    """All the data there is."""


Span = Past | Between | CalendarYear | Everything


class Phrase(msgspec.Struct, frozen=True):
    """A window as it stands in a text, from character `start` to before `end`."""

    span: Span
    text: str
    start: int
    end: int


class Window(msgspec.Struct, frozen=True):
    """A window's dates, both included. `first` is never after `last`."""

    first: date
    last: date


def resolve(span: Span, data_first: date, data_last: date) -> Window:
    """Return the dates that a span means for data of these dates.

    They may lie outside the data ("since 2015" for data that ends in 2010): the caller says
    so rather than show another window than the one asked for.
    """
    match span:
        case Past(count, unit):
            return Window(_back(data_last, count, unit), data_last)
        case Between(first, last):
            start = first or min(data_first, last or data_first)
            end = last or max(data_last, start)
            return Window(min(start, end), max(start, end))
        case CalendarYear(years_back):
            year = max(data_last.year - years_back, date.min.year)
            return Window(date(year, 1, 1), min(date(year, 12, 31), data_last))
        case Everything():
            return Window(data_first, data_last)


def latest_phrase(texts: Sequence[str]) -> Phrase | None:
    """Return the last window that is named in the texts, oldest text first; None if none is."""
    for text in reversed(texts):
        phrases = find_phrases(text)
        if phrases:
            return phrases[-1]
    return None


def find_phrases(text: str) -> tuple[Phrase, ...]:
    """Return the windows named in a text, in order, without overlaps.

    A window that is named to be left out ("instead of three years", "不要近三年") is no window.
    """
    matches = [
        Phrase(span, found.group(), found.start(), found.end())
        for pattern, build in _PATTERNS
        for found in pattern.finditer(text)
        if (span := build(found)) is not None
    ]
    matches.sort(key=lambda phrase: (phrase.start, -phrase.end))
    kept: list[Phrase] = []
    for phrase in matches:
        if not kept or phrase.start >= kept[-1].end:
            kept.append(phrase)
    return tuple(phrase for phrase in kept if not _REFUSED.search(text[: phrase.start]))


def without_phrases(text: str) -> str:
    """Return the text without the words that name windows, for a search on what is left."""
    spans = [
        found.span()
        for pattern, build in _PATTERNS
        for found in pattern.finditer(text)
        if build(found) is not None
    ]
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]} {' ' * (end - start - 1)}{text[end:]}"
    return text


def _back(day: date, count: int, unit: Unit) -> date:
    if unit in ("day", "week"):
        days = min(count * (7 if unit == "week" else 1), day.toordinal() - 1)
        return day - timedelta(days=days)
    months = count * {"month": 1, "quarter": 3, "year": 12}[unit]
    month_number = max(day.year * 12 + day.month - 1 - months, date.min.year * 12)
    year, month = month_number // 12, month_number % 12 + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


_Build = Callable[[re.Match[str]], Span | None]

_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
_NUMBER_WORDS: Final = {word: number for number, word in enumerate(_NUMBERS.split(), start=1)} | {
    "a": 1, "an": 1, "couple": 2, "couple of": 2,
}  # fmt: skip
_UNITS: Final[dict[str, Unit]] = {
    "d": "day",
    "w": "week",
    "m": "month",
    "q": "quarter",
    "y": "year",
    "天": "day",
    "日": "day",
    "周": "week",
    "星期": "week",
    "月": "month",
    "季": "quarter",
    "年": "year",
}
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS: Final = {name: month for month, name in enumerate(_MONTH_NAMES.split(), start=1)}

_N = rf"(?P<n>\d{{1,6}}|an?|couple(?: of)?|{_NUMBERS.replace(' ', '|')})"
_U = r"(?P<u>years?|yrs?|y|months?|mos?|m|weeks?|quarters?|days?)"
_BACK = r"(?:past|last|previous|latest|most\s+recent|recent|trailing|preceding)"
_ZH_N = r"(?P<n>\d{1,6}|[二三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九])"
_ZH_U = r"(?:个)?(?P<u>年|月|季|周|星期|天|日)(?:度|份)?"
_ZH_BACK = r"(?:最近|过去|近|前|往前|改成|改为|换成|只看|只要|缩短到|缩小到|延长到)(?:的)?(?:这)?"

_YEAR = r"(?:19|20)\d\d"
_NAME = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_POINT = (
    rf"(?<![\d.])(?:{_YEAR}[-/.](?:1[0-2]|0?[1-9])[-/.](?:3[01]|[12]\d|0?[1-9])(?!\d)"
    rf"|{_YEAR}[-/.](?:1[0-2]|0?[1-9])(?![\d-])|{_YEAR}\s?年\s?(?:1[0-2]|0?[1-9])\s?月(?:\s?\d\d?\s?[日号])?"
    rf"|(?:(?:\d\d?\s+)?{_NAME}\.?\s+(?:\d\d?,\s*)?){_YEAR}|{_YEAR}\s?[Qq][1-4]|[Qq][1-4]\s?{_YEAR}"
    rf"|{_YEAR}\s?年(?:底|末|初)?|{_YEAR}(?![\d.]))"
)  # fmt: skip


def _past(found: re.Match[str]) -> Span | None:
    number = (found.groupdict().get("n") or "one").lower()
    unit = found["u"].lower()
    count = int(number) if number.isdecimal() else _NUMBER_WORDS.get(number) or _chinese(number)
    return Past(count, _UNITS.get(unit) or _UNITS[unit[0]]) if count else None


def _chinese(number: str) -> int:
    """Return the value of a Chinese number below a hundred, such as 两, 十二 or 三十五."""
    digits = {digit: value for value, digit in enumerate("一二三四五六七八九", start=1)} | {"两": 2}
    tens, ten, ones = number.rpartition("十")
    return (digits.get(tens, 1) * 10 if ten else 0) + digits.get(ones, 0)


def _between(found: re.Match[str]) -> Span | None:
    first, last = _dates(found["a"]), _dates(found["b"])
    if first is None or last is None:
        return None
    return Between(min(first[0], last[0]), max(first[1], last[1]))


def _since(found: re.Match[str]) -> Span | None:
    dates = _point(found)
    return Between(dates[0], None) if dates else None


def _after(found: re.Match[str]) -> Span | None:
    dates = _point(found)
    return Between(dates[1] + timedelta(days=1), None) if dates else None


def _until(found: re.Match[str]) -> Span | None:
    dates = _point(found)
    return Between(None, dates[1]) if dates else None


def _before(found: re.Match[str]) -> Span | None:
    dates = _point(found)
    return Between(None, dates[0] - timedelta(days=1)) if dates else None


def _within(found: re.Match[str]) -> Span | None:
    dates = _point(found)
    return Between(*dates) if dates else None


def _months(count: int) -> _Build:
    return lambda _: Past(count, "month")


def _calendar_year(years_back: int) -> _Build:
    return lambda _: CalendarYear(years_back)


def _everything(_: re.Match[str]) -> Span:
    return Everything()


def _point(found: re.Match[str]) -> tuple[date, date] | None:
    groups = found.groupdict()
    return _dates(groups["a"] or groups["or_a"])


def _dates(point: str) -> tuple[date, date] | None:
    """Return the first and last day of a day, month, quarter or year; None if there is no such."""
    year = int(next(iter(re.findall(_YEAR, point))))
    rest = re.sub(_YEAR, " ", point, count=1).lower()
    quarter = re.search(r"q([1-4])", rest)
    name = re.search(r"[a-z]{3}", rest)
    numbers = [int(number) for number in re.findall(r"\d+", rest)]
    if quarter:
        month = 3 * int(quarter[1])
        return date(year, month - 2, 1), _month_end(year, month)
    if name:
        numbers.insert(0, _MONTHS[name[0]])
    if not numbers:
        return date(year, 1, 1), date(year, 12, 31)
    if len(numbers) == 1:
        return date(year, numbers[0], 1), _month_end(year, numbers[0])
    try:
        day = date(year, numbers[0], numbers[1])
    except ValueError:
        return None
    return day, day


def _month_end(year: int, month: int) -> date:
    return date(year, month, calendar.monthrange(year, month)[1])


_TABLE: Final[tuple[tuple[_Build, str], ...]] = (
    (_past, rf"\b{_BACK}\s+(?:{_N}\s*-?\s*)?{_U}\b"),
    (_past, rf"\b(?:over|only|just|to|it|use|for)\s+(?:the\s+)?{_N}\s+{_U}\b(?!\s+(?:ago|old))"),
    (_past, rf"\b{_N}[-\s](?P<u>year|month|week|quarter|day)\s+(?:window|period|horizon)\b"),
    (_past, rf"{_ZH_BACK}{_ZH_N}{_ZH_U}"),
    (_past, rf"{_ZH_N}{_ZH_U}(?:以来|以内|之内|内|来)"),
    (_months(6), r"\b(?:past|last|latest)\s+half[-\s](?:a[-\s])?year\b|\bhalf\s+a\s+year\b"),
    (_months(6), r"(?:最近|过去|近|前)?半年"),
    (_months(18), r"(?:最近|过去|近|前)?一年半"),
    (_calendar_year(0), r"今年(?:以来)?|本年度?|\bthis\s+year\b|\byear[-\s]to[-\s]date\b|\bytd\b"),
    (_calendar_year(1), r"去年"),
    (_calendar_year(2), r"前年"),
    (
        _between,
        rf"(?:\b(?:from|between)\s+|从|自)?(?P<a>{_POINT})\s*"
        rf"(?:to|and|through|thru|until|till|[-–—~～/]|到|至|和)\s*(?P<b>{_POINT})(?:之间|间)?",
    ),
    (_since, rf"\b(?:since|starting(?:\s+(?:in|from))?)\s+(?P<a>{_POINT})(?P<or_a>)"),
    (_since, rf"\bfrom\s+(?P<a>{_POINT})(?P<or_a>)\s+on(?:wards?)?\b"),
    (_since, rf"(?:自|从)?(?P<a>{_POINT})(?P<or_a>)\s*(?:以来|至今|到现在|起|开始)"),
    (_after, rf"\bafter\s+(?P<a>{_POINT})|(?P<or_a>{_POINT})\s*(?:以后|之后)"),
    (_until, rf"\b(?:until|till|up\s+to|through)\s+(?P<a>{_POINT})|截至\s*(?P<or_a>{_POINT})"),
    (_before, rf"\bbefore\s+(?P<a>{_POINT})|(?P<or_a>{_POINT})\s*(?:以前|之前)"),
    (
        _within,
        rf"\b(?:in|during|for|only|just|of|throughout)\s+(?:the\s+year\s+)?(?P<a>{_POINT})"
        rf"|(?P<or_a>{_POINT})\s+only\b",
    ),
    (_within, rf"(?P<a>(?<![\d.]){_YEAR}\s?年(?:\s?(?:1[0-2]|0?[1-9])\s?月)?)(?P<or_a>)"),
    (_within, rf"^\s*(?P<a>{_POINT})(?P<or_a>)\s*[.。!！]?\s*$"),
    (_everything, r"\ball\s+(?:the\s+)?(?:data|history|years|dates)\b"),
    (_everything, r"\b(?:whole|full|entire)\s+(?:period|history|range)\b"),
    (_everything, r"(?:全部|所有|整个)(?:的)?(?:数据|时间|区间|历史|时段|期间)"),
)
_PATTERNS: Final = tuple((re.compile(regex, re.IGNORECASE), build) for build, regex in _TABLE)

# What stands right before a window that is not wanted.
_REFUSED: Final = re.compile(
    r"(?:\binstead\s+of|\brather\s+than|\bnot|\bno\s+longer)\s+(?:the\s+|over\s+|in\s+)*$"
    r"|(?:不要|不看|不用|而不是|别看|把)\s*$",
    re.IGNORECASE,
)
