"""Every order of two things that people do against the steps of a run: nothing is lost.

Method: an agent is a generator that carries out one transaction a step. Two acts, each a
steering, a stop or the death of the process, are put at every pair of places between its
steps and behind its end. After each step every steering that was accepted must be where
the contract lets it be, and after a stop nothing may have begun.
"""

import itertools
from collections.abc import Callable, Generator

import pytest

from counterpoint.store import requests
from counterpoint.store.endings import OneMore
from counterpoint.store.ids import OwnerId, RunId
from counterpoint.store.limits import Limits
from counterpoint.store.records import (
    EffectState,
    Reason,
    Request,
    RequestState,
    RevisionState,
    RunState,
)
from counterpoint.store.refusal import Code, Refused
from counterpoint.store.requests import BudgetSpent, GateClosed, Stale
from counterpoint.store.runs import FINAL, Cue, OwnerLost
from counterpoint.store.settlement import Adopted

from .invariants import breaches
from .world import World

Steps = Generator[None, None, None]


class Agent:
    """Asks, acts, asks again and ends, as every well-made agent does.

    The subclasses differ in what they do where the contract leaves a choice.
    """

    requests_max = 9

    def __init__(self, world: World, run: RunId, owner: OwnerId) -> None:
        self.world, self.run, self.owner = world, run, owner

    def steps(self) -> Steps:
        try:
            yield from self.turn()
            yield from self.act()
            yield from self.turn()
        except (GateClosed, BudgetSpent):
            pass
        yield from self.end()

    def turn(self) -> Steps:
        """One request, built again for as long as something comes in between."""
        while True:
            seen = self.world.record(self.run).revisions
            yield
            begun = self.world.try_request(self.run, revision=seen, owner=self.owner)
            yield
            if isinstance(begun, Request):
                break
        self.seen = seen
        self.world.end_request(self.run, begun.ordinal, self.outcome(begun), owner=self.owner)
        yield

    def outcome(self, request: Request) -> RequestState:
        return RequestState.COMPLETED

    def act(self) -> Steps:
        effect = self.world.begin_effect(self.run, revision=self.seen, owner=self.owner)
        yield
        if effect.state is EffectState.OPEN:
            self.world.end_effect(self.run, effect.number, owner=self.owner)
            yield

    def end(self) -> Steps:
        while isinstance(self.finish(), OneMore):
            yield
            try:
                yield from self.turn()
            except (GateClosed, BudgetSpent):
                yield

    def finish(self) -> object:
        return self.world.finish(self.run, owner=self.owner)


class CutShort(Agent):
    """Its host interrupts a request for a steering that came while it was under way (B62)."""

    def outcome(self, request: Request) -> RequestState:
        newer = self.world.record(self.run).revisions > request.revision
        return RequestState.INTERRUPTED if newer else RequestState.COMPLETED


class Unlucky(Agent):
    """Its provider fails every other time."""

    def outcome(self, request: Request) -> RequestState:
        return RequestState.FAILED if request.ordinal % 2 else RequestState.COMPLETED


class Poor(Agent):
    """Has two requests, and no more."""

    requests_max = 2


class Stubborn(Agent):
    """Makes no request for what comes at the end."""

    def end(self) -> Steps:
        through = 0
        while True:
            more = self.world.finish(self.run, owner=self.owner, insist_through=through)
            if not isinstance(more, OneMore):
                return
            through = more.revision
            yield


class Failing(Agent):
    """Breaks off."""

    def finish(self) -> object:
        return self.world.finish(
            self.run, Cue.FAIL, Reason.AGENT_ERROR, text=None, owner=self.owner
        )


AGENTS = [Agent, CutShort, Unlucky, Poor, Stubborn, Failing]
PLACES = range(13)
"""Places between the steps; the last ones lie behind the end of every agent."""


class Scene:
    """One run with its agent, and what was accepted and refused so far."""

    def __init__(self, agent: type[Agent]) -> None:
        self.world = World(Limits(requests_of_run_max=agent.requests_max))
        self.kind = agent
        self.run = self.world.start(self.world.open())
        self.running: Steps | None = self.start(self.world.owner)
        self.steered: list[int] = []
        self.refused: list[Code] = []
        self.begun_at_stop: tuple[int, int] | None = None

    def start(self, owner: OwnerId) -> Steps:
        return self.kind(self.world, self.run, owner).steps()

    def go_on(self) -> bool:
        """Let the agent take one step; return whether it has any left."""
        if self.running is None:
            return False
        try:
            next(self.running)
        except StopIteration:
            self.running = None
        return self.running is not None

    # What comes in between.

    def steer(self) -> None:
        try:
            number = self.world.steer(self.run).revision
        except Refused as refused:
            self.refused.append(refused.code)
        else:
            assert number is not None
            self.steered.append(number)

    def stop(self) -> None:
        try:
            self.world.stop(self.run)
        except Refused as refused:
            self.refused.append(refused.code)
        else:
            record = self.world.record(self.run)
            self.begun_at_stop = self.begun_at_stop or (record.requests, record.effects)

    def die(self) -> None:
        """The process dies. Another settles the run, and starts it if it may."""
        lost, heir = self.world.record(self.run).owner, self.world.new_owner()
        settled = self.world.settle(self.run, lost=lost, heir=heir)
        dead, self.running = self.running, None
        if isinstance(settled, Adopted):
            self.running = self.start(heir)
        if dead is not None:
            with self.world.changes_nothing(), pytest.raises(OwnerLost):
                exhaust(dead)

    # What must hold.

    def check(self) -> None:
        record = self.world.record(self.run)
        ended = record.state in FINAL
        assert record.revisions == len(self.steered)
        for number in self.steered:
            self.check_steering(number, ended)
        if self.begun_at_stop is not None:
            assert (record.requests, record.effects) == self.begun_at_stop
            assert record.state in (RunState.STOPPING, RunState.STOPPED)
        assert set(self.refused) <= {Code.RUN_ENDED, Code.RUN_STOPPING}

    def check_steering(self, number: int, ended: bool) -> None:
        revision = self.world.revision(self.run, number)
        asked = list(requests.of_run(self.world.base, self.run))
        after = [request for request in asked if request.begun_at_ms > revision.at_ms]
        assert all(request.revision >= number for request in after)
        if after:
            assert number in after[0].carries  # by the very next request (C12)
        match revision.state:
            case RevisionState.SAVED:
                assert not ended
                assert not after
            case RevisionState.CARRIED:
                assert not ended
                assert number in asked[(revision.request or 0) - 1].carries
            case RevisionState.DELIVERED:
                by = asked[(revision.request or 0) - 1]
                assert number in by.carries
                assert by.state is RequestState.COMPLETED
                assert revision.input_sha256 == by.input_sha256
            case RevisionState.NOT_APPLIED:
                assert ended
                assert revision.reason
                assert not after
            case RevisionState.DELIVERY_UNKNOWN:
                assert ended
                assert revision.reason
                assert all(request.state is not RequestState.COMPLETED for request in after)
            case _:
                raise AssertionError(revision)


ACTS: dict[str, Callable[[Scene], None]] = {
    "steer": Scene.steer,
    "stop": Scene.stop,
    "die": Scene.die,
}
PAIRS = [("steer", "steer"), *itertools.permutations(ACTS, 2)]
"""With places in order, both ways round: every order of the two."""


def exhaust(steps: Steps) -> None:
    for _ in steps:
        pass


def play(agent: type[Agent], acts: list[tuple[int, str]]) -> Scene:
    """Let the agent live, with the acts at their places; acts at one place in their order."""
    scene = Scene(agent)
    last, place, going = max(at for at, _ in acts), 0, True
    while going or place <= last:
        for at, act in acts:
            if at == place:
                ACTS[act](scene)
                scene.check()
        going = scene.go_on()
        scene.check()
        place += 1
    return scene


@pytest.mark.slow
@pytest.mark.contract("C9", "C12", "C17", "C18", "C29", "E3", "E4", "E8", "P22")
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("agent", AGENTS)
def test_in_every_order_every_steering_is_carried_settled_or_refused(
    agent: type[Agent], first: str, second: str
) -> None:
    for here, there in itertools.combinations_with_replacement(PLACES, 2):
        scene = play(agent, [(here, first), (there, second)])
        record = scene.world.record(scene.run)
        assert record.state in FINAL
        assert scene.world.slots_of_run(scene.run) == []
        assert len(scene.steered) + len(scene.refused) <= 2
        assert breaches(scene.world.base, scene.world.limits) == []


@pytest.mark.contract("C9", "C10")
@pytest.mark.parametrize("place", PLACES)
def test_a_steering_alone_is_always_delivered_or_came_after_the_end(place: int) -> None:
    """With means left and nothing that outranks it, there is no third way."""
    scene = play(Agent, [(place, "steer")])
    if scene.steered:
        assert scene.world.revision(scene.run, 1).state is RevisionState.DELIVERED
    else:
        assert scene.refused == [Code.RUN_ENDED]


@pytest.mark.contract("C18", "P41")
@pytest.mark.parametrize("place", PLACES)
def test_a_steering_never_turns_a_completed_run_into_anything_else(place: int) -> None:
    scene = play(Agent, [(place, "steer")])
    assert scene.world.record(scene.run).state is RunState.COMPLETED


@pytest.mark.contract("C19", "C24")
@pytest.mark.parametrize("place", PLACES)
def test_a_stop_alone_always_stops_or_came_after_the_end(place: int) -> None:
    scene = play(Agent, [(place, "stop")])
    state = scene.world.record(scene.run).state
    assert state is (RunState.COMPLETED if scene.refused else RunState.STOPPED)


def test_the_places_reach_from_before_the_first_step_to_behind_the_last() -> None:
    fates = [bool(play(Agent, [(place, "stop")]).refused) for place in PLACES]
    assert fates[0] is False
    assert fates[-1] is True
    assert fates == sorted(fates)
    assert fates.count(True) > 1


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_the_orders_come_to_different_ends(agent: type[Agent]) -> None:
    """Else the test of every order would prove little."""
    fates = {
        str(scene.world.revision(scene.run, number).state)
        for places in itertools.product(PLACES, repeat=2)
        for scene in [play(agent, list(zip(places, ("steer", "die"), strict=True)))]
        for number in scene.steered
    }
    assert {"delivered", "not_applied", "delivery_unknown"} <= fates


def test_a_request_that_is_stale_is_built_again() -> None:
    scene = Scene(Agent)
    scene.go_on()
    scene.steer()
    assert scene.world.try_request(scene.run, revision=0) == Stale(revision=1)
    scene.go_on()
    assert scene.world.record(scene.run).requests == 0
    scene.go_on()
    scene.go_on()
    assert scene.world.request(scene.run, 1).carries == (1,)
