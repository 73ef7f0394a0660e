"""What an answer may see: a bounded snapshot, fixed when its message was admitted.

A run's record names the newest entry of its conversation at admission. Entries are an
immutable chain, so that name alone fixes the snapshot: what is said or answered later can't
come into it, whatever order a page shows (B35). It holds messages and published answers
only: no unpublished work, no requests, effects or checkpoints of other runs (B36, B37).
What did not fit is counted (C44).
"""

from __future__ import annotations

from typing import Literal

from . import runs
from .engine import ReadTxn
from .events import entries_back
from .ids import MessageId, PublicationId, RunId
from .limits import Limits
from .messages import get as message_of
from .records import Message, Record, Run, Verb


class Item(Record, frozen=True, kw_only=True):
    """One thing that was said before."""

    entry: MessageId | PublicationId
    role: Literal["user", "assistant"]
    run: RunId
    """The run that answers it, that it steers, or that wrote it."""
    verb: Verb | None
    """How a message came in; None for an answer."""
    text: str
    at_ms: int
    stopped: bool
    """A stop of its run had been accepted by then: nobody owes it an answer."""


class Brief(Record, frozen=True, kw_only=True):
    """One background run of the conversation, as an answer may know of it."""

    run: RunId
    run_class: str
    request: str
    """The original request, cut to 512 characters."""


class LeftOut(Record, frozen=True, kw_only=True):
    """What a snapshot does not hold, and why."""

    older: int
    """Entries before the oldest that was looked at."""
    too_large: int
    """Entries among those looked at that did not fit."""


class Snapshot(Record, frozen=True, kw_only=True):
    """What a run may see of its conversation, oldest first."""

    items: tuple[Item, ...]
    overview: tuple[Brief, ...]
    left_out: LeftOut


BRIEF_CHARS_MAX = 512


def snapshot(txn: ReadTxn, limits: Limits, run: Run) -> Snapshot:
    """Return what `run` may see. The same run gives the same snapshot for ever."""
    items: list[Item] = []
    room = limits.history_bytes_max
    looked_at = too_large = 0
    for entry in entries_back(txn, run.history_head):
        if looked_at == limits.history_items_max:
            break
        looked_at += 1
        size = len(entry.text.encode())
        if size > room:
            too_large += 1
            continue
        room -= size
        said = isinstance(entry, Message)
        items.append(
            Item(
                entry=entry.message if isinstance(entry, Message) else entry.publication,
                role="user" if said else "assistant",
                run=entry.run,
                verb=entry.verb if isinstance(entry, Message) else None,
                text=entry.text,
                at_ms=entry.at_ms,
                stopped=_stopped_before(txn, entry.run, run),
            )
        )
    items.reverse()
    return Snapshot(
        items=tuple(items),
        overview=tuple(brief(txn, other) for other in run.overview),
        left_out=LeftOut(older=run.history_entries - looked_at, too_large=too_large),
    )


def _stopped_before(txn: ReadTxn, run_id: RunId, asking: Run) -> bool:
    """By the order of entries, which no clock of another process can turn round."""
    run = runs.find(txn, run_id)
    return (
        run is not None
        and run.stop_entries is not None
        and run.stop_entries <= asking.history_entries
    )


def brief(txn: ReadTxn, run_id: RunId) -> Brief:
    """Return what an answer may know of another run: what was asked, never its work."""
    run = runs.find(txn, run_id)
    assert run is not None, "an overview names runs of its own conversation"
    request = message_of(txn, run.message).text[:BRIEF_CHARS_MAX]
    return Brief(run=run_id, run_class=run.run_class, request=request)
