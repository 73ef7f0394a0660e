"""What becomes of the runs of a host process that is gone (A61-A61c, D13, C30-C32).

    state when the process went        what becomes of it
    admitted, nothing sent             started by the heir, under its own identity
    running, its agent resumes         entered again by the heir, from its last checkpoint
    running                            interrupted (owner lost); what it committed is kept
    stopping                           stopped: a stop is final (C24)

A run is started or entered only by a process that has its agent, and entered no more than
`entries_of_run_max` times: one that takes its process down each time is interrupted then.
What was under way is unknown (A59), and each effect is treated by its class (`effects.py`).

Whether a process is gone is not decided here: the caller has found its lock free. Each run
is looked at in a transaction of its own, so a fault at one of them does not touch another,
and doing it twice, from two processes at once too, changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from msgspec.structs import replace

from . import effects, endings, keys, requests, runs
from .engine import ReadTxn, Txn
from .ids import OwnerId, PublicationId, RunId
from .limits import Limits
from .records import (
    Damaged,
    EventKind,
    Interruption,
    Owner,
    Reason,
    Record,
    RequestState,
    Run,
    RunState,
    encode,
)


class Orphan(Record, frozen=True, kw_only=True):
    """A run whose owner is gone, and who looks after it now."""

    run: RunId
    lost: OwnerId
    heir: OwnerId
    publication: PublicationId
    now_ms: int
    agents: tuple[str, ...] | None = None
    """The agents that the heir has; None for all."""


class Adopted(Record, frozen=True, kw_only=True):
    """The heir executes the run, from its beginning or from its last checkpoint."""

    run: Run


class Settled(Record, frozen=True, kw_only=True):
    """The run has ended."""

    run: Run


def settle(txn: Txn, limits: Limits, orphan: Orphan) -> Adopted | Settled | None:
    """Adopt or end a run whose owner is gone; None if somebody else already has."""
    run = runs.find(txn, orphan.run)
    if run is None or run.owner != orphan.lost or run.state in runs.FINAL:
        return None
    known = orphan.agents is None or run.agent in orphan.agents
    if run.state is RunState.ADMITTED and known:
        return _adopt(txn, run, orphan)
    again = run.state is RunState.RUNNING and run.resumes
    if again and known and run.entries < limits.entries_of_run_max:
        return _enter_again(txn, run, orphan)
    return Settled(run=endings.end(txn, run, _ending(run, orphan, known=known)))


def _ending(run: Run, orphan: Orphan, *, known: bool) -> endings.Ending:
    stopping = run.state is RunState.STOPPING
    detail = "The process that executed the run is gone."
    if not known:
        detail += f" No agent named {run.agent!r} is registered in the one that settled it."
    return endings.Ending(
        run=run.run,
        owner=run.owner,
        cue=runs.Cue.QUIESCE if stopping else runs.Cue.INTERRUPT,
        reason=Reason.USER_STOP if stopping else Reason.OWNER_LOST,
        publication=orphan.publication,
        now_ms=orphan.now_ms,
        detail=detail,
        owner_gone=True,
    )


def _adopt(txn: Txn, run: Run, orphan: Orphan) -> Adopted:
    run = replace(run, owner=orphan.heir, entered_at_ms=orphan.now_ms)
    runs.put(txn, run)
    log = runs.log(txn, run, orphan.now_ms)
    log.append(EventKind.RUN_ADOPTED, run=run.run, client_id=run.client_id)
    log.close()
    return Adopted(run=run)


def _enter_again(txn: Txn, run: Run, orphan: Orphan) -> Adopted:
    log = runs.log(txn, run, orphan.now_ms)
    worked_ms = _worked_ms(txn, run)  # before what was under way is ended as of now
    lost = requests.Outcome(state=RequestState.UNKNOWN, reason=str(Interruption.OWNER_LOST))
    unknown_requests = requests.settle(txn, log, run, lost)
    unknown_effects = effects.settle(txn, log, run, str(Reason.OWNER_LOST))
    run = replace(
        run,
        owner=orphan.heir,
        entries=run.entries + 1,
        open_requests=(),
        open_effects=(),
        unobserved=run.unobserved + len(unknown_requests),
        active_ms=run.active_ms + worked_ms,
        entered_at_ms=orphan.now_ms,
    )
    runs.put(txn, run)
    log.append(
        EventKind.RUN_RESUMED,
        run=run.run,
        client_id=run.client_id,
        entry=run.entries,
        checkpoint=run.checkpoints,
        unknown_requests=unknown_requests,
        unknown_effects=unknown_effects,
    )
    log.close()
    return Adopted(run=run)


def _worked_ms(txn: ReadTxn, run: Run) -> int:
    """Return how long the lost owner worked on the run, as far as its records show."""
    seen = [run.entered_at_ms or run.admitted_at_ms]
    if run.requests:
        request = requests.get(txn, run.run, run.requests)
        seen.append(request.ended_at_ms or request.begun_at_ms)
    if run.effects:
        effect = effects.get(txn, run.run, run.effects)
        seen.append(effect.ended_at_ms or effect.begun_at_ms)
    return max(seen) - seen[0]


def register(txn: Txn, owner: Owner) -> None:
    """Make a host process known before it owns anything."""
    txn.put(keys.owner(owner.owner), encode(owner))


def forget(txn: Txn, owner: OwnerId) -> None:
    """Remove a host process that owns no run any more."""
    txn.delete(keys.owner(owner))


def owners(txn: ReadTxn) -> list[OwnerId]:
    """Return the host processes that are known, whether alive or not."""
    # Their keys are their ids, so one whose record is damaged is known, too.
    return [OwnerId(key.decode()) for key, _ in txn.scan(keys.OWNERS, keys.after(keys.OWNERS))]


def orphans(
    txn: ReadTxn,
    gone: frozenset[OwnerId],
    *,
    most: int | None = None,
    tried: Collection[RunId] = frozenset(),
) -> list[tuple[RunId, OwnerId]]:
    """Return the live runs whose owner is in `gone`, with that owner; at most `most` of them,
    and none that was `tried` before.

    A run that does not decode is left out, so that it keeps no other from being settled
    (C31); `verify` names it.
    """
    return list(islice(_orphans(txn, gone, tried), most))


def _orphans(
    txn: ReadTxn, gone: frozenset[OwnerId], tried: Collection[RunId]
) -> Iterator[tuple[RunId, OwnerId]]:
    for run_id in runs.all_live(txn):
        if run_id in tried:
            continue
        try:
            run = runs.find(txn, run_id)
        except Damaged:
            continue
        if run is not None and run.owner in gone:
            yield run_id, run.owner
