"""The life of a run: one story, then every state with every cue."""

import itertools
from collections.abc import Callable

import pytest

from counterpoint.store import keys, runs
from counterpoint.store.ids import OwnerId, RunId
from counterpoint.store.records import EffectState, EventKind, Reason, RequestState, RunState
from counterpoint.store.refusal import Code
from counterpoint.store.runs import FINAL, TRANSITIONS, Cue, IllegalMove, OwnerLost, step

from .world import ANN, World


@pytest.mark.contract("D12")
def test_a_run_is_admitted_works_is_steered_works_on_and_completes() -> None:
    world = World()
    conversation = world.open()
    run = world.start(conversation, "How much was it?")
    assert world.record(run).state is RunState.ADMITTED

    world.ask(run)
    assert world.record(run).state is RunState.RUNNING

    world.steer(run, "In euros.")
    world.begin_effect(run)
    world.end_effect(run, 1)
    world.ask(run)
    ended = world.complete(run, "12 EUR")

    assert (ended.state, ended.reason) == (RunState.COMPLETED, Reason.ANSWERED)
    assert (ended.requests, ended.effects, ended.revisions) == (2, 1, 1)
    assert [str(event.kind) for event in world.events(conversation)] == [
        "conversation_opened",
        "message_admitted",
        "request_started",
        "request_ended",
        "revision_saved",
        "effect_started",
        "effect_ended",
        "request_started",
        "request_ended",
        "revision_delivered",
        "run_ended",
    ]


@pytest.mark.contract("D12", "E5")
@pytest.mark.parametrize(("state", "cue"), list(itertools.product(RunState, Cue)))
def test_every_state_with_every_cue_is_a_move_or_illegal(state: RunState, cue: Cue) -> None:
    if cue in TRANSITIONS[state]:
        assert step(state, cue) is TRANSITIONS[state][cue]
    else:
        with pytest.raises(IllegalMove, match=f"A run that is {state} can't {cue}"):
            step(state, cue)


def test_every_state_has_its_row() -> None:
    assert set(TRANSITIONS) == set(RunState)


def test_every_cue_moves_something() -> None:
    assert {cue for moves in TRANSITIONS.values() for cue in moves} == set(Cue)


def test_every_state_can_be_reached() -> None:
    reached = {RunState.ADMITTED}
    while new := {to for state in reached for to in TRANSITIONS[state].values()} - reached:
        reached |= new
    assert reached == set(RunState)


def test_every_state_can_end() -> None:
    ends = set(FINAL)
    while (
        new := {state for state, moves in TRANSITIONS.items() if ends & set(moves.values())} - ends
    ):
        ends |= new
    assert ends == set(RunState)


@pytest.mark.contract("D12", "E5")
def test_the_final_states_are_the_five_of_the_contract_and_lead_nowhere() -> None:
    assert {str(state) for state in FINAL} == {
        "completed",
        "partial",
        "failed",
        "stopped",
        "interrupted",
    }
    assert all(TRANSITIONS[state] == {} for state in FINAL)


@pytest.mark.contract("B65", "C24", "D17")
def test_a_run_that_is_stopping_can_only_become_stopped() -> None:
    assert TRANSITIONS[RunState.STOPPING] == {Cue.QUIESCE: RunState.STOPPED}
    assert [
        state for state, moves in TRANSITIONS.items() if RunState.STOPPED in moves.values()
    ] == [RunState.STOPPING]


def test_only_work_and_an_accepted_answer_make_a_run_run() -> None:
    into = {cue for moves in TRANSITIONS.values() for cue, to in moves.items() if to == "running"}
    assert into == {Cue.WORK, Cue.WAKE}


# Who may write.

OWNERS_RULES: list[tuple[str, Callable[[World, RunId, OwnerId], object]]] = [
    ("begin a request", lambda w, run, owner: w.try_request(run, owner=owner)),
    ("end a request", lambda w, run, owner: w.end_request(run, 1, owner=owner)),
    ("begin an effect", lambda w, run, owner: w.begin_effect(run, owner=owner)),
    ("end an effect", lambda w, run, owner: w.end_effect(run, 1, owner=owner)),
    ("promote", lambda w, run, owner: w.promote(run, owner=owner)),
    ("finish", lambda w, run, owner: w.finish(run, owner=owner)),
    ("save", lambda w, run, owner: w.run(runs.save_checkpoint, run, owner, b"", w.now_ms())),
    ("tell", lambda w, run, owner: w.run(runs.note_progress, run, owner, "…", w.now_ms())),
]
owners_rules = pytest.mark.parametrize(
    "act", [act for _, act in OWNERS_RULES], ids=[name for name, _ in OWNERS_RULES]
)


def at_work() -> tuple[World, RunId]:
    """A run with a request and an effect under way."""
    world = World()
    run = world.start(world.open())
    world.begin_request(run)
    world.begin_effect(run)
    return world, run


@pytest.mark.contract("C29", "E8")
@owners_rules
def test_who_does_not_own_the_run_can_not(act: Callable[[World, RunId, OwnerId], object]) -> None:
    world, run = at_work()
    stranger = world.new_owner()
    with world.changes_nothing(), pytest.raises(OwnerLost):
        act(world, run, stranger)


@pytest.mark.contract("C29", "E8", "P31")
@owners_rules
def test_an_owner_whose_run_was_adopted_can_not(
    act: Callable[[World, RunId, OwnerId], object],
) -> None:
    world = World()
    run = world.start(world.open())
    world.settle(run)
    with world.changes_nothing(), pytest.raises(OwnerLost):
        act(world, run, world.owner)


@pytest.mark.contract("C29", "E5", "E8")
@owners_rules
@pytest.mark.parametrize("end", ["settled", "completed", "stopped"])
def test_nobody_can_once_the_run_has_ended(
    act: Callable[[World, RunId, OwnerId], object], end: str
) -> None:
    world, run = at_work()
    if end == "settled":
        world.settle(run)
    else:
        if end == "stopped":
            world.stop(run)
        world.finish(run)
    with world.changes_nothing(), pytest.raises(OwnerLost):
        act(world, run, world.owner)


@pytest.mark.contract("E5")
def test_nothing_that_people_do_changes_a_run_that_has_ended() -> None:
    world = World()
    conversation = world.open()
    run = world.start(conversation)
    ended = world.complete(run)
    with world.refuses(Code.RUN_ENDED):
        world.steer(run)
    with world.refuses(Code.RUN_ENDED):
        world.stop(run)
    with world.changes_nothing():
        assert world.settle(run, heir=world.owner) is None
    world.start(conversation)
    assert world.record(run) == ended


# What a run keeps.


def test_progress_is_an_event_of_its_run() -> None:
    world = World()
    conversation = world.open()
    run = world.start(conversation)
    number = world.run(runs.note_progress, run, world.owner, "Reading.", world.now_ms())
    event = world.last_event(conversation)
    assert (event.number, event.kind, event.run) == (number, EventKind.PROGRESS, run)
    assert event.facts == {"text": "Reading."}


def test_a_run_has_its_last_checkpoint_and_counts_them() -> None:
    world = World()
    run = world.start(world.open())
    assert runs.checkpoint(world.base, run) is None
    for number, state in enumerate([b"\0one", b"", b"three"], 1):
        saved = world.run(runs.save_checkpoint, run, world.owner, state, world.now_ms())
        assert saved == number
        assert runs.checkpoint(world.base, run) == state
    assert world.record(run).checkpoints == 3
    assert world.record(run).state is RunState.ADMITTED


@pytest.mark.parametrize("state", [RequestState.COMPLETED, RequestState.FAILED])
def test_a_run_goes_on_after_a_request_whatever_became_of_it(state: RequestState) -> None:
    world = World()
    run = world.start(world.open())
    request = world.begin_request(run)
    world.end_request(run, request.ordinal, state)
    assert world.record(run).state is RunState.RUNNING
    assert world.begin_request(run).ordinal == 2


def test_a_run_begins_with_its_first_work_and_not_with_its_second() -> None:
    world = World()
    run = world.start(world.open())
    assert world.record(run).begun_at_ms is None
    effect = world.begin_effect(run)
    assert world.record(run).begun_at_ms == effect.begun_at_ms
    world.end_effect(run, 1, EffectState.FAILED)
    world.ask(run)
    assert world.record(run).begun_at_ms == effect.begun_at_ms


# What is no run of the caller's.


@pytest.mark.parametrize("run", ["", "x", "r", "r0", "c000000000001001000000001", "r" * 600])
@pytest.mark.contract("D21")
def test_what_is_no_run_id_is_not_found(run: str) -> None:
    world = World()
    assert runs.find(world.base, RunId(run)) is None
    with world.refuses(Code.NOT_FOUND):
        world.steer(RunId(run))


@pytest.mark.contract("D21", "E11")
def test_an_id_that_spells_the_key_of_a_runs_own_records_is_not_found() -> None:
    """`r…k` is the key of a checkpoint: whoever asks for it must not learn that it exists."""
    world, run = at_work()
    world.steer(run)
    world.run(runs.save_checkpoint, run, world.owner, b"secret", world.now_ms())
    own = [
        keys.checkpoint(run),
        keys.request(run, 1),
        keys.request_input(run, 1),
        keys.effect(run, 1),
        keys.revision(run, 1),
    ]
    for key in own:
        assert key in world.base.values
        assert runs.find(world.base, RunId(key.decode())) is None
        with world.refuses(Code.NOT_FOUND):
            runs.of_scope(world.base, ANN, RunId(key.decode()))
