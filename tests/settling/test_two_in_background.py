"""Two background runs of one scope: steerings to both, interleaved, and a process that goes.

Method: each run waits in its first request while a person steers now this one, now that,
through either of two processes, in a random order. In half of the lives the process that
executes both then dies in its requests, and its heir enters both again. What each run's
last request carried must be its own steerings, all of them, in order.
"""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Agent, Code, Config, Limits, RunContext
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

from ..runtime.stage import Agents, InMemory, Person, as_input, person, user_words

CONFIG = Config(limits=Limits(capacity={"short": 3, "background": 2}))
STEERINGS = 12


class Lines:
    """Agents whose first request waits at a gate, one gateway a run."""

    def __init__(self) -> None:
        self.gates = {"One": Gate(), "Two": Gate()}

    async def works(self, run: RunContext) -> None:
        gate = self.gates[run.request]
        gateway = ScriptedGateway(say("Half", gate, lasting=True))
        async for turn in run.turns():
            reply = await turn.request(gateway, lambda added: as_input(run, added))
            await run.complete(reply.text)

    async def reached(self) -> None:
        """Wait until both runs are in their request."""
        for gate in self.gates.values():
            await gate.reached()

    def agents(self) -> Agents:
        agent = Agent(self.works, when_steered="after_request", on_owner_loss="resume")
        return {"short": agent, "background": agent}


async def _live(place: InMemory, agents: Agents, *, task_status: trio.TaskStatus[Person]) -> None:
    async with place.open_beside(agents, CONFIG) as runtime:
        task_status.started(await person(runtime))
        await trio.sleep_forever()


@pytest.mark.slow
@pytest.mark.contract("B41", "B42", "B43", "C9", "C12", "D9", "D13", "E3")
@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
async def test_each_of_two_background_runs_gets_its_own_steerings_in_order(
    fault_seed: int, dies: bool, autojump_clock: MockClock
) -> None:
    rng, place = Random(fault_seed), InMemory()
    first, second = Lines(), Lines()
    async with place.open(second.agents(), CONFIG) as runtime, trio.open_nursery() as nursery:
        heirs = set(place.alive)
        here: Person = await nursery.start(_live, place, first.agents())
        [owner] = place.alive - heirs
        there = here.in_runtime(runtime)
        begun = [await here.researches(words) for words in ("One", "Two")]
        await first.reached()
        with place.refuses(Code.CAPACITY_FULL) as caught:
            await there.researches("Three")
        assert sorted(caught.value.facts["holders"]) == sorted(begun)

        said: dict[str, list[str]] = {run: [] for run in begun}
        for n in range(STEERINGS):
            run, who = rng.choice(begun), rng.choice((here, there))
            words = f"Point {n}"
            assert (await who.steers(run, words)).revision == len(said[run]) + 1
            said[run].append(words)
        lines = first
        if dies:
            place.alive.discard(owner)
            lines = second
            await second.reached()
        for gate in lines.gates.values():
            gate.release()
        ended = [await there.end_of(run) for run in begun]
        inputs = [await there.input_of(run.run, run.requests) for run in ended]
        with place.stores_nothing():
            assert (await there.view()).live == ()
        nursery.cancel_scope.cancel()

    for view, model_input, words in zip(ended, inputs, ("One", "Two"), strict=True):
        assert (view.state, view.run_class) == ("completed", "background")
        assert [revision.text for revision in view.revisions] == said[view.run]
        mine = [words, *said[view.run]]
        assert user_words(model_input)[-len(mine) :] == mine  # behind what was said before
