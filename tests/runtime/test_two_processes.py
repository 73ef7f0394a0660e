"""Two host processes on one store: each hears of what the other does, and one may vanish.

Method: two runtimes on one engine in memory, each an owner of its own. That one has died is
a set of who is alive from which it is taken; its tasks are then frozen, as far as anybody
outside can tell. What each of them does is compared with what the other then shows.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Agent, Code, Config, RunContext, StreamedText
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

from .stage import Agents, InMemory, Person, answers, person, plays, rests, user_words
from .test_subscribers import Heard, listen

SECONDS = 2 + 0.25
"""How soon another process's death, or its commit, is noticed: `settle_every_s`, `poll_s`."""


@asynccontextmanager
async def two(
    place: InMemory, first: Agents, second: Agents | None = None, config: Config | None = None
) -> AsyncGenerator[tuple[Person, Person], None]:
    """The same person, in a conversation of hers, talking to either of two processes."""
    async with (
        place.open(first, config) as one,
        place.open_beside(second or first, config) as other,
    ):
        ann = await person(one)
        yield ann, ann.in_runtime(other)


@pytest.mark.contract("C19", "B8", "B45", "P67", "P71")
async def test_a_stop_in_one_process_ends_the_run_of_the_other(autojump_clock: MockClock) -> None:
    gate = Gate()
    async with two(InMemory(), {"short": plays(ScriptedGateway(say(gate)))}) as (here, there):
        run = await here.starts("Dig")
        await gate.reached()
        await there.stops(run)
        assert (await there.end_of(run)).state == "stopped"
        assert await here.run(run) == await there.run(run)
    assert autojump_clock.current_time() < SECONDS


@pytest.mark.contract("C12", "C15", "B26", "B33")
async def test_a_steering_in_one_process_reaches_the_run_of_the_other() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Half", gate), say("Done."))
    patient = Agent(plays(gateway), when_steered="after_request")
    agents: Agents = {"short": answers, "background": patient}
    async with two(InMemory(), agents) as (here, there):
        run = await here.researches("Compare")
        await gate.reached()
        await here.steers(run, "One")
        await there.steers(run, "Two")
        await here.steers(run, "Three")
        gate.release()
        ended = await there.end_of(run)

    assert [revision.text for revision in ended.revisions] == ["One", "Two", "Three"]
    assert user_words(gateway.received[1].model_input) == ["Compare", "One", "Two", "Three"]


@pytest.mark.contract("C42", "C43", "E5", "P71")
async def test_both_processes_hear_the_same_events_once(autojump_clock: MockClock) -> None:
    gate = Gate()
    heard: Heard = []
    heard_there: Heard = []
    gateway = ScriptedGateway(say("Tea ", gate, "grows."))
    async with two(InMemory(), {"short": plays(gateway)}) as (here, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, here, heard)
            nursery.start_soon(listen, there, heard_there)
            run = await here.starts("Tea?")
            await gate.reached()
            gate.release()
            assert (await there.end_of(run)).answer == "Tea grows."
        everything = await here.events()

    assert [event for event in heard if not isinstance(event, StreamedText)] == everything
    assert heard_there == everything  # streamed text does not travel between processes
    assert autojump_clock.current_time() < SECONDS


@pytest.mark.contract("C6", "A16", "E2", "P2", "P16")
async def test_the_same_submissions_through_both_at_once_are_one() -> None:
    receipts: list[object] = []
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Done.", lasting=True))
    async with two(InMemory(), {"short": plays(gateway)}) as (here, there):

        async def submit(who: Person) -> None:
            receipts.append(await who.says("Hello", client_id="m-1"))

        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(submit, (here, there)[n % 2])
        await gate.reached()
        await trio.testing.wait_all_tasks_blocked()
        assert len((await here.view()).live) == 1
        gate.release()
        [run] = (await here.view()).live
        await here.end_of(run)

    assert receipts == receipts[:1] * 50
    assert len(gateway.received) == 1


@pytest.mark.contract("B45", "D9", "C35")
async def test_slots_are_of_the_scope_in_both_processes_together() -> None:
    place = InMemory()
    async with two(place, {"short": rests}) as (here, there):
        held = [await here.starts("1"), await there.starts("2"), await here.starts("3")]
        with place.refuses(Code.CAPACITY_FULL) as caught:
            await there.says("4")
        assert sorted(caught.value.facts["holders"]) == sorted(held)
        await there.stops(held[0])
        await there.end_of(held[0])
        fourth = await there.starts("4")
        for run in (held[1], held[2], fourth):
            await here.stops(run)
            await here.end_of(run)


# One of the two vanishes.


class Doomed:
    """A process that dies: it is not alive any more, and nothing it does comes out."""

    def __init__(self, place: InMemory, agents: Agents) -> None:
        self._place = place
        self._agents = agents

    async def live(self, *, task_status: trio.TaskStatus[Person]) -> None:
        before = set(self._place.alive)
        async with self._place.open_beside(self._agents) as runtime:
            [self._owner] = self._place.alive - before
            task_status.started(await person(runtime))
            await trio.sleep_forever()

    def die(self) -> None:
        self._place.alive.discard(self._owner)


@pytest.mark.contract("C30", "C32", "D13", "A61b", "E8", "C29", "P97")
async def test_a_run_that_had_sent_a_request_is_interrupted_by_who_is_left(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    gate = Gate()
    gateway = ScriptedGateway(say("Half", gate), say("Never."))
    agents = {"short": answers, "background": plays(gateway)}
    async with place.open(agents) as runtime, trio.open_nursery() as nursery:
        doomed = Doomed(place, agents)
        ann = await nursery.start(doomed.live)
        run = await ann.researches("Dig")
        await gate.reached()
        doomed.die()
        left = ann.in_runtime(runtime)
        ended = await left.end_of(run)
        gate.release()  # whoever was taken for dead comes to life again, and is shut out
        again = await left.starts("Dig again", entry="background")
        await left.stops(again)
        await left.end_of(again)
        assert await left.run(run) == ended
        assert len(await left.events("run_ended", run=run)) == 1
        inspected = await runtime.inspect(scope="ann", run=run)
        nursery.cancel_scope.cancel()

    assert (ended.state, ended.reason) == ("interrupted", "owner_lost")
    assert [(item.state, item.reason) for item in inspected.requests] == [("unknown", "owner_lost")]
    assert not inspected.holds_slot
    assert autojump_clock.current_time() < 5


@pytest.mark.contract("D13", "C32", "A61", "P4")
async def test_a_run_that_had_sent_nothing_is_executed_by_who_is_left(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    executed: list[str] = []

    async def waits(run: RunContext) -> None:
        executed.append("by the first")
        await rests(run)

    async def works(run: RunContext) -> None:
        executed.append("by the second")
        await answers(run)

    async with place.open({"short": works}) as runtime, trio.open_nursery() as nursery:
        doomed = Doomed(place, {"short": waits})
        ann = await nursery.start(doomed.live)
        receipt = await ann.says("Dig", client_id="m-1")
        doomed.die()
        left = ann.in_runtime(runtime)
        assert receipt.run is not None
        ended = await left.end_of(receipt.run)
        assert await left.says("Dig", client_id="m-1") == receipt
        assert len(await left.events("run_adopted")) == 1
        nursery.cancel_scope.cancel()

    assert executed == ["by the first", "by the second"]
    assert (ended.state, ended.answer) == ("completed", "You said: Dig")
    assert autojump_clock.current_time() < 5


@pytest.mark.contract("C23", "C24", "A61c", "D17")
async def test_the_stop_of_a_run_whose_process_is_gone_ends_it_at_once() -> None:
    place = InMemory()
    gate = Gate()
    agents = {"short": plays(ScriptedGateway(say(gate)))}
    async with place.open(agents) as runtime, trio.open_nursery() as nursery:
        doomed = Doomed(place, agents)
        ann = await nursery.start(doomed.live)
        run = await ann.starts("Dig")
        await gate.reached()
        doomed.die()
        left = ann.in_runtime(runtime)
        await left.stops(run)
        ended = await left.run(run)
        assert not (await runtime.inspect(scope="ann", run=run)).holds_slot
        nursery.cancel_scope.cancel()

    assert (ended.state, ended.reason) == ("stopped", "user_stop")


@pytest.mark.contract("C31", "C32", "E5", "E6", "P86", "P99")
async def test_many_orphans_are_settled_once_each_by_whoever_comes_first(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    gate = Gate()
    gateway = ScriptedGateway(say(gate, lasting=True))
    agents = {"short": plays(gateway)}
    async with (
        place.open({"short": answers}) as runtime,
        place.open_beside({"short": answers}),
        trio.open_nursery() as nursery,
    ):
        doomed = Doomed(place, agents)
        ann = await nursery.start(doomed.live)
        begun = [await ann.starts(str(n)) for n in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        doomed.die()
        left = ann.in_runtime(runtime)
        ended = [await left.end_of(run) for run in begun]
        kinds = [event.kind for event in await left.events("run_ended", "run_adopted")]
        for n in range(3):
            await left.end_of(await left.starts(f"More {n}"))
        nursery.cancel_scope.cancel()

    assert [run.reason for run in ended] == ["owner_lost"] * 3
    assert kinds == ["run_ended"] * 3
    assert autojump_clock.current_time() < 5


@pytest.mark.contract("C30", "P74")
async def test_an_owner_that_is_slow_is_not_taken_for_dead(autojump_clock: MockClock) -> None:
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Done."))
    async with two(InMemory(), {"short": plays(gateway)}) as (here, there):
        run = await here.starts("Dig")
        await gate.reached()
        await trio.sleep(100)
        assert (await there.run(run)).state == "running"
        gate.release()
        assert (await there.end_of(run)).state == "completed"
    assert autojump_clock.current_time() >= 100
