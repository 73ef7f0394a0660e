"""Stops and ends: what is accepted, what is cut, and all that an end settles at once."""

import pytest

from counterpoint.store import effects, events, keys, requests, revisions, runs
from counterpoint.store.endings import OneMore
from counterpoint.store.ids import ConversationId, RunId
from counterpoint.store.limits import Limits
from counterpoint.store.records import (
    EffectState,
    EventKind,
    Publication,
    Reason,
    RequestState,
    RevisionState,
    Run,
    RunState,
)
from counterpoint.store.refusal import Code
from counterpoint.store.runs import Cue, IllegalMove

from .world import World

ENDS = [
    (Cue.COMPLETE, Reason.ANSWERED, RunState.COMPLETED),
    (Cue.FALL_SHORT, Reason.BUDGET, RunState.PARTIAL),
    (Cue.FALL_SHORT, Reason.DEADLINE, RunState.PARTIAL),
    (Cue.FAIL, Reason.AGENT_ERROR, RunState.FAILED),
    (Cue.INTERRUPT, Reason.HOST_SHUTDOWN, RunState.INTERRUPTED),
]
ends = pytest.mark.parametrize(("cue", "reason", "state"), ENDS)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def conversation(world: World) -> ConversationId:
    return world.open()


@pytest.fixture
def run(world: World, conversation: ConversationId) -> RunId:
    return world.start(conversation)


def ended(world: World, run: RunId) -> Run:
    record = world.record(run)
    assert record.state in runs.FINAL
    return record


# Ends.


@pytest.mark.contract("C17", "C36", "D16", "E1", "P26", "P57")
@ends
def test_an_end_settles_everything_of_the_run_in_its_one_transaction(
    world: World,
    conversation: ConversationId,
    run: RunId,
    cue: Cue,
    reason: Reason,
    state: RunState,
) -> None:
    world.begin_request(run)
    world.begin_effect(run)
    world.steer(run)
    result = world.finish(run, cue, reason, text="So far: 12.", insist_through=1)

    record = ended(world, run)
    assert result == record
    assert (record.state, record.reason) == (state, reason)
    assert (record.open_requests, record.open_effects) == ((), ())
    assert {r.state for r in requests.of_run(world.base, run)} == {RequestState.INTERRUPTED}
    assert {e.state for e in effects.of_run(world.base, run)} == {EffectState.UNKNOWN}
    assert {r.state for r in revisions.of_run(world.base, run)} == {RevisionState.NOT_APPLIED}
    assert world.slots_of_run(run) == []
    assert runs.live(world.base, conversation) == []
    assert record.publication == world.head(conversation).last_entry
    last = world.last_event(conversation)
    assert (last.kind, last.run) == (EventKind.RUN_ENDED, run)
    assert last.facts == {
        "state": str(state),
        "reason": str(reason),
        "detail": "",
        "publication": record.publication,
        "cancelled_requests": [1],
        "unknown_effects": [1],
        "unapplied_revisions": [1],
    }


@pytest.mark.contract("D16")
def test_a_published_answer_has_an_id_of_its_own_and_its_place_among_what_was_said(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    other = world.start(conversation, "And the other?")
    second = world.complete(other, "That.")
    first = world.complete(run, "This.")
    assert first.publication
    assert first.publication not in (run, first.message, second.publication)
    answer = events.entry(world.base, first.publication)
    assert isinstance(answer, Publication)
    assert (answer.run, answer.text, answer.previous) == (run, "This.", second.publication)
    assert answer.entry == 4


@pytest.mark.contract("A7", "B54")
def test_a_later_question_may_be_answered_first_and_each_answer_names_its_run(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    later = world.start(conversation, "Quick one?")
    world.complete(later, "Quick.")
    world.complete(run, "Slow.")
    answers = [
        (entry.run, entry.text)
        for entry in events.entries_back(world.base, world.head(conversation).last_entry)
        if isinstance(entry, Publication)
    ]
    assert answers == [(run, "Slow."), (later, "Quick.")]


def test_an_end_without_words_publishes_nothing(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    entries = world.head(conversation).entries
    world.finish(run, Cue.FAIL, Reason.AGENT_ERROR, text=None)
    assert ended(world, run).publication is None
    assert world.head(conversation).entries == entries


@pytest.mark.contract("E5")
@ends
def test_a_run_ends_once(
    world: World,
    conversation: ConversationId,
    run: RunId,
    cue: Cue,
    reason: Reason,
    state: RunState,
) -> None:
    world.finish(run, cue, reason)
    with world.changes_nothing(), pytest.raises(runs.OwnerLost):
        world.finish(run, cue, reason)
    told = [e for e in world.events(conversation) if e.kind is EventKind.RUN_ENDED]
    assert len(told) == 1


@pytest.mark.parametrize("cue", [Cue.WAKE, Cue.QUIESCE])
def test_a_run_can_not_end_by_a_cue_that_is_no_end_of_it(
    world: World, run: RunId, cue: Cue
) -> None:
    with world.changes_nothing(), pytest.raises(IllegalMove):
        world.finish(run, cue, Reason.INTERNAL)


# One more request.


@pytest.mark.contract("C9", "C10", "P49")
def test_a_run_that_would_complete_with_a_revision_unheard_has_one_more_request_to_make(
    world: World, run: RunId
) -> None:
    world.ask(run)
    world.steer(run)
    with world.changes_nothing():
        assert world.finish(run) == OneMore(revision=1)
    world.ask(run)
    assert world.complete(run).state is RunState.COMPLETED
    assert world.revision(run, 1).state is RevisionState.DELIVERED


@pytest.mark.contract("C10", "B64")
def test_a_revision_that_an_interrupted_request_carried_is_still_unheard(
    world: World, run: RunId
) -> None:
    world.steer(run)
    world.begin_request(run)
    world.end_request(run, 1, RequestState.INTERRUPTED)
    assert world.finish(run) == OneMore(revision=1)


@pytest.mark.contract("C10")
def test_a_run_without_budget_for_one_more_completes_and_says_so_of_the_revision() -> None:
    world = World(Limits(requests_of_run_max=1))
    run = world.start(world.open())
    world.ask(run)
    world.steer(run)
    assert world.complete(run).state is RunState.COMPLETED
    revision = world.revision(run, 1)
    assert (revision.state, revision.reason) == (RevisionState.NOT_APPLIED, "budget")


@pytest.mark.contract("C9")
def test_an_agent_that_was_given_the_turn_and_made_no_request_may_insist(
    world: World, run: RunId
) -> None:
    world.steer(run)
    assert isinstance(world.finish(run), OneMore)
    assert isinstance(world.finish(run, insist_through=1), Run)
    revision = world.revision(run, 1)
    assert (revision.state, revision.reason) == (RevisionState.NOT_APPLIED, "no_request")


@pytest.mark.contract("C9", "C10")
def test_who_insists_does_so_against_the_revisions_that_the_turn_was_given_for(
    world: World, run: RunId
) -> None:
    """One that is accepted after that turn gets a turn of its own."""
    world.steer(run)
    assert world.finish(run) == OneMore(revision=1)
    world.steer(run)
    assert world.finish(run, insist_through=1) == OneMore(revision=2)
    world.ask(run)
    assert isinstance(world.finish(run, insist_through=1), Run)
    assert {r.state for r in revisions.of_run(world.base, run)} == {RevisionState.DELIVERED}


@pytest.mark.contract("B65", "D17")
@pytest.mark.parametrize(
    ("cue", "reason"),
    [
        (Cue.FALL_SHORT, Reason.DEADLINE),
        (Cue.FALL_SHORT, Reason.BUDGET),
        (Cue.INTERRUPT, Reason.HOST_SHUTDOWN),
        (Cue.FAIL, Reason.AGENT_ERROR),
    ],
)
def test_what_outranks_a_steering_ends_the_run_over_it(
    world: World, run: RunId, cue: Cue, reason: Reason
) -> None:
    world.steer(run)
    assert isinstance(world.finish(run, cue, reason), Run)
    revision = world.revision(run, 1)
    assert (revision.state, revision.reason) == (RevisionState.NOT_APPLIED, str(reason))


# Stops.


@pytest.mark.contract("C19", "P61")
def test_stop_accepted_and_stopped_are_two_facts_and_the_slot_is_free_at_the_second(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    accepted = world.stop(run, client_id="enough")
    record = world.record(run)
    assert (record.state, record.stop_client_id) == (RunState.STOPPING, "enough")
    assert world.slots_of_run(run) == ["short"]
    told = world.last_event(conversation)
    assert (told.kind, told.number) == (EventKind.STOP_ACCEPTED, accepted.version)

    world.finish(run)
    record = ended(world, run)
    assert (record.state, record.reason) == (RunState.STOPPED, Reason.USER_STOP)
    assert world.slots_of_run(run) == []


@pytest.mark.contract("B65", "C24", "D17")
@ends
def test_a_run_that_is_stopping_ends_as_stopped_whatever_its_agent_returns(
    world: World, run: RunId, cue: Cue, reason: Reason, state: RunState
) -> None:
    world.ask(run)
    world.steer(run)
    world.stop(run)
    world.finish(run, cue, reason, text="Done after all!")
    record = ended(world, run)
    assert (record.state, record.reason) == (RunState.STOPPED, Reason.USER_STOP)
    assert record.publication is None


@pytest.mark.contract("C19")
def test_a_stop_lists_what_was_under_way_and_the_end_what_became_of_it(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.begin_effect(run)
    world.end_effect(run, 1)
    world.begin_effect(run)
    world.begin_request(run)
    world.stop(run)
    told = world.last_event(conversation)
    assert told.facts == {"requests": [1], "effects": [2]}
    world.finish(run)
    told = world.last_event(conversation)
    assert told.facts["cancelled_requests"] == [1]
    assert told.facts["unknown_effects"] == [2]
    assert world.effect(run, 1).state is EffectState.DONE


@pytest.mark.contract("B8", "P76")
def test_a_stop_names_one_run_and_touches_no_other(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    other = world.start(conversation)
    before = world.record(other)
    world.stop(run)
    world.finish(run)
    assert world.record(other) == before


def test_a_second_stop_of_a_stopping_run_is_accepted_and_the_first_stays_on_record(
    world: World, run: RunId
) -> None:
    world.stop(run, client_id="first")
    before = world.record(run)
    world.stop(run, client_id="second")
    assert world.record(run) == before


@pytest.mark.contract("C24")
@ends
def test_there_is_nothing_to_stop_once_a_run_has_ended(
    world: World, run: RunId, cue: Cue, reason: Reason, state: RunState
) -> None:
    world.finish(run, cue, reason)
    with world.refuses(Code.RUN_ENDED) as refused:
        world.stop(run)
    assert refused.value.facts == {"run": run, "state": str(state), "reason": str(reason)}


@pytest.mark.contract("C23", "C32")
def test_a_stop_of_a_run_whose_owner_is_gone_ends_it_at_once(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.begin_effect(run)
    accepted = world.stop(run, owner_gone=world.owner)
    record = ended(world, run)
    assert (record.state, record.reason) == (RunState.STOPPED, Reason.USER_STOP)
    assert world.effect(run, 1).state is EffectState.UNKNOWN
    assert world.slots_of_run(run) == []
    assert [e.kind for e in world.events(conversation)][-3:] == [
        EventKind.STOP_ACCEPTED,
        EventKind.EFFECT_ENDED,
        EventKind.RUN_ENDED,
    ]
    assert accepted.version == world.head(conversation).events - 2


@pytest.mark.contract("C23")
def test_a_stop_that_was_accepted_before_its_owner_went_can_be_asked_for_again(
    world: World, run: RunId
) -> None:
    world.stop(run)
    world.stop(run, owner_gone=world.owner)
    assert ended(world, run).state is RunState.STOPPED


def test_another_owners_death_ends_nothing(world: World, run: RunId) -> None:
    world.stop(run, owner_gone=world.new_owner())
    assert world.record(run).state is RunState.STOPPING


@pytest.mark.contract("B62", "C23")
@pytest.mark.parametrize("way", ["stop", "settle"])
def test_of_the_request_of_a_dead_process_nothing_is_known_though_its_run_was_stopped(
    world: World, run: RunId, way: str
) -> None:
    world.begin_request(run)
    if way == "stop":
        world.stop(run, owner_gone=world.owner)
    else:
        world.stop(run)
        world.settle(run)
    assert ended(world, run).state is RunState.STOPPED
    assert world.request(run, 1).state is RequestState.UNKNOWN


def test_an_ended_run_is_in_no_index_of_the_living(world: World, run: RunId) -> None:
    conversation = world.record(run).conversation
    assert world.base.get(keys.live_run(conversation, run)) is not None
    world.complete(run)
    assert world.base.get(keys.live_run(conversation, run)) is None
    assert list(runs.all_live(world.base)) == []
