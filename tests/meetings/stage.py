"""One life of one run, and what may meet it: a steering, a stop, its deadline, a shutdown.

The agent asks, carries out one effect of each class, saves, asks again and completes; its
provider and its budget may fail it on the way. Everything is in memory and time passes only
where something lets it, so a life with the same plan is the same life.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import trio
from trio.testing import MockClock

from counterpoint.runtime import (
    Agent,
    BudgetSpent,
    Call,
    Code,
    Config,
    Gateway,
    GatewayFailed,
    Limits,
    ModelInput,
    ModelMessage,
    Refused,
    Reply,
    RunContext,
    Turn,
    Usage,
)
from counterpoint.runtime.agent import Build
from counterpoint.runtime.effect import EffectResult
from counterpoint.runtime.gateways import ScriptedGateway, fail, say
from counterpoint.runtime.opening import runtime_on
from counterpoint.store import events, requests, revisions, runs, views
from counterpoint.store.ids import RunId, ScopeId
from counterpoint.store.owner_lock import OwnersInMemory
from counterpoint.store.records import Event, Request, Revision, Run

from ..runtime.stage import Agents, Person, answers, as_input, person
from ..store.invariants import breaches
from .points import Happening, Point, Points, Spot, WatchedEngine

DRAFT = "So far."
ANSWER = "It is this."
ACTIVE_S = 3600.0
DRAIN_S = 1.0
NEVER_S = 1e6

REQUESTS = 9
"""More than any life needs: what lies between the first request and the last is the same."""

CALLS = tuple(
    Call(call_id=name, name=name, arguments={"what": name})
    for name in ("read", "idempotent", "reconcilable", "once")
)


class Life(NamedTuple):
    """What the run is given, and how its provider does."""

    requests: int = REQUESTS
    effects: int = REQUESTS
    tokens: int = 10**6
    faults: int = 0
    """How many requests fail at first."""
    patient: bool = False
    """The agent waits for a request that a steering might cut."""

    @property
    def limits(self) -> Limits:
        return Limits(
            requests_of_run_max=self.requests,
            effects_of_run_max=self.effects,
            tokens_of_run_max=self.tokens,
            active_ms_of_run_max=int(ACTIVE_S * 1000),
            effect_ms_max=int(NEVER_S * 1000),
        )


class Came(NamedTuple):
    """Something that met the run."""

    what: str
    in_time: bool
    """It was accepted, or came before the run's end had been begun."""
    text: str = ""
    refused: Code | None = None


class Met(NamedTuple):
    """What there is to see of a life that is over."""

    passed: list[Point]
    came: list[Came]
    run: Run
    answer: str | None
    events: list[Event]
    requests: list[Request]
    revisions: list[Revision]
    effects: tuple[views.EffectView, ...]
    inputs: list[ModelInput]
    sent: list[bytes]
    ran_out: bool
    """The agent was told that its budget is spent."""
    outside: list[str]
    """The operations that reached the outside world, in order."""
    breaches: list[str]


class Stage:
    """The run with everything around it."""

    def __init__(self, life: Life, plan: Mapping[int, Sequence[str]]) -> None:
        self.life = life
        self.points = Points({at: [self.happening(name) for name in plan[at]] for at in plan})
        self.engine = WatchedEngine(self.points)
        self.came: list[Came] = []
        self.outside: list[str] = []
        self.ran_out = False
        self.leave = trio.Event()
        self.run = RunId("")
        self.ann: Person | None = None
        self.gateway = ScriptedGateway(*self.script())

    def script(self) -> list[Any]:
        def spot(name: str) -> Spot:
            return Spot(self.points, name)

        faults = [fail("overloaded", "Let ", spot("streams")) for _ in range(self.life.faults)]
        looks = say(
            "Let me ",
            spot("streams"),
            *CALLS,
            spot("has called"),
            usage=Usage(input_tokens=10, output_tokens=5),
            when=_first,
            lasting=True,
        )
        final = say(spot("was asked"), ANSWER, spot("has answered"), lasting=True)
        return [*faults, looks, final]

    # The agent.

    async def agent(self, run: RunContext) -> None:
        self.run = run.run_id
        run.draft(DRAFT)
        await self.points.at("the agent begins")
        said: list[ModelMessage] = []

        def build(added: tuple[revisions.Words, ...]) -> ModelInput:
            return as_input(run, added, said)

        try:
            async for turn in run.turns():
                await self.take(turn, run, build, said)
        except BudgetSpent:
            self.ran_out = True
            raise

    async def take(
        self, turn: Turn, run: RunContext, build: Build, said: list[ModelMessage]
    ) -> None:
        reply = await self.ask(turn, build)
        if reply is None:
            return
        said.append(ModelMessage(role="assistant", text=reply.text, calls=reply.calls))
        for call in reply.calls:
            result = await self.act(turn, call)
            said.append(ModelMessage(role="tool", text=result.status, call_id=call.call_id))
        await run.save(len(said))
        if reply.final:
            await run.complete(reply.text)

    async def ask(self, turn: Turn, build: Build) -> Reply | None:
        gateway: Gateway = self.gateway
        try:
            return await turn.request(gateway, build)
        except GatewayFailed:
            await self.points.at("the provider failed")
            return None

    async def act(self, turn: Turn, call: Call) -> EffectResult:
        if call.name == "read":
            return await turn.effect(call.name, call.arguments, do=self.read)
        if call.name == "reconcilable":
            return await turn.effect(
                call.name,
                call.arguments,
                do=self.do,
                repeat="reconcilable",
                reconcile=_no_idea,
            )
        if call.name == "idempotent":
            return await turn.effect(call.name, call.arguments, do=self.do, repeat="idempotent")
        return await turn.effect(call.name, call.arguments, do=self.do, repeat="once")

    async def read(self, _: dict[str, Any]) -> str:
        await self.points.at("in read")
        return "seen"

    async def do(self, arguments: dict[str, Any], operation_id: str) -> str:
        await self.points.at(f"in {arguments['what']}")
        self.outside.append(operation_id)
        await self.points.at(f"{arguments['what']} has happened")
        return "done"

    # What meets the run.

    def happening(self, name: str) -> Happening:
        if name in ("deadline", "shutdown"):
            return Happening(partial(self._time, name), commits=False)
        return Happening(partial(self._verb, name), commits=True)

    def _is_over(self) -> bool:
        with self.engine.read() as txn:
            run = runs.find(txn, self.run)
        assert run is not None
        return run.state in runs.FINAL

    async def _verb(self, name: str) -> None:
        assert self.ann is not None
        text = f"Point {len(self.came)}:  \n只看最近一年 "
        try:
            if name == "stop":
                await self.ann.stops(self.run)
            else:
                await self.ann.steers(self.run, text)
        except Refused as refused:
            self.came.append(Came(name, in_time=False, text=text, refused=refused.code))
        else:
            self.came.append(Came(name, in_time=True, text=text))

    async def _time(self, name: str) -> None:
        in_time = not self._is_over() and not self.points.concluding
        self.came.append(Came(name, in_time=in_time))
        if name == "deadline":
            await trio.sleep(ACTIVE_S)  # everything else that waits, waits far longer
        else:
            self.leave.set()
            # A run that is at its end already is given as long, and no longer, to record it.
            await trio.sleep(DRAIN_S / 2 if self.points.concluding else DRAIN_S + 0.001)

    async def play(self) -> Met:
        config = Config(
            limits=self.life.limits,
            drain_s=DRAIN_S,
            stop_wait_s=2 * ACTIVE_S,
            poll_s=NEVER_S,
            settle_every_s=NEVER_S,
            actor_idle_s=NEVER_S,
            write_wait_s=NEVER_S,
            ask_wait_s=NEVER_S,
        )
        agent = Agent(self.agent, when_steered="after_request" if self.life.patient else "cut")
        agents: Agents = {"short": answers, "background": agent}
        async with (
            trio.open_nursery() as self.points.nursery,
            runtime_on(self.engine, OwnersInMemory(set()), agents=agents, config=config) as runtime,
        ):
            self.ann = await person(runtime)
            self.points.arm()
            run = await self.ann.researches("Dig")
            await _first_of(self.leave.wait, partial(runtime.wait, scope="ann", run=run))
        return self._met()

    def _met(self) -> Met:
        with self.engine.read() as txn:
            run = runs.find(txn, self.run)
            assert run is not None
            head = runs.head(txn, run)
            inspection = views.inspect(txn, ScopeId("ann"), self.run)
            exported = [
                views.request_input(txn, ScopeId("ann"), self.run, item.ordinal)
                for item in inspection.requests
            ]
            return Met(
                passed=self.points.passed,
                came=self.came,
                run=run,
                answer=inspection.run.answer,
                events=events.page(txn, head, after=0, limit=head.events),
                requests=list(requests.of_run(txn, self.run)),
                revisions=list(revisions.of_run(txn, self.run)),
                effects=inspection.effects,
                inputs=[msgspec.json.decode(data, type=ModelInput) for data in exported],
                sent=[item.data for item in self.gateway.received],
                ran_out=self.ran_out,
                outside=self.outside,
                breaches=breaches(txn, self.life.limits),
            )


async def _no_idea(_: str) -> None:
    return None


def _first(model_input: ModelInput) -> bool:
    return all(message.role != "tool" for message in model_input.messages)


async def _first_of(*waits: Callable[[], Any]) -> None:
    async def wait(one: Callable[[], Any]) -> None:
        await one()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for one in waits:
            nursery.start_soon(wait, one)


def live(life: Life, plan: Mapping[int, Sequence[str]] | None = None) -> Met:
    """Let one life be lived, with what is planned at its points."""

    async def main() -> Met:
        return await Stage(life, plan or {}).play()

    return trio.run(main, clock=MockClock(autojump_threshold=0))
