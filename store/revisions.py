"""Revisions: what a person adds to a run while it works.

The words stay in the message; a revision refers to it (B28, B30). It is saved with its
message in one transaction, carried by the next request, delivered when a request that
carried it completes, and settled when the run ends before that (B33, B69). Every revision
is in exactly one of these states at any time (`RevisionState`).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from . import identity, keys, messages, runs
from .engine import ReadTxn, Txn
from .events import Log
from .ids import ClientId, MessageId, RunId, ScopeId
from .limits import Limits
from .records import (
    Accepted,
    Damaged,
    EventKind,
    Meaning,
    Record,
    Request,
    Revision,
    RevisionState,
    Run,
    Verb,
    decode,
    encode,
)
from .refusal import Code, Refused, not_found


class Steering(Record, frozen=True, kw_only=True):
    """A message with entry `steer`: the person chose the run, so no model is asked (B17)."""

    scope: ScopeId
    run: RunId
    client_id: ClientId
    text: str
    text_sha256: bytes
    expected_revision: int | None
    message: MessageId
    now_ms: int


class Words(Record, frozen=True, kw_only=True):
    """One revision with its words, verbatim, as an agent sees it."""

    number: int
    text: str
    at_ms: int


def steer(txn: Txn, limits: Limits, steering: Steering) -> Accepted:
    """Save a message and the revision that it is, on the run that the person chose.

    No slot is needed (B50), and the run's state, budget and other runs stay as they are
    (C16).

    Raises:
      Refused: `not_found`, `conflict`, `run_ended`, `run_stopping`, `stale_revision` with
        both numbers (C14), or `revisions_full`.
    """
    run = identity.run_of(txn, steering.scope, steering.client_id, Verb.STEER, steering.run)
    meaning = Meaning(
        verb=Verb.STEER,
        conversation=run.conversation,
        target=steering.run,
        text_sha256=steering.text_sha256,
        expected_revision=steering.expected_revision,
    )

    def act() -> Accepted:
        _must_take(run, limits, steering)
        return _save(txn, run, steering, meaning)

    return identity.once(txn, steering.scope, steering.client_id, meaning, act)


def _must_take(run: Run, limits: Limits, steering: Steering) -> None:
    runs.must_be_open(run)
    expected = steering.expected_revision
    if expected is not None and expected != run.revisions:
        raise Refused(
            Code.STALE_REVISION,
            f"This was written against revision {expected}, but run {run.run} is at "
            f"{run.revisions}; look at what was added and decide again.",
            run=run.run,
            expected=expected,
            actual=run.revisions,
        )
    waiting = run.revisions - run.carried_through  # withdrawn ones count: they are bounded too
    if waiting >= limits.undelivered_revisions_max:
        raise Refused(
            Code.REVISIONS_FULL,
            f"{waiting} additions to run {run.run} wait for its next request; "
            "wait until it has taken them.",
            run=run.run,
            limit=limits.undelivered_revisions_max,
        )


def _save(txn: Txn, run: Run, steering: Steering, meaning: Meaning) -> Accepted:
    number = run.revisions + 1
    log = runs.log(txn, run, steering.now_ms)
    words = messages.Words(
        message=steering.message,
        client_id=steering.client_id,
        verb=Verb.STEER,
        text=steering.text,
        text_sha256=steering.text_sha256,
    )
    messages.put(
        txn, log, words, run=run.run, disposition=f"revision of {run.run}", revision=number
    )
    put(
        txn,
        Revision(
            run=run.run,
            number=number,
            message=steering.message,
            client_id=steering.client_id,
            at_ms=steering.now_ms,
            state=RevisionState.SAVED,
        ),
    )
    runs.put(txn, replace(run, revisions=number))
    version = log.append(
        EventKind.REVISION_SAVED,
        run=run.run,
        message=steering.message,
        client_id=steering.client_id,
        revision=number,
    )
    log.close()
    return identity.accepted(
        log,
        steering.client_id,
        meaning,
        version,
        message=steering.message,
        run=run.run,
        revision=number,
    )


class Withdrawal(Record, frozen=True, kw_only=True):
    """A person takes a steering back."""

    scope: ScopeId
    run: RunId
    revision: int
    client_id: ClientId
    now_ms: int


def withdraw(txn: Txn, withdrawal: Withdrawal) -> Accepted:
    """Take a revision back that no request has taken yet (C53). Its message stays.

    Raises:
      Refused: `not_found`, `conflict`, or `taken`: a request carries it, or it is settled.
    """
    scope, client_id = withdrawal.scope, withdrawal.client_id
    run = identity.run_of(txn, scope, client_id, Verb.WITHDRAW, withdrawal.run)
    meaning = Meaning(
        verb=Verb.WITHDRAW,
        conversation=run.conversation,
        target=run.run,
        item=withdrawal.revision,
    )

    def act() -> Accepted:
        return _withdraw(txn, run, withdrawal, meaning)

    return identity.once(txn, scope, client_id, meaning, act)


def _withdraw(txn: Txn, run: Run, withdrawal: Withdrawal, meaning: Meaning) -> Accepted:
    number = withdrawal.revision
    if not 1 <= number <= run.revisions:
        raise not_found("revision", f"{run.run} {number}")
    revision = get(txn, run.run, number)
    if revision.state is not RevisionState.SAVED:
        raise Refused(
            Code.TAKEN,
            f"Revision {number} of run {run.run} is {revision.state}; only one that no request "
            "has taken can be withdrawn.",
            run=run.run,
            revision=number,
            state=str(revision.state),
            request=revision.request,
        )
    put(txn, replace(revision, state=RevisionState.WITHDRAWN))
    runs.put(txn, replace(run, withdrawn=run.withdrawn + 1))
    log = runs.log(txn, run, withdrawal.now_ms)
    version = log.append(
        EventKind.REVISION_WITHDRAWN,
        run=run.run,
        message=revision.message,
        client_id=withdrawal.client_id,
        revision=number,
    )
    log.close()
    return identity.accepted(
        log, withdrawal.client_id, meaning, version, run=run.run, revision=number
    )


def put(txn: Txn, revision: Revision) -> None:
    """Store a revision's record."""
    txn.put(keys.revision(revision.run, revision.number), encode(revision))


def get(txn: ReadTxn, run: RunId, number: int) -> Revision:
    """Return one revision.

    Raises:
      Damaged: if it does not exist, although its run counts it.
    """
    data = txn.get(keys.revision(run, number))
    if data is None:
        raise Damaged(f"Run {run} counts revision {number}, which does not exist.")
    return decode(Revision, data)


def of_run(txn: ReadTxn, run: RunId) -> Iterator[Revision]:
    """Yield the run's revisions in the order in which they were accepted (C15)."""
    prefix = keys.revisions(run)
    for _, data in txn.scan(prefix, keys.after(prefix)):
        yield decode(Revision, data)


def words(txn: ReadTxn, run: RunId, first: int, last: int) -> list[Words]:
    """Return the words of revisions `first` to `last` that still stand, verbatim."""
    found: list[Words] = []
    for number in range(first, last + 1):
        revision = get(txn, run, number)
        if revision.state is RevisionState.WITHDRAWN:
            continue
        text = messages.get(txn, revision.message).text
        found.append(Words(number=number, text=text, at_ms=revision.at_ms))
    return found


class Seen(Record, frozen=True, kw_only=True):
    """What a person has added to a run up to one moment."""

    words: tuple[Words, ...]
    """Every revision that still stands, oldest first."""
    revision: int
    """The number of the newest revision."""
    withdrawn: int
    """How many were withdrawn."""


def seen(txn: ReadTxn, run: Run) -> Seen:
    """Return what a person has added to the run by now."""
    return Seen(
        words=tuple(words(txn, run.run, 1, run.revisions)),
        revision=run.revisions,
        withdrawn=run.withdrawn,
    )


def undelivered(txn: ReadTxn, run: Run) -> tuple[int, ...]:
    """Return the revisions that the model has not had yet and that still stand."""
    return tuple(
        number
        for number in range(run.delivered_through + 1, run.revisions + 1)
        if get(txn, run.run, number).state is not RevisionState.WITHDRAWN
    )


def carry(txn: Txn, run: Run, request: Request) -> None:
    """Note on each revision that `request` carries which request that is (C11)."""
    for number in request.carries:
        revision = replace(
            get(txn, run.run, number),
            state=RevisionState.CARRIED,
            request=request.ordinal,
            input_sha256=request.input_sha256,
        )
        put(txn, revision)


def deliver(txn: Txn, log: Log, request: Request) -> None:
    """Note that the model has had the revisions of a completed request (B33, E3)."""
    for number in request.carries:
        revision = get(txn, request.run, number)
        if revision.state is RevisionState.DELIVERED:
            continue
        delivered = replace(
            revision,
            state=RevisionState.DELIVERED,
            request=request.ordinal,  # a later one may carry it too, and not have completed
            input_sha256=request.input_sha256,
        )
        put(txn, delivered)
        log.append(
            EventKind.REVISION_DELIVERED,
            run=request.run,
            message=revision.message,
            client_id=revision.client_id,
            revision=number,
            request=request.ordinal,
        )


def settle(txn: Txn, log: Log, run: Run, reason: str) -> list[int]:
    """Bring every revision of an ending run into a final state; return their numbers (C17)."""
    settled: list[int] = []
    for number in undelivered(txn, run):
        revision = get(txn, run.run, number)
        state = (
            RevisionState.DELIVERY_UNKNOWN
            if number <= run.carried_through
            else RevisionState.NOT_APPLIED
        )
        put(txn, replace(revision, state=state, reason=reason))
        log.append(
            EventKind.REVISION_SETTLED,
            run=run.run,
            message=revision.message,
            client_id=revision.client_id,
            revision=number,
            state=str(state),
            reason=reason,
        )
        settled.append(number)
    return settled
