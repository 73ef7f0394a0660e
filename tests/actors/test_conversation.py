"""A conversation's actor gives order, holds nothing that is not stored, and sleeps when idle.

Method: the store's lock is held elsewhere, so that what comes in piles up; then it is let
go and what was committed is compared with what came in.
"""

import pytest
import trio
from trio.testing import MockClock

from counterpoint.actors.kernel import ActorSystem
from counterpoint.runtime import Config, Limits, OutcomeUnknown, Receipt, Runtime

from ..runtime.stage import InMemory, answers, person, run_of

MANY = Config(limits=Limits(capacity={"short": 5_000, "background": 1}))


def actors(runtime: Runtime) -> int:
    system: ActorSystem = runtime._system  # pyright: ignore[reportPrivateUsage]
    return len(system.refs())


@pytest.mark.contract("C15", "E9")
async def test_what_comes_in_is_committed_in_the_order_in_which_it_came() -> None:
    place = InMemory()
    async with place.open({"short": answers}, MANY) as runtime:
        ann = await person(runtime)
        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                for n in range(30):
                    nursery.start_soon(ann.says, f"Message {n}")
                    await trio.testing.wait_all_tasks_blocked()
        entries = [entry.text for entry in (await ann.view()).entries if entry.verb]
        await runtime.quiet()

    assert entries == [f"Message {n}" for n in range(30)]


async def test_it_goes_to_sleep_when_nothing_is_said_and_wakes_when_something_is(
    autojump_clock: MockClock,
) -> None:
    async with InMemory().open({"short": answers}) as runtime:
        asleep = actors(runtime)
        ann = await person(runtime)
        first = await ann.says("Hello", client_id="m-1")
        await ann.end_of(run_of(first))
        await runtime.quiet()
        assert actors(runtime) > asleep
        await trio.sleep(200)
        assert actors(runtime) == asleep
        assert await ann.says("Hello", client_id="m-1") == first
        assert (await ann.end_of(await ann.starts("Awake?"))).answer == "You said: Awake?"
    assert autojump_clock.current_time() < 300


async def test_it_does_not_go_to_sleep_over_what_is_still_on_its_way(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    patience = Config(write_wait_s=1000, ask_wait_s=1000)
    async with place.open({"short": answers}, patience) as runtime:
        ann = await person(runtime)
        receipts: list[Receipt] = []

        async def submit() -> None:
            receipts.append(await ann.says("Hello"))

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                nursery.start_soon(submit)
                await trio.sleep(500)
        assert (await ann.end_of(run_of(receipts[0]))).state == "completed"
    assert autojump_clock.current_time() >= 500


@pytest.mark.contract("C2", "A19", "A20", "P2", "P7", "P17")
async def test_an_outcome_that_does_not_come_in_time_is_unknown_and_found_under_the_id(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    config = Config(write_wait_s=100, ask_wait_s=5)
    async with place.open({"short": answers}, config) as runtime:
        ann = await person(runtime)
        with place.engine.locked_elsewhere():
            for _ in range(6):  # a client that does not wait repeats it unchanged
                with pytest.raises(OutcomeUnknown) as caught:
                    await ann.says("Hello", client_id="m-1")
                assert caught.value.client_id == "m-1"
        found = await runtime.lookup(scope="ann", client_id="m-1")
        assert found is not None
        assert await ann.says("Hello", client_id="m-1") == found
        await ann.end_of(run_of(found))
        assert len((await ann.view()).entries) == 2
    assert autojump_clock.current_time() < 60
