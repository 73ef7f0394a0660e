"""The checker of part E sees every breach that it is there for.

Method: one healthy store in which everything happens; each case damages one thing of it by
hand, and the checker must name the row. Then random lives of a whole store, checked after
every step.
"""

from collections.abc import Callable, Sized
from typing import Any

import pytest
from msgspec.structs import replace

from counterpoint.store import keys, runs
from counterpoint.store.ids import (
    ClientId,
    ConversationId,
    MessageId,
    OwnerId,
    PublicationId,
    RunId,
)
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import (
    Effect,
    EffectState,
    Event,
    EventKind,
    Message,
    Record,
    Request,
    RequestState,
    Revision,
    RevisionState,
    Run,
    RunState,
    decode,
    encode,
)

from .invariants import breaches, read
from .world import ANN, World


class Sample:
    """A run that has ended, one that was stopped and one that works, with all they can have."""

    def __init__(self) -> None:
        self.world = world = World()
        self.conversation = world.open()
        self.ended = world.start(self.conversation)
        world.steer(self.ended)
        world.ask(self.ended)
        world.begin_effect(self.ended)
        world.end_effect(self.ended, 1)
        self.answer = PublicationId(world.complete(self.ended).publication or "")
        self.stopped = world.start(self.conversation)
        world.begin_effect(self.stopped)
        world.stop(self.stopped)
        world.finish(self.stopped)
        self.working = world.start(self.conversation, background=True)
        world.steer(self.working)
        world.begin_request(self.working)
        world.begin_effect(self.working)
        world.steer(self.working)
        world.run(runs.save_checkpoint, self.working, world.owner, b"so far", world.now_ms())

    def _change(self, key: bytes, record_type: type[Record], fields: dict[str, Any]) -> None:
        record = decode(record_type, self.world.base.values[key])
        self.put(key, encode(replace(record, **fields)))

    def change_run(self, run: RunId, **fields: Any) -> None:
        self._change(keys.run(run), Run, fields)

    def change_message(self, run: RunId, /, **fields: Any) -> None:
        """The one that started the run."""
        self._change(keys.message(self.world.record(run).message), Message, fields)

    def change_revision(self, run: RunId, **fields: Any) -> None:
        self._change(keys.revision(run, 1), Revision, fields)

    def change_request(self, run: RunId, **fields: Any) -> None:
        self._change(keys.request(run, 1), Request, fields)

    def change_effect(self, run: RunId, **fields: Any) -> None:
        self._change(keys.effect(run, 1), Effect, fields)

    def change_last_event(self, **fields: Any) -> None:
        self._change(self.last_event(), Event, fields)

    def client_id(self, run: RunId) -> ClientId:
        return self.world.record(run).client_id

    def put(self, key: bytes, value: bytes) -> None:
        self.world.run(lambda txn: txn.put(key, value))

    def remove(self, key: bytes) -> None:
        self.world.run(lambda txn: txn.delete(key))

    def last_event(self) -> bytes:
        return keys.event(self.world.head(self.conversation).last_event)


def test_a_healthy_store_has_no_breach() -> None:
    sample = Sample()
    assert breaches(sample.world.base, sample.world.limits) == []


def test_the_checker_reads_every_record_of_a_store() -> None:
    sample = Sample()
    store = read(sample.world.base)
    families: tuple[Sized, ...] = (
        store.accepted,
        store.conversations,
        store.events,
        store.messages,
        store.publications,
        store.runs,
        store.requests,
        store.inputs,
        store.effects,
        store.revisions,
        store.checkpoints,
        store.owners,
        store.live,
        store.listed,
        store.slots,
    )
    assert min(map(len, families)) > 0
    assert sum(map(len, families)) == len(sample.world.base.values) - 1  # the sequence


NO_RUN = RunId("r" + "0" * 24)
NO_ENTRY = MessageId("m" + "0" * 24)
NO_OWNER = OwnerId("w" + "0" * 24)


def begun_after_its_stop(s: Sample) -> None:
    s.change_last_event(kind=EventKind.EFFECT_STARTED, run=s.stopped, facts={"effect": 1})


def happened_twice(s: Sample) -> None:
    s.change_last_event(kind=EventKind.EFFECT_STARTED, run=s.ended, facts={"effect": 1})


DAMAGES: list[tuple[str, str, Callable[[Sample], object]]] = [
    ("E1", "no disposition", lambda s: s.change_message(s.ended, disposition="")),
    ("E1", "another's run", lambda s: s.change_message(s.ended, run=s.working)),
    ("E1", "unsettled", lambda s: s.change_revision(s.ended, state=RevisionState.SAVED)),
    ("E2", "used twice", lambda s: s.change_run(s.ended, client_id=s.client_id(s.working))),
    ("E2", "identity lost", lambda s: s.remove(keys.identity(ANN, s.client_id(s.ended)))),
    ("E3", "not listed", lambda s: s.change_request(s.ended, carries=())),
    ("E3", "no such request", lambda s: s.change_revision(s.ended, request=9)),
    ("E3", "other input", lambda s: s.change_revision(s.ended, input_sha256=b"x")),
    ("E3", "not completed", lambda s: s.change_request(s.ended, state=RequestState.FAILED)),
    ("E3", "not yet saved", lambda s: s.change_request(s.working, carries=(1, 2))),
    ("E4", "begun after", begun_after_its_stop),
    ("E5", "ends again", lambda s: s.change_run(s.ended, state=RunState.RUNNING)),
    ("E5", "no reason", lambda s: s.change_run(s.ended, reason=None)),
    ("E5", "ended unseen", lambda s: s.change_run(s.working, state=RunState.FAILED)),
    ("E6", "slot lost", lambda s: s.remove(keys.slot(ANN, BACKGROUND, s.working))),
    ("E6", "slot kept", lambda s: s.put(keys.slot(ANN, SHORT, s.ended), b"")),
    ("E6", "slot of nobody", lambda s: s.put(keys.slot(ANN, SHORT, NO_RUN), b"")),
    ("E6", "both slots", lambda s: s.put(keys.slot(ANN, SHORT, s.working), b"")),
    ("E6", "live unlisted", lambda s: s.remove(keys.live_run(s.conversation, s.working))),
    ("E6", "dead listed", lambda s: s.put(keys.live_run(s.conversation, s.ended), b"short")),
    ("E7", "open unlisted", lambda s: s.change_run(s.working, open_effects=())),
    ("E7", "open at the end", lambda s: s.change_effect(s.ended, state=EffectState.OPEN)),
    ("E7", "request unlisted", lambda s: s.change_run(s.working, open_requests=())),
    ("E7", "happened twice", happened_twice),
    ("C33", "usage lost", lambda s: s.change_run(s.ended, unobserved=0)),
    ("C33", "usage made up", lambda s: s.change_run(s.ended, tokens=1)),
    ("E9", "event lost", lambda s: s.remove(s.last_event())),
    ("E9", "event renumbered", lambda s: s.change_last_event(number=1)),
    ("E9", "entry renumbered", lambda s: s.change_message(s.ended, entry=2)),
    ("E9", "revision lost", lambda s: s.change_run(s.working, revisions=3)),
    ("E9", "request uncounted", lambda s: s.change_run(s.working, requests=0)),
    ("E9", "effect lost", lambda s: s.remove(keys.effect(s.ended, 1))),
    ("E9", "carried too much", lambda s: s.change_run(s.working, carried_through=3)),
    ("E11", "other scope", lambda s: s.change_message(s.ended, scope="bob")),
    ("E11", "run moved", lambda s: s.change_run(s.ended, scope="bob")),
    ("E12", "text changed", lambda s: s.change_message(s.ended, text="What is it!")),
    ("E12", "input changed", lambda s: s.put(keys.request_input(s.ended, 1), b"another input")),
    ("E12", "input of nothing", lambda s: s.put(keys.request_input(s.ended, 9), b"input")),
    ("E12", "chain broken", lambda s: s.change_message(s.working, previous=NO_ENTRY)),
    ("E12", "head broken", lambda s: s.change_run(s.working, history_head=NO_ENTRY)),
    ("E12", "answer lost", lambda s: s.remove(keys.publication(s.answer))),
    ("E12", "overview broken", lambda s: s.change_run(s.working, overview=(NO_RUN,))),
    ("E12", "owner unknown", lambda s: s.change_run(s.working, owner=NO_OWNER)),
    ("E12", "unlisted", lambda s: s.remove(keys.conversation_of_scope(ANN, s.conversation))),
    ("E12", "rubbish", lambda s: s.put(keys.run(s.ended), b"\xc1")),
    ("E12", "unknown family", lambda s: s.put(b"z", b"")),
    ("E12", "unknown of a run", lambda s: s.put(keys.run(s.ended) + b"z", b"")),
    (
        "E12",
        "a head alone",
        lambda s: s.put(keys.conversation_of_scope(ANN, ConversationId("c")), b""),
    ),
]


@pytest.mark.parametrize(
    ("row", "damage"),
    [row[::2] for row in DAMAGES],
    ids=[f"{row}-{name}" for row, name, _ in DAMAGES],
)
def test_a_damaged_store_is_seen_to_break_the_row(
    row: str, damage: Callable[[Sample], object]
) -> None:
    sample = Sample()
    damage(sample)
    found = breaches(sample.world.base, sample.world.limits)
    assert row in {breach.partition(":")[0] for breach in found}, found


def test_more_holders_than_the_limit_are_a_breach() -> None:
    found = breaches(Sample().world.base, Limits(capacity={SHORT: 3, BACKGROUND: 0}))
    assert [breach.partition(":")[0] for breach in found] == ["E6"]
