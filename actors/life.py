"""The life of one actor: begin, serve one message after another, end.

There are four ways to end, and each answers whoever still waits:

- stopped: the stop message came up; `on_stop`;
- failed: `on_start`, a message that nobody asked for, or a child raised; `on_failure`,
  after a failed `on_start` no hook;
- perished: something no handler may catch, a BaseException; `on_stop`;
- cancelled: the system's nursery was; `on_stop`, and the Cancelled goes on.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import pykka
import trio
from pykka._envelope import Envelope
from pykka.messages import _ActorStop  # pyright: ignore[reportPrivateUsage]
from trio.lowlevel import current_task, wait_task_rescheduled

from .mailbox import Mailbox
from .reply import LaterReply, dead_because, settle, settle_exception
from .system import ActorSystem

if TYPE_CHECKING:
    from .kernel import TrioActor

# A busy actor lets the other tasks run after this many messages. A checkpoint costs about
# as much as serving three of them, so at 64 it costs a twentieth.
BURST_LEN_MAX = 64

# Pykka's logger, because the actors keep what pykka promises to log.
logger = logging.getLogger("pykka")

E = TypeVar("E", bound=BaseException)


class Failed(NamedTuple):
    """To the actor itself, ahead of all others: something that ran elsewhere has failed."""

    error: BaseException


class Begun(NamedTuple):
    """To the actor itself: go on with what an asker's task began in its place."""

    serve: Coroutine[Any, Any, Any]


class Life:
    """What an actor does as a task; all of it on its system's loop.

    Kept apart from the actor, whose namespace belongs to those who subclass it.
    """

    __slots__ = (
        "_actor",
        "_childless",
        "_children",
        "_context",
        "_ended",
        "_later",
        "_mailbox",
        "_owed",
        "_serving",
        "death",
        "system",
    )

    def __init__(self, actor: TrioActor, mailbox: Mailbox, system: ActorSystem) -> None:
        self.system = system
        self._actor = actor
        self._mailbox = mailbox
        self._ended = False
        self.death: BaseException | None = None
        self._serving: Envelope[Any] | None = None
        self._later: LaterReply | None = None
        self._owed: dict[LaterReply, None] | None = None
        self._children: dict[trio.CancelScope, None] | None = None
        self._childless: trio.Event | None = None

    async def live(self) -> None:
        """Live; the one place where a BaseException ends up."""
        self._context = current_task().context
        self._mailbox.serve_at_once = self._serve_at_once
        try:
            if await self._begin():
                await self._serve()
        except GeneratorExit:  # the loop itself broke down: nothing can be awaited any more
            raise
        except BaseException as error:  # noqa: BLE001 - `_perish` raises what is trio's again
            await self._perish(error)
        finally:
            self.depart()

    def reply_later(self) -> LaterReply:
        """Return the handle on the reply to the message being served."""
        if self._serving is None:
            raise RuntimeError(f"{self._actor} serves no message now, so it owes no reply")
        if self._owed is None:
            self._owed = {}
        self._later = LaterReply(self._serving.reply_to, self._owed)
        return self._later

    def spawn(
        self, async_fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> trio.CancelScope:
        """Start a child, and return its cancel scope."""
        if self._ended:
            raise RuntimeError(f"{self._actor} has ended, so it cannot spawn")
        if not self.system.on_loop_thread():
            raise RuntimeError(f"{self._actor} can spawn on the thread of its loop only")
        scope = trio.CancelScope()
        self.system.start_task(self._live_as_child, scope, async_fn, args)
        if self._children is None:
            self._children = {}
        self._children[scope] = None
        return scope

    def depart(self) -> None:
        """Answer whoever still waits, and leave the system; the last act, never waits."""
        self._ended = True
        actor, name, death = self._actor, str(self._actor), self.death
        if not actor.actor_stopped.is_set():  # it never lived, or the loop broke down
            pykka.ActorRegistry.unregister(actor.actor_ref)
            actor.actor_stopped.set()
        refuse = functools.partial(_refuse, name, death)
        self._mailbox.close(refuse)
        if self._serving is not None:
            refuse(self._serving)
            self._serving = None
        for later in list(self._owed or ()):
            later.set_exception(dead_because(f"{name} ended before it replied", death))
        self.system.depart(actor.actor_ref, death)

    async def _begin(self) -> bool:
        try:
            started: Any = self._actor.on_start()  # type: ignore[func-returns-value]
            if started.__class__ is CoroutineType:
                await started
        except Exception as error:  # noqa: BLE001 - the actor's own, so it fails by it
            await self._fail(error)
            return False
        return True

    async def _serve(self) -> None:
        """Serve messages until one of them ends the actor."""
        actor, mailbox, waiting = self._actor, self._mailbox, self._mailbox.queue
        burst_len = 0
        while not self._ended:
            if waiting and burst_len < BURST_LEN_MAX:
                burst_len += 1
            else:
                burst_len = 0
                self._serving = None
                if waiting or not mailbox.arm():
                    await trio.lowlevel.checkpoint()
                else:  # `mailbox.ready()`, spelled out: this is on the path of every ask
                    await wait_task_rescheduled(mailbox.disarm)
                if not waiting:
                    continue
            self._serving = envelope = waiting.popleft()
            message = envelope.message
            try:
                # Pykka's own messages and ours are tuples; a host's mostly are not.
                if isinstance(message, tuple):
                    response = self._serve_tuple(message)  # pyright: ignore[reportUnknownArgumentType]
                else:
                    response = actor.on_receive(message)
                if response.__class__ is CoroutineType:
                    response = await response
            except Exception as error:  # noqa: BLE001 - the handler's own: its asker gets it
                await self._answer_failure(envelope, error)
            else:
                if self._later is not None or response.__class__ is LaterReply:
                    self._answer_later(envelope, response)
                elif (reply_to := envelope.reply_to) is not None and not self._ended:
                    try:
                        reply_to.set(response)
                    except queue.Full:
                        logger.debug("%s replied to a future that was set already", actor)

    def _serve_tuple(self, message: tuple[Any, ...]) -> Any:
        if isinstance(message, _ActorStop):
            return self._retire()
        if isinstance(message, Failed):
            raise message.error
        if isinstance(message, Begun):
            return message.serve
        return self._actor._handle_receive(message)  # pyright: ignore[reportPrivateUsage]

    def _serve_at_once(self, message: Any, reply_to: pykka.Future[Any]) -> None:
        """Serve `message` in the asker's task, while the actor's own is parked and idle.

        That saves both switches between the two tasks, which are most of what an ask costs.
        What is not over when the handler returns goes to the actor's own task.
        """
        self._serving = envelope = Envelope(message, reply_to)
        try:
            response = self._context.run(self._actor.on_receive, message)
        except Exception as error:  # noqa: BLE001 - the handler's own: its asker gets it
            self._drop_later()
            self._answer_asker(reply_to, error)
        except BaseException as error:  # noqa: BLE001 - the actor dies of it, not the asker
            self._mailbox.put_first(Envelope(Failed(error), reply_to))
        else:
            if response.__class__ is CoroutineType:
                self._mailbox.put_first(Envelope(Begun(response), reply_to))
            elif self._later is not None or response.__class__ is LaterReply:
                self._answer_later(envelope, response)
            else:
                reply_to.set(response)
        self._serving = None

    def _answer_asker(self, reply_to: pykka.Future[Any], error: Exception) -> None:
        logger.info("Exception returned from %s to caller:", self._actor, exc_info=error)
        settle_exception(reply_to, error)

    async def _answer_failure(self, envelope: Envelope[Any], error: Exception) -> None:
        self._drop_later()
        if envelope.reply_to is not None:
            self._answer_asker(envelope.reply_to, error)
            return
        await self._fail(error)
        await self._take_leave(self._actor.on_failure, type(error), error, error.__traceback__)

    def _answer_later(self, envelope: Envelope[Any], response: Any) -> None:
        if response is self._later:
            self._later = None
            self._serving = None
            return
        self._drop_later()
        if envelope.reply_to is None:
            return
        if isinstance(response, LaterReply):
            error = RuntimeError("the handler returned the LaterReply of another message")
            settle_exception(envelope.reply_to, error)
        else:
            settle(envelope.reply_to, response)

    def _drop_later(self) -> None:
        """Forget a handle that the handler made and did not return."""
        if self._later is not None and self._owed is not None:
            self._owed.pop(self._later, None)
        self._later = None

    async def _retire(self) -> None:
        """End as pykka's actors do when they are stopped; only once."""
        if self._ended:
            return
        self._ended = True
        actor = self._actor
        if actor.registered:
            pykka.ActorRegistry.unregister(actor.actor_ref)
        actor.actor_stopped.set()
        logger.debug("Stopped %s", actor)
        await self._reap()
        await self._take_leave(actor.on_stop)

    async def _fail(self, error: Exception) -> None:
        """End by `error`: log, unregister, stop, and cancel the children."""
        self._ended = True
        self.death = error
        self._handle_failure(error)
        await self._reap()

    def _handle_failure(self, error: BaseException) -> None:
        self._actor._handle_failure(  # pyright: ignore[reportPrivateUsage]
            type(error), error, error.__traceback__
        )

    async def _perish(self, error: BaseException) -> None:
        """End by what no handler may catch; what is trio's goes on, all else stays here."""
        cancelled = _part(error, trio.Cancelled)
        if cancelled is not error:
            self.death = error
            logger.debug("%r in %s. Stopping this actor alone.", error, self._actor)
            self._pass_on_interrupt(error)
        try:
            await self._retire()
        except BaseException as worse:
            self.death = self.death or worse
            logger.exception("Unhandled exception in %s:", self._actor)
            self._pass_on_interrupt(worse)
        if cancelled is not None:
            raise cancelled

    def _pass_on_interrupt(self, error: BaseException) -> None:
        # Python delivers Ctrl-C to whatever runs on the main thread: it was meant for the
        # program. On another thread somebody raised it, which is this actor's own affair.
        if threading.current_thread() is threading.main_thread():
            interrupt = _part(error, KeyboardInterrupt)
            if interrupt is not None:
                self.system.interrupted(interrupt)

    async def _take_leave(self, hook: Callable[..., object], *args: Any) -> None:
        """Run a last hook; if `async`, shielded from cancellation, for a bounded time."""
        try:
            response: Any = hook(*args)
            if response.__class__ is CoroutineType:
                with trio.move_on_after(self._actor.farewell_seconds_max, shield=True) as scope:
                    await response
                if scope.cancelled_caught:
                    logger.error("A last hook of %s took too long and was cut off", self._actor)
        except Exception as error:  # noqa: BLE001 - logged there, and the actor ends anyway
            self._handle_failure(error)

    async def _live_as_child(
        self,
        scope: trio.CancelScope,
        async_fn: Callable[..., Awaitable[object]],
        args: tuple[Any, ...],
    ) -> None:
        assert self._children is not None
        try:
            with scope:
                await async_fn(*args)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - what is trio's is raised again
            cancelled = _part(error, trio.Cancelled)
            if cancelled is not error:
                self._report_child(error)
            if cancelled is not None:
                raise cancelled from None
        finally:
            del self._children[scope]
            if not self._children and self._childless is not None:
                self._childless.set()

    def _report_child(self, error: BaseException) -> None:
        if self._ended:
            logger.error("Unhandled exception in a task of %s:", self._actor, exc_info=error)
        else:
            self._mailbox.put_first(Envelope(Failed(error)))

    async def _reap(self) -> None:
        """Cancel the children and wait for them, as a nursery would."""
        if not self._children:
            return
        self._childless = trio.Event()
        for scope in self._children:
            scope.cancel()
        with trio.CancelScope(shield=True):
            await self._childless.wait()


def _refuse(name: str, death: BaseException | None, envelope: Envelope[Any]) -> None:
    """Answer an envelope that the actor `name` left over."""
    message, reply_to = envelope.message, envelope.reply_to
    if isinstance(message, Failed):
        logger.error("Unhandled exception in a task of %s:", name, exc_info=message.error)
    if isinstance(message, Begun):
        message.serve.close()
    if reply_to is None:
        return
    if isinstance(message, _ActorStop):
        settle(reply_to, value=True)
    else:
        sentence = f"{name} ended before it had served the message"
        settle_exception(reply_to, dead_because(sentence, death))


def _part(error: BaseException, kind: type[E]) -> BaseException | None:
    """Return `error`, or what there is of `kind` in it if it is a group."""
    if isinstance(error, kind):
        return error
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).subgroup(kind)
    return None
