"""Slots: what holds them, what is refused when they are full, what never needs one.

Method: agents that rest hold the slots of a scope, so that it is full for as long as a test
wants; the refusals name them, and the end of one lets exactly one more in.
"""

from collections.abc import Mapping
from contextlib import aclosing

import pytest
import trio

from counterpoint.runtime import Code, Config, Limits, Receipt, Refused, RunContext, StreamedText
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

from .stage import InMemory, Person, Place, answers, as_input, person, plays, rests, run_of

BIGGER = "Bigger than it looked"
RESTS = {"short": rests, "background": rests}


def config(short: int = 3, background: int = 1, **of_scope: Mapping[str, int]) -> Config:
    capacity = {"short": short, "background": background}
    return Config(limits=Limits(capacity=capacity, capacity_of_scope=of_scope))


@pytest.mark.contract("B41", "C3", "C35", "D9", "B47")
async def test_the_fourth_short_message_is_refused_with_the_three_that_hold_the_slots() -> None:
    place = InMemory()
    async with place.open(RESTS) as runtime:
        ann = await person(runtime)
        held = [await ann.starts(f"Question {n}") for n in range(3)]
        with place.refuses(Code.CAPACITY_FULL) as caught:
            await ann.says("One too many")
        await ann.stops(held[1])
        await ann.end_of(held[1])
        fourth = await ann.starts("One in its place")
        with place.refuses(Code.CAPACITY_FULL) as again:
            await ann.says("Once more")
        for run in (held[0], held[2], fourth):
            await ann.stops(run)

    assert caught.value.facts == {
        "run_class": "short",
        "limit": 3,
        "holders": held,
        "allowed": ["stop", "steer"],
    }
    assert again.value.facts["holders"] == [held[0], held[2], fourth]


@pytest.mark.contract("B52", "B22", "A22", "C4", "D8")
async def test_a_second_background_run_is_not_admitted_and_not_queued_and_the_first_is_as_it_was(
    place: Place,
) -> None:
    async with place.open(RESTS) as runtime:
        ann = await person(runtime)
        first = await ann.researches("Dig")
        before = await ann.run(first)
        with pytest.raises(Refused, match="not admitted and not queued") as caught:
            await ann.says("Dig elsewhere", entry="background")
        assert await ann.run(first) == before
        await ann.stops(first)
        await ann.end_of(first)
        assert (await ann.view()).live == ()  # nothing came up by itself

    assert caught.value.code is Code.CAPACITY_FULL
    assert caught.value.text == "Dig elsewhere"
    assert caught.value.facts["holders"] == [first]


@pytest.mark.contract("B50", "C38", "B18")
async def test_stop_and_steer_need_no_slot() -> None:
    async with InMemory().open(RESTS) as runtime:
        ann = await person(runtime)
        research = await ann.researches("Dig")
        for n in range(3):
            await ann.starts(f"Question {n}")
        with pytest.raises(Refused):
            await ann.says("Full?")

        assert (await ann.steers(research, "Deeper")).revision == 1
        await ann.stops(research)
        assert (await ann.end_of(research)).state == "stopped"
        for run in (await ann.view()).live:
            await ann.stops(run)


@pytest.mark.contract("B41", "D9", "B45")
async def test_slots_are_of_the_scope_over_all_its_conversations_and_the_host_sets_them() -> None:
    limits = config(short=1, background=1, bob={"short": 2})
    place = InMemory()
    async with place.open(RESTS, limits) as runtime:
        ann, bob = await person(runtime, "ann"), await person(runtime, "bob")
        opened = await runtime.open_conversation(scope="ann", client_id="c-2")
        elsewhere = Person(runtime, "ann", opened.conversation, sent=100)
        await ann.starts("Mine")
        with place.refuses(Code.CAPACITY_FULL):
            await elsewhere.says("In another conversation")
        for n in range(2):
            await bob.starts(f"His {n}")
        with place.refuses(Code.CAPACITY_FULL) as caught:
            await bob.says("His third")
        assert caught.value.facts["limit"] == 2
        for who in (ann, bob):
            for run in (await who.view()).live:
                await who.stops(run)


@pytest.mark.contract("B42", "B41", "D9")
async def test_with_more_background_slots_each_run_is_steered_and_stopped_by_itself() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Done.", lasting=True))
    async with InMemory().open(
        {"short": answers, "background": plays(gateway)}, config(background=3)
    ) as runtime:
        ann = await person(runtime)
        one, two, three = [await ann.researches(f"Dig {n}") for n in range(3)]
        assert (await ann.view()).live == (one, two, three)
        await ann.steers(two, "Deeper")
        await ann.stops(three)
        gate.release()
        ended = [await ann.end_of(run) for run in (one, two, three)]

    assert [run.state for run in ended] == ["completed", "completed", "stopped"]
    assert [len(run.revisions) for run in ended] == [0, 1, 0]


@pytest.mark.contract("D9", "B41", "C50")
async def test_a_class_without_slots_refuses_everything_and_names_nobody() -> None:
    place = InMemory()
    async with place.open(RESTS, config(background=0)) as runtime:
        ann = await person(runtime)
        with place.refuses(Code.CAPACITY_FULL) as caught:
            await ann.says("Dig", entry="background")
    assert caught.value.facts["holders"] == []


@pytest.mark.slow
@pytest.mark.contract("C36", "D16", "P104")
async def test_who_reacts_to_the_end_is_never_refused(place: Place) -> None:
    async with place.open({"short": answers}, config(short=1)) as runtime:
        ann = await person(runtime)
        receipt = await ann.says("Round 0")
        ends = 0
        stream = runtime.events(scope="ann", conversation=ann.conversation)
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, StreamedText) or event.kind != "run_ended":
                    continue
                ends += 1
                if ends == 20:
                    break
                receipt = await ann.says(f"Round {ends}")
        assert (await ann.run(run_of(receipt))).answer == "You said: Round 19"


@pytest.mark.contract("C36", "C35")
async def test_at_the_moment_of_the_end_the_slot_is_free_for_a_waiter_too() -> None:
    gateway = ScriptedGateway(say("Done.", lasting=True))
    async with InMemory().open({"short": plays(gateway)}, config(short=1)) as runtime:
        ann = await person(runtime)
        for n in range(20):
            run = await ann.starts(f"Round {n}")
            await ann.end_of(run)
            assert not (await runtime.inspect(scope="ann", run=run)).holds_slot


class Promotes:
    """An agent that asks for the background between two requests."""

    def __init__(self, gateway: ScriptedGateway) -> None:
        self.gateway = gateway
        self.before, self.after = Gate(), Gate()
        self.promoted: list[bool] = []

    async def __call__(self, run: RunContext) -> None:
        if run.request != BIGGER:
            await rests(run)
        async for turn in run.turns():
            await turn.request(self.gateway, lambda added: as_input(run, added))
            await self.before.passed()
            self.promoted.append(await run.promote())
            assert run.run_class == ("background" if self.promoted[-1] else "short")
            await self.after.passed()
            reply = await turn.request(self.gateway, lambda added: as_input(run, added))
            await run.complete(reply.text)


@pytest.mark.contract("B48", "B49", "D10", "P122")
async def test_a_promoted_run_is_the_same_run_with_the_other_slot() -> None:
    gateway = ScriptedGateway(say("First."), say("Second."))
    agent = Promotes(gateway)
    place = InMemory()
    async with place.open({"short": agent, "background": rests}, config(short=1)) as runtime:
        ann = await person(runtime)
        run = await ann.starts(BIGGER)
        await agent.before.reached()
        with place.refuses(Code.CAPACITY_FULL):
            await ann.says("No short slot left")
        agent.before.release()
        await agent.after.reached()
        with place.refuses(Code.CAPACITY_FULL) as caught:
            await ann.says("Dig", entry="background")
        assert caught.value.facts["holders"] == [run]
        other = run_of(await ann.says("The short slot is free"))
        assert (await ann.run(run)).run_class == "background"
        agent.after.release()
        ended = await ann.end_of(run)
        await ann.stops(other)
        kinds = [event.kind for event in await ann.events(run=run)]

    assert agent.promoted == [True]
    assert (ended.state, ended.answer, ended.requests) == ("completed", "Second.", 2)
    assert kinds.count("message_admitted") == kinds.count("run_promoted") == 1
    assert len(gateway.received) == 2


@pytest.mark.contract("D10", "B48", "C3")
async def test_with_the_background_full_the_run_stays_short_and_says_so() -> None:
    agent = Promotes(ScriptedGateway(say("First."), say("Second.")))
    async with InMemory().open({"short": agent, "background": rests}) as runtime:
        ann = await person(runtime)
        research = await ann.researches("Dig")
        run = await ann.starts(BIGGER)
        agent.before.release()
        await agent.after.reached()
        inspected = await runtime.inspect(scope="ann", run=run)
        agent.after.release()
        ended = await ann.end_of(run)
        refused = await ann.events("promotion_refused", "run_promoted")
        await ann.stops(research)

    assert agent.promoted == [False]
    assert (inspected.run.run_class, inspected.holds_slot) == ("short", True)
    assert (ended.state, ended.run_class) == ("completed", "short")
    assert [event.kind for event in refused] == ["promotion_refused"]
    assert refused[0].facts["holders"] == [research]
    assert refused[0].client_id == ended.client_id


@pytest.mark.contract("C35", "D9")
async def test_of_many_at_once_as_many_are_admitted_as_there_are_slots() -> None:
    async with InMemory().open(RESTS) as runtime:
        ann = await person(runtime)
        receipts: list[Receipt] = []
        refused: list[Refused] = []

        async def submit() -> None:
            try:
                receipts.append(await ann.says("Me!"))
            except Refused as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(submit)
        admitted = sorted(run_of(receipt) for receipt in receipts)
        assert list((await ann.view()).live) == admitted
        for run in admitted:
            await ann.stops(run)

    assert len(receipts) == 3
    assert all(error.facts["holders"] == admitted for error in refused)


@pytest.mark.contract("C50", "C3")
async def test_a_process_that_executes_as_many_runs_as_it_may_refuses_as_overloaded() -> None:
    place = InMemory()
    async with place.open(RESTS, Config(live_runs_max=2)) as runtime:
        ann = await person(runtime)
        for n in range(2):
            await ann.starts(f"Question {n}")
        with place.refuses(Code.OVERLOADED) as caught:
            await ann.says("One too many")
        for run in (await ann.view()).live:
            await ann.stops(run)
    assert caught.value.retry_same_id
