"""The events of a conversation: numbered without a gap, and found without reading them all.

Method: a plain list of every event is kept beside the store, while conversations take
turns at random; a page must be the slice of that list.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoint.store import events, keys
from counterpoint.store.engine import Txn
from counterpoint.store.events import SKIP, Log
from counterpoint.store.ids import ConversationId
from counterpoint.store.records import Damaged, Event, EventKind
from counterpoint.store.refusal import Code

from .world import ANN, BOB, World


def tell(world: World, conversation: ConversationId, count: int = 1) -> None:
    """Add events in one transaction."""

    def rule(txn: Txn) -> None:
        log = Log(txn, events.head_of(txn, ANN, conversation), world.now_ms())
        for _ in range(count):
            log.append(EventKind.PROGRESS, text="…")
        log.close()

    world.run(rule)


def told(turns: list[int]) -> tuple[World, list[ConversationId]]:
    """A store in which each turn is a conversation that tells one event more."""
    world = World()
    conversations = [world.open() for _ in range(max(turns, default=0) + 1)]
    for turn in turns:
        tell(world, conversations[turn])
    return world, conversations


def plain_list(world: World, conversation: ConversationId) -> list[Event]:
    return [e for e in events.since(world.base, 1) if e.conversation == conversation]


def numbers(found: list[Event]) -> list[int]:
    return [event.number for event in found]


@pytest.mark.slow
@pytest.mark.contract("E9")
@settings(max_examples=40)
@given(turns=st.lists(st.integers(0, 2), max_size=150), data=st.data())
def test_a_page_is_a_slice_of_the_list_of_all_events(turns: list[int], data: st.DataObject) -> None:
    world, conversations = told(turns)
    for conversation in conversations:
        expected = plain_list(world, conversation)
        assert numbers(expected) == list(range(1, len(expected) + 1))
        head = world.head(conversation)
        after = data.draw(st.integers(0, len(expected) + 1))
        limit = data.draw(st.integers(0, len(expected) + 1))
        page = events.page(world.base, head, after=after, limit=limit)
        assert page == expected[after : after + limit]


def crowd(seed: int) -> tuple[World, list[ConversationId]]:
    """Some thousands of events of three conversations, in transactions of one to five."""
    rng = random.Random(seed)
    world = World()
    conversations = [world.open() for _ in range(3)]
    for _ in range(1_500):
        tell(world, rng.choices(conversations, weights=(8, 3, 1))[0], rng.randint(1, 5))
    return world, conversations


@pytest.mark.slow
@pytest.mark.contract("E9")
def test_pages_of_a_long_conversation_among_others_are_slices_too(fault_seed: int) -> None:
    world, conversations = crowd(fault_seed)
    rng = random.Random(fault_seed)
    for conversation in conversations:
        expected = plain_list(world, conversation)
        head = world.head(conversation)
        assert head.events == len(expected)
        assert events.page(world.base, head, after=0, limit=len(expected)) == expected
        for _ in range(50):
            after, limit = rng.randint(0, len(expected)), rng.randint(1, 40)
            page = events.page(world.base, head, after=after, limit=limit)
            assert page == expected[after : after + limit]


@pytest.mark.slow
def test_any_event_is_found_in_a_bounded_number_of_reads(fault_seed: int) -> None:
    """Seven steps a level on the way to a rounder number, and seven on the way down."""
    world, conversations = crowd(fault_seed)
    rng = random.Random(fault_seed)
    for conversation in conversations:
        head = world.head(conversation)
        levels = 1
        while SKIP**levels <= head.events:
            levels += 1
        reads_max = 1 + 2 * (SKIP - 1) * levels
        assert reads_max < 80
        for _ in range(100):
            number = rng.randint(1, head.events)
            world.base.reads = 0
            page = events.page(world.base, head, after=number - 1, limit=1)
            assert numbers(page) == [number]
            assert world.base.reads <= reads_max


@pytest.mark.slow
def test_the_worst_seek_among_thousands_reads_fewer_than_fifty_events() -> None:
    world = World()
    conversation = world.open()
    tell(world, conversation, SKIP**4 - 2)
    head = world.head(conversation)
    assert head.events == SKIP**4 - 1
    worst = 0
    for number in range(1, head.events + 1):
        world.base.reads = 0
        events.page(world.base, head, after=number - 1, limit=1)
        worst = max(worst, world.base.reads)
    assert worst == 49


def test_reading_on_from_a_cursor_reads_no_more_than_the_page() -> None:
    world = World()
    conversation = world.open()
    tell(world, conversation, 300)
    head = world.head(conversation)
    world.base.reads = 0
    page = events.page(world.base, head, after=head.events - 10, limit=500)
    assert len(page) == 10
    assert world.base.reads == 10


def test_back_pointers_name_the_event_before_and_those_a_power_of_eight_before() -> None:
    world = World()
    conversation, other = world.open(), world.open()
    for _ in range(520):
        tell(world, conversation)
        tell(world, other)
    for event in world.events(conversation):
        found = [events.event_at(world.base, at) for at in event.back]
        steps = [1, *(SKIP**k for k in range(1, 4) if event.number % SKIP**k == 0)]
        expected = [event.number - step for step in steps if event.number > step]
        assert numbers(found) == expected
        assert {back.conversation for back in found} <= {conversation}


@pytest.mark.contract("C43")
@pytest.mark.parametrize("size", [1, 7, 8, 64, 1_000])
def test_pages_behind_one_another_give_every_event_once(size: int) -> None:
    world = World()
    conversation = world.open()
    tell(world, conversation, 130)
    head = world.head(conversation)
    cursor, read = 0, list[Event]()
    while page := events.page(world.base, head, after=cursor, limit=size):
        read += page
        cursor = page[-1].number
    assert read == plain_list(world, conversation)


@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [
        (0, 0, []),
        (0, 2, [1, 2]),
        (2, 9, [3]),
        (3, 9, []),
        (99, 9, []),
        (-5, 9, [1, 2, 3]),
        (-5, 2, [1, 2]),
        (0, -1, []),
    ],
)
def test_a_page_at_the_edges(after: int, limit: int, expected: list[int]) -> None:
    world = World()
    conversation = world.open()
    tell(world, conversation, 2)
    page = events.page(world.base, world.head(conversation), after=after, limit=limit)
    assert numbers(page) == expected


def test_since_gives_every_event_of_the_store_from_there_on_in_order() -> None:
    world, conversations = told([0, 1, 0, 2, 1, 0])
    every = list(events.since(world.base, 1))
    assert len(every) == 9 == events.sequence(world.base) - 1
    assert [e.at_ms for e in every] == sorted(e.at_ms for e in every)
    assert {e.conversation for e in every} == set(conversations)
    assert list(events.since(world.base, 5)) == every[4:]
    assert list(events.since(world.base, 10)) == []


def test_what_was_written_after_a_sequence_was_read_is_all_that_follows_it() -> None:
    """So another process follows everything by remembering one number."""
    world, conversations = told([0])
    seen = events.sequence(world.base)
    tell(world, conversations[0], 3)
    assert len(list(events.since(world.base, seen))) == 3


@pytest.mark.contract("C41", "E9")
def test_the_version_of_a_conversation_is_the_number_of_its_last_event() -> None:
    world = World()
    conversation = world.open()
    versions = list[int]()
    for _ in range(3):
        accepted = world.say(conversation)
        versions.append(accepted.version)
        assert world.head(conversation).events == accepted.version
        assert world.last_event(conversation).number == accepted.version
    assert versions == [2, 3, 4]


def test_the_events_of_a_refused_transaction_leave_no_gap() -> None:
    world = World()
    conversation = world.open()
    run = world.start(conversation)
    with world.refuses(Code.STALE_REVISION):
        world.steer(run, expected=7)
    world.steer(run)
    assert numbers(world.events(conversation)) == [1, 2, 3]
    assert events.sequence(world.base) == 4


@pytest.mark.contract("D21")
@pytest.mark.parametrize("wanted", ["", "c", "r0", "e\0", "c" + "0" * 24])
def test_what_is_no_conversation_of_the_scope_is_not_found(wanted: str) -> None:
    world = World()
    conversation = world.open(ANN)
    for scope, identifier in ((ANN, wanted), (BOB, wanted), (BOB, conversation)):
        with world.refuses(Code.NOT_FOUND):
            events.head_of(world.base, scope, ConversationId(identifier))


def test_an_event_that_is_named_but_gone_is_damage() -> None:
    world = World()
    conversation = world.open()
    tell(world, conversation, 3)
    head = world.head(conversation)
    del world.base.values[keys.event(2)]
    with pytest.raises(Damaged, match="Event 2 is named"):
        events.page(world.base, head, after=0, limit=9)
