"""The supervisor settles the runs of processes that are gone, each by itself, again and again.

Method: a process leaves runs behind (the image of a crash), some of them damaged; others
open the store, one or several at once, and what they make of each run is looked at.
"""

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store import keys
from counterpoint.store.engine import StoreFailed
from counterpoint.store.ids import RunId
from counterpoint.store.memory_engine import Image, Point

from ..runtime.stage import InMemory, Person, answers, person, plays, rests


async def left_behind(count: int) -> tuple[Image, Person, list[RunId]]:
    """Return a store whose process died in the midst of `count` runs."""
    place = InMemory()
    gateway = ScriptedGateway(say(Gate(), lasting=True))
    async with place.open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)
        runs = [await ann.starts(f"Dig {n}") for n in range(count)]
        await trio.testing.wait_all_tasks_blocked()
        image = place.engine.crash_image()
        for run in runs:
            await ann.stops(run)
    return image, ann, runs


@pytest.mark.contract("C32", "C35", "D13", "A61b")
async def test_before_it_opens_every_run_that_was_left_is_settled_and_its_slot_free() -> None:
    image, ann, runs = await left_behind(3)
    async with InMemory(image).open({"short": rests}) as runtime:
        ann = ann.in_runtime(runtime)
        for run in runs:
            left = await ann.run(run)
            assert (left.state, left.reason) == ("interrupted", "owner_lost")
        begun = [await ann.starts(f"Again {n}") for n in range(3)]
        for run in begun:
            await ann.stops(run)


@pytest.mark.contract("C31", "E5", "P86", "P99")
async def test_two_that_come_at_once_settle_each_run_once() -> None:
    image, ann, runs = await left_behind(3)
    place = InMemory(image)
    async with place.open({"short": answers}) as one, place.open_beside({"short": answers}):
        ann = ann.in_runtime(one)
        for run in runs:
            assert len(await ann.events("run_ended", run=run)) == 1


@pytest.mark.contract("C31", "P86")
async def test_a_fault_at_one_of_them_does_not_touch_the_others_and_is_tried_again(
    autojump_clock: MockClock,
) -> None:
    image, ann, runs = await left_behind(3)
    left = 2  # the registration of the process, then all of them at once, then one by itself

    def fault(point: Point) -> None:
        nonlocal left
        if point == "commit.before":
            left -= 1
            if left in (0, -1):
                raise StoreFailed("the disk says no")

    async with InMemory(image, faults=fault).open({"short": answers}) as runtime:
        ann = ann.in_runtime(runtime)
        states = [(await ann.run(run)).state for run in runs]
        assert sorted(states) == ["interrupted", "interrupted", "running"]
        for run in runs:
            assert (await ann.end_of(run)).state == "interrupted"
    assert autojump_clock.current_time() < 5


@pytest.mark.contract("C31", "E12")
async def test_a_run_that_does_not_decode_does_not_keep_the_others_from_being_settled() -> None:
    image, ann, runs = await left_behind(3)
    damaged = image.changed([(keys.run(runs[1]), b"\xc1 damaged")])
    place = InMemory(damaged)

    ends: list[tuple[str, str | None]] = []

    async def life() -> None:
        async with place.open({"short": answers}) as runtime:
            for run in (runs[0], runs[2]):
                left = await ann.in_runtime(runtime).run(run)
                ends.append((left.state, left.reason))

    with pytest.raises(AssertionError):  # the stage verifies the store in the end
        await life()
    assert ends == [("interrupted", "owner_lost")] * 2
