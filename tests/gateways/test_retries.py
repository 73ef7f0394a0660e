"""How long a gateway waits before it sends a request again."""

from __future__ import annotations

import pytest

from counterpoint.runtime.gateways.retries import OWN_PAUSE_S_MAX, pause_s, retry_after_s

NOON = "Tue, 01 Dec 2026 12:00:00 GMT"
NOON_S = 1_796_126_400.0
HALF_PAST = "Tue, 01 Dec 2026 12:30:00 GMT"

# fmt: off
CASES = {
    "none":                 (None,                          NOON, None),
    "seconds":              ("20",                          NOON, 20.0),
    "half seconds":         (" 1.5 ",                       NOON, 1.5),
    "none at all":          ("0",                           NOON, 0.0),
    "below nothing":        ("-3",                          NOON, 0.0),
    "a date":               (HALF_PAST,                     NOON, 1800.0),
    "a date, no clock":     (HALF_PAST,                     None, 1800.0),
    "a clock that differs": (HALF_PAST,                     "Tue, 01 Dec 2026 12:20:00 GMT", 600.0),
    "a clock unreadable":   (HALF_PAST,                     "noon", 1800.0),
    "a date gone by":       ("Tue, 01 Dec 2026 11:00:00 GMT", NOON, 0.0),
    "no zone":              ("Tue, 01 Dec 2026 12:30:00 -0000", NOON, 1800.0),
    "words":                ("soon",                        NOON, None),
    "nothing":              ("",                            NOON, None),
    "no number":            ("nan",                         NOON, None),
    "for ever":             ("inf",                         NOON, float("inf")),
    "digits of others":     ("²",                           NOON, None),
    "a year too large":     ("Tue, 01 Dec 99999 12:00:00 GMT", NOON, None),
}
# fmt: on


@pytest.mark.parametrize(("value", "date", "seconds"), CASES.values(), ids=CASES)
def test_retry_after_is_read_as_seconds_or_as_a_date(
    value: str | None, date: str | None, seconds: float | None
) -> None:
    assert retry_after_s(value, date, NOON_S) == seconds


def test_the_own_pause_grows_up_to_its_bound() -> None:
    assert [pause_s(retry) for retry in range(1, 6)] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert pause_s(7) == pause_s(10_000) == OWN_PAUSE_S_MAX
