"""Keys sort as the facts they stand for, and one owner's never lie among another's."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.store import capacity, events, keys, runs
from counterpoint.store.ids import ClientId, ConversationId, IdSource, RunId, ScopeId
from counterpoint.store.limits import SHORT

from .world import World

LONGEST = "x" * keys.ID_BYTES_MAX

# Any text that an id may be: no control characters, of which the separator is one.
texts = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
scopes = texts.map(ScopeId)
numbers = st.integers(0, 2**32 - 1)
RUN = RunId("r0000000000010010000000001")


@given(a=st.integers(0, 2**64 - 1), b=st.integers(0, 2**64 - 1))
def test_events_sort_by_sequence(a: int, b: int) -> None:
    assert (keys.event(a) < keys.event(b)) == (a < b)


@pytest.mark.parametrize("key", [keys.request, keys.effect, keys.revision])
@given(a=numbers, b=numbers)
def test_what_is_a_runs_own_sorts_by_number(
    key: Callable[[RunId, int], bytes], a: int, b: int
) -> None:
    assert (key(RUN, a) < key(RUN, b)) == (a < b)


@given(prefix=st.binary(min_size=1).filter(lambda key: key[-1] < 0xFF), rest=st.binary())
def test_after_is_above_everything_with_the_prefix(prefix: bytes, rest: bytes) -> None:
    assert prefix <= prefix + rest < keys.after(prefix)


@given(
    prefix=st.binary(min_size=1).filter(lambda key: key[-1] < 0xFF),
    other=st.binary(min_size=1),
)
def test_after_is_not_above_anything_else(prefix: bytes, other: bytes) -> None:
    within = prefix <= other < keys.after(prefix)
    assert within == other.startswith(prefix)


@given(a=st.tuples(scopes, texts), b=st.tuples(scopes, texts))
def test_two_intents_never_share_a_key(a: tuple[ScopeId, str], b: tuple[ScopeId, str]) -> None:
    same = keys.identity(a[0], ClientId(a[1])) == keys.identity(b[0], ClientId(b[1]))
    assert same == (a == b)


@given(scope=scopes, other=scopes, classes=st.tuples(texts, texts))
def test_a_scan_of_slots_meets_those_of_its_scope_and_class_only(
    scope: ScopeId, other: ScopeId, classes: tuple[str, str]
) -> None:
    prefix = keys.slots(scope, classes[0])
    key = keys.slot(other, classes[1], RUN)
    met = prefix <= key < keys.after(prefix)
    assert met == ((scope, classes[0]) == (other, classes[1]))


@given(scope=scopes, other=scopes)
def test_a_scan_of_conversations_meets_those_of_its_scope_only(
    scope: ScopeId, other: ScopeId
) -> None:
    prefix = keys.conversations_of_scope(scope)
    key = keys.conversation_of_scope(other, ConversationId("c1"))
    assert (prefix <= key < keys.after(prefix)) == (scope == other)


@given(a=texts, b=texts)
def test_a_scan_of_live_runs_meets_those_of_its_conversation_only(a: str, b: str) -> None:
    prefix = keys.live_runs(ConversationId(a))
    key = keys.live_run(ConversationId(b), RUN)
    assert (prefix <= key < keys.after(prefix)) == (a == b)


PREFIXES_OF_ONE_ANOTHER = [ScopeId(name) for name in ("a", "a ", "a!", "aa", "aaa", "b")]


@pytest.mark.contract("D21", "E11")
def test_scopes_that_begin_alike_have_their_own_slots_and_conversations() -> None:
    world = World()
    runs_of = dict[ScopeId, RunId]()
    conversations = dict[ScopeId, ConversationId]()
    for scope in PREFIXES_OF_ONE_ANOTHER:
        conversations[scope] = world.open(scope)
        runs_of[scope] = world.start(conversations[scope], scope=scope)

    for scope in PREFIXES_OF_ONE_ANOTHER:
        assert capacity.holders(world.base, scope, SHORT) == [runs_of[scope]]
        prefix = keys.conversations_of_scope(scope)
        found = [key[len(prefix) :] for key, _ in world.base.scan(prefix, keys.after(prefix))]
        assert found == [conversations[scope].encode()]
        assert [run for run, _ in runs.live(world.base, conversations[scope])] == [runs_of[scope]]


@pytest.mark.parametrize("make", ["requests", "effects", "revisions"])
def test_a_scan_of_one_kind_meets_no_other_key_of_the_run_or_of_the_next_run(make: str) -> None:
    source = IdSource(lambda: 1, node=1)
    first, second = source.run(), source.run()
    prefix: bytes = getattr(keys, make)(first)
    own = {
        "requests": keys.request(first, 1),
        "effects": keys.effect(first, 1),
        "revisions": keys.revision(first, 1),
    }
    others = [
        keys.run(first),
        keys.request_input(first, 1),
        keys.checkpoint(first),
        *(key for name, key in own.items() if name != make),
        *(keys.run(second), keys.request(second, 1), keys.effect(second, 1)),
    ]
    assert prefix <= own[make] < keys.after(prefix)
    assert not any(prefix <= key < keys.after(prefix) for key in others)


def test_every_family_has_a_first_byte_of_its_own() -> None:
    source = IdSource(lambda: 1, node=1)
    conversation, run, scope = source.conversation(), source.run(), ScopeId("s")
    families = [
        keys.SEQUENCE,
        keys.conversation(conversation),
        keys.event(1),
        keys.identity(scope, ClientId("k")),
        keys.live_run(conversation, run),
        keys.message(source.message()),
        keys.conversation_of_scope(scope, conversation),
        keys.publication(source.publication()),
        keys.run(run),
        keys.slot(scope, SHORT, run),
        keys.owner(source.owner()),
    ]
    assert len({key[:1] for key in families}) == len(families)


def test_the_longest_ids_give_keys_that_fit() -> None:
    """Every id at its limit, also the runtime's own, which are far shorter."""
    scope, client_id = ScopeId(LONGEST), ClientId(LONGEST)
    conversation, run = ConversationId(LONGEST), RunId(LONGEST)
    longest = [
        keys.identity(scope, client_id),
        keys.conversation_of_scope(scope, conversation),
        keys.live_run(conversation, run),
        keys.request_input(run, 2**32 - 1),
        keys.slot(scope, LONGEST, run),
        keys.event(2**64 - 1),
    ]
    assert max(map(len, longest)) <= keys.KEY_BYTES_MAX


def test_events_of_a_store_are_read_in_the_order_in_which_they_were_written() -> None:
    world = World()
    conversations = [world.open(), world.open()]
    for conversation in itertools.islice(itertools.cycle(conversations), 3):
        world.start(conversation)
    assert [event.at_ms for event in events.since(world.base, 1)] == sorted(
        event.at_ms for event in events.since(world.base, 1)
    )
