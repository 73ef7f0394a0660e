"""At no committed instant are there more holders than slots, and no free slot is refused.

Method: two processes on one store in memory admit, promote, stop and end runs of several
scopes at random, and all of it dies at a random commit, some lives in a row. Every refusal
notes the store's sequence in its own transaction. Afterwards the holders at each sequence
are told again from the event log alone: every version is looked at, none is sampled.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TypeVar

import msgspec
import pykka
import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Agent, Code, Config, OutcomeUnknown, Refused, RunContext, Runtime
from counterpoint.runtime.opening import runtime_on
from counterpoint.store import events as store_events
from counterpoint.store.engine import Done, ReadTxn, Transaction, Txn
from counterpoint.store.ids import OwnerId
from counterpoint.store.limits import Limits
from counterpoint.store.memory_engine import Crash, Image, MemoryEngine, Point
from counterpoint.store.owner_lock import OwnersInMemory
from counterpoint.store.records import EventKind
from counterpoint.store.verify import verify

from .orphans import events

T = TypeVar("T")

LIVES = 4
ACTS = 60
SCOPES = ("ann", "bob", "cleo", "dan")
LIMITS = Limits(
    capacity={"short": 3, "background": 2},
    capacity_of_scope={"bob": {"short": 1}, "cleo": {"background": 1}, "dan": {"background": 0}},
)

Holders = dict[tuple[str, str], set[str]]
"""The runs that hold slots, by scope and class."""


class Refusal(msgspec.Struct, frozen=True):
    """One refusal for want of a slot, with the store's sequence as its transaction saw it."""

    sequence: int
    run_class: str
    holders: tuple[str, ...]
    limit: int


class NotingEngine(MemoryEngine):
    """Notes each refusal for want of a slot."""

    def __init__(self, image: Image, faults: Callable[[Point], None]) -> None:
        super().__init__(image, faults=faults)
        self.refusals: list[Refusal] = []

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        return await super().write(self._noting(transaction), deadline=deadline)

    def enqueue(self, transaction: Transaction[T], *, deadline: float, done: Done[T]) -> None:
        super().enqueue(self._noting(transaction), deadline=deadline, done=done)

    def _noting(self, transaction: Transaction[T]) -> Transaction[T]:
        def noted(txn: Txn) -> T:
            try:
                return transaction(txn)
            except Refused as refused:
                if refused.code is Code.CAPACITY_FULL:
                    self.refusals.append(refusal(store_events.sequence(txn), refused.facts))
                raise

        return noted


def refusal(sequence: int, facts: dict[str, object]) -> Refusal:
    return msgspec.convert({"sequence": sequence, **facts}, Refusal)


async def passes(seconds: float) -> None:
    """Let time pass, of the clock that each life has and that costs nothing."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


class Race:
    """The lives of one store."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.image = Image()
        self.refusals: list[Refusal] = []
        self.deaths = 0
        self._intents = 0

    def live(self) -> None:
        """Go through one life, up to a random commit."""
        engines: list[NotingEngine] = []
        left = self.rng.randint(20, 120)

        def die(point: Point) -> None:
            nonlocal left
            if point == self.point:
                left -= 1
                if left == 0:
                    raise Crash("here")

        self.point: Point = self.rng.choice(("commit.before", "commit.after"))
        try:
            trio.run(self._life, engines, die, clock=MockClock(autojump_threshold=0))
        except* (Crash, pykka.ActorDeadError, OutcomeUnknown):
            self.deaths += 1
        [engine] = engines
        self.image = engine.crash_image()
        committed = store_events.sequence(self.image)
        # what was refused on top of a batch that was never committed never happened
        self.refusals += [item for item in engine.refusals if item.sequence <= committed]

    async def _life(self, engines: list[NotingEngine], die: Callable[[Point], None]) -> None:
        engine = NotingEngine(self.image, die)
        engines.append(engine)
        alive = set[OwnerId]()
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(self._process, engine, alive, nursery)

    async def _process(
        self, engine: NotingEngine, alive: set[OwnerId], nursery: trio.Nursery
    ) -> None:
        agents = {name: Agent(self._works, on_owner_loss="resume") for name in LIMITS.capacity}
        config = Config(limits=LIMITS, drain_s=1)
        left, done = len(SCOPES), trio.Event()

        async def act(runtime: Runtime, scope: str) -> None:
            nonlocal left
            await self._acts(runtime, scope)
            left -= 1
            if left == 0:
                done.set()

        owners = OwnersInMemory(alive)
        async with runtime_on(engine, owners, agents=agents, config=config) as runtime:
            for scope in SCOPES:
                nursery.start_soon(act, runtime, scope)
            await done.wait()

    async def _works(self, run: RunContext) -> None:
        """Promote or not, take a while or not, and answer."""
        async for _ in run.turns():
            if self.rng.random() < 0.5:
                await run.promote()
            await passes(self.rng.choice((0, 0.01, 0.5, 5)))
            await run.complete("Done.")

    async def _acts(self, runtime: Runtime, scope: str) -> None:
        opened = await runtime.open_conversation(scope=scope, client_id="c-1")
        runs: list[str] = []
        for _ in range(ACTS):
            self._intents += 1
            intent = f"i-{self._intents}"
            await passes(self.rng.choice((0, 0, 0.01, 0.2)))
            with suppress(Refused):
                if runs and self.rng.random() < 0.3:
                    run = self.rng.choice(runs)
                    await runtime.stop(scope=scope, run=run, client_id=intent)
                    continue
                receipt = await runtime.submit(
                    scope=scope,
                    conversation=opened.conversation,
                    client_id=intent,
                    text="Dig",
                    entry=self.rng.choice(("plain", "plain", "background")),
                )
                assert receipt.run is not None
                runs.append(receipt.run)


def instants(txn: ReadTxn) -> list[Holders]:
    """Return who held the slots before the event of each sequence, from the events alone."""
    held: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    scope_of: dict[str, str] = {}
    found: list[Holders] = []
    for event in events(txn):
        found.append({key: set(runs) for key, runs in held.items() if runs})
        run = str(event.run)
        match event.kind:
            case EventKind.CONVERSATION_OPENED:
                scope_of[event.conversation] = event.scope
            case EventKind.MESSAGE_ADMITTED:
                held[scope_of[event.conversation], event.facts["run_class"]].add(run)
            case EventKind.RUN_PROMOTED:
                scope = scope_of[event.conversation]
                held[scope, event.facts["before"]].remove(run)
                held[scope, event.facts["run_class"]].add(run)
            case EventKind.RUN_ENDED:
                for runs in held.values():
                    runs.discard(run)
            case _:
                pass
    found.append({key: set(runs) for key, runs in held.items() if runs})
    return found


@pytest.mark.slow
@pytest.mark.contract("B41", "B43", "B45", "B48", "C35", "C36", "C37", "D9", "D10", "E6")
def test_every_refusal_named_the_holders_of_its_own_instant(fault_seed: int) -> None:
    race = Race(fault_seed)
    for _ in range(LIVES):
        race.live()
        assert list(verify(race.image, LIMITS)) == []
    told = instants(race.image)
    for held in told:
        for (scope, run_class), runs in held.items():
            assert len(runs) <= LIMITS.slots(scope, run_class)
    promotions = [
        refusal(number, event.facts)
        for number, event in enumerate(events(race.image), start=1)
        if event.kind is EventKind.PROMOTION_REFUSED
    ]
    for item in (*race.refusals, *promotions):
        holders = set(item.holders)
        assert len(holders) == len(item.holders) == item.limit
        assert item.limit == 0 or holders in [
            runs
            for (_, run_class), runs in told[item.sequence - 1].items()
            if run_class == item.run_class
        ]
    assert race.deaths
    assert len(race.refusals) > 50
    assert promotions
