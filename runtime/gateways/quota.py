"""What a provider can take now: one bound for all runs of a process.

This is the third of three quotas that never stand for one another (B44): how many runs a
scope may have, what one run may still use, and what the provider can take. Waiting here
takes time from the run that waits, and never a slot from another.
"""

from __future__ import annotations

from collections import deque

import trio

from .protocol import Gateway, ModelInput, Reply, ReplyStream

MINUTE_S = 60.0


class WithQuota:
    """A gateway that lets only so many requests of another through. Share one instance.

    `concurrent_max` requests are under way at once, and `per_minute_max` begin in any 60
    seconds; who comes first is served first. Cancellation while waiting sends nothing.

    Raises:
      ValueError: if a bound is not above 0.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        concurrent_max: int | None = None,
        per_minute_max: int | None = None,
    ) -> None:
        for name, bound in (("concurrent_max", concurrent_max), ("per_minute_max", per_minute_max)):
            if bound is not None and bound < 1:
                raise ValueError(f"{name} must be at least 1, not {bound}")
        self._gateway = gateway
        self._under_way = trio.Semaphore(concurrent_max) if concurrent_max else None
        self._per_minute_max = per_minute_max
        self._turn = trio.StrictFIFOLock()
        self._begun: deque[float] = deque()

    @property
    def name(self) -> str:
        """The name of the gateway behind."""
        return self._gateway.name

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        """As the gateway behind, once the provider can take it."""
        if self._under_way is None:
            await self._minute()
            return await self._gateway.complete(model_input, emit)
        async with self._under_way:
            await self._minute()
            return await self._gateway.complete(model_input, emit)

    async def _minute(self) -> None:
        if self._per_minute_max is None:
            return
        async with self._turn:
            if len(self._begun) == self._per_minute_max:
                await trio.sleep_until(self._begun[0] + MINUTE_S)
                self._begun.popleft()
            self._begun.append(trio.current_time())
