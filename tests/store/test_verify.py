"""A store that the rules made has no breach; each single wrong thing is named by its row.

Method: `busy_world` is a store in which everything that can happen has happened. One thing
of a copy is changed, removed or put where it does not belong, and the record that was
damaged must be among those that a breach of the right row names.
"""

from collections.abc import Callable

import msgspec
import pytest

from counterpoint.store import events, keys, requests
from counterpoint.store.ids import ClientId, RunId
from counterpoint.store.limits import BACKGROUND, SHORT
from counterpoint.store.records import (
    Accepted,
    Checkpoint,
    Conversation,
    Effect,
    EffectState,
    Event,
    EventKind,
    Meaning,
    Message,
    Publication,
    Reason,
    Request,
    RequestState,
    Revision,
    RevisionState,
    Run,
    RunState,
    Verb,
    encode,
)
from counterpoint.store.verify import FAMILIES, verify

from .busy import LIMITS, Busy, Copy, busy_world
from .world import ANN, BOB

Damage = Callable[[Copy], bytes]
"""Damages a store and returns the key of a record that shows it."""


@pytest.fixture(scope="module")
def busy() -> Busy:
    return busy_world()


def key_of_message(copy: Copy, run: RunId) -> bytes:
    return copy.record(Run, keys.run(run)).message.encode()


def key_of_receipt(copy: Copy, run: RunId) -> bytes:
    return keys.identity(copy.record(Run, keys.run(run)).scope, client_of(copy, run))


def client_of(copy: Copy, run: RunId) -> ClientId:
    return copy.record(Run, keys.run(run)).client_id


def key_of_answer(copy: Copy) -> bytes:
    answer = copy.record(Run, keys.run(copy.busy.done)).publication
    assert answer is not None
    return answer.encode()


def key_of_steering(copy: Copy, run: RunId, number: int) -> bytes:
    return copy.record(Revision, keys.revision(run, number)).message.encode()


def a_client_id_used_twice(copy: Copy) -> bytes:
    taken = client_of(copy, copy.busy.done)
    return copy.edit(Message, key_of_message(copy, copy.busy.live), client_id=taken)


def a_receipt_of_another_text(copy: Copy) -> bytes:
    key = key_of_receipt(copy, copy.busy.done)
    meaning = copy.record(Accepted, key).meaning
    meaning = msgspec.structs.replace(meaning, text_sha256=bytes(32))
    return copy.edit(Accepted, key, meaning=meaning)


def a_request_after_the_stop(copy: Copy) -> bytes:
    """The rule itself, misled: the record says that the run is running again."""
    run, world = copy.busy.stopping, copy.busy.world
    copy.edit(Run, keys.run(run), state=RunState.RUNNING)
    outgoing = requests.Outgoing(
        run=run,
        owner=world.owner,
        gateway="scripted",
        input_sha256=bytes(32),
        model_input=b"",
        revision=0,
        now_ms=1,
        keep_input=False,
    )
    copy.run(requests.begin, outgoing)
    copy.edit(Run, keys.run(run), state=RunState.STOPPING)
    return copy.events(run, EventKind.REQUEST_STARTED)[-1]


def an_end_that_nobody_was_told_of(copy: Copy) -> bytes:
    run = copy.busy.resumed
    copy.remove(keys.slot(ANN, BACKGROUND, run))
    copy.remove(keys.live_run(copy.busy.aside, run))
    return copy.edit(
        Run,
        keys.run(run),
        state=RunState.PARTIAL,
        reason=Reason.BUDGET,
        ended_at_ms=1,
    )


def a_message_that_the_conversation_lost(copy: Copy) -> bytes:
    """Two transactions that each took the same entry for the last one."""
    key = key_of_message(copy, copy.busy.live)
    message = copy.record(Message, key)
    stray = message.message[:-1] + "f"
    copy.values[stray.encode()] = encode(msgspec.structs.replace(message, message=stray))
    return stray.encode()


def a_receipt_of_what_nobody_was_told(copy: Copy) -> bytes:
    receipt = copy.record(Accepted, key_of_receipt(copy, copy.busy.stopped))
    client_id = ClientId("never-seen")
    stray = msgspec.structs.replace(receipt, client_id=client_id)
    key = keys.identity(ANN, client_id)
    copy.values[key] = encode(stray)
    return key


def a_run_that_sees_bobs(copy: Copy) -> bytes:
    return copy.edit(Run, keys.run(copy.busy.live), overview=(copy.busy.adopted,))


def a_run_of_which_nobody_was_told(copy: Copy) -> bytes:
    for key in copy.events(copy.busy.adopted, None):
        copy.edit(Event, key, run=copy.busy.done)
    return keys.run(copy.busy.adopted)


def one_slot_too_many(copy: Copy) -> bytes:
    for number in range(3):
        copy.values[keys.slot(ANN, SHORT, RunId(f"r{number:024x}"))] = b""
    return keys.slot(ANN, SHORT, copy.busy.stopping)


# fmt: off
DAMAGES: dict[str, tuple[str, Damage]] = {
    # E1
    "nothing became of a message": ("E1", lambda c: c.edit(
        Message, key_of_message(c, c.busy.done), disposition="")),
    "a steering is no revision": ("E1", lambda c: c.edit(
        Message, key_of_steering(c, c.busy.done, 1), revision=None)),
    "a revision is of a message that is none": ("E1", lambda c: c.edit(
        Revision, keys.revision(c.busy.done, 1), message=key_of_message(c, c.busy.done).decode())),
    "a message started no run": ("E1", lambda c: c.edit(
        Message, key_of_message(c, c.busy.done), run=c.busy.lost)),
    "a withdrawn revision stands again": ("E1", lambda c: c.edit(
        Revision, keys.revision(c.busy.lost, 3), state=RevisionState.NOT_APPLIED)),
    "a revision was settled otherwise": ("E1", lambda c: c.edit(
        Revision, keys.revision(c.busy.lost, 2), state=RevisionState.DELIVERY_UNKNOWN)),
    "a delivery is told of twice": ("E1", lambda c: c.tell(
        c.busy.live, EventKind.REVISION_DELIVERED, revision=1, request=1)),
    "a delivery is told of by nobody": ("E1", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.REVISION_DELIVERED)[0],
        kind=EventKind.PROGRESS) and keys.revision(c.busy.live, 1)),
    # E2
    "two messages came with one client id": ("E2", a_client_id_used_twice),
    "a run came with a client id of another": ("E2", lambda c: c.edit(
        Run, keys.run(c.busy.live), client_id=client_of(c, c.busy.done))),
    "a receipt is of another text": ("E2", a_receipt_of_another_text),
    "a receipt names another run": ("E2", lambda c: c.edit(
        Accepted, key_of_receipt(c, c.busy.done), run=c.busy.lost)),
    "a receipt names no message": ("E2", lambda c: c.edit(
        Accepted, key_of_receipt(c, c.busy.done), message=None)),
    "a run is admitted twice": ("E2", lambda c: c.tell(
        c.busy.live, EventKind.MESSAGE_ADMITTED, run_class="short")),
    "a revision came with another client id": ("E2", lambda c: c.edit(
        Revision, keys.revision(c.busy.live, 1), client_id=ClientId("x"))),
    "a revision is told of with another message": ("E2", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.REVISION_SAVED)[0], message=None)),
    "a run was stopped by another id": ("E2", lambda c: c.edit(
        Run, keys.run(c.busy.stopped), stop_client_id=client_of(c, c.busy.done))),
    # E3
    "a delivered revision names no request": ("E3", lambda c: c.edit(
        Revision, keys.revision(c.busy.done, 1), request=9)),
    "its request does not list it": ("E3", lambda c: c.edit(
        Request, keys.request(c.busy.done, 2), carries=())),
    "its request did not complete": ("E3", lambda c: c.edit(
        Request, keys.request(c.busy.done, 2), state=RequestState.FAILED)),
    "a request lists what was saved later": ("E3", lambda c: c.edit(
        Request, keys.request(c.busy.done, 1), carries=(1,), revision=1)),
    "a revision is delivered by its record alone": ("E3", lambda c: c.edit(
        Revision, keys.revision(c.busy.live, 2), state=RevisionState.DELIVERED)),
    "more is delivered than requests took": ("E3", lambda c: c.edit(
        Run, keys.run(c.busy.live), delivered_through=2)),
    "a request took less than was there": ("C12", lambda c: c.edit(
        Event, c.events(c.busy.done, EventKind.REQUEST_STARTED)[1], facts={
            "request": 2, "revisions": []}) and c.edit(
        Request, keys.request(c.busy.done, 2), carries=())),
    "a revision was delivered by half": ("E3", lambda c: c.edit(
        Revision, keys.revision(c.busy.done, 1), input_sha256=b"")),
    "a request has revisions that are not there": ("E3", lambda c: c.edit(
        Request, keys.request(c.busy.done, 2), revision=2)),
    "a request carries what it can't": ("E3", lambda c: c.edit(
        Request, keys.request(c.busy.done, 2), carries=(2, 1))),
    "a late result is told of and was none": ("E3", lambda c: c.tell(
        c.busy.live, EventKind.REQUEST_ENDED, request=2, state="completed", late=True)),
    # E4
    "a request begins after the stop": ("E4", a_request_after_the_stop),
    "an effect begins after the stop": ("E4", lambda c: c.tell(
        c.busy.stopping, EventKind.EFFECT_STARTED, effect=1)),
    "a stop is forgotten": ("E4", lambda c: c.edit(
        Run, keys.run(c.busy.stopping), stop_at_ms=None)),
    "a stop is accepted that is not there": ("E10", lambda c: c.edit(
        Accepted, key_of_receipt(c, c.busy.done), message=None, meaning=Meaning(
            verb=Verb.STOP, conversation=c.busy.talk, target=c.busy.done))),
    # E5
    "a run ends twice": ("E5", lambda c: c.tell(
        c.busy.done, EventKind.RUN_ENDED, state="failed", reason="internal")),
    "something happens after the end": ("E5", lambda c: c.tell(
        c.busy.done, EventKind.PROGRESS, text="more")),
    "a final state changes": ("E5", lambda c: c.edit(
        Run, keys.run(c.busy.done), state=RunState.FAILED)),
    "a run has an end of which no event tells": ("E5", an_end_that_nobody_was_told_of),
    "a final run goes on": ("E5", lambda c: c.edit(
        Run, keys.run(c.busy.lost), state=RunState.RUNNING)),
    "a final run has no reason": ("E5", lambda c: c.edit(
        Run, keys.run(c.busy.lost), reason=None)),
    "an answer is gone": ("E5", lambda c: c.remove(key_of_answer(c))),
    "an answer is of a run that names none": ("E5", lambda c: c.edit(
        Run, keys.run(c.busy.done), publication=None)),
    "an answer is of a run that goes on": ("E5", lambda c: c.edit(
        Publication, key_of_answer(c), run=c.busy.live)),
    "a run was stopped by nobody": ("E5", lambda c: c.edit(
        Run, keys.run(c.busy.stopped), reason=Reason.INTERNAL)),
    "a live run has an answer": ("E5", lambda c: c.edit(
        Run, keys.run(c.busy.live), publication=key_of_answer(c).decode())),
    "a run has worked and not begun": ("E5", lambda c: c.edit(
        Run, keys.run(c.busy.live), state=RunState.ADMITTED)),
    # E6
    "a live run holds no slot": ("E6", lambda c: c.remove(
        keys.slot(ANN, BACKGROUND, c.busy.live))),
    "a run that has ended holds one": ("E6", lambda c: c.put(
        keys.slot(ANN, SHORT, c.busy.done), b"")),
    "a run holds two": ("E6", lambda c: c.put(
        keys.slot(ANN, SHORT, c.busy.live), b"")),
    "a waiting run holds one": ("E6", lambda c: c.edit(
        Run, keys.run(c.busy.live), state=RunState.WAITING)),
    "more hold slots than there are": ("E6", one_slot_too_many),
    "a live run is not among the live": ("E6", lambda c: c.remove(
        keys.live_run(c.busy.talk, c.busy.live))),
    "a run that has ended is": ("E6", lambda c: c.put(
        keys.live_run(c.busy.talk, c.busy.done), b"short")),
    "a live run is of another class there": ("E6", lambda c: c.put(
        keys.live_run(c.busy.talk, c.busy.live), b"short")),
    "a run changed its class by its record alone": ("E6", lambda c: c.edit(
        Run, keys.run(c.busy.done), run_class=BACKGROUND)),
    "a run left a class that it was not in": ("E6", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.RUN_PROMOTED)[0], facts={
            "before": "background", "run_class": "background"})),
    # E7
    "an unknown effect has a result": ("E7", lambda c: c.edit(
        Effect, keys.effect(c.busy.lost, 1), result=b"1")),
    "an unknown effect is known by its record alone": ("E7", lambda c: c.edit(
        Effect, keys.effect(c.busy.lost, 1), state=EffectState.DONE, result=b"1")),
    "an effect is under way in a run that has ended": ("E7", lambda c: c.edit(
        Effect, keys.effect(c.busy.lost, 1), state=EffectState.OPEN, ended_at_ms=None)),
    "an effect of a live run is under way, unseen": ("E7", lambda c: c.edit(
        Run, keys.run(c.busy.live), open_effects=())),
    "what may happen once starts twice": ("E7", lambda c: c.tell(
        c.busy.resumed, EventKind.EFFECT_STARTED, effect=2)),
    "what is done starts again": ("E7", lambda c: c.tell(
        c.busy.resumed, EventKind.EFFECT_STARTED, effect=1)),
    "an effect goes under another operation id": ("E7", lambda c: c.edit(
        Effect, keys.effect(c.busy.done, 1), operation_id="x")),
    "an effect is under way in the record of a run that has ended": ("E7", lambda c: c.edit(
        Run, keys.run(c.busy.lost), open_effects=(1,))),
    "an effect has ended by half": ("E7", lambda c: c.edit(
        Effect, keys.effect(c.busy.done, 1), ended_at_ms=None)),
    "an effect became something else": ("E7", lambda c: c.edit(
        Effect, keys.effect(c.busy.done, 1), state=EffectState.FAILED)),
    "a person resolved what was known": ("E7", lambda c: c.tell(
        c.busy.done, EventKind.EFFECT_RESOLVED, effect=1, state="done")),
    # E9
    "an event is gone": ("E9", lambda c: c.remove(
        c.events(c.busy.done, EventKind.REQUEST_STARTED)[0])),
    "the last event is gone": ("E9", lambda c: c.remove(
        keys.event(events.sequence(c) - 1)) and keys.SEQUENCE),
    "an event has another number": ("E9", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.PROGRESS)[3], number=7)),
    "an event points back to another": ("E9", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.PROGRESS)[3], back=(1,))),
    "the store counts wrong": ("E9", lambda c: c.put(
        keys.SEQUENCE, (7).to_bytes(8))),
    "the store does not count": ("E9", lambda c: c.remove(keys.SEQUENCE)),
    "a head counts its events wrong": ("E9", lambda c: c.edit(
        Conversation, c.busy.talk.encode(), events=3)),
    "a head points to another last event": ("E9", lambda c: c.edit(
        Conversation, c.busy.talk.encode(), last_event=3)),
    "a head skips to another event": ("E9", lambda c: c.edit(
        Conversation, c.busy.talk.encode(), skips=(1, 2))),
    "a head counts its entries wrong": ("E9", lambda c: c.edit(
        Conversation, c.busy.talk.encode(), entries=3)),
    "a head has another last entry": ("E9", lambda c: c.edit(
        Conversation, c.busy.talk.encode(), last_entry=key_of_answer(c).decode())),
    "an entry has another number": ("E9", lambda c: c.edit(
        Publication, key_of_answer(c), entry=9)),
    "an entry has another before it": ("E9", lambda c: c.edit(
        Publication, key_of_answer(c), previous=key_of_message(c, c.busy.live).decode())),
    "two entries have one number": ("E9", a_message_that_the_conversation_lost),
    "a request is gone": ("E9", lambda c: c.remove(keys.request(c.busy.done, 1))),
    "the last revision is gone": ("E9", lambda c: c.remove(
        keys.revision(c.busy.live, 3)) and keys.run(c.busy.live)),
    "an effect was left out": ("E9", lambda c: c.move(
        keys.effect(c.busy.done, 1), keys.effect(c.busy.done, 2)) and keys.run(c.busy.done)),
    "a run counts its requests wrong": ("E9", lambda c: c.edit(
        Run, keys.run(c.busy.done), requests=3)),
    "a run counts its withdrawals wrong": ("E9", lambda c: c.edit(
        Run, keys.run(c.busy.lost), withdrawn=0)),
    "a checkpoint is gone": ("E9", lambda c: c.remove(keys.checkpoint(c.busy.done))),
    "a checkpoint is an older one": ("E9", lambda c: c.edit(
        Checkpoint, keys.checkpoint(c.busy.done), number=2)),
    "a run sees what came after it": ("E9", lambda c: c.edit(
        Run, keys.run(c.busy.live), history_head=key_of_message(c, c.busy.live).decode())),
    "the admission of a run is not told": ("E9", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.MESSAGE_ADMITTED)[0],
        kind=EventKind.PROGRESS, facts={})),
    "no event tells of a run": ("E9", a_run_of_which_nobody_was_told),
    "a conversation opens twice": ("E9", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.PROGRESS)[3],
        kind=EventKind.CONVERSATION_OPENED)),
    "a request ends twice": ("E9", lambda c: c.tell(
        c.busy.live, EventKind.REQUEST_ENDED, request=1, state="completed")),
    "an effect ends twice": ("E9", lambda c: c.tell(
        c.busy.live, EventKind.EFFECT_ENDED, effect=1, state="done")),
    "a request is told of out of turn": ("E9", lambda c: c.tell(
        c.busy.live, EventKind.REQUEST_STARTED, request=2, revisions=[])),
    "the store counts in another way": ("E12", lambda c: c.put(keys.SEQUENCE, b"")),
    "a head has entries and no last one": ("E9", lambda c: c.edit(
        Conversation, c.busy.talk.encode(), last_entry=None)),
    "an entry has none before it": ("E9", lambda c: c.edit(
        Publication, key_of_answer(c), previous=None)),
    "a run sees entries and no last one": ("E9", lambda c: c.edit(
        Run, keys.run(c.busy.live), history_head=None)),
    "a run sees less than was there": ("E9", lambda c: c.edit(
        Run, keys.run(c.busy.live), history_entries=1)),
    # E10
    "a receipt is gone": ("E10", lambda c: c.remove(key_of_receipt(c, c.busy.done))),
    "what a receipt names is gone": ("E10", lambda c: c.remove(
        key_of_message(c, c.busy.done))),
    "the run of a receipt is gone": ("E10", lambda c: c.remove(keys.run(c.busy.done))),
    "a receipt names an event to come": ("E10", lambda c: c.edit(
        Accepted, key_of_receipt(c, c.busy.done), version=10_000)),
    "no event tells of a receipt": ("E10", a_receipt_of_what_nobody_was_told),
    # E11
    "a message is of another scope": ("E11", lambda c: c.edit(
        Message, key_of_message(c, c.busy.done), scope=BOB)),
    "an event is of another scope": ("E11", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.PROGRESS)[3], scope=BOB)),
    "a run is of another scope": ("E11", lambda c: c.edit(
        Run, keys.run(c.busy.done), scope=BOB)),
    "a run sees a run of another scope": ("E11", a_run_that_sees_bobs),
    "a run holds a slot of another scope": ("E11", lambda c: c.move(
        keys.slot(ANN, BACKGROUND, c.busy.live), keys.slot(BOB, BACKGROUND, c.busy.live))),
    "a conversation is in the index of another scope": ("E11", lambda c: c.move(
        keys.conversation_of_scope(ANN, c.busy.talk),
        keys.conversation_of_scope(BOB, c.busy.talk))),
    # E12
    "a text is not the one that was hashed": ("E12", lambda c: c.edit(
        Message, key_of_message(c, c.busy.done), text="Something that nobody said.")),
    "an input is not the one that was hashed": ("E12", lambda c: c.put(
        keys.request_input(c.busy.done, 1), b"?")),
    "a revision has another hash than its request": ("E12", lambda c: c.edit(
        Revision, keys.revision(c.busy.done, 1), input_sha256=bytes(32))),
    "a title is not the one that was accepted": ("E12", lambda c: c.edit(
        Conversation, c.busy.talk.encode(), title="Another.")),
    "arguments are no JSON": ("E12", lambda c: c.edit(
        Effect, keys.effect(c.busy.done, 1), arguments=b"{")),
    "a result is no JSON": ("E12", lambda c: c.edit(
        Effect, keys.effect(c.busy.done, 1), result=b"\xff")),
    "a message names a run of another conversation": ("E12", lambda c: c.edit(
        Message, key_of_message(c, c.busy.done), run=c.busy.stopped)),
    "a run names what is no message": ("E12", lambda c: c.edit(
        Run, keys.run(c.busy.done), message=c.busy.live)),
    "the owner of a live run is gone": ("E12", lambda c: c.remove(
        c.busy.world.owner.encode()) and keys.run(c.busy.live)),
    "a conversation is not in its index": ("E12", lambda c: c.remove(
        keys.conversation_of_scope(ANN, c.busy.talk))),
    "a conversation is gone": ("E12", lambda c: c.remove(c.busy.talk.encode())),
    "a run continues one that never was": ("E12", lambda c: c.edit(
        Run, keys.run(c.busy.live), parent=RunId("r" + "0" * 24))),
    "the original request has another hash": ("E12", lambda c: c.edit(
        Run, keys.run(c.busy.live), origin=key_of_message(c, c.busy.done).decode())),
    "an input is of no request": ("E12", lambda c: c.put(
        keys.request_input(c.busy.done, 9), b"")),
    "records are of no run": ("E12", lambda c: c.remove(keys.run(c.busy.done))),
    "a message comes in as a stop": ("E12", lambda c: c.edit(
        Message, key_of_message(c, c.busy.done), verb=Verb.STOP)),
    "a message is revision 0": ("E12", lambda c: c.edit(
        Message, key_of_steering(c, c.busy.live, 1), revision=0)),
    "a live run is of another conversation there": ("E12", lambda c: c.move(
        keys.live_run(c.busy.talk, c.busy.live), keys.live_run(c.busy.aside, c.busy.live))),
    "an event is of a run of another conversation": ("E12", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.PROGRESS)[3], run=c.busy.stopped)),
    "an event is of no run": ("E12", lambda c: c.edit(
        Event, c.events(c.busy.live, EventKind.PROGRESS)[3], run=None)),
    "a stop was accepted from nobody": ("E12", lambda c: c.edit(
        Event, c.events(c.busy.stopping, EventKind.STOP_ACCEPTED)[0], client_id=None)),
    # what part E rests on
    "a request is under way in a run that has ended": ("C17", lambda c: c.edit(
        Request, keys.request(c.busy.done, 1), state=RequestState.OPEN, ended_at_ms=None)),
    "a revision of a run that has ended waits": ("C17", lambda c: c.edit(
        Revision, keys.revision(c.busy.lost, 2), state=RevisionState.SAVED)),
    "a request is under way in the record of a run that has ended": ("C17", lambda c: c.edit(
        Run, keys.run(c.busy.done), open_requests=(1,))),
    "a request has ended by half": ("C17", lambda c: c.edit(
        Request, keys.request(c.busy.done, 1), ended_at_ms=None)),
    "a run ends with a request under way": ("C17", lambda c: c.tell(
        c.busy.live, EventKind.RUN_ENDED, state="completed", reason="answered")),
    "use that nobody said is not counted": ("C33", lambda c: c.edit(
        Run, keys.run(c.busy.lost), unobserved=0)),
}
# fmt: on


@pytest.mark.contract("C49")
def test_a_store_that_the_rules_made_has_no_breach(busy: Busy) -> None:
    assert [str(breach) for breach in verify(busy.world.base, LIMITS)] == []
    assert {key[:1] for key in busy.world.base.values} == set(FAMILIES), "each family is there"


@pytest.mark.contract("C49")
@pytest.mark.parametrize("what", DAMAGES)
def test_a_breach_is_named_by_its_row_with_the_records_that_show_it(busy: Busy, what: str) -> None:
    row, damage = DAMAGES[what]
    copy = Copy(busy)
    shown = damage(copy)
    found = list(verify(copy, LIMITS))
    assert any(breach.row == row and shown in breach.keys for breach in found), [
        str(breach) for breach in found
    ]
