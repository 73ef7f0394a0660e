"""A stop is accepted, then the run has stopped: two facts, and nothing goes out in between.

Method: an agent is held at every kind of place where a run can be (before its first
request, in a request, in an effect, between turns, in `complete`), and is stopped there.
"""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Call, Code, Refused, RunContext
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.views import RunView

from .stage import InMemory, Person, Place, answers, as_input, person, plays, rests

LOOK = Call(call_id="1", name="look", arguments={})


class Held:
    """An agent that waits at one place, and a tool and a gateway that it goes through."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.gate = Gate()
        self.effects = 0
        self.gateway = ScriptedGateway(
            say("Let me ", *self._gate_if("request"), "look.", LOOK), say("Done.", lasting=True)
        )

    def _gate_if(self, place: str) -> list[Gate]:
        return [self.gate] if self.place == place else []

    async def hold(self, place: str) -> None:
        if self.place == place:
            await self.gate.passed()

    async def look(self, _: dict[str, Any]) -> str:
        await self.hold("effect")
        self.effects += 1
        return "seen"

    async def __call__(self, run: RunContext) -> None:
        await self.hold("start")
        async for turn in run.turns():
            reply = await turn.request(self.gateway, lambda added: as_input(run, added))
            for call in reply.calls:
                await turn.effect(call.name, call.arguments, do=self.look)
            await self.hold("between turns")
            if reply.final:
                await self.hold("before complete")
                await run.complete(reply.text)


async def stopped(ann: Person, run: str) -> RunView:
    """Stop it, and check what holds of every stop."""
    receipt = await ann.stops(run)
    accepted = await ann.run(run)
    assert not accepted.stoppable
    assert not accepted.steerable
    ended = await ann.end_of(run)
    kinds = [event.kind for event in await ann.events(run=run)]
    after = kinds[kinds.index("stop_accepted") :]
    assert "request_started" not in after
    assert "effect_started" not in after
    assert after[-1] == "run_ended"
    assert after.count("run_ended") == 1
    assert (ended.state, ended.reason, ended.answer) == ("stopped", "user_stop", None)
    assert not (await ann.runtime.inspect(scope="ann", run=run)).holds_slot
    assert (receipt.verb, receipt.run) == ("stop", run)
    return ended


PLACES = {  # place: requests and effects that had gone out
    "start": (0, 0),
    "request": (1, 0),
    "effect": (1, 1),
    "between turns": (1, 1),
    "before complete": (2, 1),
}


@pytest.mark.contract("C19", "B18", "B65", "D17", "E4", "E5", "P61")
@pytest.mark.parametrize("place", PLACES)
async def test_wherever_a_run_is_it_is_stopped_there_and_nothing_more_goes_out(place: str) -> None:
    agent = Held(place)
    async with InMemory().open({"short": answers, "background": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await agent.gate.reached()
        ended = await stopped(ann, run)
        again = await ann.researches("Dig again")  # its slot is free
        agent.gate.release()
        assert (await ann.end_of(again)).state == "completed"

    assert (ended.requests, ended.effects) == PLACES[place]


@pytest.mark.contract("C17", "C19", "C21", "B62", "B66", "C33")
async def test_what_a_stop_cuts_is_listed_as_what_it_is() -> None:
    for place, requests, effects in (
        ("request", [("interrupted", "stop", None)], []),
        ("effect", [("completed", "", None)], ["unknown"]),
    ):
        agent = Held(place)
        async with InMemory().open({"short": answers, "background": agent}) as runtime:
            ann = await person(runtime)
            run = await ann.researches("Dig")
            await agent.gate.reached()
            await stopped(ann, run)
            inspected = await runtime.inspect(scope="ann", run=run)
            accepted, ended = await ann.events("stop_accepted", "run_ended")

        found = [(item.state, item.reason, item.input_tokens) for item in inspected.requests]
        assert found == requests
        assert [item.state for item in inspected.effects] == effects
        under_way = [1] if place == "request" else []
        assert accepted.facts["requests"] == ended.facts["cancelled_requests"] == under_way
        assert accepted.facts["effects"] == ended.facts["unknown_effects"] == [1] * len(effects)


@pytest.mark.contract("C20", "P52")
async def test_a_stop_before_the_first_request_means_that_none_is_ever_sent(place: Place) -> None:
    """The stop is accepted before the agent's request is recorded, though the agent has
    asked for it already."""
    gateway = ScriptedGateway(say("Never."))
    gate = Gate()

    async def agent(run: RunContext) -> None:
        await gate.passed()
        with trio.CancelScope(shield=True):  # it does not hear of the stop in any other way
            async for turn in run.turns():
                await turn.request(gateway, lambda added: as_input(run, added))

    async with place.open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await gate.reached()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ann.stops, run)
            await trio.testing.wait_all_tasks_blocked()
            gate.release()
        ended = await ann.end_of(run)

    assert gateway.received == ()
    assert (ended.state, ended.requests) == ("stopped", 0)


@pytest.mark.contract("C19", "D17", "C24", "P54")
@pytest.mark.parametrize("stop_first", [True, False])
async def test_a_stop_that_comes_before_the_completion_wins_and_after_it_is_refused(
    *, stop_first: bool
) -> None:
    """Both are on their way to the store at once, in either order."""
    place = InMemory()
    agent = Held("before complete")
    refused: list[Code] = []
    async with place.open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await agent.gate.reached()

        async def stop() -> None:
            try:
                await ann.stops(run)
            except Refused as error:
                refused.append(error.code)

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                if stop_first:
                    nursery.start_soon(stop)
                    await trio.testing.wait_all_tasks_blocked()
                agent.gate.release()
                await trio.testing.wait_all_tasks_blocked()
                if not stop_first:
                    nursery.start_soon(stop)
                    await trio.testing.wait_all_tasks_blocked()
        ended = await ann.end_of(run)

    assert ended.state == ("stopped" if stop_first else "completed")
    assert (ended.answer is None) == stop_first
    assert refused == ([] if stop_first else [Code.RUN_ENDED])


@pytest.mark.contract("C24", "B71", "C3", "C18")
async def test_a_run_that_stops_or_has_stopped_takes_no_steering() -> None:
    place = InMemory()
    async with place.open({"short": rests}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                nursery.start_soon(ann.stops, run)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(_is_refused, ann, run, Code.RUN_STOPPING)
                await trio.testing.wait_all_tasks_blocked()
        await ann.end_of(run)
        await _is_refused(ann, run, Code.RUN_ENDED)
        assert (await ann.run(run)).revisions == ()


async def _is_refused(ann: Person, run: str, code: Code) -> None:
    with pytest.raises(Refused, match="could not be applied") as caught:
        await ann.steers(run, "But wait")
    assert caught.value.code is code
    assert caught.value.text == "But wait"


@pytest.mark.contract("C1", "C19")
async def test_a_stop_sent_again_reads_its_receipt_back_and_another_is_accepted_as_well() -> None:
    place = InMemory()
    async with place.open({"short": rests}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        first = await ann.stops(run, client_id="stop-1")
        await ann.end_of(run)
        with place.stores_nothing():
            assert await ann.stops(run, client_id="stop-1") == first
        with place.refuses(Code.RUN_ENDED):
            await ann.stops(run, client_id="stop-2")


@pytest.mark.contract("C19", "C7", "P76")
async def test_a_stop_ends_that_run_only() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Done.", lasting=True))
    async with InMemory().open({"short": plays(gateway)}) as runtime:
        ann, bob = await person(runtime, "ann"), await person(runtime, "bob")
        mine, other = await ann.starts("One"), await ann.starts("Two")
        his = await bob.starts("Three")
        await gate.reached()
        await ann.stops(mine)
        await ann.end_of(mine)
        gate.release()
        assert (await ann.end_of(other)).state == "completed"
        assert (await bob.end_of(his)).state == "completed"


@pytest.mark.contract("C24", "P62", "P69")
async def test_a_stopped_run_is_stopped_for_good_also_after_a_restart(place: Place) -> None:
    gateway = ScriptedGateway(say(Gate()))
    async with place.open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await ann.stops(run)
        ended = await ann.end_of(run)

    async with place.open({"short": answers}) as runtime:
        ann = ann.in_runtime(runtime)
        assert await ann.run(run) == ended
        await ann.end_of(await ann.starts("Hello"))
        assert await ann.run(run) == ended


async def test_an_agent_that_shields_itself_ends_as_stopped_when_it_lets_go() -> None:
    gate = Gate()

    async def agent(run: RunContext) -> None:
        with trio.CancelScope(shield=True):
            await gate.passed()
        async for _ in run.turns():
            await run.complete("All the same")

    async with InMemory().open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await gate.reached()
        await ann.stops(run)
        assert (await ann.run(run)).state == "stopping"
        gate.release()
        ended = await ann.end_of(run)

    assert (ended.state, ended.answer) == ("stopped", None)


async def test_an_agent_that_catches_its_cancellation_can_still_send_nothing(
    autojump_clock: MockClock,
) -> None:
    gateway = ScriptedGateway(say("Never.", lasting=True))
    sent: list[str] = []

    async def agent(run: RunContext) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                async for turn in run.turns():
                    await turn.request(gateway, lambda added: as_input(run, added))
                    sent.append("!")
            raise

    async with InMemory().open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await ann.stops(run)
        assert (await ann.end_of(run)).state == "stopped"

    assert sent == []
    assert gateway.received == ()
    assert autojump_clock.current_time() < 30
