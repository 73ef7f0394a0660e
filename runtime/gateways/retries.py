"""When a request that the provider could not take is sent again."""

from __future__ import annotations

import email.utils
import math
from datetime import UTC, datetime
from typing import Final

FIRST_PAUSE_S: Final = 0.5
GROWTH: Final = 2.0
OWN_PAUSE_S_MAX: Final = 30.0
"""A pause that the provider did not ask for is no longer than this."""


def pause_s(retry: int) -> float:
    """Return how long to wait before the retry of this number, counted from 1."""
    assert retry >= 1
    return min(FIRST_PAUSE_S * GROWTH ** min(retry - 1, 16), OWN_PAUSE_S_MAX)


def retry_after_s(value: str | None, date: str | None, now_s: float) -> float | None:
    """Return the pause that a `Retry-After` asks for, or None if it can't be read.

    It is a number of seconds or a date. A date is measured against the answer's own `date`,
    so that clocks that differ do no harm, and against `now_s` where that is missing.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        at = _seconds(value)
        if at is None:
            return None
        told = None if date is None else _seconds(date)
        seconds = at - (now_s if told is None else told)
    return None if math.isnan(seconds) else max(0.0, seconds)


def _seconds(date: str) -> float | None:
    try:
        at: datetime = email.utils.parsedate_to_datetime(date)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
