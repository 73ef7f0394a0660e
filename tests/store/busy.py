"""A store in which everything that the rules can do has happened, by the rules alone."""

from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from counterpoint.store import effects, events, keys, revisions, runs
from counterpoint.store.engine import Overlay, Txn
from counterpoint.store.ids import ConversationId, RunId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import (
    Event,
    EventKind,
    Reason,
    Record,
    Repeat,
    RequestState,
    Run,
    decode,
    encode,
)
from counterpoint.store.requests import Stale
from counterpoint.store.runs import Cue

from .world import ANN, BOB, World

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=Record)

LIMITS = Limits(capacity={SHORT: 3, BACKGROUND: 2}, capacity_of_scope={BOB: {BACKGROUND: 1}})


class Busy(msgspec.Struct, kw_only=True):
    """The store, and what stands in it under which name."""

    world: World
    talk: ConversationId
    """Ann's conversation, with over 64 events."""
    aside: ConversationId
    """Another of hers."""
    bobs: ConversationId
    done: RunId
    """Completed, with an answer; a request, an effect, a checkpoint; revision 1 delivered."""
    lost: RunId
    """Interrupted: revision 1 carried by nobody knows, 2 not applied, 3 withdrawn; effect 1
    unknown, 2 unknown and then resolved by a person."""
    stopped: RunId
    """Stopped, by two stops."""
    live: RunId
    """Promoted. Revision 1 delivered, 2 carried by the open request 3, 3 saved; effect 1
    skipped, 2 under way."""
    stopping: RunId
    """Its stop is accepted, and a request still under way."""
    resumed: RunId
    """Entered again: an idempotent effect started twice, one that may happen once unknown."""
    adopted: RunId
    """Of Bob's. Admitted by a process that went before it began."""


def busy_world() -> Busy:
    """Return it, new."""
    world = World(LIMITS)
    talk, aside, bobs = world.open(), world.open(title="aside"), world.open(BOB, title="Bob's")
    done = _done(world, talk)
    lost = _lost(world, talk)
    stopped = _stopped(world, aside)
    resumed = _resumed(world, aside)
    live = _live(world, talk)
    for step in range(70):
        world.run(runs.note_progress, live, world.owner, f"step {step}", world.now_ms())
    stopping = world.start(aside, "And this?")
    world.begin_request(stopping)
    world.stop(stopping)
    return Busy(
        world=world,
        talk=talk,
        aside=aside,
        bobs=bobs,
        done=done,
        lost=lost,
        stopped=stopped,
        live=live,
        stopping=stopping,
        resumed=resumed,
        adopted=_adopted(world, bobs),
    )


def _done(world: World, talk: ConversationId) -> RunId:
    run = world.start(talk, "What is it?")
    world.begin_request(run)
    world.steer(run)
    world.end_request(run, 1, RequestState.INTERRUPTED, reason="steering")
    world.end_request(run, 1, tokens=(3, 2))  # too late
    world.begin_request(run)
    world.end_request(run, 2, tokens=(7, 5))
    world.end_effect(run, world.begin_effect(run).number)
    world.run(runs.save_checkpoint, run, world.owner, b"notes", world.now_ms())
    world.complete(run)
    return run


def _lost(world: World, talk: ConversationId) -> RunId:
    gone = world.new_owner()
    run = world.start(talk, "Compare them.", background=True, owner=gone)
    world.steer(run, "With last year.")
    assert not isinstance(world.try_request(run, owner=gone), Stale)
    for _ in range(2):
        world.begin_effect(run, owner=gone)
    world.steer(run, "In a table.")
    world.steer(run, "No, in words.")
    withdrawal = revisions.Withdrawal(
        scope=ANN, run=run, revision=3, client_id=world.client_id(), now_ms=world.now_ms()
    )
    world.run(revisions.withdraw, withdrawal)
    world.settle(run, lost=gone, heir=world.owner)
    resolution = effects.Resolution(
        scope=ANN,
        run=run,
        effect=2,
        client_id=world.client_id(),
        happened=True,
        value=b"1",
        reason="I saw it.",
        now_ms=world.now_ms(),
    )
    world.run(effects.resolve, resolution)
    return run


def _stopped(world: World, aside: ConversationId) -> RunId:
    run = world.start(aside, "Something else.")
    world.ask(run)
    world.stop(run)
    world.stop(run)
    world.finish(run, Cue.FAIL, Reason.AGENT_ERROR)
    return run


def _resumed(world: World, aside: ConversationId) -> RunId:
    gone = world.new_owner()
    run = world.start(aside, "Go on whatever happens.", background=True, owner=gone)
    world.run(runs.put, replace(world.record(run), resumes=True))
    for repeat in (Repeat.IDEMPOTENT, Repeat.ONCE):
        world.begin_effect(run, repeat=repeat, owner=gone)
    assert not isinstance(world.try_request(run, owner=gone), Stale)
    world.settle(run, lost=gone, heir=world.owner)
    again = world.begin_effect(run, repeat=Repeat.IDEMPOTENT)
    assert again.number == 1
    world.end_effect(run, 1)
    return run


def _live(world: World, talk: ConversationId) -> RunId:
    run = world.start(talk, "A short one, at first.")
    world.steer(run)
    world.ask(run)
    world.promote(run)
    refused = world.start(talk, "This one stays short.")
    assert world.promote(refused) is not None
    world.complete(refused)
    world.begin_effect(run, revision=0)
    world.begin_effect(run)
    world.steer(run, "And one more thing.")
    world.begin_request(run)
    world.end_request(run, 2, RequestState.FAILED, reason="provider")
    world.begin_request(run)
    world.steer(run, "The last one.")
    return run


def _adopted(world: World, bobs: ConversationId) -> RunId:
    gone = world.new_owner()
    run = world.start(bobs, "Bob's own.", background=True, scope=BOB, owner=gone)
    world.settle(run, lost=gone, heir=world.owner)
    return run


class Copy:
    """A copy of what the store holds, to be damaged."""

    def __init__(self, busy: Busy) -> None:
        self.busy = busy
        self.values = dict(busy.world.base.values)

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for key in sorted(self.values, reverse=reverse):
            if start <= key < stop:
                yield key, self.values[key]

    def record(self, kind: type[R], key: bytes) -> R:
        return decode(kind, self.values[key])

    def edit(self, kind: type[R], key: bytes, /, **changes: object) -> bytes:
        """Change a record in place, and return its key."""
        self.values[key] = encode(replace(self.record(kind, key), **changes))
        return key

    def put(self, key: bytes, value: bytes) -> bytes:
        self.values[key] = value
        return key

    def remove(self, key: bytes) -> bytes:
        del self.values[key]
        return key

    def move(self, old: bytes, new: bytes) -> bytes:
        self.values[new] = self.values.pop(old)
        return new

    def run(self, rule: Callable[Concatenate[Txn, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Carry out a rule on the copy."""
        overlay = Overlay(self)
        result = rule(overlay, *args, **kwargs)
        for key, value in overlay.writes():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
        return result

    def events(self, run: RunId, kind: EventKind | None) -> list[bytes]:
        """Return the keys of the events of a run, of one kind or of all, oldest first."""
        return [
            key
            for key, value in self.scan(keys.EVENTS, keys.after(keys.EVENTS))
            if (event := decode(Event, value)).run == run and kind in (event.kind, None)
        ]

    def tell(self, run: RunId, kind: EventKind, **facts: Any) -> bytes:
        """Add an event of a run, well numbered, and return its key."""
        record = self.record(Run, keys.run(run))

        def add(txn: Txn) -> None:
            log = runs.log(txn, record, record.admitted_at_ms)
            log.append(kind, run=run, client_id=record.client_id, **facts)
            log.close()

        self.run(add)
        return keys.event(events.sequence(self) - 1)
