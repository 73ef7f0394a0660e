"""The tail of the store's events: how what was committed reaches whoever waits for it.

There is one way for news to travel: a transaction stores an event, and the tail, which
reads on from the last sequence that it saw, wakes the subscribers of that conversation and
the actor of that run. So it makes no difference to them which actor, runtime or process
committed it (C42). A commit of this process is followed at once; commits of others are
found by a short poll.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
import trio

from ..store import events
from ..store.engine import Engine
from ..store.ids import ConversationId, RunId
from ..store.records import EventKind

DELTAS_MAX: Final = 1_024

BEHIND_MAX: Final = 2_000
"""Further behind than so many events, the tail wakes everybody in place of reading them all:
every signal only says to look, and the loop does not stand still for a backlog."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an answer that streams: not durable, and gone if nobody listened (D16)."""

    conversation: ConversationId
    run: RunId
    text: str


class Subscription:
    """One reader's place: it is woken, then reads the store from its own cursor.

    Streamed pieces are kept up to a bound; the oldest go first, because the durable answer
    follows anyway.
    """

    def __init__(self) -> None:
        self._woken = trio.Event()
        self.deltas: deque[Delta] = deque(maxlen=DELTAS_MAX)

    def wake(self) -> None:
        """Let the reader look again."""
        self._woken.set()

    @property
    def woken(self) -> bool:
        """Whether there may be something new: `news` would return at once."""
        return self._woken.is_set()

    async def news(self) -> None:
        """Wait until there may be something new since the last call."""
        await self._woken.wait()
        self._woken = trio.Event()


_SIGNALS: Final = frozenset(
    {EventKind.REVISION_SAVED, EventKind.STOP_ACCEPTED, EventKind.RUN_ENDED, EventKind.RUN_ADOPTED}
)
"""What the actor of a run must hear of, whoever committed it."""


class Tail:
    """Follows the events of one open store. Used in the loop that opened it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._subscriptions: dict[ConversationId, set[Subscription]] = {}
        self._signal: Callable[[RunId], None] | None = None
        self._signal_all: Callable[[], None] | None = None
        with engine.read() as txn:
            self._next = events.sequence(txn)
        engine.on_commit(self.catch_up)

    def on_signal(self, signal: Callable[[RunId], None], signal_all: Callable[[], None]) -> None:
        """Call `signal(run)` for each event that the actor of a run must hear of, and
        `signal_all()` when that may be every run."""
        self._signal = signal
        self._signal_all = signal_all

    def catch_up(self) -> None:
        """Read what was committed since the last call, and wake whom it concerns."""
        with self._engine.read() as txn:
            last = events.sequence(txn)
            if last == self._next:
                return
            behind = last - self._next > BEHIND_MAX
            news = () if behind else list(events.since(txn, self._next))
            self._next = last
        if behind:
            self._wake_all()
        for event in news:
            for subscription in self._subscriptions.get(event.conversation, ()):
                subscription.wake()
            if event.run is not None and event.kind in _SIGNALS and self._signal is not None:
                self._signal(event.run)

    def _wake_all(self) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.wake()
        if self._signal_all is not None:
            self._signal_all()

    async def poll(self, every_s: float) -> None:
        """Follow what other processes commit, until cancelled."""
        while True:
            await trio.sleep(every_s)
            self.catch_up()

    def subscribe(self, conversation: ConversationId) -> Subscription:
        """Return a new subscription: subscribe first, then read, so nothing is missed."""
        subscription = Subscription()
        self._subscriptions.setdefault(conversation, set()).add(subscription)
        return subscription

    def unsubscribe(self, conversation: ConversationId, subscription: Subscription) -> None:
        """Leave. It changes nothing for what is subscribed to (B7, C25)."""
        remaining = self._subscriptions.get(conversation)
        if remaining is not None:
            remaining.discard(subscription)
            if not remaining:
                del self._subscriptions[conversation]

    def stream(self, delta: Delta) -> None:
        """Hand a piece of an answer to those who listen at this moment."""
        for subscription in self._subscriptions.get(delta.conversation, ()):
            subscription.deltas.append(delta)
            subscription.wake()
