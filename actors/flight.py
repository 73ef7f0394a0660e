"""One request in flight: what may cut it, and why it was cut.

A request is interrupted for one of a fixed list of reasons, and the reason is kept here,
outside the adapter to the provider: whatever the adapter makes of the cancellation, the
run knows that a steering cut one request and nothing more (B63, B64, C21).
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ..store.records import Interruption


class Flight:
    """A request between its record and its outcome. Its methods are what a gateway calls."""

    def __init__(self, ordinal: int, revision: int, *, cuts: bool, show: Callable[[str], None]):
        self.ordinal = ordinal
        self.revision = revision
        self.scope = trio.CancelScope()
        self.reason: Interruption | None = None
        self._cuts = cuts
        self._show = show

    def __call__(self, text: str, /) -> None:
        """Show a piece of the answer to those who listen at this moment."""
        self._show(text)

    def calling(self) -> None:
        """Hear that a tool call has begun: a steering no longer cuts the request."""
        self._cuts = False

    def steered(self, revision: int) -> None:
        """Cut the request if it lacks this revision and only text has streamed so far."""
        if self._cuts and revision > self.revision:
            self.reason = self.reason or Interruption.STEERING
            self.scope.cancel()
