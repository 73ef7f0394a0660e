"""A fault at one record that is settled touches no other, and the next pass finishes it.

Method: a hundred runs of a process that goes, in every stage; one or two runtimes notice at
the same moment, on an engine in memory on which every tenth of them raises, and every third
commit fails: refused by a full disk, failed, or stored without anybody being told so.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from counterpoint.runtime import Config
from counterpoint.runtime.opening import runtime_on
from counterpoint.store import keys, settlement
from counterpoint.store.engine import (
    OutcomeInDoubt,
    StoreError,
    StoreFailed,
    StoreFull,
    Transaction,
    Txn,
)
from counterpoint.store.memory_engine import Image, MemoryEngine, Point
from counterpoint.store.owner_lock import OwnersInMemory

from ..runtime.stage import InMemory, answers
from .orphans import LIMITS, Left, adoptions, ends, left_behind, nothing_is_left, record

T = TypeVar("T")

AGENTS = {"short": answers, "background": answers}
CONFIG = Config(limits=LIMITS)
PASS_S = CONFIG.settle_every_s


class FailingEngine(MemoryEngine):
    """Once it is armed, every tenth run that is settled fails by itself, and every third
    commit with all that shares it, in each way by turns."""

    FAULTS: tuple[tuple[Point, Callable[[], StoreError]], ...] = (
        ("commit.before", lambda: StoreFull("the disk is full")),
        ("commit.before", lambda: StoreFailed("the disk failed")),
        ("commit.after", lambda: OutcomeInDoubt("nobody knows")),
    )

    def __init__(self, image: Image) -> None:
        super().__init__(image, faults=self._fail_commit)
        self.armed = False
        self.commits = 0
        self.settled = 0
        self.faults = 0

    def _fail_commit(self, point: Point) -> None:
        if not self.armed:
            return
        self.commits += point == "commit.before"
        where, fault = self.FAULTS[self.commits // 3 % len(self.FAULTS)]
        if self.commits % 3 == 0 and point == where:
            self.faults += 1
            raise fault()

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        settles = getattr(transaction, "func", None) is settlement.settle
        self.settled += settles and self.armed
        if settles and self.armed and self.settled % 10 == 0:
            self.faults += 1
            transaction = partial(_fail_record, transaction)
        return await super().write(transaction, deadline=deadline)


def _fail_record(transaction: Transaction[T], txn: Txn) -> T:
    transaction(txn)
    raise ValueError("this record can't be settled")


@pytest.mark.slow
@pytest.mark.contract("C31", "C32", "C35", "E5", "E6", "P86", "P99")
@pytest.mark.parametrize("settlers", [1, 2])
async def test_of_a_hundred_orphans_each_is_settled_once_though_every_tenth_of_them_fails(
    settlers: int, autojump_clock: MockClock
) -> None:
    left = left_behind(100)
    engine, alive = FailingEngine(left.image()), {left.owner}

    async def settle() -> None:
        owners = OwnersInMemory(alive)
        async with runtime_on(engine, owners, agents=AGENTS, config=CONFIG):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(settlers):
            nursery.start_soon(settle)
        await trio.testing.wait_all_tasks_blocked()
        engine.armed = True
        alive.discard(left.owner)
        await trio.sleep(PASS_S * 1.5)
        engine.armed = False
        assert engine.faults >= 10
        ended = ends(engine.committed())
        assert 10 <= len(ended) < 100 or settlers == 2
        assert max(ended.values()) == 1
        await trio.sleep(PASS_S)  # the next pass
        image = engine.committed()
        nothing_is_left(image, left.orphans)
        assert max(adoptions(image).values()) == 1
        assert image.get(keys.owner(left.owner)) is None
        nursery.cancel_scope.cancel()
    await engine.aclose()


def records_of(left: Left) -> list[bytes]:
    """Return the keys of all that belongs to one run of each stage, and of its conversation."""
    stages = left.orphans[:5]
    found = [key for key in left.world.base.values if any(run.encode() in key for run in stages)]
    conversation = left.world.record(stages[0]).conversation
    return sorted([*found, keys.conversation(conversation)])


@pytest.mark.slow
@pytest.mark.contract("C31", "C32")
@pytest.mark.parametrize("damage", [None, b"\xff"], ids=["removed", "rubbish"])
async def test_whatever_record_of_a_run_is_broken_the_others_are_settled(
    damage: bytes | None, autojump_clock: MockClock
) -> None:
    for key in records_of(left_behind(5)):
        left = left_behind(10)
        engine = MemoryEngine(left.image().changed([(key, damage)]))
        alive = OwnersInMemory(set())
        async with runtime_on(engine, alive, agents=AGENTS, config=CONFIG) as runtime:
            await runtime.quiet()
            image = engine.committed()
            others = left.orphans[5:]
            assert all(ends(image)[run] == 1 for run in others), key
            opened = await runtime.open_conversation(scope="new", client_id="c-1")
            assert opened.version == 1
        await engine.aclose()


@pytest.mark.contract("C31", "C32")
async def test_a_host_of_which_no_record_can_be_read_is_still_a_host(
    autojump_clock: MockClock,
) -> None:
    left = left_behind(5)
    place = InMemory(left.image().changed([(keys.owner(left.owner), b"\xff")]))
    async with place.open(AGENTS, CONFIG) as runtime:
        await runtime.quiet()
        assert ends(place.engine.committed()).keys() == set(left.orphans)


@pytest.mark.contract("C31", "D13")
@pytest.mark.parametrize("page", [1, 3, 20])
async def test_however_many_are_looked_at_at_once_all_are_settled(
    page: int, autojump_clock: MockClock
) -> None:
    left = left_behind(10)
    place = InMemory(left.image())
    config = Config(limits=replace(LIMITS, settle_page=page))
    async with place.open(AGENTS, config) as runtime:
        await runtime.quiet()
        nothing_is_left(place.engine.committed(), left.orphans)


@pytest.mark.contract("C32", "D13")
async def test_runs_whose_agent_the_heir_does_not_have_are_interrupted_and_say_so() -> None:
    left = left_behind(10, resumes=True)
    place = InMemory(left.image())
    async with place.open({"short": answers}, CONFIG) as runtime:
        await runtime.quiet()
        image = place.engine.committed()
        nothing_is_left(image, left.orphans)
        for run in (record(image, run) for run in left.orphans if run in adoptions(image)):
            assert (run.agent, str(run.state)) == ("short", "completed"), run
        lost = [record(image, run) for run in left.orphans[4::5]]
    assert [str(run.state) for run in lost] == ["interrupted"] * 2
    assert all("No agent named 'background'" in run.detail for run in lost)
