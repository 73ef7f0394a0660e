"""Part E of the contract, checked from the records alone.

`breaches` reads everything a store holds and says what is wrong with it, by row. It trusts
nothing that a rule says about itself: numbers are counted again, indexes are built again
from the records they index, and the order of things is taken from the events.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from counterpoint.store import keys
from counterpoint.store.engine import KEY_FIRST, ReadTxn
from counterpoint.store.ids import ID_LENGTH
from counterpoint.store.limits import Limits
from counterpoint.store.records import (
    Accepted,
    Checkpoint,
    Conversation,
    Damaged,
    Effect,
    EffectState,
    Event,
    EventKind,
    Message,
    Owner,
    Publication,
    Record,
    Repeat,
    Request,
    RequestState,
    Revision,
    RevisionState,
    Run,
    RunState,
    decode,
)
from counterpoint.store.runs import FINAL

SETTLED: Final = frozenset(RevisionState) - {RevisionState.SAVED, RevisionState.CARRIED}
AFTER_THE_END: Final = frozenset({"effect_resolved"})
"""What may still be told of a run that has ended: it changes nothing of the run."""


class Store(msgspec.Struct):
    """Everything a store holds, by family."""

    accepted: dict[bytes, Accepted] = {}
    conversations: dict[str, Conversation] = {}
    events: dict[int, Event] = {}
    messages: dict[str, Message] = {}
    publications: dict[str, Publication] = {}
    runs: dict[str, Run] = {}
    requests: dict[tuple[str, int], Request] = {}
    inputs: dict[tuple[str, int], bytes] = {}
    effects: dict[tuple[str, int], Effect] = {}
    revisions: dict[tuple[str, int], Revision] = {}
    checkpoints: dict[str, Checkpoint] = {}
    owners: dict[str, Owner] = {}
    live: dict[bytes, str] = {}
    listed: set[bytes] = set()
    slots: set[bytes] = set()
    sequence: int = 1
    unreadable: list[str] = []

    def events_of(self, conversation: str) -> list[Event]:
        return [event for event in self.events.values() if event.conversation == conversation]

    def told_of(self, run: str) -> list[Event]:
        return [event for event in self.events.values() if event.run == run]


def read(txn: ReadTxn) -> Store:
    store = Store()
    for key, data in txn.scan(KEY_FIRST, b"\xff"):
        try:
            _take(store, key, data)
        except (Damaged, KeyError, ValueError) as error:
            store.unreadable.append(f"E12: {key!r}: {error!r}")
    return store


def _take(store: Store, key: bytes, data: bytes) -> None:
    if key == keys.SEQUENCE:
        store.sequence = int.from_bytes(data)
    elif key[:1] == keys.SLOTS:
        store.slots.add(key)
    elif key[:1] == keys.LIVE:
        store.live[key] = data.decode()
    elif key[:1] == b"n":
        store.listed.add(key)
    elif key[:1] == b"i":
        store.accepted[key] = decode(Accepted, data)
    elif key[:1] == keys.EVENTS:
        store.events[int.from_bytes(key[1:])] = decode(Event, data)
    elif key[:1] == b"r" and len(key) > ID_LENGTH:
        _take_of_run(store, key[:ID_LENGTH].decode(), key[ID_LENGTH:], data)
    else:
        _take_by_id(store, key.decode(), data)


def _take_by_id(store: Store, identifier: str, data: bytes) -> None:
    match identifier[0]:
        case "c":
            store.conversations[identifier] = decode(Conversation, data)
        case "m":
            store.messages[identifier] = decode(Message, data)
        case "p":
            store.publications[identifier] = decode(Publication, data)
        case "r":
            store.runs[identifier] = decode(Run, data)
        case "w":
            store.owners[identifier] = decode(Owner, data)
        case _:
            raise KeyError("a family that nobody knows")


def _take_of_run(store: Store, run: str, rest: bytes, data: bytes) -> None:
    at = run, int.from_bytes(rest[1:])
    match rest[:1]:
        case b"q":
            store.requests[at] = decode(Request, data)
        case b"i":
            store.inputs[at] = data
        case b"x":
            store.effects[at] = decode(Effect, data)
        case b"v":
            store.revisions[at] = decode(Revision, data)
        case b"k" if rest == b"k":
            store.checkpoints[run] = decode(Checkpoint, data)
        case _:
            raise KeyError("a record of a run that nobody knows")


def breaches(txn: ReadTxn, limits: Limits) -> list[str]:
    """Return every breach of part E, each beginning with its row."""
    store = read(txn)
    return [*store.unreadable, *(found for check in CHECKS for found in check(store, limits))]


def every_message_has_one_disposition(store: Store, limits: Limits) -> Iterator[str]:
    for message in store.messages.values():
        run = store.runs.get(message.run)
        if not message.disposition or run is None:
            yield f"E1: {message.message} has no disposition or no run"
            continue
        if message.revision is None:
            if run.message != message.message:
                yield f"E1: {message.message} did not start {run.run}"
            fates = [e for e in store.told_of(run.run) if e.kind is EventKind.RUN_ENDED]
        else:
            revision = store.revisions.get((run.run, message.revision))
            if revision is None or revision.message != message.message:
                yield f"E1: {message.message} is not revision {message.revision} of {run.run}"
            fates = [
                event
                for event in store.told_of(run.run)
                if event.message == message.message
                and str(event.kind)
                in ("revision_delivered", "revision_settled", "revision_withdrawn")
            ]
        if len(fates) != 1 and run.state in FINAL:
            yield f"E1: {message.message} of an ended run has {len(fates)} ends"
        if len(fates) > 1:
            yield f"E1: {message.message} has {len(fates)} ends"


def a_client_id_leads_to_one_of_each(store: Store, limits: Limits) -> Iterator[str]:
    used = {
        "message": [(m.scope, m.client_id) for m in store.messages.values()],
        "run": [(r.scope, r.client_id) for r in store.runs.values()],
        "revision": [
            (store.runs[run].scope, revision.client_id)
            for (run, _), revision in store.revisions.items()
            if run in store.runs
        ],
    }
    for kind, ids in used.items():
        yield from (f"E2: {one} has {n} {kind}s" for one, n in Counter(ids).items() if n > 1)
    for message in store.messages.values():
        accepted = store.accepted.get(keys.identity(message.scope, message.client_id))
        if accepted is None or accepted.message != message.message:
            yield f"E2: {message.message} is not what its client id was accepted for"


def a_delivery_names_a_request_that_lists_it(store: Store, limits: Limits) -> Iterator[str]:
    told: dict[tuple[str | None, EventKind, int], int] = {
        (event.run, event.kind, event.facts[what]): number
        for number, event in store.events.items()
        for kind, what in (
            (EventKind.REVISION_SAVED, "revision"),
            (EventKind.REQUEST_STARTED, "request"),
        )
        if event.kind is kind
    }
    for (run, number), revision in store.revisions.items():
        if revision.state in (RevisionState.DELIVERED, RevisionState.CARRIED):
            request = store.requests.get((run, revision.request or 0))
            if (
                request is None
                or number not in request.carries
                or revision.input_sha256 != request.input_sha256
            ):
                yield f"E3: revision {number} of {run} names a request that does not list it"
            elif (request.state is RequestState.COMPLETED) != (
                revision.state is RevisionState.DELIVERED
            ):
                yield f"E3: revision {number} of {run} was not delivered by what carried it"
    for (run, ordinal), request in store.requests.items():
        for number in request.carries:
            saved = told.get((run, EventKind.REVISION_SAVED, number))
            sent = told.get((run, EventKind.REQUEST_STARTED, ordinal))
            if saved is None or sent is None or saved > sent:
                yield f"E3: request {ordinal} of {run} lists revision {number} before it was saved"


def nothing_goes_out_after_a_stop(store: Store, limits: Limits) -> Iterator[str]:
    stopped = set[str | None]()
    for event in store.events.values():
        if event.kind is EventKind.STOP_ACCEPTED:
            stopped.add(event.run)
        elif event.run in stopped and event.kind in (
            EventKind.REQUEST_STARTED,
            EventKind.EFFECT_STARTED,
        ):
            yield f"E4: {event.run} had {event.kind} after its stop"


def a_run_ends_once_and_for_good(store: Store, limits: Limits) -> Iterator[str]:
    for run in store.runs.values():
        kinds = [event.kind for event in store.told_of(run.run)]
        ended = kinds.count(EventKind.RUN_ENDED)
        if ended != (1 if run.state in FINAL else 0):
            yield f"E5: {run.run} is {run.state} and ended {ended} times"
        if ended:
            later = set(kinds[kinds.index(EventKind.RUN_ENDED) + 1 :]) - AFTER_THE_END
            if later:
                yield f"E5: of {run.run}, which had ended, was told: {later}"
        if (run.reason is None, run.ended_at_ms is None) != (run.state not in FINAL,) * 2:
            yield f"E5: {run.run} is {run.state} for the reason {run.reason}"


def slots_are_held_by_the_live(store: Store, limits: Limits) -> Iterator[str]:
    live = [run for run in store.runs.values() if run.state not in FINAL]
    holding = [run for run in live if run.state is not RunState.WAITING]
    slots = {keys.slot(run.scope, run.run_class, run.run) for run in holding}
    if slots != store.slots:
        yield f"E6: slots {slots ^ store.slots} are held or missing"
    for (scope, run_class), n in Counter((run.scope, run.run_class) for run in holding).items():
        if n > limits.slots(scope, run_class):
            yield f"E6: {n} runs hold {run_class} slots of {scope}"
    index = {keys.live_run(run.conversation, run.run): run.run_class for run in live}
    if index != store.live:
        yield f"E6: the index of live runs has {store.live}, not {index}"


def what_has_no_result_is_open_or_unknown(store: Store, limits: Limits) -> Iterator[str]:
    for run in store.runs.values():
        open_effects = [
            number
            for (of_run, number), effect in store.effects.items()
            if of_run == run.run and effect.state is EffectState.OPEN
        ]
        open_requests = [
            ordinal
            for (of_run, ordinal), request in store.requests.items()
            if of_run == run.run and request.state is RequestState.OPEN
        ]
        if open_effects != sorted(run.open_effects) or (run.state in FINAL and open_effects):
            yield f"E7: {run.run} has effects {open_effects} open"
        if open_requests != sorted(run.open_requests) or (run.state in FINAL and open_requests):
            yield f"E7: {run.run} has requests {open_requests} open"
        if run.state in FINAL:
            unsettled = [
                number
                for (of_run, number), revision in store.revisions.items()
                if of_run == run.run and revision.state not in SETTLED
            ]
            if unsettled:
                yield f"E1: {run.run} has ended and its revisions {unsettled} have not"
    started = Counter(
        (event.run, event.facts["effect"])
        for event in store.events.values()
        if event.kind is EventKind.EFFECT_STARTED
    )
    for (run_id, number), count in started.items():
        effect = store.effects.get((str(run_id), number))
        if effect is not None and effect.repeat is Repeat.ONCE and count > 1:
            yield f"E7: effect {number} of {run_id} may happen once and started {count} times"


def usage_is_what_was_said_and_the_rest_is_unobserved(
    store: Store, limits: Limits
) -> Iterator[str]:
    for run in store.runs.values():
        ended = [
            request
            for (of_run, _), request in store.requests.items()
            if of_run == run.run and request.state is not RequestState.OPEN
        ]
        said = [
            request.input_tokens + request.output_tokens
            for request in ended
            if request.input_tokens is not None and request.output_tokens is not None
        ]
        if (run.tokens, run.unobserved) != (sum(said), len(ended) - len(said)):
            yield f"C33: {run.run} counts {run.tokens} tokens and {run.unobserved} unobserved"


def numbers_grow_without_gaps(store: Store, limits: Limits) -> Iterator[str]:
    if list(store.events) != list(range(1, store.sequence)):
        yield "E9: the sequence of events has a gap"
    for head in store.conversations.values():
        told = [event.number for event in store.events_of(head.conversation)]
        if told != list(range(1, head.events + 1)):
            yield f"E9: events of {head.conversation} are numbered {told}"
        said = [
            *(m.entry for m in store.messages.values() if m.conversation == head.conversation),
            *(p.entry for p in store.publications.values() if p.conversation == head.conversation),
        ]
        if sorted(said) != list(range(1, head.entries + 1)):
            yield f"E9: entries of {head.conversation} are numbered {sorted(said)}"
    for run in store.runs.values():
        for counted, found in (
            (run.revisions, store.revisions),
            (run.requests, store.requests),
            (run.effects, store.effects),
        ):
            numbers = [number for of_run, number in found if of_run == run.run]
            if numbers != list(range(1, counted + 1)):
                yield f"E9: {run.run} counts {counted} and has {numbers}"
        if not run.delivered_through <= run.carried_through <= run.revisions:
            yield f"E9: {run.run} delivered or carried what it does not have"


def every_name_is_of_the_same_scope_and_exists(store: Store, limits: Limits) -> Iterator[str]:
    scopes = {head.conversation: head.scope for head in store.conversations.values()}
    entries: dict[str, Message | Publication] = {**store.messages, **store.publications}
    owned: list[Record] = [
        *store.runs.values(),
        *entries.values(),
        *store.events.values(),
        *store.accepted.values(),
    ]
    for record in owned:
        assert isinstance(record, Run | Message | Publication | Event | Accepted)
        if scopes.get(record.conversation) != record.scope:
            yield f"E11: {record} is not of its conversation's scope"
        if record.run is not None and record.run not in store.runs:
            yield f"E12: {record} names a run that does not exist"
    for named in [
        *(entry.previous for entry in entries.values()),
        *(head.last_entry for head in store.conversations.values()),
        *(run.publication for run in store.runs.values()),
        *(run.history_head for run in store.runs.values()),
        *(run.message for run in store.runs.values()),
        *(accepted.message for accepted in store.accepted.values()),
        *(event.message for event in store.events.values()),
    ]:
        if named is not None and named not in entries:
            yield f"E12: {named} is named and does not exist"
    for run in store.runs.values():
        yield from (f"E12: {run.run} names {o}" for o in run.overview if o not in store.runs)
        if run.state not in FINAL and run.owner not in store.owners:
            yield f"E12: {run.run} lives and its owner is not known"
    listed = {
        keys.conversation_of_scope(h.scope, h.conversation) for h in store.conversations.values()
    }
    if listed != store.listed:
        yield f"E12: the index of conversations differs by {listed ^ store.listed}"


def every_hash_is_that_of_its_text(store: Store, limits: Limits) -> Iterator[str]:
    for message in store.messages.values():
        if hashlib.sha256(message.text.encode()).digest() != message.text_sha256:
            yield f"E12: the text of {message.message} is not the one that was hashed"
    for at, kept in store.inputs.items():
        request = store.requests.get(at)
        if request is None or hashlib.sha256(kept).digest() != request.input_sha256:
            yield f"E12: the input of {at} is not the one that was hashed"


CHECKS: Final[tuple[Callable[[Store, Limits], Iterator[str]], ...]] = (
    every_message_has_one_disposition,
    a_client_id_leads_to_one_of_each,
    a_delivery_names_a_request_that_lists_it,
    nothing_goes_out_after_a_stop,
    a_run_ends_once_and_for_good,
    slots_are_held_by_the_live,
    what_has_no_result_is_open_or_unknown,
    usage_is_what_was_said_and_the_rest_is_unobserved,
    numbers_grow_without_gaps,
    every_name_is_of_the_same_scope_and_exists,
    every_hash_is_that_of_its_text,
)
