"""A message comes in with its own run, in one piece, at its place in the conversation."""

from collections.abc import Callable

import pytest

from counterpoint.store import events, messages, runs
from counterpoint.store.ids import MessageId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import Damaged, Depth, EventKind, Message, RunState, Verb
from counterpoint.store.refusal import Code

from .world import World


def message_of(world: World, message: MessageId | None) -> Message:
    assert message is not None
    return messages.get(world.base, message)


@pytest.mark.contract("A4", "A15", "D2", "E1")
def test_a_message_and_its_run_name_each_other() -> None:
    world = World()
    conversation = world.open()
    accepted = world.say(conversation, "How much?")
    message = message_of(world, accepted.message)
    assert message.run == accepted.run
    run = world.record(message.run)
    assert run.message == message.message
    assert (run.state, run.run_class) == (RunState.ADMITTED, SHORT)
    assert message.disposition == "answer"


@pytest.mark.contract("A4")
@pytest.mark.parametrize("text", ["", " \n", "é\u0301 and \u202e", "a" * 5_000, "\0"])
def test_a_text_is_kept_as_it_came(text: str) -> None:
    world = World()
    accepted = world.say(world.open(), text)
    assert message_of(world, accepted.message).text == text


@pytest.mark.contract("A5", "A6", "A27")
def test_every_message_has_a_run_of_its_own() -> None:
    world = World()
    conversation = world.open()
    first = world.start(conversation)
    second = world.start(conversation, "And then?")
    world.complete(first)
    assert world.record(second).state is RunState.ADMITTED
    assert first != second


@pytest.mark.contract("B23")
def test_background_by_choice_takes_a_background_slot_and_keeps_its_depth() -> None:
    world = World()
    conversation = world.open()
    accepted = world.say(conversation, background=True, depth=Depth.DEEP)
    assert accepted.run is not None
    run = world.record(accepted.run)
    assert (run.run_class, run.depth) == (BACKGROUND, Depth.DEEP)
    assert message_of(world, accepted.message).verb is Verb.BACKGROUND
    assert world.slots_of_run(run.run) == [BACKGROUND]


@pytest.mark.contract("B23")
def test_depth_is_a_preference_and_brings_no_budget() -> None:
    world = World(Limits(capacity={BACKGROUND: 2}))
    conversation = world.open()
    budgets = [
        world.record(run).budget
        for depth in Depth
        if (run := world.say(conversation, background=True, depth=depth).run)
    ]
    assert budgets[0] == budgets[1]


@pytest.mark.contract("B44")
def test_a_run_gets_its_budget_from_the_limits_of_the_day() -> None:
    world = World(Limits(requests_of_run_max=5, effects_of_run_max=6, active_ms_of_run_max=7))
    budget = world.record(world.start(world.open())).budget
    assert (budget.requests_max, budget.effects_max, budget.active_ms_max) == (5, 6, 7)


@pytest.mark.contract("C45")
def test_admission_is_an_event_that_carries_the_clients_own_id_and_the_decision() -> None:
    world = World()
    conversation = world.open()
    accepted = world.say(conversation, client_id="mine")
    event = world.last_event(conversation)
    assert event.kind is EventKind.MESSAGE_ADMITTED
    assert (event.client_id, event.message, event.run) == ("mine", accepted.message, accepted.run)
    assert event.facts == {"entry": "plain", "run_class": SHORT, "disposition": "answer"}
    assert accepted.version == event.number


def test_the_entries_of_a_conversation_are_a_chain_in_the_order_of_acceptance() -> None:
    world = World()
    conversation = world.open()
    first = world.say(conversation, "one")
    assert first.run is not None
    steered = world.steer(first.run, "two")
    world.ask(first.run)
    ended = world.complete(first.run, "three")
    last = world.say(conversation, "four")
    chain = list(events.entries_back(world.base, world.head(conversation).last_entry))
    assert [entry.text for entry in chain] == ["four", "three", "two", "one"]
    assert [entry.entry for entry in chain] == [4, 3, 2, 1]
    assert [entry.previous for entry in chain] == [
        ended.publication,
        steered.message,
        first.message,
        None,
    ]
    assert world.head(conversation).last_entry == last.message
    assert world.head(conversation).entries == 4


def test_a_conversation_holds_only_so_many_runs_that_have_not_ended() -> None:
    world = World(Limits(capacity={SHORT: 9}, live_runs_of_conversation_max=2))
    conversation = world.open()
    first = world.start(conversation)
    world.start(conversation)
    with world.refuses(Code.RUNS_FULL) as refused:
        world.say(conversation)
    assert refused.value.facts == {"limit": 2}
    assert refused.value.retry_same_id
    world.complete(first)
    assert world.say(conversation).run


@pytest.mark.contract("A3", "B4")
def test_a_conversation_lists_its_live_runs_oldest_first_with_their_class() -> None:
    world = World()
    conversation, another = world.open(), world.open()
    started = [world.start(conversation), world.start(conversation, background=True)]
    world.start(another)
    assert runs.live(world.base, conversation) == list(
        zip(started, (SHORT, BACKGROUND), strict=True)
    )
    assert len(list(runs.all_live(world.base))) == 3


def test_an_opened_conversation_has_its_title_and_one_event() -> None:
    world = World()
    conversation = world.open(title="On prices")
    head = world.head(conversation)
    assert (head.title, head.events, head.entries) == ("On prices", 1, 0)
    event = world.last_event(conversation)
    assert (event.kind, event.number) == (EventKind.CONVERSATION_OPENED, 1)


@pytest.mark.parametrize("kind", ["conversation", "run", "message", "publication"])
def test_an_id_that_is_taken_fails_and_overwrites_nothing(kind: str) -> None:
    """Two makers with the same node: one store would otherwise lose a record to the other."""
    world = World()
    conversation = world.open()
    said = world.say(conversation)
    assert said.run is not None
    taken = {
        "conversation": conversation,
        "run": said.run,
        "message": said.message,
        "publication": world.complete(said.run).publication,
    }
    running = world.start(conversation)
    setattr(world.ids, kind, lambda: taken[kind])
    again: dict[str, Callable[[], object]] = {
        "conversation": world.open,
        "run": lambda: world.say(conversation),
        "message": lambda: world.say(conversation),
        "publication": lambda: world.complete(running),
    }
    with world.changes_nothing(), pytest.raises(AssertionError, match=f"{kind} ids are never"):
        again[kind]()


def test_a_message_that_is_named_but_gone_is_damage() -> None:
    world = World()
    with pytest.raises(Damaged, match="m0 is named"):
        messages.get(world.base, MessageId("m0"))
    with pytest.raises(Damaged, match="m0 is named"):
        events.entry(world.base, MessageId("m0"))
