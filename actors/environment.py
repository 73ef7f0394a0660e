"""What all actors of one runtime share, and the one place where a write's end is named.

Actors write only through `Environment.commit` and `enqueue`: there the engine's outcomes
become the three values that callers see (C2): a result, `Refused`, or `OutcomeUnknown`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from ..store.admission import run_class_of
from ..store.engine import (
    Engine,
    OutcomeInDoubt,
    StoreError,
    StoreFailed,
    StoreFull,
    Transaction,
    Withdrawn,
)
from ..store.ids import IdSource, OwnerId
from ..store.limits import Limits
from ..store.owner_lock import Liveness
from ..store.records import Verb
from ..store.refusal import Code, OutcomeUnknown, Refused

if TYPE_CHECKING:
    from .run import RunActor

T = TypeVar("T")

logger = logging.getLogger("counterpoint")


class Executor(msgspec.Struct, frozen=True, kw_only=True):
    """What executes the runs of one agent, and what its author decided beforehand."""

    execute: Callable[[RunActor], Awaitable[None]]
    """Works through the run's actor until the run has ended."""
    cuts_for_steering: bool = True
    """Whether a saved revision cuts the request in flight while only text streams (B62)."""
    resumes: bool = False
    """Whether a run whose owner is gone is entered again from its checkpoint (D13)."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long actors wait, in seconds. Built by the runtime's configuration."""

    write_wait_s: float
    actor_idle_s: float
    poll_s: float
    settle_every_s: float
    drain_s: float
    stop_wait_s: float
    restarts_max: int
    restarts_s: float


class Environment:
    """The store, the identities, the limits and the agents of one open runtime."""

    def __init__(
        self,
        *,
        engine: Engine,
        ids: IdSource,
        owner: OwnerId,
        liveness: Liveness,
        limits: Limits,
        timing: Timing,
        agents: Mapping[str, Executor],
    ) -> None:
        self.engine = engine
        self.ids = ids
        self.owner = owner
        self.liveness = liveness
        self.limits = limits
        self.timing = timing
        self.agents = agents
        self.closing = False
        """True once the runtime admits nothing more (D20)."""

    def must_have_agent(self, verb: Verb) -> None:
        """Check that somebody here executes what a message of this entry starts.

        Raises:
          Refused: `invalid`.
        """
        if run_class_of(verb) not in self.agents:
            raise Refused(
                Code.INVALID,
                f"This host has no agent for {run_class_of(verb)} work, so the entry {verb} "
                "can't be used with it; nothing was stored.",
                field="entry",
            )

    def resumes(self, verb: Verb) -> bool:
        """Return whether the agent of a message's run wants to be entered again (D13)."""
        agent = self.agents.get(run_class_of(verb))
        return agent is not None and agent.resumes

    def deadline(self) -> float:
        """Return by when a write that is asked for now must have begun (D18)."""
        return trio.current_time() + self.timing.write_wait_s

    async def commit(self, transaction: Transaction[T]) -> T:
        """Run `transaction` and commit it durably.

        Raises:
          Refused: by a rule, or `busy`, `store_full`, `store_unavailable`.
          OutcomeUnknown: it may or may not be stored.
        """
        try:
            return await self.engine.write(transaction, deadline=self.deadline())
        except StoreError as error:
            raise self.outcome_of(error) from error

    async def insist(self, transaction: Transaction[T]) -> T:
        """As `commit`, but try again for as long as a wait, a full disk or a failing one is
        all that is in the way: for facts about a run that its owner must record sooner or
        later.

        Raises:
          Refused: by a rule, or `store_unavailable`.
          OutcomeUnknown: it may or may not be stored.
        """
        pause_s = 0.05
        while True:
            try:
                return await self.commit(transaction)
            except Refused as refused:
                transient = refused.code in (Code.BUSY, Code.STORE_FULL)
                if not (transient or isinstance(refused.__cause__, StoreFailed)):
                    raise
                logger.warning("a write is tried again: %s", refused)
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def enqueue(
        self,
        transaction: Transaction[T],
        done: Callable[[T | None, BaseException | None], None],
    ) -> None:
        """As `commit`, but return at once; `done(result, error)` is called in the loop."""

        def named(result: T | None, error: BaseException | None) -> None:
            if isinstance(error, StoreError):
                error = self.outcome_of(error)
            done(result, error)

        self.engine.enqueue(transaction, deadline=self.deadline(), done=named)

    def outcome_of(self, error: StoreError) -> Refused | OutcomeUnknown:
        """Name how a write ended that no rule refused (D18, D19)."""
        if isinstance(error, OutcomeInDoubt):
            return OutcomeUnknown(
                "The store failed while this was being written, and whether it was stored could "
                "not be read back. Open the store again and look the id up."
            )
        if isinstance(error, Withdrawn):
            wait_s = self.timing.write_wait_s
            return Refused(
                Code.BUSY,
                f"Another process held the store for {wait_s:g} s; nothing was stored. "
                "Try the same again.",
                waited_s=wait_s,
            )
        if isinstance(error, StoreFull):
            return Refused(
                Code.STORE_FULL,
                "The disk or the store is full; nothing was stored and nothing is lost. "
                "Free space, or raise map_bytes_max, then try the same again.",
            )
        return Refused(Code.STORE_UNAVAILABLE, f"Nothing was stored: {error}")
