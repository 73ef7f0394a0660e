"""Identities: what names a fact, and how the runtime makes new names.

Ids that the runtime makes are time-ordered, so that what is written together lies
together in the store (PERFORMANCE: key order is worth more than any flag). Ids that a
caller makes (`ClientId`, `ScopeId`) are any text of 1 to 128 bytes without control
characters; a time-ordered client id (UUIDv7, ULID) keeps its index dense too.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NewType

ScopeId = NewType("ScopeId", str)
"""The account or person whose work and capacity this is. Given by the host."""

ClientId = NewType("ClientId", str)
"""The caller's own id of one intent, unique in its scope (A12, D7)."""

ConversationId = NewType("ConversationId", str)
MessageId = NewType("MessageId", str)
RunId = NewType("RunId", str)
PublicationId = NewType("PublicationId", str)
OwnerId = NewType("OwnerId", str)
"""One host process that has the store open."""

ID_LENGTH = 1 + 12 + 3 + 9
"""A letter for the kind, then hex: milliseconds, a count within one, the maker's node."""

_COUNT_MAX = 0xFFF


class IdSource:
    """Makes ids that grow. One instance a process; not for use from several threads.

    A clock that jumps back does not break the order: the last millisecond seen goes on
    counting. `node` tells makers apart; 36 random bits are enough for processes that share
    one store, and a transaction that meets a used id fails rather than overwriting it.
    """

    def __init__(self, clock_ms: Callable[[], int], node: int | None = None) -> None:
        self._clock_ms = clock_ms
        self._node = f"{secrets.randbits(36) if node is None else node:09x}"
        self._ms = 0
        self._count = 0

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970, never going back."""
        now = self._clock_ms()
        if now > self._ms:
            self._ms = now
            self._count = 0
        return self._ms

    def _new(self, letter: str) -> str:
        ms = self.now_ms()
        if self._count == _COUNT_MAX:  # borrow from the future rather than repeat
            self._ms = ms = ms + 1
            self._count = 0
        self._count += 1
        return f"{letter}{ms:012x}{self._count:03x}{self._node}"

    def conversation(self) -> ConversationId:
        """Return a new conversation id."""
        return ConversationId(self._new("c"))

    def message(self) -> MessageId:
        """Return a new message id."""
        return MessageId(self._new("m"))

    def run(self) -> RunId:
        """Return a new run id."""
        return RunId(self._new("r"))

    def publication(self) -> PublicationId:
        """Return a new publication id."""
        return PublicationId(self._new("p"))

    def owner(self) -> OwnerId:
        """Return a new owner id."""
        return OwnerId(self._new("w"))
