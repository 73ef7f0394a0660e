"""Answering an ask: at once, later, or not at all because the actor ended."""

from __future__ import annotations

import queue
from typing import Any

import pykka


class LaterReply:
    """The reply that an actor still owes; made by `TrioActor.reply_later()`.

    `set` and `set_exception` may be called from any thread, once the handler returned or
    before. The first answer counts, and each says whether it was the one: none is needed
    any more when the actor ended meanwhile, because then the asker got ActorDeadError.
    """

    __slots__ = ("_future", "_owed")

    def __init__(self, future: pykka.Future[Any] | None, owed: dict[LaterReply, None]) -> None:
        self._future = future
        self._owed = owed
        if future is not None:
            owed[self] = None

    def set(self, value: Any = None) -> bool:
        """Reply with `value`; false if the asker has been answered or nobody asked."""
        self._owed.pop(self, None)
        return self._future is not None and settle(self._future, value)

    def set_exception(self, error: BaseException) -> bool:
        """Let the asker's ask raise `error`; false as for `set`."""
        self._owed.pop(self, None)
        return self._future is not None and settle_exception(self._future, error)


def settle(future: pykka.Future[Any], value: Any) -> bool:
    """Set `value`; false if the future was set before, here or by the host."""
    try:
        future.set(value)
    except queue.Full:
        return False
    return True


def settle_exception(future: pykka.Future[Any], error: BaseException) -> bool:
    """Set `error`; false if the future was set before, here or by the host."""
    try:
        future.set_exception((type(error), error, error.__traceback__))
    except queue.Full:
        return False
    return True


def dead_because(sentence: str, death: BaseException | None) -> pykka.ActorDeadError:
    """Return the error for an ask that a dead actor left over, with what it died of."""
    error = pykka.ActorDeadError(sentence)
    error.__cause__ = death
    return error
