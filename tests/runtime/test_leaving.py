"""Leaving the runtime: nothing more is admitted, runs may end, the rest is interrupted.

Method: the block is left in every way (by its end, by an exception, by cancellation) while
a run is held, with a clock that jumps; the store is then opened again and read.
"""

from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import (
    Agent,
    Code,
    Config,
    Refused,
    RunContext,
    Runtime,
    StoreUnusable,
    open_runtime,
)
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.ids import RunId

from .stage import InMemory, OnDisk, Person, Place, answers, person, plays, rests, run_of


class Left(Exception):
    """What the body of a runtime's block raises here."""


async def drafts(run: RunContext) -> None:
    run.draft("What I have so far")
    await run.save({"pages": 3})
    await rests(run)


@pytest.mark.contract("D20")
async def test_a_run_that_ends_in_time_is_waited_for(autojump_clock: MockClock) -> None:
    place = InMemory()

    async def takes_nine_seconds(run: RunContext) -> None:
        await trio.sleep(9)
        await answers(run)

    async with place.open({"short": takes_nine_seconds}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Hello")
    assert 9 <= autojump_clock.current_time() < 10

    async with place.open({"short": answers}) as runtime:
        assert (await ann.in_runtime(runtime).run(run)).answer == "You said: Hello"


@pytest.mark.contract("D20", "C17", "C21", "D12", "D17")
async def test_a_run_that_does_not_end_in_time_is_interrupted_and_its_draft_is_kept(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    gate = Gate()
    gateway = ScriptedGateway(say(gate))

    async def agent(run: RunContext) -> None:
        run.draft("What I have so far")
        await plays(gateway)(run)

    patient = Agent(agent, when_steered="after_request")
    async with place.open({"short": patient}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Hello")
        await gate.reached()
        await ann.steers(run, "Louder")
    assert 10 <= autojump_clock.current_time() < 12

    async with place.open({"short": answers}) as runtime:
        left = await ann.in_runtime(runtime).run(run)
        inspected = await runtime.inspect(scope="ann", run=run)
        entries = (await ann.in_runtime(runtime).view()).entries
        assert (await ann.in_runtime(runtime).end_of(run)) == left
    assert (left.state, left.reason) == ("interrupted", "host_shutdown")
    assert left.answer == entries[-1].text == "What I have so far"
    assert [(item.state, item.reason) for item in inspected.requests] == [
        ("interrupted", "shutdown")
    ]
    assert [item.state for item in left.revisions] == ["not_applied"]
    assert not inspected.holds_slot


@pytest.mark.contract("D20", "C3", "C4", "C5", "A16")
async def test_while_it_is_being_left_nothing_new_is_taken_in_and_old_ids_are_answered(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Done."))
    patient = Agent(plays(gateway), when_steered="after_request")
    seen: list[str] = []
    async with trio.open_nursery() as nursery:
        async with place.open({"short": patient, "background": rests}) as runtime:
            ann = await person(runtime)
            receipt = await ann.says("Hello", client_id="m-1")
            steered = await ann.steers(run_of(receipt), "Louder", client_id="s-1")
            await gate.reached()

            async def meanwhile() -> None:
                await trio.sleep(1)
                assert await ann.says("Hello", client_id="m-1") == receipt
                assert await ann.steers(run_of(receipt), "Louder", client_id="s-1") == steered
                for verb in (
                    ann.says("New", client_id="m-2"),
                    ann.says("New", client_id="m-2", entry="background"),
                    ann.steers(run_of(receipt), "New", client_id="m-2"),
                    runtime.open_conversation(scope="ann", client_id="m-2"),
                ):
                    with place.refuses(Code.SHUTTING_DOWN) as caught:
                        await verb
                    assert caught.value.retry_same_id
                    seen.append(str(caught.value.text))
                assert await runtime.lookup(scope="ann", client_id="m-2") is None
                await ann.stops(run_of(receipt))

            nursery.start_soon(meanwhile)
        assert autojump_clock.current_time() < 5

    assert seen == ["New"] * 3 + ["None"]
    async with place.open({"short": answers}) as runtime:
        ann = ann.in_runtime(runtime)
        assert (await ann.run(run_of(receipt))).state == "stopped"
        assert (await ann.end_of(await ann.starts("New", client_id="m-2"))).state == "completed"


@pytest.mark.contract("D20")
async def test_an_exception_of_the_body_leaves_as_itself(place: Place) -> None:
    async def life() -> None:
        async with place.open({"short": answers}) as runtime:
            await person(runtime)
            raise Left

    with pytest.raises(Left):
        await life()
    async with place.open({"short": answers}) as runtime:
        assert len(await runtime.conversations(scope="ann")) == 1


async def test_a_refusal_in_the_body_leaves_as_itself(place: Place) -> None:
    with pytest.raises(Refused) as caught:
        async with place.open({"short": answers}) as runtime:
            await runtime.view_run(scope="ann", run="r")
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.contract("D20", "C32")
async def test_an_exception_of_the_body_interrupts_what_does_not_end_in_time(
    autojump_clock: MockClock,
) -> None:
    store = InMemory()
    people: list[tuple[Person, str]] = []

    async def life() -> None:
        async with store.open({"short": drafts}) as runtime:
            ann = await person(runtime)
            people.append((ann, await ann.starts("Hello")))
            raise Left

    with pytest.raises(Left):
        await life()
    assert autojump_clock.current_time() < 15

    [(ann, run)] = people
    async with store.open({"short": answers}) as runtime:
        left = await ann.in_runtime(runtime).run(run)
    assert (left.reason, left.answer) == ("host_shutdown", "What I have so far")


@pytest.mark.contract("D20", "C32", "C37")
async def test_cancelling_the_block_interrupts_its_runs_at_once(place: Place) -> None:
    begun: list[tuple[Person, RunId]] = []
    drafted = Gate()

    async def agent(run: RunContext) -> None:
        run.draft("What I have so far")
        await drafted.passed()

    with trio.CancelScope() as scope:
        async with place.open({"short": agent}) as runtime:
            ann = await person(runtime)
            begun.append((ann, await ann.starts("Hello")))
            await drafted.reached()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught

    [(ann, run)] = begun
    async with place.open({"short": answers}) as runtime:
        ann = ann.in_runtime(runtime)
        left = await ann.run(run)
        assert (left.state, left.reason) == ("interrupted", "host_shutdown")
        assert left.answer == "What I have so far"
        assert (await ann.end_of(await ann.starts("Hello again"))).state == "completed"


async def test_a_block_that_is_cancelled_and_raises_raises_what_it_raised() -> None:
    async def life() -> None:
        with trio.CancelScope() as scope:
            async with InMemory().open({"short": rests}) as runtime:
                ann = await person(runtime)
                await ann.starts("Hello")
                scope.cancel()
                raise Left

    with pytest.raises(Left):
        await life()


@pytest.mark.contract("C3", "C4")
async def test_after_the_block_every_verb_refuses_and_no_driver_s_error_shows(
    place: Place,
) -> None:
    async with place.open({"short": answers}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Hello", client_id="m-1")
        await ann.end_of(run)

    for verb in (
        lambda: ann.says("New"),
        lambda: ann.steers(run, "New"),
        lambda: ann.stops(run),
        lambda: runtime.open_conversation(scope="ann", client_id="new"),
        lambda: runtime.lookup(scope="ann", client_id="m-1"),
        ann.view,
        ann.events,
        lambda: ann.run(run),
        lambda: runtime.wait(scope="ann", run=run),
        lambda: runtime.inspect(scope="ann", run=run),
        lambda: runtime.export_request(scope="ann", run=run, ordinal=1),
        lambda: runtime.conversations(scope="ann"),
    ):
        with pytest.raises(Refused) as caught:
            await verb()
        assert caught.value.code in (Code.SHUTTING_DOWN, Code.STORE_UNAVAILABLE)


async def test_runtimes_on_two_stores_know_nothing_of_each_other(tmp_path: Path) -> None:
    async with (
        open_runtime(tmp_path / "one", agents={"short": answers}) as one,
        open_runtime(tmp_path / "two", agents={"short": answers}) as two,
    ):
        ann, bob = await person(one), await person(two)
        first = await ann.says("Hello", client_id="m-1")
        second = await bob.says("Good day", client_id="m-1")
        assert (await ann.end_of(run_of(first))).answer == "You said: Hello"
        assert (await bob.end_of(run_of(second))).answer == "You said: Good day"
        with pytest.raises(Refused):
            await Runtime.view_run(two, scope="ann", run=run_of(first))


async def test_what_can_t_be_opened_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(StoreUnusable):
        async with open_runtime(file, agents={"short": answers}):
            pytest.fail("it was opened")
    assert file.read_text() == "not a folder"

    with pytest.raises(ValueError, match="'short'"):
        async with open_runtime(tmp_path / "store", agents={}):
            pytest.fail("it was opened")


async def test_a_store_that_is_open_here_already_can_t_be_opened_twice(tmp_path: Path) -> None:
    place = OnDisk(tmp_path / "store")
    async with place.open({"short": answers}) as runtime:
        with pytest.raises(StoreUnusable):
            async with place.open({"short": answers}):
                pytest.fail("it was opened")
        ann = await person(runtime)
        await ann.end_of(await ann.starts("Hello"))


@pytest.mark.parametrize("field", ["write_wait_s", "drain_s", "live_runs_max", "map_bytes"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_configuration_that_makes_no_sense_is_refused_when_it_is_built(
    field: str, value: int
) -> None:
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({field: value}, Config)
