"""The supervisor: whose runs are orphans, who sleeps, and how everything comes to rest.

Capacity is enforced by the rules in each transaction; what the supervisor adds is that a
slot never stays with a process that is gone: at the start and then periodically it looks
for owners whose lock is free and settles their runs one by one (C30-C32, D13).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import trio

from ..store import endings, runs, settlement
from ..store.engine import StoreError
from ..store.ids import OwnerId, RunId
from ..store.records import Damaged, Reason
from ..store.refusal import OutcomeUnknown, Refused
from .environment import Environment, logger
from .kernel import LaterReply, TrioActor
from .messages import ActorMessage, ShutDown
from .roster import Roster

AT_ONCE: Final = 64
"""Runs that are settled at once: as many share a commit, and hold up others for that long."""


class Settle(ActorMessage, frozen=True, kw_only=True):
    """To the supervisor: settle now; answered with how many runs were looked after."""


class RunDied(ActorMessage, frozen=True, kw_only=True):
    """To the supervisor: the actor of a run ended by an exception of ours."""

    run: RunId
    what: str


class Supervisor(TrioActor):
    """One a runtime. Its end is the runtime's."""

    registered = False

    def __init__(self, environment: Environment, roster: Roster) -> None:
        super().__init__()
        self._environment = environment
        self._roster = roster

    def on_start(self) -> None:
        """Begin the periodic work."""
        self.spawn(self._settle_periodically)
        self.spawn(self._rest_periodically)

    async def on_receive(self, message: Any) -> Any:
        """Take in one thing; see `messages.py` and above."""
        match message:
            case Settle():
                return await self._settle()
            case RunDied():
                self.spawn(self._end_internally, message)  # it may have to wait for room
                return None
            case ShutDown():
                reply = self.reply_later()
                self.spawn(self._shut_down, reply)
                return reply
            case _:
                raise TypeError(f"the supervisor takes no {type(message).__name__}")

    async def _settle_periodically(self) -> None:
        while True:
            await trio.sleep(self._environment.timing.settle_every_s)
            if not self._environment.closing:  # it would take runs over only to interrupt them
                await self._settle()

    async def _rest_periodically(self) -> None:
        idle_s = self._environment.timing.actor_idle_s
        while True:
            await trio.sleep(idle_s)
            self._roster.rest(idle_s)

    async def _settle(self) -> int:
        """Look after every run whose owner is gone; return how many there were."""
        environment = self._environment
        with environment.engine.read() as txn:
            known = settlement.owners(txn)
        gone = environment.liveness.gone(known)
        if not gone:
            return 0
        tried: set[RunId] = set()
        left: set[OwnerId] = set()
        page_len = environment.limits.settle_page
        while True:
            with environment.engine.read() as txn:
                page = settlement.orphans(txn, gone, most=page_len, tried=tried)
            left |= await self._settle_page(page)
            tried.update(run for run, _ in page)
            if len(page) < page_len:
                break
        for owner in gone - left:
            await self._forget(owner)
        return len(tried)

    async def _settle_page(self, page: list[tuple[RunId, OwnerId]]) -> set[OwnerId]:
        """Look after these runs; return the owners of those that the next pass has to try.

        Each has a transaction of its own, and many share a commit. What may have failed only
        because of what it shared it with is tried once more by itself.
        """
        failed = await self._settle_together(page)
        left: set[OwnerId] = set()
        in_a_row = 0
        for run, lost in failed:
            # two in a row: the store is at fault, and the next pass finds it mended or not
            if in_a_row < 2 and await self._settle_one(run, lost):
                in_a_row = 0
            else:
                in_a_row += 1
                left.add(lost)
        return left

    async def _settle_together(
        self, page: list[tuple[RunId, OwnerId]]
    ) -> list[tuple[RunId, OwnerId]]:
        failed: list[tuple[RunId, OwnerId]] = []
        limiter = trio.CapacityLimiter(AT_ONCE)

        async def look_after(run: RunId, lost: OwnerId) -> None:
            async with limiter:
                if not await self._settle_one(run, lost):
                    failed.append((run, lost))

        async with trio.open_nursery() as nursery:
            for run, lost in page:
                nursery.start_soon(look_after, run, lost)
        return failed

    async def _settle_one(self, run: RunId, lost: OwnerId) -> bool:
        """Adopt or end one orphan; false if that has to be tried again at the next pass."""
        environment = self._environment
        orphan = settlement.Orphan(
            run=run,
            lost=lost,
            heir=environment.owner,
            publication=environment.ids.publication(),
            now_ms=environment.ids.now_ms(),
            agents=tuple(environment.agents),
        )
        settle = partial(settlement.settle, limits=environment.limits, orphan=orphan)
        try:
            result = await environment.commit(settle)
        except Exception:  # noqa: BLE001 — a broken record may raise anything
            logger.exception("run %s of a process that is gone was not settled", run)
            return self._settled_all_the_same(run)
        if isinstance(result, settlement.Adopted):
            self._roster.begin(run)
        return True

    def _settled_all_the_same(self, run_id: RunId) -> bool:
        """Read back what a settling of unknown outcome did: a run that was adopted belongs to
        this process from then on, and no later pass would find it."""
        try:
            with self._environment.engine.read() as txn:
                run = runs.find(txn, run_id)
        except (StoreError, Damaged):
            return False
        if run is None or run.owner != self._environment.owner:
            return False
        if run.state not in runs.FINAL:
            self._roster.begin(run_id)
        return True

    async def _forget(self, owner: OwnerId) -> None:
        try:
            await self._environment.commit(partial(settlement.forget, owner=owner))
        except (Refused, OutcomeUnknown):
            logger.exception("owner %s was not forgotten", owner)
        else:
            self._environment.liveness.forget(owner)

    async def _end_internally(self, died: RunDied) -> None:
        environment = self._environment
        ending = endings.Ending(
            run=died.run,
            owner=environment.owner,
            cue=runs.Cue.FAIL,
            reason=Reason.INTERNAL,
            publication=environment.ids.publication(),
            now_ms=environment.ids.now_ms(),
            detail=died.what,
        )
        try:
            await environment.insist(partial(endings.finish, ending=ending))
        except runs.OwnerLost:
            pass  # its end had been recorded
        except (Refused, OutcomeUnknown):
            logger.exception("the end of run %s was not recorded; it will be settled", died.run)

    async def _shut_down(self, reply: LaterReply) -> None:
        """Give the runs a bounded time, then interrupt what is left (D20)."""
        drain_s = self._environment.timing.drain_s
        with trio.move_on_after(drain_s):
            await self._roster.quiet()
        self._roster.shut_down_runs()
        with trio.move_on_after(drain_s):
            await self._roster.quiet()
        reply.set(None)
