"""A steering can be taken back until a request takes it, and never halfway (C53).

Method: the withdrawal and the request that would carry the words are put in both orders and
into one batch; then the inputs that went out are compared with what stood at the time.
"""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from counterpoint.runtime import (
    Agent,
    AgentFunction,
    Code,
    ModelInput,
    Refused,
    Revision,
    RunContext,
)
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

from .stage import Agents, InMemory, Person, Place, answers, as_input, person, plays, user_words


def agents(agent: AgentFunction) -> Agents:
    return {"short": answers, "background": Agent(agent, when_steered="after_request")}


async def withdraws(ann: Person, run: str, revision: int, client_id: str = "w-1") -> None:
    await ann.runtime.withdraw(scope="ann", run=run, revision=revision, client_id=client_id)


@pytest.mark.contract("C53", "C1")
async def test_what_was_taken_back_in_time_is_in_no_request_and_stays_a_message(
    place: Place,
) -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Half", gate), say("Done."))
    async with place.open(agents(plays(gateway))) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        await ann.steers(run, "Only tea")
        await ann.steers(run, "And coffee")
        await withdraws(ann, run, 1)
        await withdraws(ann, run, 1)  # sent again
        shown = await ann.run(run)
        gate.release()
        ended = await ann.end_of(run)
        texts = [entry.text for entry in (await ann.view()).entries]
        told = [event.facts["revision"] for event in await ann.events("revision_withdrawn")]

    assert [(item.state, item.text) for item in shown.revisions] == [
        ("withdrawn", "Only tea"),
        ("saved", "And coffee"),
    ]
    assert [(item.state, item.request) for item in ended.revisions] == [
        ("withdrawn", None),
        ("delivered", 2),
    ]
    assert user_words(gateway.received[1].model_input) == ["Compare", "And coffee"]
    assert "Only tea" in texts
    assert told == [1]


@pytest.mark.contract("C53", "C3")
async def test_what_a_request_has_taken_can_not_be_taken_back_and_the_refusal_says_by_what() -> (
    None
):
    place = InMemory()
    first, second = Gate(), Gate()
    gateway = ScriptedGateway(say(first), say(second))
    async with place.open(agents(plays(gateway))) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await first.reached()
        await ann.steers(run, "Only tea")
        first.release()
        await second.reached()
        with place.refuses(Code.TAKEN) as carried:
            await withdraws(ann, run, 1)
        second.release()
        await ann.end_of(run)
        with place.refuses(Code.TAKEN) as delivered:
            await withdraws(ann, run, 1)

    assert "carried" in carried.value.sentence
    assert "delivered" in delivered.value.sentence


@pytest.mark.contract("C53", "C10")
async def test_a_run_takes_no_turn_for_what_was_taken_back_before_it_ends() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Done."))

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            reply = await turn.request(gateway, lambda added: as_input(run, added))
            await gate.passed()
            assert await run.complete(reply.text)

    async with InMemory().open(agents(agent)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        await ann.steers(run, "Only tea")
        await withdraws(ann, run, 1)
        gate.release()
        ended = await ann.end_of(run)

    assert (ended.state, ended.requests) == ("completed", 1)
    assert [item.state for item in ended.revisions] == ["withdrawn"]


@pytest.mark.contract("C53", "C11", "C12")
@pytest.mark.parametrize("ahead", [True, False])
async def test_a_request_that_meets_a_withdrawal_carries_what_stands_and_nothing_else(
    *, ahead: bool
) -> None:
    """Both are in one batch. The input was built with the words; it goes out only if they
    still stand, and then they can't be taken back any more."""
    place, gate = InMemory(), Gate()
    gateway = ScriptedGateway(say("Done."))
    built: list[int] = []
    refused: list[Code] = []

    async def agent(run: RunContext) -> None:
        await gate.passed()
        async for turn in run.turns():

            def build(added: tuple[Revision, ...]) -> ModelInput:
                built.append(len(added))
                return as_input(run, added)

            reply = await turn.request(gateway, build)
            await run.complete(reply.text)

    async with place.open(agents(agent)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        await ann.steers(run, "Only tea")
        await ann.steers(run, "And coffee")

        async def withdraw() -> None:
            try:
                await withdraws(ann, run, 1)
            except Refused as error:
                refused.append(error.code)

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                if ahead:
                    nursery.start_soon(withdraw)
                    await wait_all_tasks_blocked()
                gate.release()
                await wait_all_tasks_blocked()
                if not ahead:
                    nursery.start_soon(withdraw)
                    await wait_all_tasks_blocked()
        ended = await ann.end_of(run)

    words = user_words(gateway.received[0].model_input)
    if ahead:
        assert (built, refused) == ([2, 1], [])
        assert words == ["Compare", "And coffee"]
        assert [item.state for item in ended.revisions] == ["withdrawn", "delivered"]
    else:
        assert (built, refused) == ([2], [Code.TAKEN])
        assert words == ["Compare", "Only tea", "And coffee"]
        assert [item.state for item in ended.revisions] == ["delivered", "delivered"]
