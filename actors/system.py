"""Where actors live: one nursery in one trio loop, and the default one for plain threads.

The only state outside of a system is the default system, which a program that has no trio
loop of its own gets by starting an actor without naming a system.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import pykka
import trio

from .future import WouldBlockLoop

DRAIN_SECONDS = 10.0

logger = logging.getLogger("counterpoint.actors")

DeathHook: TypeAlias = Callable[[pykka.ActorRef[Any], BaseException], object]


class SystemClosed(RuntimeError):
    """The actor system is closing or its loop has ended, so no actor can start in it.

    The actor was not started and is in no registry. Open another system.
    """


class ActorSystem:
    """The actors of one trio loop; make it with `open_actor_system()`.

    Actors may be started in it from any thread. Set `on_actor_death` to hear of every
    actor that ended by an exception and not by a stop: it is called on the loop, as the
    last act of the actor's task, with the dead actor's ref and the exception. It may start
    actors. What it raises is logged and goes no further.
    """

    def __init__(self, nursery: trio.Nursery, on_actor_death: DeathHook | None = None) -> None:
        self.on_actor_death = on_actor_death
        self.token = trio.lowlevel.current_trio_token()
        self.interrupt: BaseException | None = None
        self._nursery = nursery
        self._thread_id = threading.get_ident()
        self._closed = False
        self._residents: dict[pykka.ActorRef[Any], None] = {}  # in the order they started

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<ActorSystem {state}, {len(self._residents)} actors>"

    @property
    def closed(self) -> bool:
        """Whether no actor can start any more."""
        return self._closed

    def on_loop_thread(self) -> bool:
        """Return whether the caller is on the thread that runs this system's loop."""
        return threading.get_ident() == self._thread_id

    def refs(self) -> list[pykka.ActorRef[Any]]:
        """Return the refs of the actors that live here, oldest first; on the loop's thread."""
        return list(self._residents)

    def admit(
        self,
        ref: pykka.ActorRef[Any],
        live: Callable[[], Awaitable[object]],
        turn_away: Callable[[], object],
    ) -> None:
        """Run `live()`, the life of the actor behind `ref`, as a task; from any thread.

        Should the system close before a start from another thread gets its turn, it calls
        `turn_away()` in place of it, on the loop.

        Raises:
          SystemClosed: the system is closing, or its loop has ended.
        """
        if self._closed:
            raise SystemClosed("the actor system is closed")
        if self.on_loop_thread():
            self._residents[ref] = None
            self._nursery.start_soon(live, name=ref.actor_class.__name__)
            return
        try:
            self.token.run_sync_soon(self._admit_from_thread, ref, live, turn_away)
        except trio.RunFinishedError as error:
            raise SystemClosed("the trio loop of the actor system has ended") from error

    def start_task(self, task: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run `task(*args)` beside the actors; only on the loop's own thread.

        An exception that leaves it cancels every actor of the system.
        """
        self._nursery.start_soon(task, *args)

    def depart(self, ref: pykka.ActorRef[Any], death: BaseException | None) -> None:
        """Forget the actor behind `ref`, which ended by `death`, and tell the hook of it."""
        self._residents.pop(ref, None)
        if death is None or self.on_actor_death is None:
            return
        try:
            self.on_actor_death(ref, death)
        except Exception:
            logger.exception("The hook on_actor_death failed for %s", ref)

    def interrupted(self, error: BaseException) -> None:
        """Cancel every actor, and let `open_actor_system` raise `error` in the end."""
        self.interrupt = error
        self._closed = True
        self._nursery.cancel_scope.cancel()

    async def drain(self, seconds: float) -> None:
        """Refuse new actors and stop the others, the last started first.

        Each serves what is in its mailbox. Actors that are not done in `seconds` stay.
        """
        self._closed = True
        with trio.move_on_after(seconds):
            for ref in reversed(list(self._residents)):
                await ref.stop(block=False)

    def cancel(self) -> None:
        """Refuse new actors and cancel the tasks of the others."""
        self._closed = True
        self._nursery.cancel_scope.cancel()

    def _admit_from_thread(
        self,
        ref: pykka.ActorRef[Any],
        live: Callable[[], Awaitable[object]],
        turn_away: Callable[[], object],
    ) -> None:
        if self._closed:
            turn_away()
        else:
            self.admit(ref, live, turn_away)


@asynccontextmanager
async def open_actor_system(
    *, drain_seconds: float = DRAIN_SECONDS, on_actor_death: DeathHook | None = None
) -> AsyncGenerator[ActorSystem, None]:
    """Open a system whose actors live as tasks of this block.

    Leaving the block stops the actors, the last started first; each serves what is in its
    mailbox, and those not done after `drain_seconds` are cancelled. Leaving it by an
    exception or by cancellation cancels them all at once. Either way every actor's
    `on_stop` has run and every pending ask has been answered when the block is left.

    An exception of the block leaves it as it is, in no group.

    Raises:
      KeyboardInterrupt: it struck inside an actor. The others were cancelled.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            system = ActorSystem(nursery, on_actor_death)
            try:
                yield system
                await system.drain(drain_seconds)
            except (trio.Cancelled, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001 - raised again below
                failure = error
            finally:
                system.cancel()
    finally:  # what the block raised goes before a cancellation that came with it
        if failure is not None:
            raise failure
    if system.interrupt is not None:
        raise system.interrupt


class _DefaultSystem:
    """The system of actors that were started without one, in a daemon thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._system: ActorSystem | None = None
        self._leave: trio.Event | None = None

    def get(self) -> ActorSystem:
        with self._lock:
            if self._system is None or self._system.closed:
                self._launch()
            assert self._system is not None
            return self._system

    def stop(self, timeout: float | None) -> None:
        with self._lock:
            system, leave, thread = self._system, self._leave, self._thread
            if system is None or leave is None or thread is None:
                return
            if system.on_loop_thread():
                raise WouldBlockLoop("an actor of the default system cannot wait for its end")
            self._system = None
        with suppress(trio.RunFinishedError):
            system.token.run_sync_soon(leave.set)
        thread.join(timeout)
        if thread.is_alive():
            raise pykka.Timeout(f"{timeout} seconds")

    def _launch(self) -> None:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=trio.run, args=(self._serve, ready), name="counterpoint-actors", daemon=True
        )
        self._thread.start()
        ready.wait()

    async def _serve(self, ready: threading.Event) -> None:
        self._leave = trio.Event()
        async with open_actor_system() as self._system:
            ready.set()
            await self._leave.wait()


_default = _DefaultSystem()


def default_system() -> ActorSystem:
    """Return the system of actors that are started without one; from any thread.

    The first call starts it, in a daemon thread with a trio loop of its own: the program
    does not wait for its actors at exit, unlike pykka's threads. It is shared by the whole
    process. Inside an actor use `self.system` to start others beside it.
    """
    return _default.get()


def stop_default_system(*, timeout: float | None = None) -> None:
    """Stop the actors of the default system, then its thread, and wait for both.

    Does nothing when it was never started. A later start without a system starts it anew.

    Raises:
      pykka.Timeout: not ended after `timeout` seconds; it still will.
      WouldBlockLoop: called by one of its own actors.
    """
    _default.stop(timeout)
