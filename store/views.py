"""Views: what a client may read of a conversation or a run, at one version.

A view is read in one snapshot of the store, so everything in it is of the same moment, and
its version is the number of the conversation's last event: whoever drops lower versions is
never wrong, and `events(after=version)` goes on without a gap (C41).

Views are tied by run, never by "the last answer" or "the latest run" (B53, B54).
"""

from __future__ import annotations

from typing import Any

import msgspec

from . import effects, events, keys, requests, revisions, runs
from .engine import ReadTxn
from .ids import (
    ClientId,
    ConversationId,
    MessageId,
    PublicationId,
    RunId,
    ScopeId,
)
from .messages import get as message_of
from .records import (
    Budget,
    Conversation,
    Depth,
    Effect,
    EffectState,
    Interruption,
    Message,
    Publication,
    Reason,
    Repeat,
    Request,
    Revision,
    RevisionState,
    Run,
    RunState,
    Verb,
    decode,
)
from .refusal import not_found

ENTRIES_OF_VIEW_MAX = 200


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The base of what clients read; plain data, ready for JSON."""


class RevisionView(View, frozen=True, kw_only=True):
    """One steering of a run."""

    number: int
    message: MessageId
    client_id: ClientId
    text: str
    state: RevisionState
    request: int | None
    """The ordinal of the request that carried it."""
    input_sha256: str
    """The hash, in hex, of that request's exact input (C11)."""
    reason: str
    at_ms: int


class RunView(View, frozen=True, kw_only=True):
    """One run with its question, its answer and its controls."""

    run: RunId
    conversation: ConversationId
    message: MessageId
    client_id: ClientId
    request: str
    """The words that it was started with."""
    run_class: str
    depth: Depth
    state: RunState
    reason: Reason | None
    detail: str
    revisions: tuple[RevisionView, ...]
    requests: int
    effects: int
    admitted_at_ms: int
    ended_at_ms: int | None
    publication: PublicationId | None
    answer: str | None
    steerable: bool
    stoppable: bool


class EntryView(View, frozen=True, kw_only=True):
    """One message or one published answer, in the order of acceptance."""

    entry: MessageId | PublicationId
    number: int
    run: RunId
    verb: Verb | None
    client_id: ClientId | None
    text: str
    disposition: str
    at_ms: int


class ConversationView(View, frozen=True, kw_only=True):
    """A page of a conversation, newest entries last, and every run that they name."""

    conversation: ConversationId
    title: str
    version: int
    entries: tuple[EntryView, ...]
    older: int
    """How many entries there are before the first of this page."""
    runs: dict[str, RunView]
    live: tuple[RunId, ...]
    """The runs that have not ended: a set, whatever the limits (B42)."""


class EventView(View, frozen=True, kw_only=True):
    """One event of a conversation."""

    conversation: ConversationId
    number: int
    """Its cursor: `events(after=number)` goes on behind it."""
    kind: str
    at_ms: int
    run: RunId | None
    message: MessageId | None
    client_id: ClientId | None
    facts: dict[str, Any]


class EffectView(View, frozen=True, kw_only=True):
    """One effect of a run."""

    number: int
    operation_id: str
    name: str
    arguments: msgspec.Raw
    repeat: str
    revision: int
    state: str
    result: msgspec.Raw | None
    reason: str


class RequestView(View, frozen=True, kw_only=True):
    """One request of a run."""

    ordinal: int
    gateway: str
    state: str
    reason: str
    revision: int
    carries: tuple[int, ...]
    input_sha256: str
    input_tokens: int | None
    output_tokens: int | None
    late: str | None
    """What its provider still said after it had been closed (C22)."""


class StopView(View, frozen=True, kw_only=True):
    """A person's stop of a run: when it was accepted, when the run had stopped, and what
    became of everything it had to do with (C19)."""

    accepted_at_ms: int
    client_id: ClientId
    stopped_at_ms: int | None
    """None while something of the run is under way."""
    cancelled_requests: tuple[int, ...]
    happened_effects: tuple[int, ...]
    """What the run had already done when it had stopped, but for reads."""
    unknown_effects: tuple[int, ...]
    unapplied_revisions: tuple[int, ...]


class Inspection(View, frozen=True, kw_only=True):
    """All that is recorded of a run (C46)."""

    version: int
    run: RunView
    disposition: str
    """By which rule its message was admitted."""
    budget: Budget
    owner: str
    requests: tuple[RequestView, ...]
    effects: tuple[EffectView, ...]
    checkpoints: int
    overview: tuple[RunId, ...]
    holds_slot: bool
    stop: StopView | None
    """If a person stopped it."""


def conversation(
    txn: ReadTxn, scope: ScopeId, conversation_id: ConversationId, *, before: int | None = None
) -> ConversationView:
    """Return the newest entries, or those before the entry numbered `before`.

    Raises:
      Refused: `not_found`.
    """
    head = events.head_of(txn, scope, conversation_id)
    found: list[EntryView] = []
    for entry in events.entries_back(txn, head.last_entry):
        if before is not None and entry.entry >= before:
            continue
        if len(found) == ENTRIES_OF_VIEW_MAX:
            break
        found.append(_entry(entry))
    found.reverse()
    live = tuple(run for run, _ in runs.live(txn, conversation_id))
    named = dict.fromkeys([*(entry.run for entry in found), *live])
    return ConversationView(
        conversation=conversation_id,
        title=head.title,
        version=head.events,
        entries=tuple(found),
        older=found[0].number - 1 if found else 0,
        runs={run_id: run(txn, scope, run_id) for run_id in named},
        live=live,
    )


def _entry(entry: events.Entry) -> EntryView:
    return EntryView(
        entry=entry.message if isinstance(entry, Message) else entry.publication,
        number=entry.entry,
        run=entry.run,
        verb=entry.verb if isinstance(entry, Message) else None,
        client_id=entry.client_id if isinstance(entry, Message) else None,
        text=entry.text,
        disposition=entry.disposition if isinstance(entry, Message) else "",
        at_ms=entry.at_ms,
    )


def run(txn: ReadTxn, scope: ScopeId, run_id: RunId) -> RunView:
    """Return one run.

    Raises:
      Refused: `not_found`.
    """
    record = runs.of_scope(txn, scope, run_id)
    publication = None
    if record.publication is not None:
        data = txn.get(keys.publication(record.publication))
        publication = None if data is None else decode(Publication, data)
    open_ended = record.state not in runs.FINAL and record.state is not RunState.STOPPING
    return RunView(
        run=run_id,
        conversation=record.conversation,
        message=record.message,
        client_id=record.client_id,
        request=message_of(txn, record.message).text,
        run_class=record.run_class,
        depth=record.depth,
        state=record.state,
        reason=record.reason,
        detail=record.detail,
        revisions=tuple(_revision(txn, item) for item in revisions.of_run(txn, run_id)),
        requests=record.requests,
        effects=record.effects,
        admitted_at_ms=record.admitted_at_ms,
        ended_at_ms=record.ended_at_ms,
        publication=record.publication,
        answer=None if publication is None else publication.text,
        steerable=open_ended,
        stoppable=open_ended,
    )


def _revision(txn: ReadTxn, item: Revision) -> RevisionView:
    return RevisionView(
        number=item.number,
        message=item.message,
        client_id=item.client_id,
        text=message_of(txn, item.message).text,
        state=item.state,
        request=item.request,
        input_sha256=item.input_sha256.hex(),
        reason=item.reason,
        at_ms=item.at_ms,
    )


def inspect(txn: ReadTxn, scope: ScopeId, run_id: RunId) -> Inspection:
    """Return all that is recorded of a run.

    Raises:
      Refused: `not_found`.
    """
    record = runs.of_scope(txn, scope, run_id)
    return Inspection(
        version=runs.head(txn, record).events,
        run=run(txn, scope, run_id),
        disposition=message_of(txn, record.message).disposition,
        budget=record.budget,
        owner=record.owner,
        requests=tuple(_request(item) for item in requests.of_run(txn, run_id)),
        effects=tuple(_effect(item) for item in effects.of_run(txn, run_id)),
        checkpoints=record.checkpoints,
        overview=record.overview,
        holds_slot=txn.get(keys.slot(scope, record.run_class, run_id)) is not None,
        stop=_stop(txn, record),
    )


def _stop(txn: ReadTxn, record: Run) -> StopView | None:
    if record.stop_at_ms is None or record.stop_client_id is None:
        return None
    carried_out = list(effects.of_run(txn, record.run))
    return StopView(
        accepted_at_ms=record.stop_at_ms,
        client_id=record.stop_client_id,
        stopped_at_ms=record.ended_at_ms,
        cancelled_requests=tuple(
            item.ordinal
            for item in requests.of_run(txn, record.run)
            if item.reason == Interruption.STOP
        ),
        happened_effects=tuple(
            item.number
            for item in carried_out
            if item.state is EffectState.DONE and item.repeat is not Repeat.READ
        ),
        unknown_effects=tuple(
            item.number for item in carried_out if item.state is EffectState.UNKNOWN
        ),
        unapplied_revisions=tuple(
            item.number
            for item in revisions.of_run(txn, record.run)
            if item.reason == Reason.USER_STOP
        ),
    )


def request_input(txn: ReadTxn, scope: ScopeId, run_id: RunId, ordinal: int) -> bytes:
    """Return the exact input of one request, as it was recorded before it was sent (C11).

    Raises:
      Refused: `not_found`.
    """
    counted = 1 <= ordinal <= runs.of_scope(txn, scope, run_id).requests
    data = txn.get(keys.request_input(run_id, ordinal)) if counted else None
    if data is None:
        raise not_found("request", f"{run_id} {ordinal}")
    return data


def _request(item: Request) -> RequestView:
    return RequestView(
        ordinal=item.ordinal,
        gateway=item.gateway,
        state=str(item.state),
        reason=item.reason,
        revision=item.revision,
        carries=item.carries,
        input_sha256=item.input_sha256.hex(),
        input_tokens=item.input_tokens,
        output_tokens=item.output_tokens,
        late=None if item.late is None else str(item.late),
    )


def _effect(item: Effect) -> EffectView:
    return EffectView(
        number=item.number,
        operation_id=item.operation_id,
        name=item.name,
        arguments=msgspec.Raw(item.arguments),
        repeat=str(item.repeat),
        revision=item.revision,
        state=str(item.state),
        result=None if item.result is None else msgspec.Raw(item.result),
        reason=item.reason,
    )


def events_after(
    txn: ReadTxn, scope: ScopeId, conversation_id: ConversationId, *, after: int, limit: int
) -> list[EventView]:
    """Return up to `limit` events behind the cursor `after`, oldest first (C43).

    Raises:
      Refused: `not_found`.
    """
    head = events.head_of(txn, scope, conversation_id)
    return [
        EventView(
            conversation=event.conversation,
            number=event.number,
            kind=str(event.kind),
            at_ms=event.at_ms,
            run=event.run,
            message=event.message,
            client_id=event.client_id,
            facts=event.facts,
        )
        for event in events.page(txn, head, after=after, limit=limit)
    ]


def conversations(txn: ReadTxn, scope: ScopeId) -> list[Conversation]:
    """Return the scope's conversations, oldest first."""
    prefix = keys.conversations_of_scope(scope)
    return [
        events.head_of(txn, scope, ConversationId(key[len(prefix) :].decode()))
        for key, _ in txn.scan(prefix, keys.after(prefix))
    ]
