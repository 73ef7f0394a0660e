"""How others hold an actor: its ref, and the ask that a task awaits."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, overload

import pykka
import trio
from pykka._envelope import Envelope
from pykka.messages import _ActorStop  # pyright: ignore[reportPrivateUsage]

from .future import TrioFuture, WouldBlockLoop
from .mailbox import Mailbox
from .reply import settle_exception

A = TypeVar("A", bound=pykka.Actor)


class TrioActorRef(pykka.ActorRef[A]):
    """A `pykka.ActorRef` that never lets a thread that runs a trio loop wait.

    `tell`, `ask` and `stop` may be called from any thread. On a thread that runs a trio
    loop use `ask(..., block=False)`, `stop(block=False)` and await what they return, or
    the function `ask`.
    """

    @overload
    def ask(
        self, message: Any, *, block: Literal[False], timeout: float | None = None
    ) -> TrioFuture[Any]: ...

    @overload
    def ask(self, message: Any, *, block: Literal[True], timeout: float | None = None) -> Any: ...

    @overload
    def ask(
        self, message: Any, *, block: bool = True, timeout: float | None = None
    ) -> Any | TrioFuture[Any]: ...

    def ask(  # pyright: ignore[reportIncompatibleMethodOverride] - the same overloads, narrower
        self, message: Any, *, block: bool = True, timeout: float | None = None
    ) -> Any | TrioFuture[Any]:
        """Send `message` and return the reply, or with `block=False` a future of it.

        `timeout` is in seconds and only counts while blocking; a time-out takes nothing
        back, so whether the message was or will be served is unknown.

        Raises:
          MailboxFull: the message was not sent, also with `block=False`.
          WouldBlockLoop: it would block a trio loop; the message was not sent.
          pykka.Timeout: no reply in time, if blocking.
          pykka.ActorDeadError: the actor ended before it replied, if blocking; served or
            not is unknown. With `block=False` the future raises it.
          BaseException: the one that the handler raised, if blocking.
        """
        if block and trio.lowlevel.in_trio_run():
            raise WouldBlockLoop(
                "ask() would keep a thread that runs a trio loop waiting; nothing was sent: "
                "use `await ask(ref, message, timeout=...)` or pass block=False"
            )
        future = self.send(message)
        if block:
            return future.get(timeout=timeout)
        return future

    def send(self, message: Any) -> TrioFuture[Any]:
        """Do what `ask(message, block=False)` does, without its choice.

        Raises:
          MailboxFull: the message was not sent.
        """
        future: TrioFuture[Any] = TrioFuture()
        if self.actor_stopped.is_set():
            settle_exception(future, pykka.ActorDeadError(f"{self} not found"))
        else:
            try:
                self.actor_inbox.put(Envelope(message, future))
            except pykka.ActorDeadError as error:  # it ended since we looked
                settle_exception(future, error)
        return future

    @overload
    def stop(self, *, block: Literal[True], timeout: float | None = None) -> bool: ...

    @overload
    def stop(self, *, block: Literal[False], timeout: float | None = None) -> TrioFuture[bool]: ...

    @overload
    def stop(
        self, *, block: bool = True, timeout: float | None = None
    ) -> bool | TrioFuture[bool]: ...

    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | TrioFuture[bool]:
        """Ask the actor to end once it has served what is queued; false if it was dead.

        The reply comes when `on_stop` has run and everything left over was answered.

        Raises:
          WouldBlockLoop: it would block a trio loop; the actor was not asked to stop.
          pykka.Timeout: not ended in time, if blocking; it still will end.
        """
        if block and self.is_alive() and trio.lowlevel.in_trio_run():
            raise WouldBlockLoop(
                "stop() would keep a thread that runs a trio loop waiting; nothing was sent: "
                "pass block=False and await what it returns"
            )
        stopped: TrioFuture[bool] = TrioFuture()
        try:
            if self.actor_stopped.is_set():
                stopped.set(value=False)
            else:
                self.actor_inbox.put(Envelope(_ActorStop(), stopped))
        except pykka.ActorDeadError:  # it ended since we looked
            stopped.set(value=False)
        return stopped.get(timeout=timeout) if block else stopped


async def ask(ref: pykka.ActorRef[Any], message: Any, *, timeout: float) -> Any:
    """Send `message` to one of our actors and return its reply; from any trio task.

    `timeout` is in seconds, `math.inf` for none. Time-out and cancellation take nothing
    back: whether the message was or will be served is then unknown.

    Raises:
      MailboxFull: the message was not sent.
      pykka.Timeout: no reply in time.
      pykka.ActorDeadError: the actor was dead, or ended before it replied.
      BaseException: the one that the handler raised.
    """
    if not isinstance(ref, TrioActorRef):
        raise TypeError(f"{ref!r} is not of a TrioActor: its reply cannot be awaited")
    mailbox = ref.actor_inbox
    if isinstance(mailbox, Mailbox) and mailbox.idle_here() and not isinstance(message, tuple):
        serve = mailbox.serve_at_once
        if serve is not None:
            future: TrioFuture[Any] = TrioFuture()
            serve(message, future)
            return await future.wait(timeout=timeout)
    return await ref.send(message).wait(timeout=timeout)
