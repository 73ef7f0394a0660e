"""The gate of identities: the same intent again reads its outcome back, another is refused.

Method: one table. Each row changes one thing about a submission that was accepted before,
sends it under the used id, and says what comes of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from counterpoint.store import identity
from counterpoint.store.engine import Txn
from counterpoint.store.ids import ClientId, ConversationId, RunId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import Accepted, Depth, Meaning, Verb
from counterpoint.store.refusal import Code

from .world import ANN, BOB, World

USED = "used"


class Talk(NamedTuple):
    """Two conversations, the first with two runs and the second with one."""

    world: World
    here: ConversationId
    there: ConversationId
    run: RunId
    sibling: RunId
    stranger: RunId


def talk(limits: Limits | None = None) -> Talk:
    world = World(limits or Limits(capacity={SHORT: 9, BACKGROUND: 9}))
    here, there = world.open(), world.open()
    return Talk(world, here, there, *(world.start(where) for where in (here, here, there)))


Do = Callable[[Talk], Accepted]


def plain(text: str = "What is it?", *, there: bool = False) -> Do:
    return lambda t: t.world.say(t.there if there else t.here, text, client_id=USED)


def background(
    text: str = "What is it?", depth: Depth = Depth.NORMAL, *, there: bool = False
) -> Do:
    return lambda t: t.world.say(
        t.there if there else t.here, text, client_id=USED, background=True, depth=depth
    )


def steer(text: str = "What is it?", *, target: str = "run", expected: int | None = None) -> Do:
    return lambda t: t.world.steer(getattr(t, target), text, client_id=USED, expected=expected)


def stop(target: str = "run") -> Do:
    return lambda t: t.world.stop(getattr(t, target), client_id=USED)


def opening(title: str = "What is it?") -> Do:
    return lambda t: t.world.open_as(ANN, client_id=USED, title=title)


# fmt: off
REPLAYED = [
    ("plain",         plain()),
    ("background",    background()),
    ("deep",          background(depth=Depth.DEEP)),
    ("steer",         steer()),
    ("steer at 0",    steer(expected=0)),
    ("stop",          stop()),
    ("open",          opening()),
]
CONFLICTS = [  # accepted before, sent now, the field that differs
    ("other text",             plain(),            plain("What is it? "),      "text"),
    ("other conversation",     plain(),            plain(there=True),          "conversation"),
    ("other entry",            plain(),            background(),               "verb"),
    ("other depth",            background(),       background(depth=Depth.DEEP),"depth"),
    ("other text of work",     background(),       background("Another?"),     "text"),
    ("a message as a steer",   plain(),            steer(),                    "verb"),
    ("other target",           steer(),            steer(target="sibling"),    "target"),
    ("target elsewhere",       steer(),            steer(target="stranger"),   "conversation"),
    ("other steering",         steer(),            steer("Never mind."),       "text"),
    ("other base revision",    steer(expected=0),  steer(expected=1),          "expected_revision"),
    ("no base revision",       steer(expected=0),  steer(),                    "expected_revision"),
    ("a steer as a stop",      steer(),            stop(),                     "verb"),
    ("other run to stop",      stop(),             stop("sibling"),            "target"),
    ("a stop as a message",    stop(),             plain(),                    "verb"),
    ("other title",            opening(),          opening("Another"),         "text"),
    ("an opening as a message",opening(),          plain(),                    "verb"),
]
# fmt: on

replayed = pytest.mark.parametrize("do", [do for _, do in REPLAYED], ids=[n for n, _ in REPLAYED])
conflicts = pytest.mark.parametrize(
    ("first", "then", "field"),
    [row[1:] for row in CONFLICTS],
    ids=[row[0] for row in CONFLICTS],
)


@pytest.mark.contract("A12", "A15", "A16", "A56", "B31", "C1", "E2", "P1")
@replayed
def test_the_same_again_reads_the_first_outcome_back_and_writes_nothing(do: Do) -> None:
    at = talk()
    first = do(at)
    with at.world.changes_nothing():
        assert do(at) == first


@pytest.mark.contract("A14", "A17", "C1", "D7")
@conflicts
def test_another_meaning_under_a_used_id_is_a_conflict_that_names_the_field(
    first: Do, then: Do, field: str
) -> None:
    at = talk()
    accepted = first(at)
    with at.world.refuses(Code.CONFLICT) as refused:
        then(at)
    assert refused.value.facts["field"] == field
    assert refused.value.facts["expected"] != refused.value.facts["actual"]
    assert refused.value.facts["message"] == accepted.message
    assert refused.value.facts["run"] == accepted.run
    assert not refused.value.retry_same_id


@pytest.mark.contract("A17")
@conflicts
def test_what_was_accepted_stands_after_a_conflict(first: Do, then: Do, field: str) -> None:
    at = talk()
    accepted = first(at)
    with at.world.refuses(Code.CONFLICT):
        then(at)
    assert first(at) == accepted


FULL = Limits(capacity={SHORT: 3}, undelivered_revisions_max=1, live_runs_of_conversation_max=2)


def nothing(_: Talk) -> None:
    """Nothing has to go before: `FULL` is full once the runs of the talk are there."""


# fmt: off
REFUSALS: list[tuple[Code, Callable[[Talk], object], Do]] = [  # what went before, what is done
    (Code.CAPACITY_FULL,   nothing,  plain(there=True)),
    (Code.CAPACITY_FULL,   nothing,  background(there=True)),
    (Code.RUNS_FULL,       nothing,  plain()),
    (Code.NOT_FOUND,       nothing,  lambda t: t.world.say(ConversationId("c0"), client_id=USED)),
    (Code.NOT_FOUND,       nothing,  lambda t: t.world.say(t.here, client_id=USED, scope=BOB)),
    (Code.NOT_FOUND,       nothing,  lambda t: t.world.steer(RunId("r0"), client_id=USED)),
    (Code.NOT_FOUND,       nothing,  lambda t: t.world.steer(t.run, client_id=USED, scope=BOB)),
    (Code.NOT_FOUND,       nothing,  lambda t: t.world.stop(RunId("r0"), client_id=USED)),
    (Code.NOT_FOUND,       nothing,  lambda t: t.world.stop(t.run, client_id=USED, scope=BOB)),
    (Code.STALE_REVISION,  nothing,  steer(expected=1)),
    (Code.REVISIONS_FULL,  lambda t: t.world.steer(t.run),     steer()),
    (Code.RUN_STOPPING,    lambda t: t.world.stop(t.run),      steer()),
    (Code.RUN_ENDED,       lambda t: t.world.complete(t.run),  steer()),
    (Code.RUN_ENDED,       lambda t: t.world.complete(t.run),  stop()),
]
# fmt: on


@pytest.mark.contract("A21", "A22", "D8")
@pytest.mark.parametrize(
    ("code", "before", "do"), REFUSALS, ids=[f"{n}-{row[0]}" for n, row in enumerate(REFUSALS)]
)
def test_a_refusal_leaves_nothing_and_its_id_stays_free(
    code: Code, before: Callable[[Talk], object], do: Do
) -> None:
    at = talk(FULL)
    before(at)
    with at.world.refuses(code):
        do(at)
    for scope in (ANN, BOB):
        assert identity.find(at.world.base, scope, ClientId(USED)) is None
    assert opening()(at).client_id == USED


# fmt: off
PARENTS = [  # one field of a continuation differs
    ("parent", Meaning(verb=Verb.CONTINUE, conversation=None, parent=RunId("r2"))),
    ("verb",   Meaning(verb=Verb.PLAIN,    conversation=None, parent=RunId("r1"))),
    ("parent", Meaning(verb=Verb.CONTINUE, conversation=None)),
]
# fmt: on


@pytest.mark.contract("A18", "A23", "D7")
@pytest.mark.parametrize(("field", "meaning"), PARENTS)
def test_a_submission_is_never_hung_on_another_parent(field: str, meaning: Meaning) -> None:
    world = World()
    first = Meaning(verb=Verb.CONTINUE, conversation=None, parent=RunId("r1"))
    conversation = world.open()

    def once(txn: Txn, meaning: Meaning) -> Accepted:
        def act() -> Accepted:
            return Accepted(
                scope=ANN,
                client_id=ClientId(USED),
                meaning=meaning,
                at_ms=1,
                conversation=conversation,
                version=1,
            )

        return identity.once(txn, ANN, ClientId(USED), meaning, act)

    accepted = world.run(once, first)
    with world.refuses(Code.CONFLICT) as refused:
        world.run(once, meaning)
    assert refused.value.facts["field"] == field
    assert world.run(once, first) == accepted


@pytest.mark.contract("A13", "E2", "P19")
def test_the_same_text_under_two_ids_is_two_messages_and_two_runs() -> None:
    world = World()
    conversation = world.open()
    first = world.say(conversation, "Again?", client_id="one")
    second = world.say(conversation, "Again?", client_id="two")
    assert first.message != second.message
    assert first.run != second.run


@pytest.mark.contract("A13")
def test_the_same_steering_under_two_ids_is_two_revisions() -> None:
    world = World()
    run = world.start(world.open())
    assert world.steer(run, "More.").revision == 1
    assert world.steer(run, "More.").revision == 2


@pytest.mark.contract("C5", "P14")
def test_a_retry_is_not_refused_for_want_of_the_slot_that_its_own_run_holds() -> None:
    world = World(Limits(capacity={SHORT: 1}))
    conversation = world.open()
    first = world.say(conversation, client_id=USED)
    with world.refuses(Code.CAPACITY_FULL):
        world.say(conversation)
    assert world.say(conversation, client_id=USED) == first


@pytest.mark.contract("C5")
def test_a_retry_of_a_steering_is_read_back_from_a_run_that_takes_no_more() -> None:
    world = World(Limits(undelivered_revisions_max=1))
    run = world.start(world.open())
    first = world.steer(run, client_id=USED)
    with world.refuses(Code.REVISIONS_FULL):
        world.steer(run)
    assert world.steer(run, client_id=USED) == first
    world.finish(run, insist_through=1)
    with world.refuses(Code.RUN_ENDED):
        world.steer(run)
    assert world.steer(run, client_id=USED) == first


@pytest.mark.contract("C5")
def test_a_retry_of_a_stop_is_read_back_after_the_run_has_stopped() -> None:
    world = World()
    run = world.start(world.open())
    first = world.stop(run, client_id=USED)
    world.finish(run)
    with world.refuses(Code.RUN_ENDED):
        world.stop(run)
    assert world.stop(run, client_id=USED) == first


@pytest.mark.contract("A21", "A22", "D8")
def test_a_refused_submission_leaves_no_identity_and_its_id_may_be_used_again() -> None:
    world = World(Limits(capacity={SHORT: 1}))
    conversation = world.open()
    holder = world.start(conversation)
    with world.refuses(Code.CAPACITY_FULL) as refused:
        world.say(conversation, client_id=USED)
    assert refused.value.retry_same_id
    assert identity.find(world.base, ANN, ClientId(USED)) is None
    world.complete(holder)
    assert world.say(conversation, client_id=USED).message is not None


@pytest.mark.contract("D7", "D21")
def test_an_id_belongs_to_its_scope() -> None:
    world = World()
    ann = world.say(world.open(ANN), client_id=USED)
    bob = world.say(world.open(BOB), "Something else.", client_id=USED, scope=BOB)
    assert ann.run != bob.run
    assert identity.find(world.base, ANN, ClientId(USED)) == ann
    assert identity.find(world.base, BOB, ClientId(USED)) == bob


@pytest.mark.contract("C1")
def test_an_accepted_id_can_be_looked_up_with_everything_it_led_to() -> None:
    world = World()
    conversation = world.open(client_id="opened")
    said = world.say(conversation, client_id="said")
    assert said.run is not None
    steered = world.steer(said.run, client_id="steered")
    stopped = world.stop(said.run, client_id="stopped")
    accepted = {"said": said, "steered": steered, "stopped": stopped}
    for client_id, outcome in accepted.items():
        assert identity.find(world.base, ANN, ClientId(client_id)) == outcome
    opened = identity.find(world.base, ANN, ClientId("opened"))
    assert opened is not None
    assert opened.conversation == conversation
    assert (steered.run, steered.revision) == (said.run, 1)
    assert stopped.run == said.run


def test_a_conflict_tells_that_texts_differ_and_shows_neither() -> None:
    world = World()
    conversation = world.open()
    world.say(conversation, "my secret", client_id=USED)
    with world.refuses(Code.CONFLICT) as refused:
        world.say(conversation, "another secret", client_id=USED)
    assert "secret" not in str(refused.value.as_dict())
