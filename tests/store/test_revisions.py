"""Steering: saved, carried, delivered or settled, and never lost on the way."""

import pytest

from counterpoint.store import messages, requests, revisions, runs
from counterpoint.store.ids import ConversationId, RunId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import (
    EffectState,
    EventKind,
    Reason,
    RequestState,
    RevisionState,
    RunState,
    Verb,
)
from counterpoint.store.refusal import Code
from counterpoint.store.requests import Stale

from .world import World


@pytest.fixture
def world() -> World:
    return World(Limits(capacity={SHORT: 3, BACKGROUND: 2}))


@pytest.fixture
def conversation(world: World) -> ConversationId:
    return world.open()


@pytest.fixture
def run(world: World, conversation: ConversationId) -> RunId:
    return world.start(conversation, "Compare them.", background=True)


def states(world: World, run: RunId) -> list[RevisionState]:
    return [revision.state for revision in revisions.of_run(world.base, run)]


# Saving.


@pytest.mark.contract("A4", "B28", "B30", "C4")
@pytest.mark.parametrize("text", ["Only this year.", " \n\t ", "é\u0301", "x" * 60_000])
def test_the_words_of_a_revision_are_those_of_its_message_to_the_byte(
    world: World, run: RunId, text: str
) -> None:
    accepted = world.steer(run, text)
    assert accepted.message is not None
    assert messages.get(world.base, accepted.message).text == text
    assert [words.text for words in revisions.words(world.base, run, 1, 1)] == [text]


@pytest.mark.contract("B29", "B30", "E1")
def test_a_steering_is_one_message_that_names_its_run_and_one_revision_that_names_it(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    before = world.head(conversation).entries
    accepted = world.steer(run, client_id="mine")
    assert world.head(conversation).entries == before + 1
    assert accepted.message is not None
    message = messages.get(world.base, accepted.message)
    assert (message.run, message.revision, message.verb) == (run, 1, Verb.STEER)
    assert message.disposition == f"revision of {run}"
    revision = world.revision(run, 1)
    assert (revision.message, revision.client_id) == (message.message, "mine")


@pytest.mark.contract("C16", "P36")
def test_a_steering_changes_nothing_of_the_run_but_its_number_of_revisions(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    sibling = world.start(conversation)
    world.begin_request(run)
    before, sibling_before = world.record(run), world.record(sibling)
    slots = world.slots_of_run(run)
    world.steer(run)
    after = world.record(run)
    assert after.revisions == before.revisions + 1
    changed = {
        name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)
    }
    assert changed == {"revisions"}
    assert world.record(sibling) == sibling_before
    assert world.slots_of_run(run) == slots


@pytest.mark.contract("B33", "C45")
def test_received_and_delivered_are_two_events_that_carry_the_clients_id(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    accepted = world.steer(run, client_id="mine")
    assert states(world, run) == [RevisionState.SAVED]
    request = world.begin_request(run)
    assert states(world, run) == [RevisionState.CARRIED]
    world.end_request(run, request.ordinal)
    assert states(world, run) == [RevisionState.DELIVERED]
    told = {
        event.kind: (event.client_id, event.message, event.facts["revision"])
        for event in world.events(conversation)
        if event.kind in (EventKind.REVISION_SAVED, EventKind.REVISION_DELIVERED)
    }
    one = ("mine", accepted.message, 1)
    assert told == {EventKind.REVISION_SAVED: one, EventKind.REVISION_DELIVERED: one}


@pytest.mark.contract("C15", "E9")
def test_revisions_are_numbered_and_carried_in_the_order_of_their_acceptance(
    world: World, run: RunId
) -> None:
    said = ["first", "second", "third"]
    assert [world.steer(run, text).revision for text in said] == [1, 2, 3]
    assert world.begin_request(run).carries == (1, 2, 3)
    assert [words.text for words in revisions.words(world.base, run, 1, 3)] == said


@pytest.mark.contract("C14", "P24")
def test_a_steering_written_against_another_revision_is_refused_with_both_numbers(
    world: World, run: RunId
) -> None:
    world.steer(run, expected=0)
    with world.refuses(Code.STALE_REVISION) as refused:
        world.steer(run, expected=0)
    assert refused.value.facts == {"run": run, "expected": 0, "actual": 1}
    assert not refused.value.retry_same_id
    assert world.steer(run, expected=1).revision == 2


def test_only_so_many_revisions_wait_for_a_request_and_carrying_makes_room() -> None:
    world = World(Limits(undelivered_revisions_max=2))
    run = world.start(world.open())
    world.steer(run)
    world.steer(run)
    with world.refuses(Code.REVISIONS_FULL) as refused:
        world.steer(run)
    assert refused.value.facts == {"run": run, "limit": 2}
    world.begin_request(run)
    assert world.steer(run).revision == 3


@pytest.mark.contract("A6", "B17", "B38")
def test_only_the_run_that_was_chosen_gets_the_revision(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    later = world.start(conversation, background=True)
    world.say(conversation, "And something else.")
    world.steer(run)
    assert world.record(run).revisions == 1
    assert world.record(later).revisions == 0


# Carrying.


@pytest.mark.contract("C12", "P34")
def test_no_request_goes_out_between_the_saving_and_the_carrying(world: World, run: RunId) -> None:
    world.steer(run)
    with world.changes_nothing():
        assert world.try_request(run, revision=0) == Stale(revision=1)
    assert world.begin_request(run).carries == (1,)


@pytest.mark.contract("B60", "B61")
def test_a_request_that_is_under_way_stays_as_it_was_sent(world: World, run: RunId) -> None:
    request = world.begin_request(run)
    world.steer(run)
    assert world.request(run, request.ordinal) == request
    world.end_request(run, request.ordinal)
    assert states(world, run) == [RevisionState.SAVED]
    assert world.ask(run).carries == (1,)


@pytest.mark.contract("B33", "C11", "E3", "P47")
def test_a_delivered_revision_names_the_request_that_carried_it_and_its_exact_input(
    world: World, run: RunId
) -> None:
    world.ask(run)
    world.steer(run)
    request = world.ask(run)
    revision = world.revision(run, 1)
    assert revision.state is RevisionState.DELIVERED
    assert revision.request == request.ordinal == 2
    assert revision.input_sha256 == request.input_sha256


@pytest.mark.contract("B64", "C9")
@pytest.mark.parametrize("state", [RequestState.INTERRUPTED, RequestState.FAILED])
def test_what_an_unfinished_request_carried_is_carried_again_by_the_next(
    world: World, run: RunId, state: RequestState
) -> None:
    world.steer(run)
    first = world.begin_request(run)
    world.end_request(run, first.ordinal, state)
    assert states(world, run) == [RevisionState.CARRIED]
    second = world.ask(run)
    assert second.carries == (1,)
    assert states(world, run) == [RevisionState.DELIVERED]
    assert world.revision(run, 1).request == second.ordinal


@pytest.mark.contract("C11", "E3")
@pytest.mark.parametrize("first_to_end", [1, 2])
def test_of_two_requests_that_carried_it_the_one_that_completed_delivered_it(
    world: World, run: RunId, first_to_end: int
) -> None:
    world.steer(run)
    first = world.begin_request(run)
    world.steer(run)
    second = world.begin_request(run)
    assert (first.carries, second.carries) == ((1,), (1, 2))

    world.end_request(run, first_to_end)
    revision = world.revision(run, 1)
    assert revision.state is RevisionState.DELIVERED
    assert revision.request == first_to_end
    assert revision.input_sha256 == (first, second)[first_to_end - 1].input_sha256

    world.end_request(run, 3 - first_to_end)
    assert world.revision(run, 1) == revision  # told once
    assert states(world, run) == [RevisionState.DELIVERED] * 2


def test_the_event_of_a_delivery_names_the_request_that_completed(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.steer(run)
    world.begin_request(run)
    world.begin_request(run)
    world.end_request(run, 1)
    delivered = world.last_event(conversation)
    assert delivered.kind is EventKind.REVISION_DELIVERED
    assert delivered.facts == {"revision": 1, "request": 1}


@pytest.mark.contract("C13", "P44")
def test_an_effect_that_was_decided_before_the_revision_is_skipped_and_says_so(
    world: World, run: RunId
) -> None:
    world.ask(run)
    world.steer(run)
    skipped = world.begin_effect(run, revision=0)
    assert skipped.state is EffectState.SKIPPED
    assert skipped.reason == "superseded by revision 1"
    assert world.record(run).open_effects == ()
    assert world.begin_effect(run, revision=1).state is EffectState.OPEN


# Withdrawing.


@pytest.mark.contract("C53")
def test_a_steering_that_no_request_has_taken_can_be_withdrawn_and_its_message_stays(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    accepted = world.steer(run, "Never mind this.")
    world.steer(run, "But this.")
    assert world.withdraw(run, 1, client_id="back").revision == 1
    assert states(world, run) == [RevisionState.WITHDRAWN, RevisionState.SAVED]
    told = world.last_event(conversation)
    assert (told.kind, told.client_id) == (EventKind.REVISION_WITHDRAWN, "back")
    assert accepted.message is not None
    assert messages.get(world.base, accepted.message).text == "Never mind this."
    assert [words.text for words in revisions.words(world.base, run, 1, 2)] == ["But this."]
    assert world.ask(run).carries == (2,)


@pytest.mark.contract("C53")
def test_a_request_that_was_built_with_withdrawn_words_does_not_go_out(
    world: World, run: RunId
) -> None:
    world.steer(run)
    outgoing = requests.Outgoing(
        run=run,
        owner=world.owner,
        gateway="scripted",
        input_sha256=b"",
        model_input=b"",
        revision=1,
        withdrawn=0,
        now_ms=world.now_ms(),
    )
    world.withdraw(run, 1)
    with world.changes_nothing():
        assert world.run(requests.begin, outgoing) == Stale(revision=1)


@pytest.mark.contract("C53")
@pytest.mark.parametrize("state", ["carried", "delivered", "not_applied", "withdrawn"])
def test_a_steering_that_is_taken_or_settled_can_not_be_withdrawn(
    world: World, run: RunId, state: str
) -> None:
    world.steer(run)
    if state in ("carried", "delivered"):
        world.begin_request(run)
    if state == "delivered":
        world.end_request(run, 1)
    if state == "not_applied":
        world.finish(run, insist_through=1)
    if state == "withdrawn":
        world.withdraw(run, 1)
    with world.refuses(Code.TAKEN) as refused:
        world.withdraw(run, 1)
    request = 1 if state in ("carried", "delivered") else None
    assert refused.value.facts == {"run": run, "revision": 1, "state": state, "request": request}


@pytest.mark.contract("C1", "D7")
def test_a_withdrawal_is_read_back_and_its_id_is_for_nothing_else(world: World, run: RunId) -> None:
    world.steer(run)
    world.steer(run)
    first = world.withdraw(run, 1, client_id="back")
    with world.changes_nothing():
        assert world.withdraw(run, 1, client_id="back") == first
    with world.refuses(Code.CONFLICT):
        world.withdraw(run, 2, client_id="back")


@pytest.mark.parametrize("number", [0, 2, -1])
def test_a_revision_that_never_was_is_not_found(world: World, run: RunId, number: int) -> None:
    world.steer(run)
    with world.refuses(Code.NOT_FOUND):
        world.withdraw(run, number)


@pytest.mark.contract("C10", "C17")
def test_a_withdrawn_revision_neither_keeps_a_run_from_its_end_nor_is_settled_by_it(
    world: World, run: RunId
) -> None:
    world.steer(run)
    world.withdraw(run, 1)
    assert world.complete(run).state is RunState.COMPLETED
    assert states(world, run) == [RevisionState.WITHDRAWN]


def test_what_a_run_has_seen_is_every_revision_that_stands(world: World, run: RunId) -> None:
    for text in "abc":
        world.steer(run, text)
    world.withdraw(run, 2)
    seen = revisions.seen(world.base, world.record(run))
    assert [words.text for words in seen.words] == ["a", "c"]
    assert (seen.revision, seen.withdrawn) == (3, 1)


# Settling.


@pytest.mark.contract("B69", "C4", "C17")
def test_a_revision_that_no_request_took_is_settled_as_not_applied_and_its_words_stay(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.ask(run)
    accepted = world.steer(run, "Too late, alas.")
    world.finish(run, runs.Cue.FAIL, Reason.AGENT_ERROR)
    revision = world.revision(run, 1)
    assert (revision.state, revision.reason) == (RevisionState.NOT_APPLIED, "agent_error")
    assert accepted.message is not None
    assert messages.get(world.base, accepted.message).text == "Too late, alas."
    settled = [e for e in world.events(conversation) if e.kind is EventKind.REVISION_SETTLED]
    assert [(e.client_id, e.facts["state"], e.facts["reason"]) for e in settled] == [
        (accepted.client_id, "not_applied", "agent_error")
    ]


@pytest.mark.contract("B33", "C17")
def test_a_revision_whose_request_never_completed_is_settled_as_unknown(
    world: World, run: RunId
) -> None:
    world.steer(run)
    world.begin_request(run)
    world.steer(run)
    world.finish(run, runs.Cue.INTERRUPT, Reason.HOST_SHUTDOWN)
    assert states(world, run) == [RevisionState.DELIVERY_UNKNOWN, RevisionState.NOT_APPLIED]
    assert {r.reason for r in revisions.of_run(world.base, run)} == {"host_shutdown"}


@pytest.mark.contract("B69", "B70", "C18", "P41", "P46")
def test_a_steering_that_comes_after_the_end_is_refused_and_starts_nothing(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    sibling = world.start(conversation, background=True)
    world.complete(run)
    with world.refuses(Code.RUN_ENDED) as refused:
        world.steer(run)
    assert refused.value.facts == {"run": run, "state": "completed", "reason": "answered"}
    assert world.record(sibling).revisions == 0
    assert world.record(run).state is RunState.COMPLETED


@pytest.mark.contract("B71", "C24")
def test_a_steering_can_not_restart_a_run_that_a_person_stopped(world: World, run: RunId) -> None:
    world.stop(run)
    with world.refuses(Code.RUN_STOPPING):
        world.steer(run)
    world.finish(run)
    with world.refuses(Code.RUN_ENDED) as refused:
        world.steer(run)
    assert refused.value.facts["state"] == "stopped"


@pytest.mark.contract("B71", "C17")
def test_a_revision_that_was_saved_before_a_stop_is_settled_by_the_stop(
    world: World, run: RunId
) -> None:
    world.steer(run)
    world.stop(run)
    world.finish(run)
    revision = world.revision(run, 1)
    assert (revision.state, revision.reason) == (RevisionState.NOT_APPLIED, "user_stop")


def test_words_are_read_in_the_order_of_their_numbers(world: World, run: RunId) -> None:
    for text in "abcde":
        world.steer(run, text)
    found = revisions.words(world.base, run, 2, 4)
    assert [(words.number, words.text) for words in found] == [(2, "b"), (3, "c"), (4, "d")]
    assert revisions.words(world.base, run, 3, 2) == []
