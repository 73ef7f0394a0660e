"""A mailbox is bounded, keeps order, and never loses a wake-up."""

from __future__ import annotations

import threading
from typing import Any

import pykka
import pytest
import trio
from pykka._envelope import Envelope
from pykka.messages import _ActorStop  # pyright: ignore[reportPrivateUsage]
from trio.testing import wait_all_tasks_blocked

from counterpoint.actors.kernel import Mailbox, MailboxFull

PATIENCE_SECONDS = 10.0


def envelope(message: Any) -> Envelope[Any]:
    return Envelope(message)


def put_from_thread(mailbox: Mailbox, *messages: Any) -> None:
    """Put all `messages` from one other thread, which has ended on return."""

    def run() -> None:
        for message in messages:
            mailbox.put(envelope(message))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_SECONDS)


async def take(mailbox: Mailbox) -> Any:
    await mailbox.ready()
    return mailbox.get().message


def test_it_refuses_one_more_than_it_holds() -> None:
    mailbox = Mailbox(2)
    mailbox.put(envelope(1))
    mailbox.put(envelope(2))
    with pytest.raises(MailboxFull, match="2 messages"):
        mailbox.put(envelope(3))
    assert len(mailbox) == 2
    assert mailbox.get().message == 1
    mailbox.put(envelope(3))
    assert [mailbox.get().message, mailbox.get().message] == [2, 3]
    assert mailbox.empty()


def test_the_message_that_stops_the_actor_always_fits() -> None:
    mailbox = Mailbox(1)
    mailbox.put(envelope(1))
    mailbox.put(envelope(_ActorStop()))
    assert len(mailbox) == 2


async def test_what_is_queued_is_taken_in_order_after_one_checkpoint() -> None:
    mailbox = Mailbox()
    for number in range(3):
        mailbox.put(envelope(number))
    mailbox.put_first(envelope("first"))
    with trio.testing.assert_checkpoints():
        await mailbox.ready()
    assert [mailbox.get().message for _ in range(4)] == ["first", 0, 1, 2]


@pytest.mark.parametrize("from_thread", [False, True], ids=["same thread", "other thread"])
async def test_a_put_wakes_the_parked_taker(from_thread: bool) -> None:
    mailbox = Mailbox()
    taken: list[Any] = []

    async def serve() -> None:
        taken.append(await take(mailbox))
        taken.append(await take(mailbox))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        for message in ("a", "b"):
            await wait_all_tasks_blocked()
            if from_thread:
                put_from_thread(mailbox, message)
            else:
                mailbox.put(envelope(message))
    assert taken == ["a", "b"]


async def test_a_burst_from_a_thread_asks_for_one_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the loop is woken once a burst. Method: count what reaches the loop's token."""
    mailbox = Mailbox()
    token = trio.lowlevel.current_trio_token()
    asked: list[object] = []

    class Counting:
        def run_sync_soon(self, sync_fn: Any, *args: Any) -> None:
            asked.append(sync_fn)
            token.run_sync_soon(sync_fn, *args)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.ready)
        await wait_all_tasks_blocked()
        mailbox._token = Counting()  # type: ignore[assignment]  # pyright: ignore
        put_from_thread(mailbox, *range(100))
    assert len(asked) == 1
    assert len(mailbox) == 100


async def test_a_wake_up_for_what_was_taken_by_then_is_waited_out() -> None:
    """A thread's wake-up arrives when its message was already served: no message, no error."""
    mailbox = Mailbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.ready)
        await wait_all_tasks_blocked()
        put_from_thread(mailbox, "early")
        assert mailbox.get().message == "early"
        await wait_all_tasks_blocked()
        mailbox.put(envelope("late"))
    assert mailbox.get().message == "late"


async def test_a_cancelled_taker_leaves_what_is_queued_and_can_come_back() -> None:
    mailbox = Mailbox()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.ready)
            await wait_all_tasks_blocked()
            scope.cancel()
    mailbox.put(envelope("kept"))
    assert await take(mailbox) == "kept"


def test_closing_hands_over_what_is_queued_and_refuses_the_rest() -> None:
    mailbox = Mailbox()
    mailbox.put(envelope(1))
    mailbox.put(envelope(2))
    refused: list[Any] = []
    mailbox.close(lambda left: refused.append(left.message))
    assert refused == [1, 2]
    with pytest.raises(pykka.ActorDeadError):
        mailbox.put(envelope(3))


def test_no_message_is_lost_between_many_putters_and_a_close() -> None:
    """Eight threads put while the box closes: each message is refused, or handed over, once."""
    mailbox = Mailbox(10_000)
    barrier = threading.Barrier(9)
    handed_over: list[Any] = []
    refused: list[Any] = []

    def put(base: int) -> None:
        barrier.wait(PATIENCE_SECONDS)
        for number in range(base, base + 500):
            try:
                mailbox.put(envelope(number))
            except pykka.ActorDeadError:
                refused.append(number)

    threads = [threading.Thread(target=put, args=(base * 500,)) for base in range(8)]
    for thread in threads:
        thread.start()
    barrier.wait(PATIENCE_SECONDS)
    mailbox.close(lambda left: handed_over.append(left.message))
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sorted(handed_over + refused) == list(range(4_000))


def test_a_put_after_the_loop_ended_answers_that_the_actor_is_dead() -> None:
    """A loop may break down without its actor's last words: the putter learns of it."""
    mailbox = Mailbox()

    async def park() -> None:
        mailbox.arm()

    thread = threading.Thread(target=trio.run, args=(park,))
    thread.start()
    thread.join(PATIENCE_SECONDS)
    future: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
    mailbox.put(Envelope("anyone?", future))
    with pytest.raises(pykka.ActorDeadError, match="loop"):
        future.get(timeout=0)
