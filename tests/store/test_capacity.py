"""Slots: occupancy is who holds them, and a change of it is never seen halfway."""

import random

import pytest

from counterpoint.store import capacity, keys, runs
from counterpoint.store.engine import Overlay
from counterpoint.store.ids import RunId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import EventKind, Reason, RunState
from counterpoint.store.refusal import Code

from .world import ANN, BOB, World


@pytest.mark.contract("B45", "D9")
def test_a_full_class_refuses_the_next_run_from_any_conversation_of_the_scope() -> None:
    world = World()
    held = [world.start(world.open()) for _ in range(3)]
    another = world.open()
    with world.refuses(Code.CAPACITY_FULL) as refused:
        world.say(another)
    assert refused.value.facts["holders"] == held
    assert refused.value.facts["limit"] == 3


@pytest.mark.contract("C35")
def test_a_refusal_names_the_holders_and_what_may_be_done_about_them() -> None:
    world = World()
    holder = world.start(world.open(), background=True)
    conversation = world.open()
    with world.refuses(Code.CAPACITY_FULL) as refused:
        world.say(conversation, background=True)
    assert refused.value.facts == {
        "run_class": BACKGROUND,
        "limit": 1,
        "holders": [holder],
        "allowed": ["stop", "steer"],
    }
    assert refused.value.retry_same_id


@pytest.mark.contract("B47", "B52", "D9")
def test_background_work_that_finds_the_slot_taken_is_not_admitted_and_not_queued() -> None:
    world = World()
    conversation = world.open()
    holder = world.start(conversation, background=True)
    untouched = world.record(holder)
    with world.refuses(Code.CAPACITY_FULL) as refused:
        world.say(conversation, "And that too.", background=True)
    assert "not admitted and not queued" in refused.value.sentence
    assert world.record(holder) == untouched
    world.complete(holder)
    assert world.slots(BACKGROUND) == []  # nothing waited for it


@pytest.mark.contract("B22")
def test_a_second_research_with_background_full_is_not_added_to_the_first() -> None:
    world = World()
    conversation = world.open()
    holder = world.start(conversation, background=True)
    with world.refuses(Code.CAPACITY_FULL):
        world.say(conversation, "Another.", background=True)
    assert world.record(holder).revisions == 0


def test_one_scopes_runs_take_nothing_of_anothers() -> None:
    world = World(Limits(capacity={SHORT: 1}))
    world.start(world.open(ANN))
    world.start(world.open(BOB), scope=BOB)
    assert len(world.slots(SHORT, ANN)) == len(world.slots(SHORT, BOB)) == 1


@pytest.mark.contract("B41", "D9")
def test_the_limits_are_those_of_the_configuration_and_of_the_scope() -> None:
    limits = Limits(capacity={SHORT: 1}, capacity_of_scope={BOB: {SHORT: 2}})
    world = World(limits)
    ann, bob = world.open(ANN), world.open(BOB)
    world.start(ann)
    world.start(bob, scope=BOB)
    world.start(bob, scope=BOB)
    with world.refuses(Code.CAPACITY_FULL):
        world.say(ann)
    with world.refuses(Code.CAPACITY_FULL):
        world.say(bob, scope=BOB)


def test_a_class_of_the_hosts_own_is_held_like_the_two_that_come_with_it() -> None:
    limits = Limits(capacity={"review": 1})
    world = World(limits)
    first, second = world.ids.run(), world.ids.run()
    world.run(capacity.take, limits, ANN, "review", first)
    with world.refuses(Code.CAPACITY_FULL) as refused:
        world.run(capacity.take, limits, ANN, "review", second)
    assert refused.value.facts["holders"] == [first]
    with world.refuses(Code.CAPACITY_FULL):
        world.run(capacity.take, limits, ANN, "a class that nobody configured", second)


@pytest.mark.contract("B42")
def test_several_background_runs_are_a_set_and_each_ends_for_itself() -> None:
    world = World(Limits(capacity={BACKGROUND: 3}))
    conversation = world.open()
    started = [world.start(conversation, background=True) for _ in range(3)]
    world.complete(started[1])
    assert world.slots(BACKGROUND) == [started[0], started[2]]
    assert [run for run, _ in runs.live(world.base, conversation)] == [started[0], started[2]]


@pytest.mark.contract("B50", "C38")
def test_a_run_can_be_steered_and_stopped_while_every_slot_is_taken() -> None:
    world = World()
    conversation = world.open()
    target = world.start(conversation, background=True)
    for _ in range(3):
        world.start(conversation)
    with world.refuses(Code.CAPACITY_FULL):
        world.say(conversation)
    assert world.steer(target).revision == 1
    assert world.stop(target).run == target


@pytest.mark.contract("C35")
def test_giving_a_slot_back_twice_gives_back_nothing_of_another_run() -> None:
    world = World()
    conversation = world.open()
    first, second = world.start(conversation), world.start(conversation)
    for _ in range(2):
        world.run(capacity.release, ANN, SHORT, first)
        assert world.slots() == [second]


@pytest.mark.contract("C36", "P104")
def test_a_submission_that_reacts_to_an_end_finds_the_slot_free() -> None:
    """The end and the slot are one transaction, so there is no moment between them."""
    world = World(Limits(capacity={SHORT: 1}))
    conversation = world.open()
    for _ in range(20):
        run = world.start(conversation)
        world.complete(run)
        assert world.record(run).state is RunState.COMPLETED
        assert world.slots() == []


# Short to background.


@pytest.mark.contract("B48", "B49", "D10", "P122")
def test_a_promoted_run_is_the_same_run_and_holds_one_slot() -> None:
    world = World()
    conversation = world.open()
    run = world.start(conversation)
    world.ask(run)
    before = world.record(run)
    assert world.promote(run) is None

    after = world.record(run)
    assert after.run_class == BACKGROUND
    assert world.slots_of_run(run) == [BACKGROUND]
    assert after.requests == before.requests == 1
    assert (after.state, after.budget) == (before.state, before.budget)
    assert runs.live(world.base, conversation) == [(run, BACKGROUND)]
    assert world.last_event(conversation).kind is EventKind.RUN_PROMOTED


@pytest.mark.contract("B48", "D10", "P122")
def test_a_run_that_finds_the_background_full_stays_short_and_says_so() -> None:
    world = World()
    conversation = world.open()
    holder = world.start(conversation, background=True)
    run = world.start(conversation)
    before = world.record(run)
    assert world.promote(run) == [holder]

    assert world.record(run) == before
    assert world.slots_of_run(run) == [SHORT]
    told = world.last_event(conversation)
    assert (told.kind, told.run) == (EventKind.PROMOTION_REFUSED, run)
    assert told.client_id == before.client_id
    assert told.facts["holders"] == [holder]


def test_promoting_a_background_run_again_changes_nothing() -> None:
    world = World()
    run = world.start(world.open())
    world.promote(run)
    with world.changes_nothing():
        assert world.promote(run) is None


def test_a_run_that_is_being_stopped_is_not_promoted() -> None:
    world = World()
    run = world.start(world.open())
    world.stop(run)
    with world.refuses(Code.RUN_STOPPING):
        world.promote(run)


@pytest.mark.contract("B48", "D10")
def test_the_background_slot_is_taken_before_the_short_one_is_given_back() -> None:
    """Whatever fails on the way, at each write the run holds a slot."""

    class Watched(Overlay):
        """Notes which slots `run` holds after each write."""

        __slots__ = ()

        def put(self, key: bytes, value: bytes) -> None:
            super().put(key, value)
            note(self)

        def delete(self, key: bytes) -> None:
            super().delete(key)
            note(self)

    def note(txn: Overlay) -> None:
        held.append(
            [kind for kind in (SHORT, BACKGROUND) if run in capacity.holders(txn, ANN, kind)]
        )

    world = World()
    run = world.start(world.open())
    held: list[list[str]] = []
    runs.promote(Watched(world.base), world.limits, run, world.owner, world.now_ms())
    assert held[0] == [SHORT, BACKGROUND]
    assert held[1] == [BACKGROUND] == held[-1]


@pytest.mark.contract("C35", "D10", "E6", "P99", "P101")
def test_holders_are_the_live_runs_of_their_class_in_any_order_of_things(fault_seed: int) -> None:
    """Random comings and goings of two scopes; a model of sets beside them."""
    rng = random.Random(fault_seed)
    limits = Limits(capacity={SHORT: 2, BACKGROUND: 1}, capacity_of_scope={BOB: {BACKGROUND: 2}})
    world = World(limits)
    conversations = {scope: [world.open(scope) for _ in range(2)] for scope in (ANN, BOB)}
    held = {(scope, kind): set[RunId]() for scope in (ANN, BOB) for kind in (SHORT, BACKGROUND)}

    for _ in range(80):
        scope = rng.choice((ANN, BOB))
        live = sorted(held[scope, SHORT] | held[scope, BACKGROUND])
        act = rng.choice(["short", "background", "promote", "end", "stop", "release"])
        if act in ("short", "background"):
            run_class = SHORT if act == "short" else BACKGROUND
            where = rng.choice(conversations[scope])
            if len(held[scope, run_class]) == limits.slots(scope, run_class):
                with world.refuses(Code.CAPACITY_FULL) as refused:
                    world.start(where, scope=scope, background=act == "background")
                assert set(refused.value.facts["holders"]) == held[scope, run_class]
            else:
                run = world.start(where, scope=scope, background=act == "background")
                held[scope, run_class].add(run)
        elif live:
            run = rng.choice(live)
            if act == "promote" and run in held[scope, SHORT]:
                if world.promote(run) is None:
                    held[scope, SHORT].remove(run)
                    held[scope, BACKGROUND].add(run)
                else:
                    assert len(held[scope, BACKGROUND]) == limits.slots(scope, BACKGROUND)
            elif act in ("end", "stop"):
                if act == "stop":
                    world.stop(run, scope=scope)
                    assert world.slots_of_run(run, scope)  # free at the second fact (C19)
                    world.finish(run)
                else:
                    cue = rng.choice([runs.Cue.COMPLETE, runs.Cue.FAIL, runs.Cue.INTERRUPT])
                    world.finish(run, cue, Reason.INTERNAL)
                held[scope, SHORT].discard(run)
                held[scope, BACKGROUND].discard(run)
        if act == "release":
            world.run(capacity.release, scope, SHORT, world.ids.run())

        for (of_scope, run_class), expected in held.items():
            found = capacity.holders(world.base, of_scope, run_class)
            assert set(found) == expected
            assert len(found) == len(expected) <= limits.slots(of_scope, run_class)


def test_holders_are_read_oldest_first() -> None:
    world = World()
    conversation = world.open()
    started = [world.start(conversation) for _ in range(3)]
    assert capacity.holders(world.base, ANN, SHORT) == started
    assert world.base.get(keys.slot(ANN, SHORT, started[0])) == b""
