"""The load of `bench gate`: admissions, and what is answered without one.

The submitters and the clock are those of `bench admission`; here every process has scopes of
its own, so that several of them can share one store.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from counterpoint.runtime import Config, Refused, RunContext, Runtime, open_runtime
from counterpoint.store.engine import Statistics
from counterpoint.store.ids import ClientId, ConversationId, ScopeId

from .admission_load import (
    RUNS_OF_SCOPE,
    TEXT,
    WRITE_WAIT_S,
    ClientIds,
    Kind,
    Load,
    Measured,
    Place,
    Slice,
    Submit,
    measure,
)

NOWHERE = ConversationId("c" + "0" * 24)
CONFIG = Config(write_wait_s=WRITE_WAIT_S, ask_wait_s=WRITE_WAIT_S)


class Answered(StrEnum):
    """What a submission may get instead of being admitted."""

    REPLAY = "replay"
    CONFLICT = "conflict"
    NOT_FOUND = "not found"
    FULL = "capacity full"


class Open(NamedTuple):
    """An open runtime whose runs wait until it is left."""

    runtime: Runtime
    client_id: ClientIds
    name: str
    """Begins every scope of this process."""

    def statistics(self) -> Statistics:
        return self.runtime._engine.statistics()  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def opened(folder: Path, name: str, *, in_order: bool) -> AsyncGenerator[Open]:
    release = trio.Event()

    async def park(run: RunContext) -> None:
        await release.wait()
        await run.complete("Done.")

    async with open_runtime(folder, agents={"short": park}, config=CONFIG) as runtime:
        try:
            yield Open(runtime, ClientIds(in_order=in_order), name)
        finally:
            release.set()
            await runtime.quiet()


async def places_of(at: Open, admissions: int) -> list[Place]:
    """Open as many conversations, in a scope each, as so many admissions need; wake them."""
    places: list[Place] = []
    numbers = iter(range(-(-admissions // RUNS_OF_SCOPE)))

    async def opener() -> None:
        for number in numbers:
            scope, first = ScopeId(f"{at.name}-{number:06}"), at.client_id()
            receipt = await at.runtime.open_conversation(scope=scope, client_id=first)
            place = Place(scope, receipt.conversation)
            places.append(place)
            with suppress(Refused):  # by the actor itself: the id is in use
                await _submit(at, place, first)

    async with trio.open_nursery() as openers:
        for _ in range(128):
            openers.start_soon(opener)
    return places


async def _submit(at: Open, place: Place, client_id: str, text: str = TEXT) -> None:
    await at.runtime.submit(
        scope=place.scope, conversation=place.conversation, client_id=client_id, text=text
    )


async def admitting(folder: Path, load: Load, *, in_order: bool, name: str = "person") -> Slice:
    """Measure admissions on the store in `folder`, new or not."""
    async with opened(folder, name, in_order=in_order) as at:
        places = await places_of(at, load.admissions)
        submit: Submit = lambda place, client_id: _submit(at, place, client_id)  # noqa: E731
        return await measure(Measured(submit, at.statistics, places, at.client_id), load)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What it costs to answer without admitting. Of one slice."""

    slice: Slice
    transactions: int
    """Transactions that were run for them: none, if a read is enough."""


async def answering(folder: Path, load: Load, *, in_order: bool) -> dict[str, Cost]:
    """Measure each way of being answered, in a store in which every scope is full."""
    found: dict[str, Cost] = {}
    async with opened(folder, "person", in_order=in_order) as at:
        places = await places_of(at, load.admissions)
        fill_all = load._replace(admissions=len(places) * RUNS_OF_SCOPE, seconds_max=600.0)
        used: list[tuple[Place, ClientId]] = []

        async def admit(place: Place, client_id: str) -> None:
            await _submit(at, place, client_id)
            used.append((place, ClientId(client_id)))

        await measure(Measured(admit, at.statistics, places, at.client_id), fill_all)
        for kind in Answered:
            submit = _without_admission(at, kind, used)
            before = at.statistics().transactions
            slice_ = await measure(Measured(submit, at.statistics, places, at.client_id), load)
            transactions = at.statistics().transactions - before
            found[str(kind)] = Cost(slice=slice_, transactions=transactions)
    return found


def _without_admission(at: Open, kind: Answered, used: list[tuple[Place, ClientId]]) -> Submit:
    accepted = itertools.cycle(used)

    async def submit(place: Place, client_id: str) -> None:
        text = TEXT
        match kind:
            case Answered.REPLAY | Answered.CONFLICT:
                place, client_id = next(accepted)
                text = TEXT if kind is Answered.REPLAY else "Something else"
            case Answered.NOT_FOUND:
                place = Place(place.scope, NOWHERE)
            case Answered.FULL:
                pass
        answered = str(Answered.REPLAY)
        try:
            await _submit(at, place, client_id, text)
        except Refused as refused:
            answered = refused.code.replace("_", " ")
        assert answered == kind

    return submit


# Several processes.


def together(folder: Path, processes: int, load: Load, *, in_order: bool) -> list[Slice]:
    """Measure `load` in each of so many processes at once, on one store."""
    children: list[subprocess.Popen[bytes]] = []
    for number in range(processes):
        given = msgspec.json.encode((str(folder), load, in_order, f"process-{number}")).decode()
        children.append(
            subprocess.Popen(
                [sys.executable, "-m", "bench", "gate", "--child", given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[1],
            )
        )
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"go\n")
            child.stdin.flush()
        return [msgspec.json.decode(child.communicate()[0], type=Slice) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def child(given: str) -> None:
    """Be one of several processes: say when everything is awake, go when told, answer."""
    folder, load, in_order, name = msgspec.json.decode(given, type=tuple[str, Load, bool, str])

    async def run() -> Slice:
        async with opened(Path(folder), name, in_order=in_order) as at:
            places = await places_of(at, load.admissions)
            print("ready", flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline)
            submit: Submit = lambda place, client_id: _submit(at, place, client_id)  # noqa: E731
            return await measure(Measured(submit, at.statistics, places, at.client_id), load)

    print(msgspec.json.encode(trio.run(run)).decode(), flush=True)


PARKED = Kind.PARKED
