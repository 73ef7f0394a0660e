"""What becomes of the runs of a host process that is gone (A61-A61c, D13, C30-C32).

Whether a process is gone is not decided here: the caller has found its lock free. Each run
is looked at in a transaction of its own, so a fault at one of them does not touch another,
and doing it twice, from two processes at once too, changes nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from . import endings, keys, runs
from .engine import ReadTxn, Txn
from .ids import OwnerId, PublicationId, RunId
from .records import EventKind, Owner, Reason, Record, Run, RunState, decode, encode


class Orphan(Record, frozen=True, kw_only=True):
    """A run whose owner is gone, and who looks after it now."""

    run: RunId
    lost: OwnerId
    heir: OwnerId
    publication: PublicationId
    now_ms: int


class Adopted(Record, frozen=True, kw_only=True):
    """The run had sent nothing: the heir starts it."""

    run: Run


class Settled(Record, frozen=True, kw_only=True):
    """The run has ended."""

    run: Run


def settle(txn: Txn, orphan: Orphan) -> Adopted | Settled | None:
    """Adopt or end a run whose owner is gone; None if somebody else already has.

    A run that had sent no request and started no effect is started by the heir under its
    own identity. A run whose stop was accepted is stopped. Any other is interrupted, with
    what it had committed kept, and its effects under way unknown (A59).
    """
    run = runs.find(txn, orphan.run)
    if run is None or run.owner != orphan.lost or run.state in runs.FINAL:
        return None
    if run.state is RunState.ADMITTED:
        run = replace(run, owner=orphan.heir)
        runs.put(txn, run)
        log = runs.log(txn, run, orphan.now_ms)
        log.append(EventKind.RUN_ADOPTED, run=run.run, client_id=run.client_id)
        log.close()
        return Adopted(run=run)
    stopping = run.state is RunState.STOPPING
    ending = endings.Ending(
        run=run.run,
        owner=run.owner,
        cue=runs.Cue.QUIESCE if stopping else runs.Cue.INTERRUPT,
        reason=Reason.USER_STOP if stopping else Reason.OWNER_LOST,
        publication=orphan.publication,
        now_ms=orphan.now_ms,
        detail="The process that executed the run is gone.",
        owner_gone=True,
    )
    return Settled(run=endings.end(txn, run, ending))


def register(txn: Txn, owner: Owner) -> None:
    """Make a host process known before it owns anything."""
    txn.put(keys.owner(owner.owner), encode(owner))


def forget(txn: Txn, owner: OwnerId) -> None:
    """Remove a host process that owns no run any more."""
    txn.delete(keys.owner(owner))


def owners(txn: ReadTxn) -> list[Owner]:
    """Return the host processes that are known, whether alive or not."""
    return [decode(Owner, data) for _, data in txn.scan(keys.OWNERS, keys.after(keys.OWNERS))]


def orphans(txn: ReadTxn, gone: frozenset[OwnerId]) -> list[tuple[RunId, OwnerId]]:
    """Return the live runs whose owner is in `gone`, with that owner."""
    found: list[tuple[RunId, OwnerId]] = []
    for run_id in runs.all_live(txn):
        run = runs.find(txn, run_id)
        if run is not None and run.owner in gone:
            found.append((run_id, run.owner))
    return found
