"""Requests to a model: recorded before they are sent, and what became of each.

The gate of a run is here and in `effects.py`: whether something may go out is decided in
the transaction that records it, against the revisions that were saved before it. So no
request is ever sent between the saving of a revision and its carrying (C12), none after a
stop was accepted (E4), and a request's input names its revisions for good (C11, E3).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from . import keys, revisions, runs
from .engine import ReadTxn, Txn
from .events import Log
from .ids import OwnerId, RunId
from .records import (
    Damaged,
    EventKind,
    Record,
    Request,
    RequestState,
    Run,
    RunState,
    decode,
    encode,
)


class GateClosed(Exception):
    """A stop of the run was accepted: nothing more goes out (C19, E4)."""


class BudgetSpent(Exception):
    """The run has used up what it may use; `what` says of which kind (B44)."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The run's budget of {what} is spent.")
        self.what = what


class Outgoing(Record, frozen=True, kw_only=True):
    """A request that an agent wants to send."""

    run: RunId
    owner: OwnerId
    gateway: str
    input_sha256: bytes
    model_input: bytes
    """The exact input, kept with the run so that it can be shown (C11)."""
    revision: int
    """The newest revision that the input was built under."""
    now_ms: int
    withdrawn: int = 0
    """How many revisions were withdrawn by then: their words do not stand in the input."""
    keep_input: bool = True
    """Whether the input is kept, or its hash alone."""


class Stale(Record, frozen=True, kw_only=True):
    """Revisions were saved or withdrawn since the input was built: build it again."""

    revision: int


def affordable(run: Run) -> bool:
    """Return whether the run's budget has room for one more request."""
    return run.requests < run.budget.requests_max and run.tokens < run.budget.tokens_max


def begin(txn: Txn, outgoing: Outgoing) -> Request | Stale:
    """Let a request out: record it, what it carries, and the run's use of its budget.

    Raises:
      OwnerLost: if the run is not `outgoing.owner`'s.
      GateClosed: if a stop was accepted.
      BudgetSpent: if no request is left.
    """
    run = runs.owned(txn, outgoing.run, outgoing.owner)
    if run.state is RunState.STOPPING:
        raise GateClosed
    if (outgoing.revision, outgoing.withdrawn) != (run.revisions, run.withdrawn):
        assert outgoing.revision <= run.revisions
        return Stale(revision=run.revisions)
    if not affordable(run):
        spent = "requests" if run.requests >= run.budget.requests_max else "tokens"
        raise BudgetSpent(spent)
    request = Request(
        run=run.run,
        ordinal=run.requests + 1,
        gateway=outgoing.gateway,
        input_sha256=outgoing.input_sha256,
        revision=run.revisions,
        carries=revisions.undelivered(txn, run),
        begun_at_ms=outgoing.now_ms,
    )
    put(txn, request)
    if outgoing.keep_input:
        txn.put(keys.request_input(run.run, request.ordinal), outgoing.model_input)
    revisions.carry(txn, run, request)
    runs.put(
        txn,
        replace(
            run,
            state=runs.step(run.state, runs.Cue.WORK),
            requests=request.ordinal,
            open_requests=(*run.open_requests, request.ordinal),
            carried_through=run.revisions,
            begun_at_ms=run.begun_at_ms or outgoing.now_ms,
        ),
    )
    log = runs.log(txn, run, outgoing.now_ms)
    log.append(
        EventKind.REQUEST_STARTED,
        run=run.run,
        client_id=run.client_id,
        request=request.ordinal,
        revisions=list(request.carries),
    )
    log.close()
    return request


class Outcome(Record, frozen=True, kw_only=True):
    """What became of a request."""

    state: RequestState
    reason: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


def end(
    txn: Txn, run_id: RunId, owner: OwnerId, ordinal: int, outcome: Outcome, now_ms: int
) -> None:
    """Record what became of a request, and deliver what it carried if it completed.

    The result is matched by its ordinal. One that comes late, for a request that was
    closed before it completed, is kept with that request and closes nothing (C22).

    Raises:
      OwnerLost: if the run is not `owner`'s.
    """
    run = runs.owned(txn, run_id, owner)
    if ordinal not in run.open_requests:
        _note_late(txn, run, ordinal, outcome, now_ms)
        return
    log = runs.log(txn, run, now_ms)
    request = _close(txn, log, run, ordinal, outcome)
    run = replace(run, open_requests=tuple(n for n in run.open_requests if n != ordinal))
    if outcome.state is RequestState.COMPLETED:
        revisions.deliver(txn, log, request)
        run = replace(run, delivered_through=max(run.delivered_through, request.revision))
    runs.put(txn, _charged(run, outcome))
    log.close()


def _charged(run: Run, outcome: Outcome) -> Run:
    """Count what the provider said it used; what nobody said is counted as that (B66, C33)."""
    if outcome.input_tokens is None or outcome.output_tokens is None:
        return replace(run, unobserved=run.unobserved + 1)
    return replace(run, tokens=run.tokens + outcome.input_tokens + outcome.output_tokens)


def _close(txn: Txn, log: Log, run: Run, ordinal: int, outcome: Outcome) -> Request:
    request = replace(
        get(txn, run.run, ordinal),
        state=outcome.state,
        ended_at_ms=log.now_ms,
        reason=outcome.reason,
        input_tokens=outcome.input_tokens,
        output_tokens=outcome.output_tokens,
    )
    put(txn, request)
    log.append(
        EventKind.REQUEST_ENDED,
        run=run.run,
        client_id=run.client_id,
        request=ordinal,
        state=str(outcome.state),
        reason=outcome.reason,
    )
    return request


def _note_late(txn: Txn, run: Run, ordinal: int, outcome: Outcome, now_ms: int) -> None:
    if not 1 <= ordinal <= run.requests:
        return
    request = get(txn, run.run, ordinal)
    if request.state is RequestState.COMPLETED or request.late is not None:
        return
    used = _used(request, outcome)
    if None in (request.input_tokens, request.output_tokens):  # counted as unobserved till now
        runs.put(txn, _charged(replace(run, unobserved=run.unobserved - 1), used))
    put(
        txn,
        replace(
            request,
            late=outcome.state,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
        ),
    )
    log = runs.log(txn, run, now_ms)
    log.append(
        EventKind.REQUEST_ENDED,
        run=run.run,
        client_id=run.client_id,
        request=ordinal,
        state=str(outcome.state),
        reason=outcome.reason,
        late=True,
    )
    log.close()


def _used(request: Request, late: Outcome) -> Outcome:
    """Return the usage that is known once a late result has come: what was known stays."""
    known, said = request.input_tokens, request.output_tokens
    return replace(
        late,
        input_tokens=late.input_tokens if known is None else known,
        output_tokens=late.output_tokens if said is None else said,
    )


def settle(txn: Txn, log: Log, run: Run, outcome: Outcome) -> list[int]:
    """Close what an ending run has under way; return the ordinals (C17)."""
    for ordinal in run.open_requests:
        _close(txn, log, run, ordinal, outcome)
    return list(run.open_requests)


def put(txn: Txn, request: Request) -> None:
    """Store a request's record."""
    txn.put(keys.request(request.run, request.ordinal), encode(request))


def get(txn: ReadTxn, run: RunId, ordinal: int) -> Request:
    """Return one request.

    Raises:
      Damaged: if it does not exist, although its run counts it.
    """
    data = txn.get(keys.request(run, ordinal))
    if data is None:
        raise Damaged(f"Run {run} counts request {ordinal}, which does not exist.")
    return decode(Request, data)


def of_run(txn: ReadTxn, run: RunId) -> Iterator[Request]:
    """Yield the run's requests in order."""
    prefix = keys.requests(run)
    for _, data in txn.scan(prefix, keys.after(prefix)):
        yield decode(Request, data)
