"""How a run is stopped and how it ends.

The end is one transaction: the answer, the final state, the slot, the revisions, the
requests, the effects and the events (D16). The gate closes in that same transaction, so a
steering is either in time to be carried by one more request, or settled with its reason,
or refused: there is no instant in which it is accepted and then forgotten (C9).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from . import capacity, effects, identity, keys, requests, revisions, runs
from .engine import Txn
from .events import Log
from .ids import ClientId, OwnerId, PublicationId, RunId, ScopeId
from .records import (
    Accepted,
    EventKind,
    Interruption,
    Meaning,
    Publication,
    Reason,
    Record,
    RequestState,
    Run,
    RunState,
    Verb,
    encode,
)


class Ending(Record, frozen=True, kw_only=True):
    """How an owner wants a run to end."""

    run: RunId
    owner: OwnerId
    cue: runs.Cue
    reason: Reason
    publication: PublicationId
    """The id that the published answer gets, if there is one."""
    now_ms: int
    text: str | None = None
    detail: str = ""
    insist_through: int = 0
    """End even though no request has taken the revisions up to this one: the agent was given
    the turn for them and made no request. A newer one is still given its turn."""
    owner_gone: bool = False
    """Somebody else ends it, because the process that executed it is gone."""


class OneMore(Record, frozen=True, kw_only=True):
    """Not ended: revisions came in that the run still has the means to take (C10)."""

    revision: int


def finish(txn: Txn, ending: Ending) -> Run | OneMore:
    """End a run, or say that it has one more request to make.

    A run that is stopping ends as stopped, whatever was asked for (D17, C24).

    Raises:
      OwnerLost: if the run is not `ending.owner`'s, or has ended.
    """
    run = runs.owned(txn, ending.run, ending.owner)
    if run.state is RunState.STOPPING:
        stopped = replace(ending, cue=runs.Cue.QUIESCE, reason=Reason.USER_STOP, text=None)
        return end(txn, run, stopped)
    if (
        ending.cue is runs.Cue.COMPLETE
        and requests.affordable(run)
        and any(number > ending.insist_through for number in revisions.undelivered(txn, run))
    ):
        return OneMore(revision=run.revisions)
    return end(txn, run, ending)


def end(txn: Txn, run: Run, ending: Ending) -> Run:
    """End a run that the caller has read in this transaction."""
    state = runs.step(run.state, ending.cue)
    log = runs.log(txn, run, ending.now_ms)
    cancelled = requests.settle(txn, log, run, _what_a_cut_leaves(ending))
    unknown = effects.settle(txn, log, run, str(ending.reason))
    settled = revisions.settle(txn, log, run, _why_unapplied(run, ending))
    publication = _publish(txn, log, run, ending)
    capacity.release(txn, run.scope, run.run_class, run.run)
    txn.delete(keys.live_run(run.conversation, run.run))
    ended = replace(
        run,
        state=state,
        reason=ending.reason,
        open_requests=(),
        open_effects=(),
        unobserved=run.unobserved + len(cancelled),
        ended_at_ms=ending.now_ms,
        publication=publication,
        detail=ending.detail,
    )
    runs.put(txn, ended)
    log.append(
        EventKind.RUN_ENDED,
        run=run.run,
        message=run.message,
        client_id=run.client_id,
        state=str(state),
        reason=str(ending.reason),
        detail=ending.detail,
        publication=publication,
        cancelled_requests=cancelled,
        unknown_effects=unknown,
        unapplied_revisions=settled,
    )
    log.close()
    return ended


_INTERRUPTIONS: Final = {
    Reason.USER_STOP: Interruption.STOP,
    Reason.DEADLINE: Interruption.DEADLINE,
    Reason.BUDGET: Interruption.BUDGET,
    Reason.HOST_SHUTDOWN: Interruption.SHUTDOWN,
    Reason.OWNER_LOST: Interruption.OWNER_LOST,
}


def _what_a_cut_leaves(ending: Ending) -> requests.Outcome:
    """A request that its own process cut is interrupted; of a dead one's nothing is known."""
    return requests.Outcome(
        state=RequestState.UNKNOWN if ending.owner_gone else RequestState.INTERRUPTED,
        reason=str(_INTERRUPTIONS.get(ending.reason, Interruption.INTERNAL)),
    )


def _why_unapplied(run: Run, ending: Ending) -> str:
    if ending.cue is not runs.Cue.COMPLETE:
        return str(ending.reason)
    return "no_request" if requests.affordable(run) else "budget"


def _publish(txn: Txn, log: Log, run: Run, ending: Ending) -> PublicationId | None:
    if ending.text is None:
        return None
    key = keys.publication(ending.publication)
    assert txn.get(key) is None, "publication ids are never used twice"
    record = Publication(
        scope=run.scope,
        conversation=run.conversation,
        publication=ending.publication,
        run=run.run,
        text=ending.text,
        at_ms=ending.now_ms,
        entry=log.entries + 1,
        previous=log.last_entry,
    )
    txn.put(key, encode(record))
    log.enter(ending.publication)
    return ending.publication


class Stopping(Record, frozen=True, kw_only=True):
    """A person's stop of one run."""

    scope: ScopeId
    run: RunId
    client_id: ClientId
    publication: PublicationId
    now_ms: int
    owner_gone: OwnerId | None = None
    """The run's owner, if the caller has found that its process is gone (C23)."""


def stop(txn: Txn, stopping: Stopping) -> Accepted:
    """Accept a stop: from now on nothing more goes out of the run (C19, E4).

    That the run has stopped is a second fact, which its owner records when nothing of it
    is under way any more; if the owner is gone, both happen here.

    Raises:
      Refused: `not_found`, `conflict`, or `run_ended` (there is nothing to stop).
    """
    run = identity.run_of(txn, stopping.scope, stopping.client_id, Verb.STOP, stopping.run)
    meaning = Meaning(verb=Verb.STOP, conversation=run.conversation, target=run.run)

    def act() -> Accepted:
        return _accept_stop(txn, run, stopping, meaning)

    return identity.once(txn, stopping.scope, stopping.client_id, meaning, act)


def _accept_stop(txn: Txn, run: Run, stopping: Stopping, meaning: Meaning) -> Accepted:
    log = runs.log(txn, run, stopping.now_ms)
    if run.state is not RunState.STOPPING:
        runs.must_be_open(run)
        run = replace(
            run,
            state=runs.step(run.state, runs.Cue.STOP),
            stop_at_ms=stopping.now_ms,
            stop_client_id=stopping.client_id,
            stop_entries=log.entries,
        )
        runs.put(txn, run)
    version = log.append(
        EventKind.STOP_ACCEPTED,
        run=run.run,
        client_id=stopping.client_id,
        requests=list(run.open_requests),
        effects=list(run.open_effects),
    )
    log.close()
    if run.owner == stopping.owner_gone:
        ending = Ending(
            run=run.run,
            owner=run.owner,
            cue=runs.Cue.QUIESCE,
            reason=Reason.USER_STOP,
            publication=stopping.publication,
            now_ms=stopping.now_ms,
            owner_gone=True,
        )
        end(txn, run, ending)
    return identity.accepted(log, stopping.client_id, meaning, version, run=run.run)
