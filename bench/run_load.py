"""What is done to a run, and how long each step of it takes; and raw LMDB writing the same.

The measured run lives beside others that wait, in one store. Its gateway needs no time: it
answers what is new at once, and otherwise streams until a steering cuts it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import lmdb
import trio

from counterpoint.runtime import (
    Config,
    Limits,
    ModelInput,
    ModelMessage,
    Reply,
    RunContext,
    Runtime,
    Turn,
)
from counterpoint.runtime.effect import DidNotHappen
from counterpoint.runtime.gateways.protocol import ReplyStream
from counterpoint.runtime.opening import FORMAT_VERSION, runtime_on
from counterpoint.store.engine import Engine, Overlay, Transaction, Txn
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.owner_lock import OwnerLocks

from .noting import NotingEngine

CLASSES: Final[tuple[Literal["read", "idempotent", "reconcilable", "once"], ...]] = (
    "read",
    "idempotent",
    "reconcilable",
    "once",
)
STEERINGS_OF_RUN = 5
"""Each makes the next inputs longer, so a run gets only so many."""

T = TypeVar("T")

Puts = Sequence[tuple[bytes, bytes | None]]
Times = defaultdict[str, list[float]]


class StepEngine(NotingEngine):
    """An `Engine` that passes everything on and notes what each transaction wrote."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.under: str | None = None
        """What is measured now; None notes nothing."""
        self.written: defaultdict[str, list[Puts]] = defaultdict(list)

    def noting(self, transaction: Transaction[T]) -> Transaction[T]:
        """See `NotingEngine.noting`."""
        under = self.under
        if under is None:
            return transaction

        def noted(txn: Txn) -> T:
            result = transaction(txn)
            assert isinstance(txn, Overlay)
            self.written[under].append(txn.writes())
            return result

        return noted


class Instant:
    """A gateway that answers at once what it has not been asked before, else streams on."""

    name = "instant"

    def __init__(self, streams: Callable[[], None] = lambda: None) -> None:
        self._streams = streams
        self._answered = -1

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        """Reply if a message is new."""
        await trio.lowlevel.checkpoint()
        count = len(model_input.messages)
        if count == self._answered:
            emit("On and on")
            self._streams()
            await trio.sleep_forever()
        self._answered = count
        return Reply(text="Noted.")


class Measured:
    """The agent: parked, steered, or at work, as the words of its run say."""

    def __init__(self, load: Load) -> None:
        self._load = load

    async def __call__(self, run: RunContext) -> None:
        if run.request == "steered":
            await self._is_steered(run)
        elif run.request == "works":
            await self._works(run)
        else:
            await trio.sleep_forever()

    async def _is_steered(self, run: RunContext) -> None:
        gateway = Instant(lambda: self._load.streaming.send_nowait(None))
        async for turn in run.turns():
            await turn.request(gateway, lambda added: _as_input(run, added))
            self._load.engine.under = None  # the next request is no part of the delivery
            self._load.arrived.send_nowait(time.perf_counter())

    async def _works(self, run: RunContext) -> None:
        turn = await anext(aiter(run.turns()))
        for number in range(self._load.repeats):
            gateway = Instant()
            with self._load.timed("request"):
                await turn.request(gateway, lambda added: _as_input(run, added))
            for repeat in CLASSES:
                with self._load.timed(f"effect: {repeat}"):
                    await _act(turn, repeat, number)
        await run.complete("Done.")


def _as_input(run: RunContext, added: tuple[Any, ...]) -> ModelInput:
    asked = ModelMessage(role="user", text=run.request)
    return ModelInput(
        messages=(asked, *(ModelMessage(role="user", text=item.text) for item in added))
    )


async def _act(turn: Turn, repeat: str, number: int) -> None:
    arguments = {"number": number}
    match repeat:
        case "read":
            await turn.effect("read", arguments, do=_look)
        case "reconcilable":
            await turn.effect(repeat, arguments, do=_do, repeat="reconcilable", reconcile=_ask)
        case "idempotent":
            await turn.effect(repeat, arguments, do=_do, repeat="idempotent")
        case _:
            await turn.effect(repeat, arguments, do=_do, repeat="once")


async def _look(_: dict[str, Any]) -> str:
    return "seen"


async def _do(_: dict[str, Any], __: str) -> str:
    return "done"


async def _ask(_: str) -> DidNotHappen:
    return DidNotHappen()


class _Timed:
    def __init__(self, load: Load, what: str) -> None:
        self._load, self._what, self._began = load, what, 0.0

    def __enter__(self) -> None:
        self._load.engine.under = self._what
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._load.times[self._what].append(time.perf_counter() - self._began)
        self._load.engine.under = None


class Load:
    """One open store with so many runs that live beside the measured one."""

    def __init__(self, engine: Engine, repeats: int) -> None:
        self.engine = StepEngine(engine)
        self.repeats = repeats
        self.times: Times = defaultdict(list)
        self.arrived, self._delivered = trio.open_memory_channel[float](100)
        self.streaming, self._streams = trio.open_memory_channel[None](100)
        self._ids = 0

    def timed(self, what: str) -> _Timed:
        """Time what is done inside, and note what it writes."""
        return _Timed(self, what)

    def _id(self) -> str:
        self._ids += 1
        return f"id-{self._ids:06}"

    async def start(self, runtime: Runtime, conversation: str, text: str) -> str:
        """Start a run in a conversation."""
        receipt = await runtime.submit(
            scope="ann", conversation=conversation, client_id=self._id(), text=text
        )
        assert receipt.run is not None
        return receipt.run

    async def open(self, runtime: Runtime) -> str:
        """Open a conversation."""
        opened = await runtime.open_conversation(scope="ann", client_id=self._id())
        return opened.conversation

    async def park(self, runtime: Runtime, live: int) -> None:
        """Start the runs that live beside the measured one, 50 a conversation."""
        async with trio.open_nursery() as nursery:
            for begin in range(0, live - 1, 50):
                where = await self.open(runtime)
                for _ in range(min(50, live - 1 - begin)):
                    nursery.start_soon(self.start, runtime, where, "rests")

    async def round(self, runtime: Runtime) -> None:
        """Measure everything once, so many times."""
        where = await self.open(runtime)
        run = await self.start(runtime, where, "works")
        await runtime.wait(scope="ann", run=run)
        for _ in range(0, self.repeats, STEERINGS_OF_RUN):
            await self._steer_and_stop(runtime, where)

    async def _steer_and_stop(self, runtime: Runtime, where: str) -> None:
        run = await self.start(runtime, where, "steered")
        await self._delivered.receive()  # its first request
        for number in range(STEERINGS_OF_RUN):
            await self._streams.receive()  # the request in flight that is cut
            with self.timed("steer to saved"):
                await runtime.steer(
                    scope="ann", run=run, client_id=self._id(), text=f"Point {number}"
                )
            saved = time.perf_counter()
            self.engine.under = "saved to delivered"
            self.times["saved to delivered"].append(await self._delivered.receive() - saved)
        with self.timed("stop accepted"):
            await runtime.stop(scope="ann", run=run, client_id=self._id())
        with self.timed("accepted to stopped"):
            await runtime.wait(scope="ann", run=run)


@asynccontextmanager
async def opened(folder: Path, repeats: int) -> AsyncGenerator[tuple[Runtime, Load], None]:
    """Open a store on LMDB with a load on it."""
    limits = Limits(
        capacity={"short": 2_000, "background": 1},
        requests_of_run_max=100_000,
        effects_of_run_max=100_000,
    )
    config = Config(limits=limits, drain_s=0.05)
    async with open_lmdb_engine(
        folder,
        map_bytes=config.map_bytes,
        map_bytes_max=config.map_bytes_max,
        format_version=FORMAT_VERSION,
    ) as engine:
        load = Load(engine, repeats)
        async with runtime_on(
            load.engine,
            OwnerLocks(folder / "owners"),
            agents={"short": Measured(load)},
            config=config,
        ) as runtime:
            yield runtime, load


def write_raw(folder: Path, transactions: Sequence[Puts]) -> list[float]:
    """Write each transaction with a commit of its own; return how long each took."""
    folder.mkdir(exist_ok=True)
    env = lmdb.Environment(str(folder), map_size=1 << 30, meminit=False)
    took: list[float] = []
    for writes in transactions:
        puts = [(key, value) for key, value in writes if value is not None]
        began = time.perf_counter()
        txn = env.begin(write=True)
        txn.cursor().putmulti(puts)
        txn.commit()
        took.append(time.perf_counter() - began)
    env.close()
    return took
