"""Actors of ours that die: what was acknowledged stays, and others go on.

Method: a message that no actor takes is told to one, which is how a fault of ours would look.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.actors.roster import Roster
from counterpoint.actors.supervisor import Supervisor
from counterpoint.runtime import Code, Config, Receipt, Refused, Runtime, RuntimeFailed
from counterpoint.store.ids import ConversationId

from .stage import InMemory, Person, answers, person, rests

AGENTS = {"short": answers, "background": rests}


def roster_of(runtime: Runtime) -> Roster:
    return runtime._roster  # pyright: ignore[reportPrivateUsage]


async def kill(somebody: Person) -> None:
    """Let the actor of the person's conversation die of a message that it does not take."""
    conversation = ConversationId(somebody.conversation)
    roster_of(somebody.runtime).conversation(conversation).tell(object())
    await wait_all_tasks_blocked()


async def test_a_conversation_goes_on_after_its_actor_died() -> None:
    async with InMemory().open(AGENTS) as runtime:
        ann = await person(runtime)
        first = await ann.says("Hello", client_id="m-1")
        await kill(ann)
        assert await ann.says("Hello", client_id="m-1") == first
        assert (await ann.end_of(await ann.starts("Again"))).answer == "You said: Again"


async def test_an_actor_that_dies_over_and_over_is_left_alone_for_a_while(
    autojump_clock: MockClock,
) -> None:
    del autojump_clock
    config = Config(restarts_max=2, restarts_s=60)
    async with InMemory().open(AGENTS, config) as runtime:
        ann, bob = await person(runtime), await person(runtime, "bob")
        for _ in range(3):
            await kill(ann)
        with pytest.raises(Refused) as caught:
            await ann.says("Hello")
        assert caught.value.code is Code.UNAVAILABLE
        assert caught.value.retry_same_id
        assert (await bob.end_of(await bob.starts("Hi"))).answer == "You said: Hi"
        await trio.sleep(61)
        assert (await ann.end_of(await ann.starts("Hello"))).answer == "You said: Hello"


@pytest.mark.contract("C32", "C36")
async def test_a_run_whose_actor_died_ends_as_failed_and_gives_its_slot_back(
    autojump_clock: MockClock,
) -> None:
    del autojump_clock
    async with InMemory().open(AGENTS) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await wait_all_tasks_blocked()
        actor = roster_of(runtime).run(run)
        assert actor is not None
        actor.tell(object())
        ended = await ann.end_of(run)
        assert (ended.state, ended.reason) == ("failed", "internal")
        assert await ann.researches("Dig again") != run


async def test_the_death_of_the_supervisor_ends_the_runtime_and_loses_nothing() -> None:
    place = InMemory()
    receipts: list[Receipt] = []
    with pytest.raises(RuntimeFailed):  # noqa: PT012 — the block's own end raises it
        async with place.open(AGENTS) as runtime:
            ann = await person(runtime)
            receipts.append(await ann.says("Hello", client_id="m-1"))
            [supervisor] = [
                ref
                for ref in runtime._system.refs()  # pyright: ignore[reportPrivateUsage]
                if issubclass(ref.actor_class, Supervisor)
            ]
            supervisor.tell(object())
            await trio.sleep_forever()
    async with place.open(AGENTS) as runtime:
        ann = await person(runtime)
        receipts.append(await ann.says("Hello", client_id="m-1"))
    assert receipts[0] == receipts[1]
