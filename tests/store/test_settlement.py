"""What becomes of the runs of a process that is gone: started, stopped or interrupted."""

import itertools
from collections.abc import Callable

import pytest

from counterpoint.store import effects, events, requests, revisions, runs, settlement
from counterpoint.store.ids import ConversationId, OwnerId, RunId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import (
    EffectState,
    EventKind,
    Reason,
    RequestState,
    RevisionState,
    RunState,
)
from counterpoint.store.settlement import Adopted, Settled

from .world import World

Act = Callable[[World, RunId], object]


@pytest.fixture
def world() -> World:
    return World(Limits(capacity={SHORT: 9, BACKGROUND: 9}))


@pytest.fixture
def conversation(world: World) -> ConversationId:
    return world.open()


@pytest.fixture
def run(world: World, conversation: ConversationId) -> RunId:
    return world.start(conversation)


@pytest.mark.contract("C32", "D13")
def test_a_run_that_had_sent_nothing_is_started_by_the_heir_as_the_same_run(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    before, heir = world.record(run), world.new_owner()
    settled = world.settle(run, heir=heir)
    assert isinstance(settled, Adopted)
    after = world.record(run)
    assert settled.run == after
    assert (after.owner, after.state) == (heir, RunState.ADMITTED)
    assert (after.run, after.message, after.budget) == (before.run, before.message, before.budget)
    assert world.slots_of_run(run) == [SHORT]
    told = world.last_event(conversation)
    assert (told.kind, told.run) == (EventKind.RUN_ADOPTED, run)
    assert world.try_request(run, owner=heir)


@pytest.mark.contract("D13", "C9")
def test_an_adopted_run_still_has_the_revisions_that_were_saved_for_it(
    world: World, run: RunId
) -> None:
    world.steer(run)
    heir = world.new_owner()
    world.settle(run, heir=heir)
    assert world.revision(run, 1).state is RevisionState.SAVED
    world.owner = heir
    assert world.begin_request(run).carries == (1,)


@pytest.mark.contract("C17", "C32", "D13", "E1")
def test_a_run_that_had_begun_is_interrupted_with_all_that_it_held(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.steer(run)
    world.begin_request(run)
    world.steer(run)
    world.begin_effect(run)
    settled = world.settle(run)
    assert isinstance(settled, Settled)
    after = world.record(run)
    assert (after.state, after.reason) == (RunState.INTERRUPTED, Reason.OWNER_LOST)
    assert after.publication is None
    assert [r.state for r in requests.of_run(world.base, run)] == [RequestState.UNKNOWN]
    assert [e.state for e in effects.of_run(world.base, run)] == [EffectState.UNKNOWN]
    assert [(r.state, r.reason) for r in revisions.of_run(world.base, run)] == [
        (RevisionState.DELIVERY_UNKNOWN, "owner_lost"),
        (RevisionState.NOT_APPLIED, "owner_lost"),
    ]
    assert world.slots_of_run(run) == []
    assert runs.live(world.base, conversation) == []
    assert world.last_event(conversation).facts["unknown_effects"] == [1]


@pytest.mark.contract("D13")
def test_what_a_lost_run_had_committed_is_kept(world: World, run: RunId) -> None:
    world.steer(run)
    world.ask(run)
    world.begin_effect(run)
    world.end_effect(run, 1, value=b'"kept"')
    world.run(runs.save_checkpoint, run, world.owner, b"so far", world.now_ms())
    world.settle(run)
    assert world.request(run, 1).state is RequestState.COMPLETED
    assert world.effect(run, 1).result == b'"kept"'
    assert world.revision(run, 1).state is RevisionState.DELIVERED
    assert runs.checkpoint(world.base, run) == b"so far"


@pytest.mark.contract("C23", "C24", "D13")
@pytest.mark.parametrize("had_begun", [False, True])
def test_a_run_whose_stop_was_accepted_is_stopped_and_never_started(
    world: World, run: RunId, had_begun: bool
) -> None:
    if had_begun:
        world.begin_effect(run)
    world.stop(run)
    assert isinstance(world.settle(run), Settled)
    after = world.record(run)
    assert (after.state, after.reason) == (RunState.STOPPED, Reason.USER_STOP)
    assert world.slots_of_run(run) == []


@pytest.mark.contract("A59", "E7")
def test_an_effect_that_had_begun_keeps_its_run_from_being_started_afresh(
    world: World, run: RunId
) -> None:
    world.begin_effect(run)
    assert isinstance(world.settle(run), Settled)


# Entered again.


@pytest.mark.contract("D13")
def test_a_run_whose_agent_resumes_is_entered_again_with_what_it_has_left(
    world: World, conversation: ConversationId
) -> None:
    run = world.start(conversation, resumes=True)
    world.ask(run)
    world.save(run, b"so far")
    world.steer(run)
    world.begin_request(run)
    world.begin_effect(run)
    before = world.record(run)
    after = world.enter_again(run)

    assert (after.state, after.owner, after.entries) == (RunState.RUNNING, world.owner, 2)
    assert (after.requests, after.effects) == (before.requests, before.effects)
    assert after.budget == before.budget
    assert runs.checkpoint(world.base, run) == b"so far"
    assert world.request(run, 2).state is RequestState.UNKNOWN
    assert world.effect(run, 1).state is EffectState.UNKNOWN
    assert (after.open_requests, after.open_effects) == ((), ())
    assert world.slots_of_run(run) == [SHORT]
    told = world.last_event(conversation)
    assert (told.kind, told.facts["unknown_effects"]) == (EventKind.RUN_RESUMED, [1])
    assert world.begin_request(run).carries == (1,)  # the lost request may not have had it


@pytest.mark.contract("C24", "D13")
def test_a_run_that_is_stopping_is_not_entered_again_though_its_agent_resumes(
    world: World, conversation: ConversationId
) -> None:
    run = world.start(conversation, resumes=True)
    world.ask(run)
    world.stop(run)
    assert isinstance(world.settle(run), Settled)
    assert world.record(run).state is RunState.STOPPED


@pytest.mark.contract("D13")
def test_a_run_that_takes_its_process_down_each_time_is_interrupted_in_the_end() -> None:
    world = World(Limits(entries_of_run_max=3))
    run = world.start(world.open(), resumes=True)
    world.ask(run)
    for entry in (2, 3):
        assert world.enter_again(run).entries == entry
    assert isinstance(world.settle(run), Settled)
    assert world.record(run).reason is Reason.OWNER_LOST


@pytest.mark.contract("D13")
@pytest.mark.parametrize("begun", [False, True])
def test_a_process_without_the_agent_of_a_run_starts_it_not(
    world: World, conversation: ConversationId, begun: bool
) -> None:
    run = world.start(conversation, resumes=True)
    if begun:
        world.ask(run)
    assert isinstance(world.settle(run, agents=("another",)), Settled)
    record = world.record(run)
    assert (record.state, record.reason) == (RunState.INTERRUPTED, Reason.OWNER_LOST)
    assert "No agent named 'short'" in record.detail


@pytest.mark.contract("B66", "C33", "D13")
def test_the_usage_of_a_lost_request_is_counted_as_unobserved(
    world: World, conversation: ConversationId
) -> None:
    run = world.start(conversation, resumes=True)
    world.begin_request(run)
    assert world.enter_again(run).unobserved == 1
    world.begin_request(run)
    world.settle(run, heir=world.new_owner())
    assert world.record(run).unobserved == 2


STAGES: list[tuple[str, Act]] = [
    ("admitted", lambda w, run: None),
    ("asking", lambda w, run: w.begin_request(run)),
    ("acting", lambda w, run: w.begin_effect(run)),
    ("stopping", lambda w, run: w.stop(run)),
]
stages = pytest.mark.parametrize("act", [a for _, a in STAGES], ids=[n for n, _ in STAGES])


@pytest.mark.contract("C31")
@stages
def test_settling_twice_and_from_two_processes_changes_nothing(
    world: World, run: RunId, act: Act
) -> None:
    act(world, run)
    lost, heirs = world.owner, (world.new_owner(), world.new_owner())
    assert world.settle(run, lost=lost, heir=heirs[0]) is not None
    with world.changes_nothing():
        for heir in heirs:
            assert world.settle(run, lost=lost, heir=heir) is None


@pytest.mark.contract("C31", "C32")
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_each_orphan_is_settled_for_itself_in_any_order(
    world: World, conversation: ConversationId, order: tuple[int, ...]
) -> None:
    heir = world.new_owner()
    started = [world.start(conversation) for _ in STAGES]
    for (_, act), run in zip(STAGES, started, strict=True):
        act(world, run)
    for n in order:
        assert world.settle(started[n], heir=heir) is not None
    assert [str(world.record(run).state) for run in started] == [
        "admitted",
        "interrupted",
        "interrupted",
        "stopped",
    ]
    assert world.slots() == [started[0]]


def test_a_run_of_an_owner_that_is_not_the_lost_one_is_left_alone(world: World, run: RunId) -> None:
    other = world.new_owner()
    with world.changes_nothing():
        assert world.settle(run, lost=other, heir=other) is None


@pytest.mark.contract("E5")
def test_a_run_that_had_ended_stays_as_it_ended(world: World, run: RunId) -> None:
    world.complete(run)
    heir = world.new_owner()
    with world.changes_nothing():
        assert world.settle(run, heir=heir) is None


def test_a_run_that_never_was_is_nothing_to_settle(world: World) -> None:
    heir = world.new_owner()
    with world.changes_nothing():
        assert world.settle(RunId("r0"), heir=heir) is None


@pytest.mark.contract("C31")
def test_orphans_are_the_live_runs_of_the_owners_that_are_gone(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    other = world.new_owner()
    ended = world.start(conversation)
    world.complete(ended)
    world.start(conversation, owner=other)
    elsewhere = world.start(world.open())
    gone = frozenset({world.owner, OwnerId("w0")})
    found = settlement.orphans(world.base, gone)
    assert sorted(found) == sorted([(run, world.owner), (elsewhere, world.owner)])
    assert settlement.orphans(world.base, frozenset()) == []
    for orphan, lost in found:
        world.settle(orphan, lost=lost, heir=other)
    assert settlement.orphans(world.base, gone) == []


def test_the_owners_that_are_known_are_those_that_were_not_forgotten(world: World) -> None:
    first, second = world.owner, world.new_owner()
    assert settlement.owners(world.base) == [first, second]
    world.run(settlement.forget, first)
    assert settlement.owners(world.base) == [second]
    world.run(settlement.forget, first)
    assert settlement.owners(world.base) == [second]


@pytest.mark.contract("C36")
def test_the_slot_of_a_lost_run_is_free_for_the_next_message(world: World) -> None:
    world.limits = Limits(capacity={SHORT: 1})
    conversation = world.open()
    run = world.start(conversation)
    world.begin_request(run)
    world.settle(run)
    assert world.start(conversation)


@pytest.mark.contract("C32")
def test_settling_starts_no_new_run_and_publishes_no_answer(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.begin_request(run)
    entries = world.head(conversation).entries
    world.settle(run)
    assert world.head(conversation).entries == entries
    kinds = [event.kind for event in events.since(world.base, 1)]
    assert kinds.count(EventKind.MESSAGE_ADMITTED) == 1
