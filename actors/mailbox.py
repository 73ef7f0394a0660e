"""The bounded queue of envelopes in front of one actor.

Any thread puts, one trio task takes. A put is an append and one look at whether that task
is parked; only then is anything woken: at once on the loop's own thread, through the
loop's token from another, and through the token once per burst.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

import pykka
import trio
from pykka._envelope import Envelope
from pykka.messages import _ActorStop  # pyright: ignore[reportPrivateUsage]
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

LEN_MAX = 1_024


class MailboxFull(Exception):
    """The actor has as many unserved messages as its mailbox holds.

    This message was not queued and will not be served. Try again later, or tell the
    caller that the actor is overloaded.
    """


class Mailbox:
    """A `pykka` actor inbox whose taker is a trio task.

    `put` may be called from any thread; everything else belongs to the taker, on its loop.
    `len_max` bounds what is queued: threads that put in the same instant may overshoot it
    by one each, and the message that stops the actor always fits.
    """

    __slots__ = (
        "_parked",
        "_refuse",
        "_thread_id",
        "_token",
        "_waking",
        "len_max",
        "queue",
        "serve_at_once",
    )

    def __init__(self, len_max: int = LEN_MAX) -> None:
        assert len_max >= 1
        self.len_max = len_max
        # How its taker serves an ask without being woken; None when it has ended.
        self.serve_at_once: Callable[[Any, pykka.Future[Any]], object] | None = None
        self.queue: deque[Envelope[Any]] = deque()
        self._parked: trio.lowlevel.Task | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread_id = 0
        self._waking = False
        self._refuse: Callable[[Envelope[Any]], object] | None = None

    def __len__(self) -> int:
        return len(self.queue)

    def empty(self) -> bool:
        """Return whether nothing is queued."""
        return not self.queue

    def idle_here(self) -> bool:
        """Return whether the taker is parked in the calling thread's loop, with nothing to do."""
        return self._parked is not None and not self.queue and get_ident() == self._thread_id

    def put(self, envelope: Envelope[Any], /) -> None:
        """Queue `envelope` behind the others and never wait; from any thread.

        Raises:
          MailboxFull: `len_max` envelopes are queued, and this one does not stop the actor.
          pykka.ActorDeadError: the actor has ended.
        """
        if len(self.queue) >= self.len_max and not isinstance(envelope.message, _ActorStop):
            raise MailboxFull(f"{self.len_max} messages are waiting to be served")
        if self._refuse is not None:
            raise pykka.ActorDeadError("the actor has ended")
        self.queue.append(envelope)
        if self._parked is not None:
            self._wake()
        if self._refuse is not None:
            # Closed by its loop since we looked: whoever of the two takes it out answers it.
            self._drain(self._refuse)

    def put_first(self, envelope: Envelope[Any]) -> None:
        """Queue `envelope` in front of the others; only on the loop's own thread."""
        self.queue.appendleft(envelope)
        if self._parked is not None:
            self._wake()

    def get(self) -> Envelope[Any]:
        """Take the oldest envelope, which must be there: `await ready()` first."""
        return self.queue.popleft()

    async def ready(self) -> None:
        """Return when an envelope is queued; always a checkpoint.

        A cancelled taker leaves every envelope where it is.
        """
        if not self.queue and self.arm():
            await wait_task_rescheduled(self.disarm)
        else:
            await trio.lowlevel.checkpoint()
        while not self.queue and self.arm():  # woken for what was taken by then
            await wait_task_rescheduled(self.disarm)

    def arm(self) -> bool:
        """Have the next put wake this task, which must then park; false if one came by now.

        Armed first and looked second, while a put in another thread appends first and
        looks second: one of the two sees the other.
        """
        if self._token is None:
            self._token = trio.lowlevel.current_trio_token()
            self._thread_id = get_ident()
        self._parked = current_task()
        if self.queue:
            self._parked = None
            return False
        return True

    def disarm(self, _raise_cancel: object = None) -> Abort:
        """Be woken by no put any more; the abort function of the parked task."""
        self._parked = None
        return Abort.SUCCEEDED

    def close(self, refuse: Callable[[Envelope[Any]], object]) -> None:
        """Give every envelope, queued or just being put, to `refuse`, and take no more.

        `refuse` may be called in the thread of a put that was under way.
        """
        self._refuse = refuse
        self.serve_at_once = None
        self._drain(refuse)

    def _drain(self, refuse: Callable[[Envelope[Any]], object]) -> None:
        while True:
            try:
                envelope = self.queue.popleft()
            except IndexError:
                return
            refuse(envelope)

    def _wake(self) -> None:
        if get_ident() == self._thread_id:
            self._unpark()
        elif not self._waking:
            self._waking = True
            assert self._token is not None
            try:
                self._token.run_sync_soon(self._unpark_from_thread)
            except trio.RunFinishedError:
                # The loop is gone without having ended its actor: so it ends here.
                self.close(_refuse_after_the_loop)

    def _unpark_from_thread(self) -> None:
        # Cleared before looking: a put that came too late for this wake-up asks for another.
        self._waking = False
        self._unpark()

    def _unpark(self) -> None:
        task, self._parked = self._parked, None
        if task is not None:
            reschedule(task)


def _refuse_after_the_loop(envelope: Envelope[Any]) -> None:
    if envelope.reply_to is not None:
        error = pykka.ActorDeadError("the trio loop that served the actor has ended")
        envelope.reply_to.set_exception((pykka.ActorDeadError, error, None))
