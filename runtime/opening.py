"""Opening a runtime: the store, the owner, the actors, and how all of it comes to rest."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pykka
import trio

from ..actors.bells import Bells
from ..actors.environment import Environment, logger
from ..actors.kernel import TrioActorRef, ask, open_actor_system
from ..actors.messages import ShutDown
from ..actors.roster import Roster
from ..actors.supervisor import RunDied, Settle, Supervisor
from ..actors.tail import Tail
from ..store import settlement
from ..store.engine import Engine
from ..store.ids import IdSource, OwnerId
from ..store.lmdb_engine import open_lmdb_engine
from ..store.owner_lock import Liveness, OwnerLocks
from ..store.records import Owner
from ..store.store_format import Migration
from .agent import Agent, AgentFunction, carried_out_by
from .config import Config
from .errors import RuntimeFailed
from .runtime import Runtime

FORMAT_VERSION = 1

MIGRATIONS: Final[Mapping[int, Migration]] = {}
"""`MIGRATIONS[n]` turns a store of format n into one of n + 1 (FORMAT.md)."""


@asynccontextmanager
async def open_runtime(
    path: str | Path, *, agents: Mapping[str, AgentFunction | Agent], config: Config | None = None
) -> AsyncGenerator[Runtime, None]:
    """Open the store in the folder `path`, made if it is missing, and execute its runs.

    `agents` maps a capacity class to what executes its runs: `short` for plain messages,
    `background` for work that the person put there. Runs of processes that are gone are
    settled before this returns (D13). Leaving the block admits nothing more, gives the runs
    `config.drain_s` to end and interrupts the rest (D20); so does cancelling it.

    Raises:
      StoreUnusable: the path can't be opened as a store; the sentence says why.
      RuntimeFailed: the supervisor died; raised when the block is left.
      ValueError: no agent for `short` is given.
    """
    config = config or Config()
    folder = Path(path)
    owners = folder / "owners"
    async with (
        open_lmdb_engine(
            folder,
            map_bytes=config.map_bytes,
            map_bytes_max=config.map_bytes_max,
            format_version=FORMAT_VERSION,
            migrations=MIGRATIONS,
        ) as engine,
        runtime_on(
            engine, OwnerLocks(owners), agents=agents, config=config, bell_folder=owners
        ) as runtime,
    ):
        yield runtime


@asynccontextmanager
async def runtime_on(
    engine: Engine,
    liveness: Liveness,
    *,
    agents: Mapping[str, AgentFunction | Agent],
    config: Config,
    bell_folder: Path | None = None,
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> AsyncGenerator[Runtime, None]:
    """As `open_runtime`, on an engine that the caller opened and closes: for tests.

    Without `bell_folder` what other processes commit is found by the poll alone.
    """
    if "short" not in agents:
        raise ValueError("agents must have one for the class 'short': it answers plain messages")
    ids = IdSource(clock_ms)
    owner = ids.owner()
    environment = Environment(
        engine=engine,
        ids=ids,
        owner=owner,
        liveness=liveness,
        limits=config.limits,
        timing=config.timing(),
        agents={name: carried_out_by(agent, config.limits) for name, agent in agents.items()},
    )
    liveness.claim(owner)
    try:
        await environment.commit(partial(settlement.register, owner=_this_process(owner, ids)))
        bells = None if bell_folder is None else Bells(bell_folder, owner)
        try:
            async with _running(environment, config, bells) as runtime:
                yield runtime
        finally:
            if bells is not None:
                bells.close()
    finally:
        liveness.release()


def _this_process(owner: OwnerId, ids: IdSource) -> Owner:
    return Owner(owner=owner, pid=os.getpid(), host=platform.node(), started_at_ms=ids.now_ms())


async def _come_to_rest(supervisor: TrioActorRef[Supervisor], config: Config) -> None:
    """Let the runs end, up to the bounds (D20)."""
    try:
        await ask(supervisor, ShutDown(), timeout=3 * config.drain_s)
    except pykka.ActorDeadError:
        pass  # cancelled with all the others: each run records its own end
    except pykka.Timeout:
        logger.warning("the runs did not come to rest in time; the next start settles them")


@asynccontextmanager
async def _running(
    environment: Environment, config: Config, bells: Bells | None
) -> AsyncGenerator[Runtime, None]:
    """The actors of one runtime, from the first settlement to the last end."""
    failure: BaseException | None = None
    async with open_actor_system() as system:
        tail = Tail(environment.engine)
        system.start_task(tail.poll, config.poll_s)
        if bells is not None:
            environment.engine.on_commit(bells.ring)
            system.start_task(bells.listen, tail.catch_up)
        roster = Roster(environment, tail, system, config.live_runs_max)
        supervisor = Supervisor.start(environment, roster, system=system)
        body = trio.CancelScope()

        def on_death(ref: pykka.ActorRef[Any], error: BaseException) -> None:
            nonlocal failure
            if ref == supervisor:
                failure = error
                body.cancel()
                return
            logger.error("%s ended by an exception", ref, exc_info=error)
            run = roster.died(ref)
            if run is not None:
                supervisor.tell(RunDied(run=run, what=f"internal fault: {error!r}"))

        system.on_actor_death = on_death
        await ask(supervisor, Settle(), timeout=math.inf)
        try:
            with body:
                yield Runtime(config, environment, tail, system, roster)
        finally:
            environment.closing = True
            if failure is None:
                with trio.CancelScope(shield=True):
                    await _come_to_rest(supervisor, config)
    if failure is not None:
        raise RuntimeFailed(
            "The runtime's supervisor ended by an exception. Everything acknowledged is in the "
            "store; open it again to go on."
        ) from failure
