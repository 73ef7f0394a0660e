"""Pykka's actors as trio tasks: thousands of them cost kilobytes each.

An actor is one task that serves one message at a time. Its handlers, hooks and proxied
methods may be `async`. Everything of pykka's contract that does not need a thread of the
actor's own holds: refs, ask, tell, stop, proxies, the registry and the hooks, from any
thread. What differs, and why, stands at `TrioActor`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Self

import pykka
import trio

from .future import TrioFuture, WouldBlockLoop
from .life import Life
from .mailbox import LEN_MAX, Mailbox, MailboxFull
from .reference import TrioActorRef, ask
from .reply import LaterReply
from .stop_flag import StopFlag
from .system import (
    ActorSystem,
    SystemClosed,
    default_system,
    open_actor_system,
    stop_default_system,
)

__all__ = [
    "ActorSystem",
    "LaterReply",
    "Mailbox",
    "MailboxFull",
    "SystemClosed",
    "TrioActor",
    "TrioActorRef",
    "TrioFuture",
    "WouldBlockLoop",
    "ask",
    "default_system",
    "open_actor_system",
    "stop_default_system",
]

logger = logging.getLogger("pykka")


class TrioActor(pykka.Actor):
    """An actor that lives as a trio task and keeps pykka's contract.

    `start(..., system=system)` gives it a task in that system, `start(...)` in the default
    one, see `default_system`. `__init__` runs in the starter's thread; hooks and handlers
    run on the system's loop, may be `async`, and must not block. Messages are served one
    at a time, also while an `async` handler waits. While the actor is idle, a plain
    `on_receive` may run within the `await ask(...)` of a task of the same loop.

    What pykka leaves open, or does otherwise:

    - A mailbox holds `mailbox_len_max` messages and refuses more with `MailboxFull`.
    - A BaseException from a handler, such as SystemExit, ends this actor and no other.
      KeyboardInterrupt on the main thread ends the system, and leaves its block.
    - When the system is cancelled, the actor ends as if stopped, at once: its `on_stop`
      runs, and whoever still waits for a reply gets `pykka.ActorDeadError`.
    - On a thread that runs a trio loop nothing blocks: see `WouldBlockLoop`.
    """

    mailbox_len_max: ClassVar[int] = LEN_MAX
    """How many unserved messages the mailbox holds."""

    farewell_seconds_max: ClassVar[float] = 5.0
    """How long an `async` `on_stop` or `on_failure` may take; cancellation waits for it."""

    registered: ClassVar[bool] = True
    """Whether it stands in `pykka.ActorRegistry`, a list that an actor leaves in linear time.

    Leave it at true unless actors of the class live by the ten thousand.
    """

    # The one name that subclasses must leave alone. Set by `start`, so that no `__init__`
    # has to pass a system on.
    _life: Life | None = None

    @classmethod
    def start(  # pyright: ignore[reportIncompatibleMethodOverride] - it takes Self for Actor
        cls, *args: Any, system: ActorSystem | None = None, **kwargs: Any
    ) -> TrioActorRef[Self]:
        """Create, register and start an actor in `system`, or the default one; any thread.

        All other arguments go to the constructor. Returns before `on_start` has run;
        messages sent meanwhile wait in the mailbox.

        Raises:
          SystemClosed: the system is closing or gone; nothing was started.
        """
        actor = cls(*args, **kwargs)
        assert isinstance(actor.actor_inbox, Mailbox)
        actor._life = life = Life(actor, actor.actor_inbox, system or default_system())
        if cls.registered:
            pykka.ActorRegistry.register(actor.actor_ref)
        logger.debug("Starting %s", actor)
        try:
            actor._start_actor_loop()
        except SystemClosed:
            life.depart()
            raise
        return actor.actor_ref

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        # The four fields of pykka's, spelled out: its event and a second ref would cost as
        # much again as the rest.
        self.actor_urn = uuid.uuid4().urn
        self.actor_inbox = Mailbox(self.mailbox_len_max)
        self.actor_stopped = StopFlag()
        self._actor_ref = TrioActorRef(self)

    @property
    def actor_ref(  # pyright: ignore[reportIncompatibleMethodOverride] - it takes Self for Actor
        self,
    ) -> TrioActorRef[Self]:
        """The actor's ref, which is what others may hold."""
        ref = self._actor_ref
        assert isinstance(ref, TrioActorRef)
        return ref

    @property
    def system(self) -> ActorSystem:
        """The system it lives in, from `on_start` on; not yet in `__init__`.

        Raises:
          RuntimeError: the actor was not started.
        """
        return self._alive().system

    @property
    def failure(self) -> BaseException | None:
        """The exception by which it is ending; None while it lives and if it was stopped.

        For its children: one that is cancelled can tell the actor's own failure from a stop
        and from the end of the whole system.
        """
        return self._alive().death

    def reply_later(self) -> LaterReply:
        """Return a handle; a handler that returns it replies later, through it.

        The actor serves its next message meanwhile. Only in a handler or a proxied method,
        on behalf of the message being served.

        Raises:
          RuntimeError: no message is being served.
        """
        return self._alive().reply_later()

    def spawn(self, async_fn: Callable[..., Awaitable[object]], *args: Any) -> trio.CancelScope:
        """Run `async_fn(*args)` beside the actor's handlers, and return its cancel scope.

        It is cancelled, and waited for, when the actor ends, before its last hook. If it
        raises, the actor fails as soon as it is done with the message it serves. Call it
        on the loop: from hooks, handlers and children.

        Raises:
          RuntimeError: the actor has ended, or this is another thread than its loop's.
        """
        return self._alive().spawn(async_fn, args)

    @staticmethod
    def _create_actor_inbox() -> Mailbox:
        return Mailbox()

    @staticmethod
    def _create_future() -> TrioFuture[Any]:
        return TrioFuture()

    def _start_actor_loop(self) -> None:
        life = self._alive()
        life.system.admit(self.actor_ref, life.live, life.depart)

    def _alive(self) -> Life:
        if self._life is None:
            raise RuntimeError(f"{self} was not started")
        return self._life
