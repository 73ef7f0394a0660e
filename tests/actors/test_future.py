"""A future is set once and read by any number of threads and tasks."""

from __future__ import annotations

import functools
import queue
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pykka
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.actors.kernel import TrioFuture, WouldBlockLoop
from counterpoint.actors.waiting import QUEUES_KEPT_MAX, Loop

PATIENCE_SECONDS = 10.0


class Waits:
    """Stands in for the waiters of a future, and tells when somebody joined them."""

    def __init__(self, future: TrioFuture[Any]) -> None:
        self.joined = threading.Event()
        future._waiters = _Announcing(future._waiters, self.joined)  # pyright: ignore[reportPrivateUsage]


class _Announcing(list[Callable[[], object]]):
    def __init__(self, waiters: list[Callable[[], object]], joined: threading.Event) -> None:
        super().__init__(waiters)
        self._joined = joined

    def append(self, waiter: Callable[[], object], /) -> None:
        super().append(waiter)
        self._joined.set()


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """Another thread."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield pool


@pytest.fixture
def future() -> TrioFuture[Any]:
    return TrioFuture()


def test_a_value_can_be_read_again_and_again(future: TrioFuture[Any]) -> None:
    assert not future.done()
    future.set("kept")
    assert future.done()
    assert [future.get(), future.get(timeout=0), future.get(timeout=5)] == ["kept"] * 3


def test_setting_twice_is_refused_and_changes_nothing(future: TrioFuture[Any]) -> None:
    future.set(1)
    with pytest.raises(queue.Full):
        future.set(2)
    with pytest.raises(queue.Full):
        future.set_exception((ValueError, ValueError("late"), None))
    with pytest.raises(queue.Full):
        future.set_get_hook(lambda _timeout: 3)
    assert future.get() == 1


def test_only_one_of_many_threads_gets_to_set(future: TrioFuture[Any]) -> None:
    """Sixteen threads leave a barrier together; exactly one is not refused."""
    barrier = threading.Barrier(16)

    def attempt(value: int) -> int | None:
        barrier.wait(PATIENCE_SECONDS)
        try:
            future.set(value)
        except queue.Full:
            return None
        return value

    with ThreadPoolExecutor(max_workers=16) as pool:
        winners = [value for value in pool.map(attempt, range(16)) if value is not None]
    assert winners == [future.get()]


def test_an_unset_future_times_out_and_stays_usable(future: TrioFuture[Any]) -> None:
    with pytest.raises(pykka.Timeout, match=r"0\.001 seconds"):
        future.get(timeout=0.001)
    future.set("after all")
    assert future.get() == "after all"


def test_a_thread_waits_until_another_sets(
    future: TrioFuture[Any], elsewhere: ThreadPoolExecutor
) -> None:
    waits = Waits(future)
    reading = elsewhere.submit(future.get, timeout=PATIENCE_SECONDS)
    assert waits.joined.wait(PATIENCE_SECONDS)
    future.set("across")
    assert reading.result(PATIENCE_SECONDS) == "across"


def test_the_exception_keeps_the_frames_it_was_raised_in(future: TrioFuture[Any]) -> None:
    """Two readers see the same object, and the second does not see the first one's frames."""

    def fails_deep_down() -> None:
        raise LookupError("nowhere")

    try:
        fails_deep_down()
    except LookupError:
        future.set_exception()

    depths: list[int] = []
    for _ in range(2):
        with pytest.raises(LookupError, match="nowhere") as caught:
            future.get()
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "fails_deep_down"
        depths.append(len(frames))
    assert depths[0] == depths[1]


def test_an_exception_may_be_given_by_its_class_alone(future: TrioFuture[Any]) -> None:
    future.set_exception((KeyError, None, None))
    with pytest.raises(KeyError):
        future.get()


def test_a_hook_makes_the_value_once(future: TrioFuture[Any]) -> None:
    calls: list[float | None] = []

    def hook(timeout: float | None) -> None:
        calls.append(timeout)

    future.set_get_hook(hook)
    assert not future.done()
    assert future.get(timeout=7) is None
    assert future.get() is None
    assert calls == [7]
    with pytest.raises(queue.Full):
        future.set(1)


def test_a_hook_set_while_a_thread_waits_answers_that_thread(
    future: TrioFuture[Any], elsewhere: ThreadPoolExecutor
) -> None:
    waits = Waits(future)
    reading = elsewhere.submit(future.get, timeout=PATIENCE_SECONDS)
    assert waits.joined.wait(PATIENCE_SECONDS)
    future.set_get_hook(lambda _timeout: "hooked")
    assert reading.result(PATIENCE_SECONDS) == "hooked"


def derive(name: str, future: TrioFuture[Any]) -> pykka.Future[Any]:
    made: dict[str, Callable[[], pykka.Future[Any]]] = {
        "map": lambda: future.map(len),
        "filter": lambda: future.filter(lambda item: item > 1),
        "reduce": lambda: future.reduce(lambda total, item: total + item, 10),
        "join": lambda: future.join(future),
        "map of map": lambda: future.map(sum).map(lambda total: -total),
    }
    return made[name]()


DERIVED = {"map": 3, "filter": [2, 3], "reduce": 16, "join": [[1, 2, 3]] * 2, "map of map": -6}


@pytest.mark.parametrize("name", DERIVED)
def test_a_derived_future_follows_its_source(name: str, future: TrioFuture[Any]) -> None:
    derived = derive(name, future)
    assert isinstance(derived, TrioFuture)
    assert not derived.done()
    with pytest.raises(pykka.Timeout):
        derived.get(timeout=0)
    future.set([1, 2, 3])
    assert derived.done()
    assert derived.get(timeout=0) == DERIVED[name]


@pytest.mark.parametrize("name", DERIVED)
async def test_a_task_can_await_a_derived_future(name: str, future: TrioFuture[Any]) -> None:
    derived = derive(name, future)
    got: list[Any] = []

    async def read() -> None:
        got.append(await derived)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        assert got == []
        future.set([1, 2, 3])
    assert got == [DERIVED[name]]


def test_a_derived_value_is_computed_once(future: TrioFuture[Any]) -> None:
    calls: list[int] = []
    mapped = future.map(calls.append)
    future.set(4)
    mapped.get()
    mapped.get()
    assert calls == [4]


async def test_a_derived_future_fails_as_its_source_does(future: TrioFuture[Any]) -> None:
    mapped = future.map(len)
    future.set_exception((KeyError, KeyError("source"), None))
    with pytest.raises(KeyError, match="source"):
        await mapped


async def test_a_task_reads_a_join_with_a_future_of_pykkas_threads(
    future: TrioFuture[Any],
) -> None:
    """Their future can only be waited for in a thread, so one waits for both."""
    theirs: pykka.ThreadingFuture[str] = pykka.ThreadingFuture()
    joined = future.join(theirs)
    future.set("ours")
    theirs.set("theirs")
    assert await joined == ["ours", "theirs"]


async def test_a_task_runs_a_hosts_hook_in_a_thread(future: TrioFuture[Any]) -> None:
    future.set_get_hook(lambda _timeout: threading.get_ident())
    assert await future != threading.get_ident()


async def test_every_waiting_task_is_woken(future: TrioFuture[Any]) -> None:
    got: list[Any] = []

    async def read() -> None:
        got.append(await future)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(read)
        await wait_all_tasks_blocked()
        assert got == []
        future.set("all")
    assert got == ["all"] * 3


async def test_another_thread_can_wake_a_task(future: TrioFuture[Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(future.wait)
        await wait_all_tasks_blocked()
        await trio.to_thread.run_sync(future.set, "from a thread")
    assert await future == "from a thread"


async def test_a_cancelled_task_leaves_the_future_to_the_others(future: TrioFuture[Any]) -> None:
    got: list[Any] = []

    async def read() -> None:
        got.append(await future)

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def give_up() -> None:
            with scope:
                await read()

        nursery.start_soon(give_up)
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        scope.cancel()
        await wait_all_tasks_blocked()
        assert scope.cancelled_caught
        future.set("left")
    assert got == ["left"]


async def test_a_wake_up_under_way_finds_a_cancelled_task_gone(future: TrioFuture[Any]) -> None:
    """The thread's wake-up reaches the loop only after the task was cancelled and left."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(future.wait)
            await wait_all_tasks_blocked()
            setter = threading.Thread(target=future.set, args=("too late",))
            setter.start()
            setter.join(PATIENCE_SECONDS)
            scope.cancel()
    await wait_all_tasks_blocked()
    assert future.get() == "too late"


async def test_awaiting_is_a_checkpoint_even_when_done(future: TrioFuture[Any]) -> None:
    future.set(1)
    with trio.testing.assert_checkpoints():
        await future
    with trio.CancelScope() as scope:
        scope.cancel()
        await future
    assert scope.cancelled_caught


async def test_a_wait_times_out_in_trios_time(
    future: TrioFuture[Any], autojump_clock: MockClock
) -> None:
    """Method: an hour on the mock clock. Both waiters time out, each at its own time."""
    ended: list[tuple[float, int]] = []

    async def read(seconds: float) -> None:
        started = trio.current_time()
        with pytest.raises(pykka.Timeout):
            await future.wait(timeout=seconds)
        ended.append((seconds, round(trio.current_time() - started)))

    async with trio.open_nursery() as nursery:
        for seconds in (3600, 1, 60):
            nursery.start_soon(read, seconds)
    assert ended == [(1, 1), (60, 60), (3600, 3600)]
    future.set("still valid")
    assert await future == "still valid"


async def test_time_outs_that_differ_each_time_are_not_kept() -> None:
    """A thousand waits with a time-out of their own, each of which is answered."""
    async with trio.open_nursery() as nursery:
        for at in range(1_000):
            pending: TrioFuture[int] = TrioFuture()
            nursery.start_soon(functools.partial(pending.wait, timeout=1_000 + at / 7))
            await trio.lowlevel.checkpoint()
            pending.set(at)
            await trio.lowlevel.checkpoint()
    queues = Loop.current()._queues  # pyright: ignore[reportPrivateUsage]
    assert len(queues) <= QUEUES_KEPT_MAX


async def test_a_time_out_of_zero_gives_others_one_turn(future: TrioFuture[Any]) -> None:
    with pytest.raises(pykka.Timeout):
        await future.wait(timeout=0)
    future.set(1)
    assert await future.wait(timeout=0) == 1


async def test_a_cancelled_wait_with_a_time_out_is_cancelled_and_not_timed_out(
    future: TrioFuture[Any],
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await future.wait(timeout=5)
    assert scope.cancelled_caught


async def test_get_refuses_to_block_a_loop_and_says_what_to_do(future: TrioFuture[Any]) -> None:
    with pytest.raises(WouldBlockLoop, match="await"):
        future.get()
    with pytest.raises(WouldBlockLoop):
        future.get(timeout=5)
    with pytest.raises(WouldBlockLoop):
        future.map(len).get()
    with pytest.raises(pykka.Timeout):
        future.get(timeout=0)
    future.set("done")
    assert future.get() == "done"
    assert future.map(len).get() == 4


def test_its_state_shows() -> None:
    future: TrioFuture[int] = TrioFuture()
    seen = [repr(future)]
    future.set(1)
    seen += [repr(future), repr(future.map(abs))]
    failed: TrioFuture[int] = TrioFuture()
    failed.set_exception((ValueError, None, None))
    seen.append(repr(failed))
    assert seen == [f"<TrioFuture {state}>" for state in ("pending", "set", "by hook", "failed")]
