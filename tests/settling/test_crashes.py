"""A crash while runs are settled, resumed, promoted, stopped or ended leaves nothing undone.

Method: a process opens a store in which another left a run in every stage. Its agents
promote their runs and work on; a person stops one. It dies before or after its first
commit, then its second, and so on until nothing is left to do; what was then on disk must
keep what always holds, and is opened by a third process, after which every run has ended
once and no slot is held. The engine itself counts the commits, so none is left out.
"""

from contextlib import suppress

import pykka
import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Agent, Config, OutcomeUnknown, Refused, RunContext
from counterpoint.runtime.gateways import ScriptedGateway, say
from counterpoint.store.ids import RunId
from counterpoint.store.limits import Limits
from counterpoint.store.memory_engine import Crash, Image, Point
from counterpoint.store.records import EventKind
from counterpoint.store.verify import verify

from ..runtime.stage import Agents, InMemory, as_input
from .orphans import LIMITS, Left, events, left_behind, nothing_is_left, record

CONFIG = Config(limits=LIMITS)


async def works(run: RunContext) -> None:
    """Ask, do something that may happen once, ask for the background, save, and answer."""
    gateway = ScriptedGateway(say("On it.", lasting=True))

    async def post(arguments: dict[str, str], operation_id: str) -> str:
        return operation_id

    async for turn in run.turns():
        await turn.request(gateway, lambda added: as_input(run, added))
        await turn.effect("post", {"to": "Bob"}, do=post, repeat="once")
        await run.promote()
        await run.save(turn.number)
        await run.complete("Done.")


AGENTS: Agents = {
    "short": Agent(works, on_owner_loss="resume"),
    "background": Agent(works, on_owner_loss="resume"),
}


class DyingAt:
    """Lets the process die at the `at`-th time that a point is reached."""

    def __init__(self, point: Point, at: int) -> None:
        self._point = point
        self._left = at
        self.died = False

    def __call__(self, point: Point) -> None:
        self._left -= point == self._point
        if self._left == 0 and not self.died:
            self.died = True
            raise Crash(f"at {point}")


async def _live(place: InMemory, left: Left) -> None:
    """Look after what is left, and stop one of the runs meanwhile."""
    async with place.open(AGENTS, CONFIG) as runtime:
        run = left.orphans[0]
        with suppress(Refused):  # it has ended
            await runtime.stop(scope="scope-0", run=run, client_id="stop-1")
        await runtime.quiet()


def heir_lives(left: Left, image: Image, faults: DyingAt | None = None) -> Image:
    place = InMemory(image, faults=faults)
    try:
        trio.run(_live, place, left, clock=MockClock(autojump_threshold=0))
    except* (Crash, pykka.ActorDeadError, OutcomeUnknown):
        assert faults is not None
        assert faults.died
    return place.engine.crash_image()


@pytest.mark.slow
@pytest.mark.contract(
    "B48", "B49", "C23", "C24", "C31", "C32", "C36", "C37", "D10", "D13", "E5", "E6"
)
@pytest.mark.parametrize("resumes", [False, True], ids=["interrupts", "resumes"])
@pytest.mark.parametrize("when", ["commit.before", "commit.after"])
def test_whenever_an_heir_dies_the_next_finishes_its_work(when: Point, resumes: bool) -> None:
    left = left_behind(5, resumes=resumes)
    at = 0
    while True:
        at += 1
        faults = DyingAt(when, at)
        image = heir_lives(left, left.image(), faults)
        assert list(verify(image, LIMITS)) == []
        if not faults.died:
            break
        image = heir_lives(left, image)
        nothing_is_left(image, left.orphans)
        stopped = record(image, left.orphans[3])
        assert (str(stopped.state), str(stopped.reason)) == ("stopped", "user_stop")
    nothing_is_left(image, left.orphans)
    assert at > 5


TIGHT = Limits(capacity={"short": 2, "background": 1})
"""So that of two that ask for the background, one has to stay short."""


class Asked:
    """What a person was told before the process died."""

    def __init__(self) -> None:
        self.runs: list[RunId] = []


async def _ask(place: InMemory, asked: Asked) -> None:
    async with place.open(AGENTS, Config(limits=TIGHT)) as runtime:
        opened = await runtime.open_conversation(scope="ann", client_id="c-1")
        for n in range(2):
            receipt = await runtime.submit(
                scope="ann", conversation=opened.conversation, client_id=f"m-{n}", text="Dig"
            )
            assert receipt.run is not None
            asked.runs.append(receipt.run)
        await runtime.quiet()


def _asked(place: InMemory, asked: Asked) -> Image:
    try:
        trio.run(_ask, place, asked, clock=MockClock(autojump_threshold=0))
    except* Crash:
        pass
    return place.engine.crash_image()


@pytest.mark.slow
@pytest.mark.contract("B48", "B49", "C6", "C32", "C36", "C37", "D10", "D13", "E5", "E6", "E10")
@pytest.mark.parametrize("when", ["commit.before", "commit.after"])
def test_whenever_a_process_dies_in_a_promotion_the_run_has_one_slot_and_then_none(
    when: Point,
) -> None:
    at = 0
    while True:
        at += 1
        faults, asked = DyingAt(when, at), Asked()
        image = _asked(InMemory(faults=faults), asked)
        assert list(verify(image, TIGHT)) == []
        if not faults.died:
            break
        again = Asked()
        image = _asked(InMemory(image), again)  # the same ids: the same runs, none anew
        assert again.runs[: len(asked.runs)] == asked.runs
        nothing_is_left(image, again.runs)
    assert at > 10
    kinds = [event.kind for event in events(image)]
    assert kinds.count(EventKind.RUN_PROMOTED) == 1 or EventKind.PROMOTION_REFUSED not in kinds
