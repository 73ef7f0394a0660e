"""A disk that is full for a while delays the end of a run, and does not lose it.

Method: the disk is full for a minute of a clock that jumps, longer than anything here waits
for by default; meanwhile a run's agent ends, or the person stops it, or the host leaves.
"""

from collections.abc import Generator
from contextlib import contextmanager

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Code, RunContext
from counterpoint.runtime.gateways import Gate
from counterpoint.store.engine import StoreFull
from counterpoint.store.memory_engine import Point

from ..runtime.stage import Agents, InMemory, answers, person, rests

MINUTE_S = 60


class Disk:
    def __init__(self) -> None:
        self.is_full = False

    def __call__(self, point: Point) -> None:
        if self.is_full and point == "commit.before":
            raise StoreFull("no space left")

    @contextmanager
    def full(self) -> Generator[None]:
        self.is_full = True
        yield
        self.is_full = False


class Ends:
    """An agent that ends in some way once it is let go."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.gate = Gate()
        self._error = error

    async def __call__(self, run: RunContext) -> None:
        await self.gate.passed()
        if self._error is not None:
            raise self._error
        await answers(run)


ENDS = {
    "completed": None,
    "failed": RuntimeError("no idea"),
    "failed by leaving": SystemExit(1),
}


@pytest.mark.contract("C32", "C35", "C37", "D19")
@pytest.mark.parametrize("error", ENDS.values(), ids=ENDS)
async def test_the_end_of_a_run_is_recorded_once_there_is_room_again(
    error: BaseException | None, autojump_clock: MockClock
) -> None:
    disk, agent = Disk(), Ends(error)
    async with InMemory(faults=disk).open({"short": answers, "background": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await agent.gate.reached()
        with disk.full():
            agent.gate.release()
            await trio.sleep(MINUTE_S)
            assert (await ann.run(run)).state == "admitted"
        ended = await ann.end_of(run)
        assert not (await runtime.inspect(scope="ann", run=run)).holds_slot

    assert ended.state == ("completed" if error is None else "failed")
    assert autojump_clock.current_time() < MINUTE_S + 15


@pytest.mark.contract("C19", "C32", "C35")
async def test_a_stopped_run_has_stopped_once_there_is_room_again(
    autojump_clock: MockClock,
) -> None:
    disk = Disk()
    async with InMemory(faults=disk).open({"short": rests}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await trio.testing.wait_all_tasks_blocked()

        async def stop_and_fill() -> None:
            await ann.stops(run)
            with disk.full():
                await trio.sleep(MINUTE_S)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_and_fill)
            ended = await ann.end_of(run, within_s=MINUTE_S + 15)

    assert ended.state == "stopped"
    assert autojump_clock.current_time() >= MINUTE_S


@pytest.mark.contract("D20", "D13", "C32")
@pytest.mark.parametrize("error", [None, SystemExit(1)], ids=["rests", "died"])
async def test_leaving_while_the_disk_is_full_is_bounded_and_the_next_start_settles(
    error: BaseException | None, autojump_clock: MockClock
) -> None:
    disk, agent = Disk(), Ends(error)
    place = InMemory(faults=disk)
    agents: Agents = {"short": answers, "background": agent}
    async with place.open(agents) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await agent.gate.reached()
        disk.is_full = True
        if error is not None:
            agent.gate.release()
            await trio.testing.wait_all_tasks_blocked()
    assert autojump_clock.current_time() < MINUTE_S

    disk.is_full = False
    async with place.open({"short": answers, "background": answers}) as runtime:
        ended = await ann.in_runtime(runtime).end_of(run)
    assert (ended.state, ended.answer) == ("completed", "You said: Dig")  # it had sent nothing


@pytest.mark.contract("C2", "C3", "C4", "D19")
async def test_a_person_is_told_at_once_that_the_disk_is_full_and_nothing_is_lost() -> None:
    disk = Disk()
    place = InMemory(faults=disk)
    async with place.open({"short": answers}) as runtime:
        ann = await person(runtime)
        with disk.full(), place.refuses(Code.STORE_FULL) as caught:
            await ann.says("Hello", client_id="m-1")
        assert await runtime.lookup(scope="ann", client_id="m-1") is None
        assert (await ann.end_of(await ann.starts("Hello", client_id="m-1"))).state == "completed"

    assert caught.value.text == "Hello"
    assert caught.value.retry_same_id
