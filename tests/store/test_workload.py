"""Part E holds after every step of a life that is made up at random.

Method: people open, submit, retry, contradict themselves, steer and stop; owners work,
end, and die in the middle of it, and their heirs settle what they leave, twice and in any
order. After each step everything is read back and checked against part E, everything that
was acknowledged is looked up again, and what had ended must be as it was. The seed is the
test's id.
"""

import random
from collections.abc import Callable

import pytest

from counterpoint.store import effects, identity, runs, settlement
from counterpoint.store.endings import OneMore
from counterpoint.store.ids import ConversationId, OwnerId, RunId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import (
    Accepted,
    EffectState,
    Reason,
    Repeat,
    RequestState,
    Run,
    RunState,
    Verb,
)
from counterpoint.store.refusal import Code, Refused
from counterpoint.store.requests import BudgetSpent, GateClosed
from counterpoint.store.runs import FINAL, Cue, OwnerLost

from .invariants import breaches
from .world import ANN, BOB, World

LIMITS = Limits(
    capacity={SHORT: 2, BACKGROUND: 1},
    capacity_of_scope={BOB: {BACKGROUND: 2}},
    undelivered_revisions_max=3,
    live_runs_of_conversation_max=3,
    requests_of_run_max=5,
    effects_of_run_max=4,
)
ENDS = [
    (Cue.COMPLETE, Reason.ANSWERED),
    (Cue.COMPLETE, Reason.ANSWERED),
    (Cue.FALL_SHORT, Reason.BUDGET),
    (Cue.FAIL, Reason.AGENT_ERROR),
    (Cue.INTERRUPT, Reason.HOST_SHUTDOWN),
]
Again = Callable[[], Accepted]


class Life:
    """One store, two scopes, and whatever comes to mind."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(LIMITS)
        self.conversations = [self.world.open(scope) for scope in (ANN, ANN, BOB)]
        self.scope_of = dict(zip(self.conversations, (ANN, ANN, BOB), strict=True))
        self.dead: list[OwnerId] = []
        self.acknowledged: list[tuple[Accepted, Again]] = []
        self.ended: dict[RunId, Run] = {}
        self.versions: dict[ConversationId, int] = {}
        self.acts: list[Callable[[], object]] = [
            *[self.submit] * 4,
            *[self.steer] * 4,
            *[self.work] * 10,
            *[self.end] * 2,
            self.stop,
            self.withdraw,
            self.resolve,
            self.save,
            self.promote,
            self.retry,
            self.contradict,
            self.haunt,
            self.die,
        ]

    # People.

    def accept(self, act: Again) -> None:
        self.acknowledged.append((act(), act))

    def submit(self) -> None:
        where, client_id = self.rng.choice(self.conversations), self.world.client_id()
        scope = self.scope_of[where]
        background, resumes = self.rng.random() < 0.3, self.rng.random() < 0.5
        self.accept(
            lambda: self.world.say(
                where,
                "So?",
                client_id=client_id,
                scope=scope,
                background=background,
                resumes=resumes,
            )
        )

    def any_run(self) -> RunId | None:
        known = [run.run for run in map(self.record, self.all_runs())]
        return self.rng.choice(known[-6:]) if known else None

    def all_runs(self) -> list[RunId]:
        return [a.run for a, _ in self.acknowledged if a.run is not None and a.message is not None]

    def record(self, run: RunId) -> Run:
        return self.world.record(run)

    def live_runs(self) -> list[RunId]:
        return list(runs.all_live(self.world.base))

    def steer(self) -> None:
        run = self.any_run()
        if run is None:
            return
        scope, client_id = self.record(run).scope, self.world.client_id()
        expected = self.rng.choice([None, None, self.record(run).revisions, 1])
        self.accept(
            lambda: self.world.steer(run, client_id=client_id, scope=scope, expected=expected)
        )

    def stop(self) -> None:
        run = self.any_run()
        if run is None:
            return
        record, client_id = self.record(run), self.world.client_id()
        gone = record.owner if record.owner in self.dead else None
        self.accept(
            lambda: self.world.stop(run, client_id=client_id, scope=record.scope, owner_gone=gone)
        )

    def withdraw(self) -> None:
        steered = [a for a, _ in self.acknowledged if a.meaning.verb is Verb.STEER]
        if steered:
            accepted, client_id = self.rng.choice(steered[-3:]), self.world.client_id()
            run, number = accepted.run, accepted.revision
            assert run is not None
            assert number is not None
            self.accept(
                lambda: self.world.withdraw(run, number, client_id=client_id, scope=accepted.scope)
            )

    def resolve(self) -> None:
        run = self.any_run()
        if run is None or not self.record(run).effects:
            return
        record, client_id = self.record(run), self.world.client_id()
        number, happened = self.rng.randint(1, record.effects), self.rng.random() < 0.5
        self.accept(
            lambda: self.world.resolve(
                run, number, happened=happened, client_id=client_id, scope=record.scope
            )
        )

    def retry(self) -> None:
        if self.acknowledged:
            accepted, again = self.rng.choice(self.acknowledged)
            with self.world.changes_nothing():
                assert again() == accepted

    def contradict(self) -> None:
        said = [a for a, _ in self.acknowledged if a.revision is None and a.message is not None]
        if said:
            accepted = self.rng.choice(said)
            with self.world.refuses(Code.CONFLICT):
                self.world.say(
                    accepted.conversation,
                    "Something else.",
                    client_id=accepted.client_id,
                    scope=accepted.scope,
                )

    # Owners.

    def mine(self) -> RunId | None:
        owned = [run for run in self.live_runs() if self.record(run).owner == self.world.owner]
        return self.rng.choice(owned) if owned else None

    def work(self) -> None:
        run = self.mine()
        if run is None:
            return
        record, rng = self.record(run), self.rng
        if record.open_requests and rng.random() < 0.6:
            state = rng.choice([RequestState.COMPLETED, *list(RequestState)[1:4]])
            tokens = rng.choice([(None, None), (None, 2), (3, 2)])
            self.world.end_request(run, rng.choice(record.open_requests), state, tokens=tokens)
        elif record.open_effects and rng.random() < 0.6:
            state_of_effect = rng.choice([EffectState.DONE, EffectState.FAILED])
            self.world.end_effect(run, rng.choice(record.open_effects), state_of_effect)
        elif rng.random() < 0.6:
            self.world.try_request(run, revision=rng.choice([None, 0]))
        else:
            repeat = rng.choice(list(Repeat))
            effect = self.world.begin_effect(
                run, name=str(repeat), repeat=repeat, revision=rng.choice([None, 0])
            )
            if effect.state is EffectState.UNKNOWN and repeat is Repeat.RECONCILABLE:
                self.reconcile(run, effect.number)

    def reconcile(self, run: RunId, number: int) -> None:
        """The outside says that it happened, or that it did not."""
        if self.rng.random() < 0.5:
            self.world.end_effect(run, number)
        else:
            now_ms = self.world.now_ms()
            self.world.run(effects.start_again, run, self.world.owner, number, now_ms)

    def save(self) -> None:
        run = self.mine()
        if run is not None:
            self.world.save(run)

    def end(self) -> None:
        run = self.mine()
        if run is not None:
            cue, reason = self.rng.choice(ENDS)
            text = self.rng.choice([None, "This."])
            through = self.rng.randrange(3) if self.rng.random() < 0.3 else 0
            self.world.finish(run, cue, reason, text=text, insist_through=through)

    def promote(self) -> None:
        run = self.mine()
        if run is not None:
            self.world.promote(run)

    def haunt(self) -> None:
        """A process that lost its runs tries to go on with one."""
        runs_known = self.all_runs()
        if self.dead and runs_known:
            ghost, run = self.rng.choice(self.dead), self.rng.choice(runs_known)
            if self.record(run).owner == ghost and self.record(run).state not in FINAL:
                return  # nobody has settled it yet
            acts: list[Callable[[], object]] = [
                lambda: self.world.try_request(run, owner=ghost),
                lambda: self.world.begin_effect(run, owner=ghost),
                lambda: self.world.end_effect(run, 1, owner=ghost),
                lambda: self.world.end_request(run, 1, owner=ghost),
                lambda: self.world.finish(run, owner=ghost),
            ]
            with self.world.changes_nothing(), pytest.raises(OwnerLost):
                self.rng.choice(acts)()

    def die(self) -> None:
        """The process dies; another settles some of what it left, or all, perhaps twice."""
        self.dead.append(self.world.owner)
        self.world.owner = self.world.new_owner()
        orphans = settlement.orphans(self.world.base, frozenset(self.dead))
        self.rng.shuffle(orphans)
        for run, lost in orphans[: self.rng.randint(0, len(orphans))]:
            for _ in range(self.rng.randint(1, 2)):
                self.world.settle(run, lost=lost, heir=self.world.owner)

    # What must hold.

    def step(self) -> str:
        act = self.rng.choice(self.acts)
        before = dict(self.world.base.values)
        try:
            act()
        except (Refused, GateClosed, BudgetSpent) as refused:
            assert self.world.base.values == before
            return type(refused).__name__
        return act.__name__

    def check(self) -> None:
        assert breaches(self.world.base, self.world.limits) == []
        for accepted, _ in self.acknowledged:
            found = identity.find(self.world.base, accepted.scope, accepted.client_id)
            assert found == accepted
        for run, ended in self.ended.items():
            assert self.record(run) == ended
        for run in self.all_runs():
            if self.record(run).state in FINAL:
                self.ended.setdefault(run, self.record(run))
        for conversation, scope in self.scope_of.items():
            version = self.world.head(conversation, scope).events
            assert version >= self.versions.get(conversation, 0)
            self.versions[conversation] = version


@pytest.mark.slow
@pytest.mark.contract("E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9", "E12")
def test_part_e_holds_after_every_step_of_a_random_life(fault_seed: int) -> None:
    life = Life(fault_seed)
    for _ in range(120):
        life.step()
        life.check()


@pytest.mark.slow
@pytest.mark.contract("C32", "E1")
def test_when_the_last_process_is_gone_all_that_is_left_comes_to_an_end(fault_seed: int) -> None:
    life = Life(fault_seed)
    for _ in range(120):
        life.step()
    world = life.world
    heir = world.new_owner()
    gone = frozenset([*life.dead, world.owner])
    for run, lost in settlement.orphans(world.base, gone):
        world.settle(run, lost=lost, heir=heir)
    world.owner = heir
    for run in life.live_runs():
        assert world.record(run).state in (RunState.ADMITTED, RunState.RUNNING)
        while isinstance(world.finish(run), OneMore):
            world.ask(run)
    assert life.live_runs() == []
    for scope in (ANN, BOB):
        assert world.slots(SHORT, scope) == world.slots(BACKGROUND, scope) == []
    life.check()


@pytest.mark.slow
def test_a_random_life_comes_to_everything_that_can_happen() -> None:
    """Else the other tests here would prove little."""
    seen = set[str]()
    states = set[RunState]()
    for seed in range(6):
        life = Life(seed)
        seen |= {life.step() for _ in range(200)}
        states |= {life.record(run).state for run in life.all_runs()}
        seen |= {
            str(event.kind)
            for conversation, scope in life.scope_of.items()
            for event in life.world.events(conversation, scope)
        }
    assert {act.__name__ for act in Life(0).acts} <= seen
    assert {"Refused", "GateClosed", "BudgetSpent"} <= seen
    assert set(FINAL) <= states
    assert {
        "promotion_refused",
        "run_promoted",
        "run_adopted",
        "run_resumed",
        "revision_withdrawn",
        "effect_resolved",
        "stop_accepted",
        "revision_delivered",
        "revision_settled",
        "effect_ended",
    } <= seen
