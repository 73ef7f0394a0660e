"""A clock that jumps takes nobody for dead, makes no id twice, and loses no order.

Method: the wall clock of the heir leaps forward and back by a year at every reading, while
it settles, executes and admits.
"""

from itertools import cycle

import pytest
from trio.testing import MockClock

from counterpoint.runtime import Config
from counterpoint.runtime.opening import runtime_on
from counterpoint.store.memory_engine import MemoryEngine
from counterpoint.store.owner_lock import OwnersInMemory
from counterpoint.store.verify import verify

from ..runtime.stage import answers, person
from .orphans import LIMITS, ends, left_behind, nothing_is_left, record

YEAR_MS = 365 * 24 * 3_600_000
NOW_MS = 56 * YEAR_MS


@pytest.mark.contract("C30", "C31", "C32", "E5", "E9")
async def test_an_heir_whose_clock_jumps_settles_as_any_other(autojump_clock: MockClock) -> None:
    left = left_behind(10)
    readings = cycle((NOW_MS, NOW_MS + YEAR_MS, NOW_MS - YEAR_MS, 0))
    engine = MemoryEngine(left.image())
    async with runtime_on(
        engine,
        OwnersInMemory(set()),
        agents={"short": answers, "background": answers},
        config=Config(limits=LIMITS),
        clock_ms=lambda: next(readings),
    ) as runtime:
        await runtime.quiet()
        nothing_is_left(engine.committed(), left.orphans)
        ann = await person(runtime)
        begun = [await ann.starts("Hello") for _ in range(3)]
        for run in begun:
            await ann.end_of(run)
        assert begun == sorted(set(begun))
    assert list(verify(engine.crash_image(), LIMITS)) == []
    await engine.aclose()


@pytest.mark.contract("C30")
async def test_an_owner_is_not_dead_because_a_year_has_passed(autojump_clock: MockClock) -> None:
    left = left_behind(5)
    engine = MemoryEngine(left.image())
    alive = {left.owner}
    async with runtime_on(
        engine,
        OwnersInMemory(alive),
        agents={"short": answers},
        config=Config(limits=LIMITS),
        clock_ms=lambda: NOW_MS + YEAR_MS,
    ):
        assert not ends(engine.committed())
        assert record(engine.committed(), left.orphans[0]).owner == left.owner
    await engine.aclose()
