"""How a trio task waits for something that another task or thread brings about.

`TaskWaiter` is one task about to park; calling it is the crossing from any thread into the
loop. `Loop` is what the waiters of one trio run share: where to wake them, and the
time-outs of asks. Both are on the path of every ask, hence their spareness.
"""

from __future__ import annotations

import math
from threading import get_ident

import trio
from trio.lowlevel import current_task, reschedule

# From this many different time-outs on, a new one first clears out those that nobody waits
# for: callers that compute a remaining time make a new one with every ask.
QUEUES_KEPT_MAX = 32


class Loop:
    """One trio run, seen by those who wait in it; get it with `Loop.current()`.

    It keeps their deadlines, for the price of two dict operations each: a
    `trio.move_on_after` around every ask would cost as much as the ask itself. Waiters with
    the same time-out expire in the order they came, so each time-out has a queue, and the
    earliest deadline is at the head of one of them. One system task serves them all.

    All methods belong to the loop's own thread.
    """

    __slots__ = ("_armed", "_queues", "_scope", "_served", "thread_id", "token")

    def __init__(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        self.thread_id = get_ident()
        self._queues: dict[float, dict[TaskWaiter, float]] = {}
        self._armed = math.inf  # never later than the earliest deadline
        self._scope: trio.CancelScope | None = None
        self._served = False

    @staticmethod
    def current() -> Loop:
        """Return the running trio loop's."""
        try:
            return _current.get()
        except LookupError:
            loop = Loop()
            _current.set(loop)
            return loop

    def expect(self, waiter: TaskWaiter, seconds: float) -> dict[TaskWaiter, float]:
        """Wake `waiter` in `seconds`, unless it takes itself out of the returned queue.

        What was armed for it then stays armed, and finds nothing due.
        """
        deadline = trio.current_time() + seconds
        queue = self._queues.get(seconds)
        if queue is None:
            if len(self._queues) >= QUEUES_KEPT_MAX:
                self._queues = {key: queue for key, queue in self._queues.items() if queue}
            queue = self._queues[seconds] = {}
        queue[waiter] = deadline
        if deadline < self._armed:
            self._arm(deadline)
        return queue

    def _arm(self, deadline: float) -> None:
        self._armed = deadline
        if self._scope is not None:
            self._scope.deadline = deadline
        elif not self._served:
            self._served = True
            trio.lowlevel.spawn_system_task(self._serve, name="ask time-outs")

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
                waiter()
            if not queue:
                del self._queues[seconds]


_current: trio.lowlevel.RunVar[Loop] = trio.lowlevel.RunVar("counterpoint.loop")


class TaskWaiter:
    """The current task, about to park in `loop`; calling it wakes the task once, any thread.

    On the loop's own thread the task goes to the run queue at once, from anywhere else by
    way of the loop's token. Calls after the first, or after `forget`, do nothing.
    """

    __slots__ = ("_loop", "_task")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._task: trio.lowlevel.Task | None = current_task()

    def __call__(self) -> None:
        if get_ident() == self._loop.thread_id:
            task, self._task = self._task, None
            if task is not None:
                reschedule(task)
            return
        try:
            self._loop.token.run_sync_soon(self)
        except trio.RunFinishedError:
            self._task = None  # the task ended with its loop: nobody waits any more

    def forget(self) -> None:
        """Make a wake-up that is still under way harmless: the task left by itself."""
        self._task = None
