"""The points of a run: every commit and every await of its agent, counted and named.

A dry run counts them. At a chosen one the run is held until what is to meet it there has
happened, whole. A commit has four: before the run asks for it, after it, and in one batch
with what meets it, on either side.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from counterpoint.runtime.gateways import Gate
from counterpoint.store import endings, runs
from counterpoint.store.engine import Transaction
from counterpoint.store.memory_engine import MemoryEngine

T = TypeVar("T")


class Happening(NamedTuple):
    """Something that meets the run. Awaiting `act` returns when it has happened."""

    act: Callable[[], Awaitable[None]]
    commits: bool
    """It is a write of its own, and can share a batch."""


class Point(NamedTuple):
    """One point, as the dry run came by it."""

    number: int
    name: str

    @property
    def in_a_batch(self) -> bool:
        """Whether only what is committed itself can be put here."""
        return self.name.endswith((" ahead", " behind"))


class Points:
    """Where a run has been so far, and what is to happen where."""

    def __init__(self, plan: Mapping[int, Sequence[Happening]]) -> None:
        self.passed: list[Point] = []
        self.concluding = False
        """True once the run's owner has begun to record an end other than an answer."""
        self.nursery: trio.Nursery | None = None
        """Where what meets the run happens: in nobody's task."""
        self._plan = plan
        self._armed = False

    def arm(self) -> None:
        """Count from here on."""
        self._armed = True

    def _next(self, name: str) -> Sequence[Happening]:
        if not self._armed:
            return ()
        self.passed.append(Point(len(self.passed), name))
        return self._plan.get(len(self.passed) - 1, ())

    async def at(self, name: str, *, whole: bool = False) -> None:
        """Hold the caller here until all that is planned has happened. It can be cut
        meanwhile, as at any await, unless it is `whole`."""
        for happening in self._next(name):
            done = trio.Event()
            assert self.nursery is not None
            self.nursery.start_soon(_happen, happening, done)
            with trio.CancelScope(shield=whole):
                await done.wait()

    async def commit(self, engine: MemoryEngine, name: str, write: Callable[[], Awaitable[T]]) -> T:
        """Carry out one write of the run with its four points around it."""
        await self.at(f"{name} before")
        ahead = [one for one in self._next(f"{name} ahead") if one.commits]
        behind = [one for one in self._next(f"{name} behind") if one.commits]
        if ahead or behind:
            ready = trio.Event()
            assert self.nursery is not None
            self.nursery.start_soon(_in_one_batch, engine, ahead, behind, ready)
            with trio.CancelScope(shield=True):
                await ready.wait()
        try:
            return await write()
        finally:
            await self.at(f"{name} after", whole=True)


async def _happen(happening: Happening, done: trio.Event) -> None:
    await happening.act()
    await wait_all_tasks_blocked()  # whatever follows from it has followed
    done.set()


async def _in_one_batch(
    engine: MemoryEngine,
    ahead: Sequence[Happening],
    behind: Sequence[Happening],
    ready: trio.Event,
) -> None:
    """Put writes ahead of the run's next one and behind it, into the batch that it is in."""
    async with trio.open_nursery() as nursery:
        with engine.locked_elsewhere():
            for happening in ahead:
                nursery.start_soon(happening.act)
                await wait_all_tasks_blocked()
            ready.set()
            await wait_all_tasks_blocked()
            for happening in behind:
                nursery.start_soon(happening.act)
                await wait_all_tasks_blocked()


class WatchedEngine(MemoryEngine):
    """A store in memory in which every write of a run's owner is a commit with points."""

    def __init__(self, points: Points) -> None:
        super().__init__()
        self._points = points

    async def write(self, transaction: Transaction[T], *, deadline: float) -> T:
        def write() -> Awaitable[T]:
            return super(WatchedEngine, self).write(transaction, deadline=deadline)

        name = self._name(transaction)
        if name is None:
            return await write()
        return await self._points.commit(self, name, write)

    def _name(self, transaction: Any) -> str | None:
        rule = getattr(transaction, "func", None)
        ending = getattr(transaction, "keywords", {}).get("ending")
        if isinstance(ending, endings.Ending) and ending.cue is not runs.Cue.COMPLETE:
            self._points.concluding = True
            return f"end as {ending.cue}"
        if rule is None:
            return None
        module = str(rule.__module__).rpartition(".")[2]
        if module in ("requests", "effects", "runs", "endings"):
            return f"{module}.{rule.__name__}"
        return None


class Spot(Gate):
    """A point within a line of a script."""

    def __init__(self, points: Points, name: str) -> None:
        super().__init__()
        self._points = points
        self._name = name

    async def passed(self) -> None:
        await self._points.at(self._name)
