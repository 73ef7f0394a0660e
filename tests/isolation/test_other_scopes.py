"""Another scope's ids behave as if they never existed: in the answer and in what it costs.

Method: Ann has everything that can be had: a conversation that is awake, a run that works,
one that has ended, a steering, an effect of unknown outcome. Eve knows every id of hers and
uses each in every verb; then she does the same with a *twin* of that id, which nobody ever
had. The two answers have to be equal but for the id, and so has what the store was asked:
there is no timing here, because the same reads and no write is all that a clock could see.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import pykka
import pytest
import trio

from counterpoint.runtime import (
    Code,
    Config,
    Limits,
    OutcomeUnknown,
    Receipt,
    Refused,
    RunContext,
    Runtime,
)
from counterpoint.runtime.gateways import ScriptedGateway, say
from counterpoint.runtime.opening import runtime_on
from counterpoint.store.owner_lock import OwnersInMemory

from ..runtime.stage import Person, as_input, person, run_of
from .counting import Cost, CountingEngine

SECRET = "the launch is on Tuesday"

NOTHING_BY_ITSELF = Config(
    limits=Limits(capacity={"short": 9, "background": 9}),
    poll_s=1e6,
    settle_every_s=1e6,
    actor_idle_s=1e6,
    drain_s=0.01,
)
"""Nobody but the test asks the store for anything."""


async def digs(run: RunContext) -> None:
    """An agent that asks its model, does something of unknown outcome, and may go on for ever."""

    async def book(_: Mapping[str, Any], __: str) -> None:
        raise OutcomeUnknown("the line went dead")

    gateway = ScriptedGateway(say("Let me see."))
    async for turn in run.turns():
        await turn.request(gateway, lambda revisions: as_input(run, revisions))
        await turn.effect("book", {"room": 7}, do=book, repeat="once")
        if run.depth == "deep":
            await trio.sleep_forever()
        await run.complete(f"Found: {run.request}")


class Stage(NamedTuple):
    runtime: Runtime
    engine: CountingEngine
    ann: Person
    eve: Person
    hers: Mapping[str, str]
    """Ann's ids, by what they are of."""

    def actors(self) -> set[pykka.ActorRef[Any]]:
        return set(self.runtime._system.refs())  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def stage() -> AsyncGenerator[Stage]:
    engine = CountingEngine()
    async with runtime_on(
        engine,
        OwnersInMemory(set()),
        agents={"short": digs, "background": digs},
        config=NOTHING_BY_ITSELF,
    ) as runtime:
        ann, eve = await person(runtime, "ann", SECRET), await person(runtime, "eve")
        ended = await ann.end_of(await ann.starts(SECRET))
        live = run_of(await ann.says(SECRET, entry="background", depth="deep"))
        await trio.testing.wait_all_tasks_blocked()
        steered = await ann.steers(live, SECRET)
        await eve.end_of(await eve.starts("Hello", client_id="used"))
        inspection = await runtime.inspect(scope="ann", run=live)
        assert [effect.state for effect in inspection.effects] == ["unknown"]
        assert ended.publication is not None
        hers = {
            "conversation": ann.conversation,
            "live run": live,
            "ended run": ended.run,
            "message": ended.message,
            "steering": steered.message or "",
            "publication": ended.publication,
            "owner": inspection.owner,
        }
        yield Stage(runtime, engine, ann, eve, hers)
        await ann.stops(live)
        await ann.end_of(live)
    await engine.aclose()


Verb = Callable[[Runtime, str, str], Awaitable[object]]
"""What Eve does with an id, under a client id of hers."""


async def _events(runtime: Runtime, conversation: str, *, follow: bool) -> list[object]:
    stream = runtime.events(scope="eve", conversation=conversation, follow=follow)
    async with aclosing(stream) as events:
        return [event async for event in events]


# fmt: off
WHERE: Mapping[str, Verb] = {  # with the id of a conversation
    "submit":     lambda r, x, c: r.submit(scope="eve", conversation=x, client_id=c, text="?"),
    "background": lambda r, x, c: r.submit(scope="eve", conversation=x, client_id=c, text="?",
                                            entry="background", depth="deep"),
    "view":       lambda r, x, c: r.view(scope="eve", conversation=x),
    "older":      lambda r, x, c: r.view(scope="eve", conversation=x, before=2),
    "events":     lambda r, x, c: _events(r, x, follow=False),
    "follow":     lambda r, x, c: _events(r, x, follow=True),
}
WHICH: Mapping[str, Verb] = {  # with the id of a run
    "steer":      lambda r, x, c: r.steer(scope="eve", run=x, client_id=c, text="?"),
    "steer at 1": lambda r, x, c: r.steer(scope="eve", run=x, client_id=c, text="?",
                                           expected_revision=1),
    "stop":       lambda r, x, c: r.stop(scope="eve", run=x, client_id=c),
    "withdraw":   lambda r, x, c: r.withdraw(scope="eve", run=x, revision=1, client_id=c),
    "resolve":    lambda r, x, c: r.resolve(scope="eve", run=x, effect=1, client_id=c,
                                             happened=True),
    "view_run":   lambda r, x, c: r.view_run(scope="eve", run=x),
    "inspect":    lambda r, x, c: r.inspect(scope="eve", run=x),
    "wait":       lambda r, x, c: r.wait(scope="eve", run=x),
    "export":     lambda r, x, c: r.export_request(scope="eve", run=x, ordinal=1),
}
# fmt: on


def twin(identifier: str) -> str:
    """Return an id of the same form that nobody ever had."""
    never = identifier[:-9] + "0" * 9
    assert never != identifier
    return never


async def answer(at: Stage, verb: Verb, identifier: str, client_id: str) -> tuple[Refused, Cost]:
    """Return how Eve is refused, and what it cost; check that it left nothing anywhere."""
    before, actors = at.engine.engine.committed(), at.actors()
    with at.engine.counted() as cost, pytest.raises(Refused) as caught:
        await verb(at.runtime, identifier, client_id)
    assert at.engine.engine.committed() is before
    assert at.actors() == actors, "an actor was started for an id of somebody else"
    assert cost.transactions == 0, "it waited for the disk"
    return caught.value, cost


def masked(refused: Refused, identifier: str) -> str:
    return str(refused.as_dict()).replace(identifier, "THE ID")


@pytest.mark.contract("D21", "E11", "A11", "D8")
@pytest.mark.parametrize("client_id", ["new", "used"])
@pytest.mark.parametrize("verb", [*WHERE, *WHICH])
async def test_an_id_of_another_scope_is_answered_as_one_that_never_was(
    verb: str, client_id: str
) -> None:
    act = {**WHERE, **WHICH}[verb]
    async with stage() as at:
        for what, identifier in at.hers.items():
            foreign, cost = await answer(at, act, identifier, client_id)
            never, cost_of_never = await answer(at, act, twin(identifier), client_id)
            assert masked(foreign, identifier) == masked(never, twin(identifier)), what
            assert cost == cost_of_never, what
            assert SECRET not in str(foreign.as_dict())
            reads_only = verb in ("view", "older", "events", "follow", "view_run", "inspect")
            if client_id == "new" or reads_only or verb in ("wait", "export"):
                assert foreign.code is Code.NOT_FOUND
            else:
                assert foreign.code is Code.CONFLICT, "identity is decided first"
        assert await at.runtime.lookup(scope="eve", client_id="new") is None


@pytest.mark.contract("D21", "E11", "D7")
async def test_a_client_id_of_another_scope_is_free() -> None:
    async with stage() as at:
        for hers in ("ann-0", "ann-1", "ann-2", "ann-3"):
            assert await at.runtime.lookup(scope="ann", client_id=hers) is not None
            for client_id in (hers, f"{hers}-never"):
                with at.engine.counted() as cost:
                    assert await at.runtime.lookup(scope="eve", client_id=client_id) is None
                assert cost == Cost(snapshots=1, gets=1)

        costs: list[Cost] = []
        for client_id in ("ann-1", "never-1"):
            with at.engine.counted() as cost:
                mine = await at.eve.says("Hello", client_id=client_id)
                await at.eve.end_of(run_of(mine))
                await trio.testing.wait_all_tasks_blocked()
            assert (mine.conversation, mine.verb) == (at.eve.conversation, "plain")
            costs.append(cost)
        assert costs[0].transactions == costs[1].transactions


@pytest.mark.contract("D21", "E11")
async def test_looking_up_does_not_wait_for_what_another_scope_has_on_its_way() -> None:
    async with stage() as at, trio.open_nursery() as nursery:
        with at.engine.engine.locked_elsewhere():
            receipts: list[Receipt] = []

            async def submit() -> None:
                receipts.append(await at.ann.says(SECRET, client_id="under way"))

            nursery.start_soon(submit)
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(0):  # so it has to answer at once
                assert await at.runtime.lookup(scope="eve", client_id="under way") is None
        await trio.testing.wait_all_tasks_blocked()
        assert receipts == [await at.runtime.lookup(scope="ann", client_id="under way")]


@pytest.mark.contract("D21", "E11")
async def test_a_list_and_a_stream_hold_what_is_of_the_scope_and_nothing_else() -> None:
    async with stage() as at:
        conversations = await at.runtime.conversations(scope="eve")
        assert [item.conversation for item in conversations] == [at.eve.conversation]
        assert await at.runtime.conversations(scope="an") == []
        assert await at.runtime.conversations(scope="ann\u00e4") == []
        told = await at.eve.events()
        assert {event.conversation for event in told} == {at.eve.conversation}
        assert SECRET not in str(told)
        assert SECRET not in str(await at.eve.view())


@pytest.mark.contract("D9", "E6", "E11")
async def test_the_slots_of_one_scope_say_nothing_to_another() -> None:
    engine = CountingEngine()
    config = Config(limits=Limits(capacity={"short": 1, "background": 1}), drain_s=0.01)
    agents = {"short": digs, "background": digs}
    async with runtime_on(engine, OwnersInMemory(set()), agents=agents, config=config) as runtime:
        ann, eve = await person(runtime, "ann"), await person(runtime, "eve")
        held = run_of(await ann.says("Dig", entry="background", depth="deep"))
        mine = run_of(await eve.says("Dig", entry="background", depth="deep"))
        with pytest.raises(Refused) as caught:
            await eve.says("Dig", entry="background")
        assert caught.value.facts["holders"] == [mine]
        await ann.stops(held)
        await eve.stops(mine)
        await runtime.quiet()
    await engine.aclose()
