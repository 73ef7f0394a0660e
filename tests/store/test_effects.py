"""The ledger of effects: what began is on record, and what is not known is said not to be."""

import pytest

from counterpoint.store import effects, runs
from counterpoint.store.ids import ConversationId, RunId
from counterpoint.store.limits import Limits
from counterpoint.store.records import (
    Damaged,
    EffectState,
    EventKind,
    Reason,
    Repeat,
    RunState,
)
from counterpoint.store.refusal import Code
from counterpoint.store.requests import BudgetSpent, GateClosed

from .world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def conversation(world: World) -> ConversationId:
    return world.open()


@pytest.fixture
def run(world: World, conversation: ConversationId) -> RunId:
    return world.start(conversation)


@pytest.mark.contract("C27", "E7")
def test_an_effects_intent_is_stored_before_it_can_start(world: World, run: RunId) -> None:
    begun = world.begin_effect(run)
    assert world.effect(run, 1) == begun
    assert (begun.state, begun.result) == (EffectState.OPEN, None)
    assert world.record(run).open_effects == (1,)
    world.end_effect(run, 1, value=b'{"id": 7}')
    done = world.effect(run, 1)
    assert (done.state, done.result) == (EffectState.DONE, b'{"id": 7}')
    assert world.record(run).open_effects == ()


@pytest.mark.contract("C26")
@pytest.mark.parametrize("repeat", Repeat)
def test_an_effect_keeps_how_it_may_be_repeated_and_gets_an_operation_id_of_its_own(
    world: World, run: RunId, repeat: Repeat
) -> None:
    """The same name and arguments twice are two operations: the id comes from no argument."""
    first, second = (world.begin_effect(run, repeat=repeat) for _ in range(2))
    assert first.repeat is repeat
    assert first.arguments == second.arguments
    assert first.operation_id != second.operation_id
    assert first.operation_id == f"{run}.1"


@pytest.mark.contract("P79")
def test_two_effects_under_way_end_each_for_itself(world: World, run: RunId) -> None:
    world.begin_effect(run)
    world.begin_effect(run)
    world.end_effect(run, 2, value=b"2")
    assert world.record(run).open_effects == (1,)
    world.end_effect(run, 1, EffectState.FAILED, value=None)
    assert [effect.state for effect in effects.of_run(world.base, run)] == [
        EffectState.FAILED,
        EffectState.DONE,
    ]


def test_a_second_result_of_an_effect_changes_nothing(world: World, run: RunId) -> None:
    world.begin_effect(run)
    world.end_effect(run, 1, value=b"1")
    with world.changes_nothing():
        world.end_effect(run, 1, EffectState.FAILED)
        world.end_effect(run, 9)


@pytest.mark.contract("C13")
def test_a_skipped_effect_is_recorded_in_its_place_and_never_under_way(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.begin_effect(run)
    world.steer(run)
    skipped = world.begin_effect(run, revision=0)
    assert (skipped.number, skipped.state) == (2, EffectState.SKIPPED)
    assert skipped.ended_at_ms == skipped.begun_at_ms
    assert world.record(run).open_effects == (1,)
    told = world.last_event(conversation)
    assert (told.kind, told.facts["state"]) == (EventKind.EFFECT_ENDED, "skipped")
    with world.changes_nothing():
        world.end_effect(run, 2)
    started = [e for e in world.events(conversation) if e.kind is EventKind.EFFECT_STARTED]
    assert [event.facts["effect"] for event in started] == [1]


@pytest.mark.contract("B61", "C13")
def test_what_was_under_way_when_the_revision_came_is_finished_and_kept(
    world: World, run: RunId
) -> None:
    world.begin_effect(run)
    world.steer(run)
    world.end_effect(run, 1, value=b"kept")
    assert world.effect(run, 1).result == b"kept"


@pytest.mark.contract("E4")
@pytest.mark.parametrize("stale", [False, True])
def test_after_a_stop_no_effect_begins(world: World, run: RunId, stale: bool) -> None:
    world.begin_effect(run)
    world.steer(run)
    world.stop(run)
    with world.changes_nothing(), pytest.raises(GateClosed):
        world.begin_effect(run, revision=0 if stale else 1)
    world.end_effect(run, 1)
    assert world.effect(run, 1).state is EffectState.DONE


@pytest.mark.contract("B44")
def test_a_run_starts_no_more_effects_than_its_budget_has() -> None:
    world = World(Limits(effects_of_run_max=1))
    run = world.start(world.open())
    world.begin_effect(run)
    with world.changes_nothing(), pytest.raises(BudgetSpent) as spent:
        world.begin_effect(run)
    assert spent.value.what == "effects"


@pytest.mark.contract("A59", "C17", "C27", "E7", "P82")
@pytest.mark.parametrize("repeat", Repeat)
def test_an_effect_without_a_result_is_unknown_once_its_owner_is_gone(
    world: World, run: RunId, repeat: Repeat
) -> None:
    begun = world.begin_effect(run, repeat=repeat)
    world.settle(run)
    left = world.effect(run, 1)
    assert (left.state, left.reason) == (EffectState.UNKNOWN, "owner_lost")
    assert left.operation_id == begun.operation_id
    assert world.record(run).effects == 1  # and none was begun in its place


@pytest.mark.contract("C17", "E7")
@pytest.mark.parametrize("cue", [runs.Cue.COMPLETE, runs.Cue.FAIL, runs.Cue.FALL_SHORT])
def test_an_end_makes_the_effects_under_way_unknown_and_lists_them(
    world: World, conversation: ConversationId, run: RunId, cue: runs.Cue
) -> None:
    world.begin_effect(run)
    world.begin_effect(run)
    world.end_effect(run, 1)
    world.finish(run, cue, Reason.INTERNAL)
    assert [e.state for e in effects.of_run(world.base, run)] == [
        EffectState.DONE,
        EffectState.UNKNOWN,
    ]
    assert world.last_event(conversation).facts["unknown_effects"] == [2]


# A person's word.


@pytest.mark.contract("C27")
@pytest.mark.parametrize(("happened", "state"), [(True, "done"), (False, "failed")])
def test_a_person_may_say_what_became_of_an_unknown_effect_also_after_the_end(
    world: World, conversation: ConversationId, run: RunId, happened: bool, state: str
) -> None:
    world.begin_effect(run)
    world.settle(run)
    ended = world.record(run)
    world.resolve(run, 1, happened=happened, value=b'"paid"', client_id="look")
    effect = world.effect(run, 1)
    assert (str(effect.state), effect.result, effect.reason) == (
        state,
        b'"paid"',
        "seen in the books",
    )
    assert world.record(run) == ended  # a final state never changes (E5)
    told = world.last_event(conversation)
    assert (told.kind, told.client_id) == (EventKind.EFFECT_RESOLVED, "look")


@pytest.mark.contract("C27")
@pytest.mark.parametrize("state", ["open", "done", "skipped", "resolved"])
def test_what_is_not_unknown_can_not_be_resolved(world: World, run: RunId, state: str) -> None:
    world.steer(run)
    world.begin_effect(run, revision=0 if state == "skipped" else 1)
    if state == "done":
        world.end_effect(run, 1)
    if state == "resolved":
        world.settle(run)
        world.resolve(run, 1)
    with world.refuses(Code.NOT_UNKNOWN) as refused:
        world.resolve(run, 1)
    assert refused.value.facts["effect"] == 1


@pytest.mark.parametrize("number", [0, 2, -1])
def test_an_effect_that_never_was_can_not_be_resolved(
    world: World, run: RunId, number: int
) -> None:
    world.begin_effect(run)
    world.settle(run)
    with world.refuses(Code.NOT_FOUND):
        world.resolve(run, number)


@pytest.mark.contract("C1", "D7")
def test_a_resolution_is_read_back_and_another_word_under_its_id_is_a_conflict(
    world: World, run: RunId
) -> None:
    world.begin_effect(run)
    world.begin_effect(run)
    world.settle(run)
    first = world.resolve(run, 1, client_id="look")
    with world.changes_nothing():
        assert world.resolve(run, 1, client_id="look") == first
    with world.refuses(Code.CONFLICT):
        world.resolve(run, 1, client_id="look", happened=False)
    with world.refuses(Code.CONFLICT):
        world.resolve(run, 2, client_id="look")


# Entered again.


def entered_again(world: World, repeat: Repeat, *, ended: bool) -> RunId:
    """A run whose process died with one effect under way, or after its end."""
    run = world.start(world.open(), resumes=True)
    world.begin_effect(run, repeat=repeat)
    if ended:
        world.end_effect(run, 1, value=b'"first"')
    world.enter_again(run)
    return run


@pytest.mark.contract("C28", "D13")
@pytest.mark.parametrize("repeat", Repeat)
def test_a_result_that_was_stored_is_read_back_and_not_asked_for_again(
    world: World, repeat: Repeat
) -> None:
    run = entered_again(world, repeat, ended=True)
    again = world.begin_effect(run, repeat=repeat)
    assert (again.number, again.state, again.result) == (1, EffectState.DONE, b'"first"')
    assert world.record(run).effects == 1
    assert world.record(run).open_effects == ()


@pytest.mark.contract("A59", "C26", "D13", "E7", "P82")
@pytest.mark.parametrize(
    ("repeat", "state"),
    [
        (Repeat.READ, EffectState.OPEN),
        (Repeat.IDEMPOTENT, EffectState.OPEN),
        (Repeat.RECONCILABLE, EffectState.UNKNOWN),
        (Repeat.ONCE, EffectState.UNKNOWN),
    ],
)
def test_an_unknown_effect_starts_again_only_if_its_class_is_free_to(
    world: World, repeat: Repeat, state: EffectState
) -> None:
    run = entered_again(world, repeat, ended=False)
    first = world.effect(run, 1)
    again = world.begin_effect(run, repeat=repeat)
    assert (again.number, again.operation_id) == (1, first.operation_id)
    assert again.state is state
    assert world.record(run).open_effects == ((1,) if state is EffectState.OPEN else ())


@pytest.mark.contract("C26")
def test_a_reconcilable_effect_that_did_not_happen_starts_again_as_the_same_operation(
    world: World,
) -> None:
    run = entered_again(world, Repeat.RECONCILABLE, ended=False)
    first = world.begin_effect(run, repeat=Repeat.RECONCILABLE)
    again = world.run(effects.start_again, run, world.owner, 1, world.now_ms())
    assert (again.state, again.operation_id) == (EffectState.OPEN, first.operation_id)
    world.end_effect(run, 1)
    assert world.effect(run, 1).state is EffectState.DONE


@pytest.mark.contract("C26")
def test_a_reconcilable_effect_that_did_happen_is_settled_without_starting_again(
    world: World,
) -> None:
    run = entered_again(world, Repeat.RECONCILABLE, ended=False)
    world.begin_effect(run, repeat=Repeat.RECONCILABLE)
    world.end_effect(run, 1, value=b'"asked for"')
    effect = world.effect(run, 1)
    assert (effect.state, effect.result) == (EffectState.DONE, b'"asked for"')


@pytest.mark.contract("E4")
def test_after_a_stop_no_effect_starts_again(world: World) -> None:
    run = entered_again(world, Repeat.RECONCILABLE, ended=False)
    world.stop(run)
    with world.changes_nothing(), pytest.raises(GateClosed):
        world.run(effects.start_again, run, world.owner, 1, world.now_ms())


@pytest.mark.contract("C28")
def test_two_equal_effects_are_read_back_in_their_order_and_a_third_is_new(
    world: World,
) -> None:
    run = world.start(world.open(), resumes=True)
    for value in (b"1", b"2"):
        world.end_effect(run, world.begin_effect(run).number, value=value)
    world.enter_again(run)
    again = [world.begin_effect(run) for _ in range(3)]
    assert [(effect.number, effect.result) for effect in again] == [
        (1, b"1"),
        (2, b"2"),
        (3, None),
    ]
    assert again[2].state is EffectState.OPEN


@pytest.mark.contract("C28")
def test_what_a_checkpoint_covers_is_not_read_back_a_second_time(world: World) -> None:
    run = world.start(world.open(), resumes=True)
    world.end_effect(run, world.begin_effect(run).number)
    world.save(run)
    world.enter_again(run)
    again = world.begin_effect(run)
    assert (again.number, again.state) == (2, EffectState.OPEN)


@pytest.mark.contract("C28", "E7")
@pytest.mark.parametrize("ended", [False, True])
def test_a_checkpoint_does_not_cover_what_was_under_way_when_it_was_saved(
    world: World, ended: bool
) -> None:
    """Its result can't be in the checkpoint, so the agent asks again: it must not happen twice."""
    run = world.start(world.open(), resumes=True)
    world.begin_effect(run, repeat=Repeat.ONCE)
    world.save(run)
    if ended:
        world.end_effect(run, 1)
    world.enter_again(run)
    again = world.begin_effect(run, repeat=Repeat.ONCE)
    assert again.number == 1
    assert again.state is (EffectState.DONE if ended else EffectState.UNKNOWN)
    assert world.record(run).open_effects == ()


@pytest.mark.parametrize("number", [0, -1, 2])
def test_a_result_of_an_effect_that_never_was_changes_nothing(
    world: World, run: RunId, number: int
) -> None:
    world.begin_effect(run)
    with world.changes_nothing():
        world.end_effect(run, number)


def test_an_effect_makes_an_admitted_run_a_running_one(world: World, run: RunId) -> None:
    """So that a crash does not start it afresh: the effect may have happened."""
    world.begin_effect(run)
    assert world.record(run).state is RunState.RUNNING


def test_an_effect_that_is_counted_but_gone_is_damage(world: World, run: RunId) -> None:
    with pytest.raises(Damaged, match="counts effect 1"):
        effects.get(world.base, run, 1)
