"""A chat from its opening to the last thing shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import trio

from ...store.engine import StoreError
from ..agent import Agent, AgentFunction
from ..config import Config
from ..errors import Damaged, OutcomeUnknown, Refused, RuntimeFailed, StoreUnusable
from ..opening import open_runtime
from ..runtime import Runtime
from . import shown
from .arguments import Settings
from .command import AnyCommand, Mistake, Quit
from .follower import Screen
from .labels import Labels
from .leaving import EXIT_BAD_INPUT, EXIT_FAILED, Leaving
from .session import Session, open_session

FLUSH_S = 5.0
"""How long a reader that does not read may hold a chat that is left."""


class Ways(Protocol):
    """A way in and a way out."""

    @property
    def reconciles(self) -> bool:
        """Whether an unknown outcome is looked up here, and not by whoever asked."""
        ...

    @property
    def screen(self) -> Screen:
        """Where things are shown."""
        ...

    @property
    def commands(self) -> AsyncIterator[AnyCommand | Mistake]:
        """What is asked."""
        ...

    async def start(self, nursery: trio.Nursery) -> None:
        """Open both ways; what has to run for them runs in `nursery`."""
        ...

    async def end_input(self) -> None:
        """Close the way in."""
        ...

    async def flush(self) -> None:
        """Wait until everything that was shown is written."""
        ...


async def chat(
    settings: Settings,
    agents: Mapping[str, AgentFunction | Agent],
    labels: Labels,
    ways: Ways,
    leaving: Leaving,
) -> int:
    """Hold a chat until it is left, and return the exit code.

    What is shown goes on to be shown while the runtime is left: which runs ended in the
    time they had, and which were interrupted (D20).
    """
    async with trio.open_nursery() as nursery:
        await nursery.start(leaving.listen)
        config = _config(settings)
        try:
            async with open_runtime(settings.store, agents=agents, config=config) as runtime:
                await _hold(settings, runtime, labels, ways, leaving, nursery)
        except (StoreUnusable, Refused, OutcomeUnknown) as error:
            leaving.fail(getattr(error, "sentence", str(error)), EXIT_BAD_INPUT)
        except (RuntimeFailed, Damaged, StoreError) as error:
            leaving.fail(str(error), EXIT_FAILED)
        finally:
            with trio.CancelScope(shield=True):  # the terminal is given back whatever happens
                await ways.end_input()
        with trio.move_on_after(FLUSH_S):
            await ways.flush()
        nursery.cancel_scope.cancel()
    return leaving.code


def _config(settings: Settings) -> Config:
    usual = Config(limits=settings.limits(), drain_s=settings.drain_s)
    if settings.map_bytes_max is None:
        return usual
    return Config(
        limits=usual.limits,
        drain_s=usual.drain_s,
        map_bytes=min(usual.map_bytes, settings.map_bytes_max),
        map_bytes_max=settings.map_bytes_max,
    )


async def _hold(
    settings: Settings,
    runtime: Runtime,
    labels: Labels,
    ways: Ways,
    leaving: Leaving,
    nursery: trio.Nursery,
) -> None:
    """The chat while the runtime is open."""
    session, reopened = await open_session(
        runtime, ways.screen, labels, scope=settings.scope, reconciles=ways.reconciles
    )
    version = labels.seen
    after = version if settings.after is None else settings.after
    if after > version:
        sentence = f"--after {after}: the conversation's last event is number {version}."
        leaving.fail(sentence, EXIT_BAD_INPUT)
        return
    await ways.start(nursery)
    ways.screen.show(
        shown.Ready(
            conversation=session.conversation,
            version=version,
            after=after,
            reopened=reopened,
            scope=settings.scope,
            store=_as_text(settings.store),
            folder=_as_text(settings.folder),
            runs=await session.runs(),
        )
    )
    await nursery.start(_follow, session, after, leaving)
    with leaving.scope:
        await _serve(session, ways, leaving)
    await ways.end_input()
    if leaving.begun:
        live = await session.live()
        ways.screen.show(shown.Leaving(drain_s=settings.drain_s, runs=live))


async def _follow(
    session: Session, after: int, leaving: Leaving, *, task_status: trio.TaskStatus[None]
) -> None:
    try:
        await session.follower.follow(after, task_status=task_status)
    except (Refused, Damaged, StoreError) as error:
        leaving.fail(str(error), EXIT_FAILED)


async def _serve(session: Session, ways: Ways, leaving: Leaving) -> None:
    """Carry out what is asked, in order, until the end of input and of the runs."""
    async for asked in ways.commands:
        if isinstance(asked, Quit):
            leaving.leave(0)
            return
        await session.carry_out(asked)
        await ways.screen.room()
    await ways.end_input()
    live = await session.live()
    if live:
        ways.screen.show(shown.Waiting(runs=live))
    await session.rest()
    await ways.flush()


def _as_text(path: object) -> str:
    """Return a path for people: bytes that are no text become question marks."""
    return str(path).encode(errors="replace").decode()
