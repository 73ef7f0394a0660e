"""What a client may read: tied by run, at one version, and of its own scope only."""

import hashlib
import re
from collections.abc import Callable

import pytest

from counterpoint.store import effects, events, revisions, runs, views
from counterpoint.store.ids import ConversationId, RunId, ScopeId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import Reason, RequestState, RevisionState, RunState, Verb
from counterpoint.store.refusal import Code, Refused

from .world import ANN, BOB, World


@pytest.fixture
def world() -> World:
    return World(Limits(capacity={SHORT: 9, BACKGROUND: 9}))


@pytest.fixture
def conversation(world: World) -> ConversationId:
    return world.open(title="On prices")


def view(world: World, conversation: ConversationId) -> views.ConversationView:
    return views.conversation(world.base, ANN, conversation)


# One scope never reads another's.

Read = Callable[[World, ScopeId, ConversationId, RunId], object]

READERS: dict[str, Read] = {
    "conversation": lambda w, s, c, r: views.conversation(w.base, s, c),
    "older entries": lambda w, s, c, r: views.conversation(w.base, s, c, before=2),
    "run": lambda w, s, c, r: views.run(w.base, s, r),
    "inspect": lambda w, s, c, r: views.inspect(w.base, s, r),
    "input": lambda w, s, c, r: views.request_input(w.base, s, r, 1),
    "events": lambda w, s, c, r: views.events_after(w.base, s, c, after=0, limit=9),
    "head": lambda w, s, c, r: events.head_of(w.base, s, c),
    "record": lambda w, s, c, r: runs.of_scope(w.base, s, r),
}
WRITERS: dict[str, Read] = {
    "say": lambda w, s, c, r: w.say(c, "words of another", scope=s),
    "steer": lambda w, s, c, r: w.steer(r, "words of another", scope=s),
    "stop": lambda w, s, c, r: w.stop(r, scope=s),
}


def refusal(read: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        read()
    return caught.value


@pytest.mark.contract("D21", "E11")
@pytest.mark.parametrize("name", [*READERS, *WRITERS])
def test_what_is_anothers_is_refused_as_if_it_never_had_been(world: World, name: str) -> None:
    act = (READERS | WRITERS)[name]
    conversation = world.open(ANN)
    run = world.start(conversation, "ann's secret")
    world.ask(run)
    nowhere, nothing = world.ids.conversation(), world.ids.run()
    with world.changes_nothing():
        anothers = refusal(lambda: act(world, BOB, conversation, run))
        never = refusal(lambda: act(world, BOB, nowhere, nothing))
    assert anothers.code is never.code is Code.NOT_FOUND

    def without_ids(refused: Refused) -> str:
        return re.sub("[cr][0-9a-f]{24}", "ID", str(refused.as_dict()))

    assert without_ids(anothers) == without_ids(never)
    assert "secret" not in str(anothers.as_dict())


@pytest.mark.contract("D21", "E11")
def test_a_scope_lists_its_own_conversations_oldest_first(world: World) -> None:
    of_ann = [world.open(ANN), world.open(ANN)]
    of_bob = world.open(BOB)
    assert [head.conversation for head in views.conversations(world.base, ANN)] == of_ann
    assert [head.conversation for head in views.conversations(world.base, BOB)] == [of_bob]
    assert views.conversations(world.base, ScopeId("an")) == []


# Everything is tied by its run.


@pytest.mark.contract("A7", "B53", "B54")
def test_answers_stand_with_their_runs_in_whatever_order_they_came(
    world: World, conversation: ConversationId
) -> None:
    first = world.start(conversation, "Slow?")
    second = world.start(conversation, "Quick?")
    world.complete(second, "Quick.")
    third = world.start(conversation, "Another?")
    world.complete(first, "Slow.")

    page = view(world, conversation)
    assert [(entry.run, entry.text) for entry in page.entries] == [
        (first, "Slow?"),
        (second, "Quick?"),
        (second, "Quick."),
        (third, "Another?"),
        (first, "Slow."),
    ]
    assert {run: seen.answer for run, seen in page.runs.items()} == {
        first: "Slow.",
        second: "Quick.",
        third: None,
    }
    assert {seen.request for seen in page.runs.values()} == {"Slow?", "Quick?", "Another?"}
    assert page.live == (third,)


@pytest.mark.contract("B54")
def test_late_progress_of_one_run_changes_the_view_of_no_other(
    world: World, conversation: ConversationId
) -> None:
    first, second = world.start(conversation), world.start(conversation)
    before = view(world, conversation).runs[second]
    world.ask(first)
    world.steer(first)
    world.begin_effect(first)
    world.ask(first)
    world.complete(first)
    assert view(world, conversation).runs[second] == before


@pytest.mark.contract("B42")
def test_the_live_runs_are_a_set_whatever_the_limits(
    world: World, conversation: ConversationId
) -> None:
    live = [world.start(conversation, background=True) for _ in range(3)]
    assert view(world, conversation).live == tuple(live)
    world.complete(live[1])
    assert view(world, conversation).live == (live[0], live[2])


@pytest.mark.contract("B33", "C11")
def test_a_run_shows_each_steering_with_its_words_and_what_became_of_it(
    world: World, conversation: ConversationId
) -> None:
    run = world.start(conversation)
    world.steer(run, "First.", client_id="one")
    request = world.ask(run)
    world.steer(run, "Second.", client_id="two")
    world.finish(run, runs.Cue.FALL_SHORT, Reason.DEADLINE)
    first, second = views.run(world.base, ANN, run).revisions
    assert (first.number, first.client_id, first.text) == (1, "one", "First.")
    assert (first.state, first.request) == (RevisionState.DELIVERED, 1)
    assert first.input_sha256 == request.input_sha256.hex()
    assert (second.number, second.text) == (2, "Second.")
    assert (second.state, second.reason) == (RevisionState.NOT_APPLIED, "deadline")
    assert second.request is None


@pytest.mark.parametrize("state", ["admitted", "running", "stopping", "stopped", "completed"])
def test_a_run_says_whether_it_can_be_steered_and_stopped(
    world: World, conversation: ConversationId, state: str
) -> None:
    run = world.start(conversation)
    if state == "running":
        world.ask(run)
    if state in ("stopping", "stopped"):
        world.stop(run)
    if state in ("stopped", "completed"):
        world.finish(run)
    seen = views.run(world.base, ANN, run)
    assert str(seen.state) == state
    open_ended = state in ("admitted", "running")
    assert seen.steerable is seen.stoppable is open_ended
    if not open_ended:
        with pytest.raises(Refused):
            world.steer(run)


# Versions and pages.


@pytest.mark.contract("C41")
def test_a_views_version_is_its_last_event_and_reading_on_from_it_leaves_no_gap(
    world: World, conversation: ConversationId
) -> None:
    seen = list[int]()
    read = list[int]()
    cursor = 0
    run = world.start(conversation)
    steps: list[Callable[[], object]] = [
        lambda: world.begin_request(run),
        lambda: world.steer(run),
        lambda: world.end_request(run, 1),
        lambda: world.begin_effect(run),
        lambda: world.stop(run),
        lambda: world.finish(run),
    ]
    for step in steps:
        step()
        page = view(world, conversation)
        assert views.inspect(world.base, ANN, run).version == page.version
        behind = views.events_after(world.base, ANN, conversation, after=cursor, limit=99)
        read += [event.number for event in behind]
        cursor = page.version
        seen.append(page.version)
    assert seen == sorted(set(seen))
    assert read == list(range(1, cursor + 1))


@pytest.mark.contract("C43")
def test_events_behind_a_cursor_are_those_behind_it_oldest_first(
    world: World, conversation: ConversationId
) -> None:
    run = world.start(conversation)
    world.ask(run)
    found = views.events_after(world.base, ANN, conversation, after=1, limit=2)
    assert [(event.number, event.kind) for event in found] == [
        (2, "message_admitted"),
        (3, "request_started"),
    ]
    assert {event.conversation for event in found} == {conversation}
    assert views.events_after(world.base, ANN, conversation, after=4, limit=9) == []


def test_older_entries_are_read_in_pages_that_meet(
    world: World, conversation: ConversationId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ENTRIES_OF_VIEW_MAX", 3)
    run = world.start(conversation, "0")
    for n in range(1, 8):
        world.steer(run, str(n))
    read = list[str]()
    page = view(world, conversation)
    while page.entries:
        texts = [entry.text for entry in page.entries]
        assert len(texts) <= 3
        read = texts + read
        assert page.older == page.entries[0].number - 1
        page = views.conversation(world.base, ANN, conversation, before=page.entries[0].number)
    assert read == [str(n) for n in range(8)]


def test_a_page_holds_every_run_that_its_entries_name(
    world: World, conversation: ConversationId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ENTRIES_OF_VIEW_MAX", 1)
    old = world.start(conversation, background=True)
    new = world.start(conversation)
    world.complete(new)
    page = view(world, conversation)
    assert [entry.run for entry in page.entries] == [new]
    assert set(page.runs) == {old, new}  # the live one too, though no entry here names it


def test_an_empty_conversation_has_a_view(world: World, conversation: ConversationId) -> None:
    page = view(world, conversation)
    assert (page.title, page.version) == ("On prices", 1)
    assert (page.entries, page.live) == ((), ())
    assert (page.runs, page.older) == ({}, 0)


def test_an_entry_says_how_it_came_in(world: World, conversation: ConversationId) -> None:
    run = world.say(conversation, client_id="mine", background=True).run
    assert run is not None
    world.steer(run, client_id="more")
    world.ask(run)
    world.complete(run)
    assert [(e.verb, e.client_id, e.disposition) for e in view(world, conversation).entries] == [
        (Verb.BACKGROUND, "mine", "background by choice"),
        (Verb.STEER, "more", f"revision of {run}"),
        (None, None, ""),
    ]


@pytest.mark.contract("C46")
def test_an_inspection_shows_the_requests_effects_and_budget_of_a_run(
    world: World, conversation: ConversationId
) -> None:
    run = world.start(conversation, background=True)
    world.steer(run)
    world.begin_request(run)
    world.end_request(run, 1, RequestState.INTERRUPTED, reason="steering", tokens=(9, 0))
    world.begin_effect(run)
    world.end_effect(run, 1, value=b'{"id":7}')
    world.begin_effect(run)
    shown = views.inspect(world.base, ANN, run)
    assert shown.disposition == "background by choice"
    assert shown.holds_slot
    assert shown.owner == world.owner
    assert shown.budget == world.record(run).budget
    (request,) = shown.requests
    assert (request.state, request.reason) == ("interrupted", "steering")
    assert (request.carries, request.input_tokens, request.output_tokens) == ((1,), 9, 0)
    done, under_way = shown.effects
    assert done.result is not None
    assert (bytes(done.result), bytes(done.arguments)) == (b'{"id":7}', b"{}")
    assert (under_way.state, under_way.result) == ("open", None)
    assert under_way.operation_id == world.effect(run, 2).operation_id

    world.finish(run, runs.Cue.FAIL, Reason.INTERNAL)
    shown = views.inspect(world.base, ANN, run)
    assert not shown.holds_slot
    assert shown.effects[1].state == "unknown"
    assert shown.run.state is RunState.FAILED


@pytest.mark.contract("C11")
def test_the_exact_input_of_a_request_can_be_read_by_its_own_scope(
    world: World, conversation: ConversationId
) -> None:
    run = world.start(conversation)
    request = world.ask(run)
    shown = views.request_input(world.base, ANN, run, request.ordinal)
    assert hashlib.sha256(shown).digest() == request.input_sha256


@pytest.mark.parametrize("ordinal", [0, 2, -1, 2**32])
def test_the_input_of_a_request_that_never_was_is_not_found(
    world: World, conversation: ConversationId, ordinal: int
) -> None:
    run = world.start(conversation)
    world.ask(run)
    with world.refuses(Code.NOT_FOUND):
        views.request_input(world.base, ANN, run, ordinal)


def test_what_is_shown_is_what_is_stored(world: World, conversation: ConversationId) -> None:
    run = world.start(conversation)
    world.steer(run)
    world.ask(run)
    world.begin_effect(run)
    ended = world.complete(run, "12.")
    seen = views.run(world.base, ANN, run)
    assert (seen.publication, seen.answer) == (ended.publication, "12.")
    assert (seen.requests, seen.effects) == (1, 1)
    assert len(seen.revisions) == len(list(revisions.of_run(world.base, run)))
    assert len(list(effects.of_run(world.base, run))) == seen.effects
