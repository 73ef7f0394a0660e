"""Part E of the contract as code: every breach of it that a store shows (C49).

One pass over one snapshot, so a live store can be verified while it is written to; a
writer is not held up, but pages that the snapshot sees are not used again until it is
closed. Memory grows by a little a conversation and a run, never by their records.

Nothing in a store makes this raise. A record that does not decode, a key that is none, an
id that leads nowhere or to somebody else: each is a breach, and the pass goes on.

What can't be seen in a store: a write that an owner made after it had lost its run (E8;
it leaves no trace by being refused), what was acknowledged and then lost without a trace
(E10; a receipt that is there is held to what it names), a text that was read by another
scope (E11; records that name each other across scopes are found), and words that have no
hash and were changed: published answers, checkpoints, reasons, times (E12). The input of a
request may be gone, since a host need not keep it; one that is there is held to its hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from . import keys
from .engine import KEY_BYTES_MAX, KEY_FIRST, ReadTxn, StoreError
from .limits import Limits
from .verification.breach import Breach, Findings, spell
from .verification.conversations import (
    check_conversations,
    check_index,
    check_messages,
    check_publications,
)
from .verification.executions import check_runs
from .verification.lookup import Lookup
from .verification.occupancy import check_live, check_owners, check_slots
from .verification.receipts import check_receipts
from .verification.survey import Survey
from .verification.timeline import check_events, check_sequence, check_untold_receipts

__all__ = ["Breach", "verify"]

Check = Callable[[Survey], Findings[None]]

# Events come first: what they tell is what the records of the others are held to. Heads
# come after the entries that they count.
FAMILIES: Final[Mapping[bytes, Check]] = MappingProxyType(
    {
        keys.EVENTS: check_events,
        keys.SEQUENCE[:1]: check_sequence,
        b"m": check_messages,
        b"p": check_publications,
        b"c": check_conversations,
        b"n": check_index,
        b"i": check_receipts,
        b"r": check_runs,
        keys.SLOTS: check_slots,
        keys.LIVE: check_live,
        keys.OWNERS: check_owners,
    }
)
"""Every family of records by the first byte of its keys, in the order of checking."""


def verify(txn: ReadTxn, limits: Limits | None = None) -> Iterator[Breach]:
    """Yield every breach of part E in the store that `txn` reads.

    With `limits` the holders of slots are counted too. A store whose limits were lowered
    may rightly hold more for as long as its runs last, so the caller decides.

    `txn` is read while this is iterated, and must stay open for as long.
    """
    survey = Survey(Lookup(txn), limits)
    for check in (*FAMILIES.values(), check_untold_receipts, _check_strangers):
        try:
            yield from check(survey)
        except StoreError as error:  # the file itself is torn: go on with what can be read
            yield Breach("E12", f"A part of the store can't be read: {error}", ())


def _check_strangers(survey: Survey) -> Findings[None]:
    """E12: every key belongs to a family."""
    below = KEY_FIRST
    for first in sorted(FAMILIES):
        yield from _strangers(survey, below, first)
        below = keys.after(first)
    yield from _strangers(survey, below, b"\xff" * (KEY_BYTES_MAX + 1))


def _strangers(survey: Survey, start: bytes, stop: bytes) -> Findings[None]:
    for key, _ in survey.look.between(start, stop):
        yield Breach("E12", f"{spell(key)} belongs to no family of records.", (key,))
