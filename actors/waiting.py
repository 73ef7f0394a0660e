"""How a trio task waits for something that another task or thread brings about.

`TaskWaiter` is one parked task; calling it is the crossing from any thread into the loop.
`Timeouts` gives many waiters a deadline for the price of two dict operations each: a
`trio.move_on_after` around every ask costs as much as the ask itself.
"""

from __future__ import annotations

import math
import threading

import trio

# Above this many different time-outs, an empty queue is dropped at once and not at the
# next expiry: callers that compute a remaining time make a new one with every ask.
QUEUES_KEPT_MAX = 32


class TaskWaiter:
    """The current trio task, about to park; calling it wakes that task, once, from any thread.

    On the loop's own thread the task goes to the run queue at once; from anywhere else by
    way of the loop's token. Calls after the first, or after `forget`, do nothing.
    """

    __slots__ = ("_task", "_thread_id", "_token")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self._token = trio.lowlevel.current_trio_token()
        self._thread_id = threading.get_ident()

    def __call__(self) -> None:
        if threading.get_ident() == self._thread_id:
            self.wake()
            return
        try:
            self._token.run_sync_soon(self.wake)
        except trio.RunFinishedError:
            self._task = None  # the task ended with its loop: nobody waits any more

    def wake(self) -> None:
        """Wake the task; on the loop's own thread only."""
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def forget(self) -> None:
        """Make a wake-up that is still under way harmless: the task left by itself."""
        self._task = None


class Timeouts:
    """The deadlines of one trio run's waiters, served by one system task.

    Waiters with the same time-out expire in the order they came, so each time-out has a
    queue, and the earliest deadline is the head of one of them. Use `of_this_run()`; only
    on the loop's own thread.
    """

    def __init__(self) -> None:
        self._queues: dict[float, dict[TaskWaiter, float]] = {}
        self._armed = math.inf  # never later than the earliest deadline
        self._scope: trio.CancelScope | None = None

    @staticmethod
    def of_this_run() -> Timeouts:
        """Return the time-outs of the running trio loop, starting their task if need be."""
        try:
            return _timeouts.get()
        except LookupError:
            timeouts = Timeouts()
            _timeouts.set(timeouts)
            trio.lowlevel.spawn_system_task(timeouts._serve, name="ask time-outs")
            return timeouts

    def add(self, waiter: TaskWaiter, seconds: float) -> None:
        """Wake `waiter` in `seconds`, unless it is discarded before."""
        deadline = trio.current_time() + seconds
        queue = self._queues.get(seconds)
        if queue is None:
            queue = self._queues[seconds] = {}
        queue[waiter] = deadline
        if deadline < self._armed:
            self._armed = deadline
            if self._scope is not None:
                self._scope.deadline = deadline

    def discard(self, waiter: TaskWaiter, seconds: float) -> None:
        """Forget `waiter`; what was armed for it stays armed and then finds nothing due."""
        queue = self._queues.get(seconds)
        if queue is not None:
            queue.pop(waiter, None)
            if not queue and len(self._queues) > QUEUES_KEPT_MAX:
                del self._queues[seconds]

    async def _serve(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._armed) as self._scope:
                await trio.sleep_forever()
            self._expire(trio.current_time())

    def _expire(self, now: float) -> None:
        self._armed = math.inf
        for seconds, queue in list(self._queues.items()):
            due: list[TaskWaiter] = []
            for waiter, deadline in queue.items():
                if deadline > now:
                    self._armed = min(self._armed, deadline)
                    break
                due.append(waiter)
            for waiter in due:
                del queue[waiter]
                waiter.wake()
            if not queue:
                del self._queues[seconds]


_timeouts: trio.lowlevel.RunVar[Timeouts] = trio.lowlevel.RunVar("counterpoint.ask_timeouts")
