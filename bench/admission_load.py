"""The load of `bench admission`: so many submitters, each with its next message after its
receipt, over so many scopes that capacity is never what limits them.

Everything is the default configuration: three runs a scope and at most 2,000 live ones. So
a slice admits fewer than 2,000 messages, the third part of them to each conversation, and
many slices make a figure. All conversations are awake when the clock starts.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from counterpoint.runtime import Config, Limits, Refused, RunContext, Runtime, open_runtime
from counterpoint.runtime.opening import FORMAT_VERSION, runtime_on
from counterpoint.store import admission, identity
from counterpoint.store.engine import Engine, Statistics
from counterpoint.store.ids import ClientId, ConversationId, IdSource, OwnerId, ScopeId
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.owner_lock import OwnerLocks
from counterpoint.store.records import Depth, Verb

from .admission_records import Recorded, RecordingEngine, written_bytes
from .loop_watch import LoopWatch, watched

RUNS_OF_SCOPE = 3
"""The default capacity for short runs."""

WRITE_WAIT_S = 60.0
"""Longer than a slice may take: a starved row should be slow and not refused."""

TEXT = "Compare the monthly returns of the three indices over the past five years, please. " * 2


class Kind(StrEnum):
    """What is measured."""

    PARKED = "admit"
    """Through the public API; the runs start, and wait until the clock has stopped."""
    ENDING = "admit + end"
    """The same, but each run publishes its answer and ends as soon as it can."""
    STORE = "store alone"
    """The rule through the engine: no API, no actor, no run."""


class Load(NamedTuple):
    """One row."""

    kind: Kind
    callers: int
    admissions: int
    busy_ms: float = 0.0
    """Beside a task that never rests and takes turns of this length; 0 is none."""
    seconds_max: float = 5.0
    """After this long no caller begins another one."""


class Slice(NamedTuple):
    """What one slice of a row gave. Times in seconds, sizes in bytes."""

    admitted: int
    took: float
    latencies: list[float]
    mean_batch: float
    loop_cpu: float
    """Processor time of the loop's thread an admission."""
    other_cpu: float
    """Processor time of all other threads an admission."""
    written: float
    """An admission."""
    stood_still: list[float]
    pass_cpu: list[float]
    collector_cpu: list[float]


class Place(NamedTuple):
    """Where a message goes."""

    scope: ScopeId
    conversation: ConversationId


Submit = Callable[[Place, str], Awaitable[object]]


class ClientIds:
    """Ids as a client would make them: random, or in the order of time as UUIDv7 is."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._count = itertools.count(time.time_ns() // 1_000_000 << 16)

    def __call__(self) -> ClientId:
        noise = os.urandom(16).hex()
        return ClientId(f"{next(self._count):016x}{noise[16:]}" if self._in_order else noise)


class Measured(NamedTuple):
    """What a slice is measured on."""

    submit: Submit
    statistics: Callable[[], Statistics]
    places: list[Place]
    client_id: ClientIds


async def _busy(turn_s: float) -> None:
    """A host's loop that is never idle."""
    while True:
        until = time.perf_counter() + turn_s
        while time.perf_counter() < until:
            pass
        await trio.lowlevel.checkpoint()


async def measure(on: Measured, load: Load) -> Slice:
    """Let all callers submit until the admissions are done or the time is up."""
    latencies: list[float] = []
    places = itertools.cycle(on.places)
    left = load.admissions
    give_up_at = time.perf_counter() + load.seconds_max

    async def caller() -> None:
        nonlocal left
        while left > 0 and time.perf_counter() < give_up_at:
            left -= 1
            place = next(places)
            began = time.perf_counter()
            await on.submit(place, on.client_id())
            latencies.append(time.perf_counter() - began)

    gc.collect()
    async with trio.open_nursery() as beside:
        if load.busy_ms:
            beside.start_soon(_busy, load.busy_ms / 1000)
        with watched(beside) as watch:
            result = await _timed(on, load, caller, latencies, watch)
        beside.cancel_scope.cancel()
    return result


async def _timed(
    on: Measured,
    load: Load,
    caller: Callable[[], Awaitable[None]],
    latencies: list[float],
    watch: LoopWatch,
) -> Slice:
    before, written = on.statistics(), written_bytes()
    loop_cpu, all_cpu, began = time.thread_time(), time.process_time(), time.perf_counter()
    async with trio.open_nursery() as callers:
        for _ in range(load.callers):
            callers.start_soon(caller)
    took = time.perf_counter() - began
    loop_cpu, all_cpu = time.thread_time() - loop_cpu, time.process_time() - all_cpu
    after, admitted = on.statistics(), len(latencies)
    return Slice(
        admitted=admitted,
        took=took,
        latencies=latencies,
        mean_batch=(after.transactions - before.transactions)
        / max(1, after.batches - before.batches),
        loop_cpu=loop_cpu / admitted,
        other_cpu=(all_cpu - loop_cpu) / admitted,
        written=(written_bytes() - written) / admitted,
        stood_still=watch.stood_still,
        pass_cpu=watch.pass_cpu,
        collector_cpu=watch.collector_cpu,
    )


# Through the public API.


def _config() -> Config:
    return Config(write_wait_s=WRITE_WAIT_S, ask_wait_s=WRITE_WAIT_S)


async def _end_at_once(run: RunContext) -> None:
    await run.complete("Done.")


async def _places_of(runtime: Runtime, count: int, client_id: ClientIds) -> list[Place]:
    """Open a conversation in each of `count` scopes, and wake its actor."""
    places: list[Place] = []
    scopes = iter(range(count))

    async def opener() -> None:
        for number in scopes:
            scope, first_id = ScopeId(f"person-{number:06}"), client_id()
            opened = await runtime.open_conversation(scope=scope, client_id=first_id)
            places.append(Place(scope, opened.conversation))
            # refused by the actor itself, with nothing written: the id is in use
            with suppress(Refused):
                await runtime.submit(
                    scope=scope, conversation=opened.conversation, client_id=first_id, text=TEXT
                )

    async with trio.open_nursery() as openers:
        for _ in range(128):
            openers.start_soon(opener)
    return places


@asynccontextmanager
async def _through_api(
    runtime: Runtime, engine: Engine, release: trio.Event, load: Load, *, in_order: bool
) -> AsyncGenerator[Measured]:
    client_id = ClientIds(in_order=in_order)
    count = -(-load.admissions // RUNS_OF_SCOPE)

    async def submit(place: Place, identifier: str) -> None:
        await runtime.submit(
            scope=place.scope, conversation=place.conversation, client_id=identifier, text=TEXT
        )

    places = await _places_of(runtime, count, client_id)
    try:
        yield Measured(submit, engine.statistics, places, client_id)
    finally:
        release.set()
        await runtime.quiet()


async def through_api(folder: Path, load: Load, *, in_order: bool) -> Slice:
    """Measure `load` through `Runtime.submit` on a new store."""
    release = trio.Event()

    async def park(run: RunContext) -> None:
        await release.wait()
        await run.complete("Done.")

    agent = park if load.kind is Kind.PARKED else _end_at_once
    async with open_runtime(folder, agents={"short": agent}, config=_config()) as runtime:
        engine = runtime._engine  # pyright: ignore[reportPrivateUsage] - for its statistics
        async with _through_api(runtime, engine, release, load, in_order=in_order) as measured:
            return await measure(measured, load)


async def record(folder: Path, load: Load, *, in_order: bool) -> Recorded:
    """Run `load` through the public API and return what it wrote."""
    release = trio.Event()

    async def park(run: RunContext) -> None:
        await release.wait()
        await run.complete("Done.")

    async with open_lmdb_engine(folder, format_version=FORMAT_VERSION) as engine:
        recording = RecordingEngine(engine)
        locks = OwnerLocks(folder / "owners")
        async with (
            runtime_on(recording, locks, agents={"short": park}, config=_config()) as runtime,
            _through_api(runtime, recording, release, load, in_order=in_order) as measured,
        ):
            await measure(measured, load)
    return recording.recorded


# The store alone.


async def through_store(folder: Path, load: Load, *, in_order: bool) -> Slice:
    """Measure `load` as transactions of the engine, with nothing above it."""
    ids, limits, client_id = IdSource(_wall_clock_ms), Limits(), ClientIds(in_order=in_order)
    owner: OwnerId = ids.owner()
    async with open_lmdb_engine(folder, format_version=FORMAT_VERSION) as engine:

        async def submit(place: Place, identifier: str) -> None:
            submission = admission.Submission(
                scope=place.scope,
                conversation=place.conversation,
                client_id=ClientId(identifier),
                verb=Verb.PLAIN,
                text=TEXT,
                text_sha256=identity.text_hash(TEXT),
                depth=Depth.NORMAL,
                message=ids.message(),
                run=ids.run(),
                owner=owner,
                now_ms=ids.now_ms(),
                disposition="answer: nothing to decide",
            )
            admit = partial(admission.admit, limits=limits, submission=submission)
            await engine.write(admit, deadline=trio.current_time() + WRITE_WAIT_S)

        places: list[Place] = []

        async def open_in(scope: ScopeId) -> None:
            opening = admission.Opening(
                scope=scope,
                client_id=client_id(),
                title="",
                conversation=ids.conversation(),
                now_ms=ids.now_ms(),
            )
            transaction = partial(admission.open_conversation, opening=opening)
            opened = await engine.write(transaction, deadline=trio.current_time() + WRITE_WAIT_S)
            places.append(Place(scope, opened.conversation))

        async with trio.open_nursery() as openers:
            for number in range(-(-load.admissions // RUNS_OF_SCOPE)):
                openers.start_soon(open_in, ScopeId(f"person-{number:06}"))
        return await measure(Measured(submit, engine.statistics, places, client_id), load)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


async def idle(folder: Path, seconds: float) -> list[float]:
    """Return how long the loop of an open runtime stands still with nothing to do: the
    floor of every other such figure."""
    async with (
        open_runtime(folder, agents={"short": _end_at_once}, config=_config()),
        trio.open_nursery() as beside,
    ):
        with watched(beside) as watch:
            await trio.sleep(seconds)
        beside.cancel_scope.cancel()
    return watch.stood_still
