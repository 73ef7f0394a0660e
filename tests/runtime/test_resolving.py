"""A person says what became of an effect whose outcome nobody knows (C27)."""

from typing import Any

import msgspec
import pytest

from counterpoint.runtime import Code, OutcomeUnknown, RunContext, Runtime
from counterpoint.runtime.gateways import Gate
from counterpoint.store.ids import RunId
from counterpoint.store.views import EffectView

from .stage import InMemory, Person, Place, answers, person


class Pays:
    """Pays once and can't tell whether it did; then it waits before it completes."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def pay(self, _: dict[str, Any], __: str) -> None:
        raise OutcomeUnknown("the line went dead")

    async def __call__(self, run: RunContext) -> None:
        async for turn in run.turns():
            await turn.effect("pay", {"amount": 7}, do=self.pay, repeat="once")
            await self.gate.passed()
            await run.complete("I can't tell.")


async def paid(runtime: Runtime, agent: Pays) -> tuple[Person, RunId]:
    ann = await person(runtime)
    run = await ann.researches("Pay")
    await agent.gate.reached()
    return ann, run


async def effect_of(ann: Person, run: str) -> EffectView:
    [effect] = (await ann.runtime.inspect(scope="ann", run=run)).effects
    return effect


async def resolves(ann: Person, run: str, *, client_id: str = "r-1", **said: Any) -> None:
    given: dict[str, Any] = {"effect": 1, "happened": True, "value": {"paid": 7}}
    given |= {"reason": "in the books"} | said
    await ann.runtime.resolve(scope="ann", run=run, client_id=client_id, **given)


@pytest.mark.contract("C27", "C1", "E7")
@pytest.mark.parametrize("ended", [False, True])
async def test_an_unknown_effect_is_settled_by_a_person_s_word_also_after_the_end(
    place: Place, *, ended: bool
) -> None:
    agent = Pays()
    async with place.open({"short": answers, "background": agent}) as runtime:
        ann, run = await paid(runtime, agent)
        assert (await effect_of(ann, run)).state == "unknown"
        if ended:
            agent.gate.release()
            await ann.end_of(run)
        before = await ann.run(run)
        await resolves(ann, run)
        await resolves(ann, run)  # sent again
        effect = await effect_of(ann, run)
        assert await ann.run(run) == before
        told = await ann.events("effect_resolved")
        agent.gate.release()
        await ann.end_of(run)
        assert (await effect_of(ann, run)).state == effect.state

    assert (effect.state, effect.reason) == ("done", "in the books")
    assert effect.result is not None
    assert msgspec.json.decode(effect.result) == {"paid": 7}
    assert [event.facts["state"] for event in told] == ["done"]


@pytest.mark.contract("C27", "C1", "C3", "D21")
async def test_another_word_is_a_conflict_and_a_second_person_is_told_it_is_known() -> None:
    place, agent = InMemory(), Pays()
    async with place.open({"short": answers, "background": agent}) as runtime:
        ann, run = await paid(runtime, agent)
        bob = await person(runtime, "bob")
        await resolves(ann, run, happened=False, value=None)
        assert (await effect_of(ann, run)).state == "failed"
        with place.refuses(Code.CONFLICT):
            await resolves(ann, run)
        with place.refuses(Code.NOT_UNKNOWN):
            await resolves(ann, run, client_id="r-2")
        with place.refuses(Code.NOT_FOUND):
            await resolves(ann, run, client_id="r-3", effect=2)
        with place.refuses(Code.NOT_FOUND):
            await bob.runtime.resolve(
                scope="bob", run=run, effect=1, client_id="r-4", happened=True
            )
        agent.gate.release()
        await ann.end_of(run)
