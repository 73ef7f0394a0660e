"""The end of a run closes its gate in one step: a steering is given its turn, or refused.

Method: an agent that makes no request in the turns it is given completes again and again; a
steering comes before its completion, in one batch with it on either side, or behind it.
"""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from counterpoint.runtime import Code, Refused, RunContext
from counterpoint.runtime.gateways import Gate

from ..runtime.stage import InMemory, Person, person


class Completes:
    """Waits before each completion, and notes what came of it."""

    def __init__(self) -> None:
        self.gates = [Gate() for _ in range(6)]
        self.completed: list[bool] = []

    async def __call__(self, run: RunContext) -> None:
        async for turn in run.turns():
            await self.gates[turn.number - 1].passed()
            self.completed.append(await run.complete("Done."))


@pytest.mark.contract("C9", "C10")
async def test_who_makes_no_request_insists_only_against_what_it_was_given_the_turn_for() -> None:
    agent = Completes()
    async with InMemory().open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        for gate in agent.gates[:3]:  # each time one more, after the turn for the last one
            await gate.reached()
            await ann.steers(run, "And this")
            gate.release()
        await agent.gates[3].reached()
        agent.gates[3].release()
        ended = await ann.end_of(run)

    assert agent.completed == [False, False, False, True]
    assert [(item.state, item.reason) for item in ended.revisions] == [
        ("not_applied", "no_request")
    ] * 3


@pytest.mark.contract("C9", "C18", "P41", "P49")
@pytest.mark.parametrize("ahead", [True, False])
async def test_in_one_batch_with_the_end_a_steering_is_given_a_turn_or_refused(
    *, ahead: bool
) -> None:
    place, agent = InMemory(), Completes()
    refused: list[Code] = []

    async def steer(ann: Person, run: str) -> None:
        try:
            await ann.steers(run, "And this")
        except Refused as error:
            refused.append(error.code)

    async with place.open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await agent.gates[0].reached()
        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                if ahead:
                    nursery.start_soon(steer, ann, run)
                    await wait_all_tasks_blocked()
                agent.gates[0].release()
                await wait_all_tasks_blocked()
                if not ahead:
                    nursery.start_soon(steer, ann, run)
                    await wait_all_tasks_blocked()
        agent.gates[1].release()
        ended = await ann.end_of(run)

    assert agent.completed == ([False, True] if ahead else [True])
    assert refused == ([] if ahead else [Code.RUN_ENDED])
    assert len(ended.revisions) == ahead
