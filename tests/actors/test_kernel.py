"""Actors as tasks of a system: asks that are awaited, and replies that come later."""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pykka
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.actors.kernel import (
    ActorSystem,
    LaterReply,
    MailboxFull,
    WouldBlockLoop,
    ask,
    open_actor_system,
)

from .stage import (
    ASK_SECONDS,
    Stage,
    busy,
    diary_of,
    raising,
    raising_in_its_task,
    reply,
    writing,
)


@pytest.fixture
async def system() -> AsyncIterator[ActorSystem]:
    async with open_actor_system() as opened:
        yield opened


async def test_a_task_awaits_the_reply_of_a_plain_handler(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    assert await ask(ref, reply("first"), timeout=ASK_SECONDS) == "first"
    await wait_all_tasks_blocked()
    with trio.testing.assert_checkpoints():
        assert await ask(ref, reply("idle"), timeout=ASK_SECONDS) == "idle"
    assert await ref.ask(reply("future"), block=False) == "future"


async def test_a_task_awaits_the_reply_of_an_async_handler(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    gate = trio.Event()
    gate.set()
    assert await ask(ref, busy(gate), timeout=ASK_SECONDS) == "done"
    await wait_all_tasks_blocked()
    assert await ask(ref, busy(gate), timeout=ASK_SECONDS) == "done"


async def test_an_async_handler_keeps_the_next_message_waiting(system: ActorSystem) -> None:
    """Goal: one message at a time, whether the actor was idle or not when it was asked."""
    ref = Stage.start(system=system)
    await wait_all_tasks_blocked()
    gate = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(functools.partial(ask, ref, busy(gate), timeout=ASK_SECONDS))
        await wait_all_tasks_blocked()
        nursery.start_soon(functools.partial(ask, ref, writing("next"), timeout=ASK_SECONDS))
        await wait_all_tasks_blocked()
        assert diary_of(ref) == ["busy"]
        gate.set()
    assert diary_of(ref) == ["busy", "free", "next"]


async def test_a_handler_runs_in_the_actors_context_whoever_asks(system: ActorSystem) -> None:
    """A context variable of the asker is not seen, and one set by the actor does not leak."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    def swap(stage: Stage) -> str:
        before = variable.get()
        variable.set("the actor's")
        return before

    ref = Stage.start(system=system)
    await wait_all_tasks_blocked()
    variable.set("the asker's")
    assert await ask(ref, swap, timeout=ASK_SECONDS) == "unset"
    assert variable.get() == "the asker's"
    assert await ref.ask(swap, block=False) == "the actor's"


async def test_an_exception_reaches_the_asker_and_the_actor_lives_on(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    for handler in (raising(KeyError("k")), raising_in_its_task(KeyError("k"))):
        await wait_all_tasks_blocked()
        with pytest.raises(KeyError, match="k"):
            await ask(ref, handler, timeout=ASK_SECONDS)
    assert await ask(ref, reply("alive"), timeout=ASK_SECONDS) == "alive"


async def test_an_ask_that_times_out_takes_nothing_back(
    system: ActorSystem, autojump_clock: MockClock
) -> None:
    ref = Stage.start(system=system)
    gate = trio.Event()
    with pytest.raises(pykka.Timeout):
        await ask(ref, busy(gate), timeout=3600)
    gate.set()
    await wait_all_tasks_blocked()
    assert diary_of(ref) == ["busy", "free"]


async def test_a_cancelled_ask_takes_nothing_back(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    gate = trio.Event()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(functools.partial(ask, ref, busy(gate), timeout=ASK_SECONDS))
            await wait_all_tasks_blocked()
            scope.cancel()
    gate.set()
    await wait_all_tasks_blocked()
    assert diary_of(ref) == ["busy", "free"]


async def test_a_dead_actor_refuses_an_ask(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    assert await ref.stop(block=False) is True
    with pytest.raises(pykka.ActorDeadError):
        await ask(ref, reply(1), timeout=ASK_SECONDS)
    assert await ref.stop(block=False) is False


async def test_a_full_mailbox_refuses_when_asked(system: ActorSystem) -> None:
    class Small(Stage):
        mailbox_len_max = 1

    ref = Small.start(system=system)
    gate = trio.Event()
    ref.tell(busy(gate))
    await wait_all_tasks_blocked()
    ref.tell(writing("queued"))
    with pytest.raises(MailboxFull):
        await ask(ref, reply(1), timeout=ASK_SECONDS)
    gate.set()
    assert await ref.stop(block=False) is True
    assert diary_of(ref) == ["busy", "free", "queued", "stopped"]


async def test_nothing_blocks_the_loop_and_nothing_is_sent(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    proxy: Any = ref.proxy()
    with pytest.raises(WouldBlockLoop, match="nothing was sent"):
        ref.ask(writing("sent"))
    with pytest.raises(WouldBlockLoop, match="nothing was sent"):
        ref.stop()
    with pytest.raises(WouldBlockLoop):
        proxy.mood = "merry"
    await wait_all_tasks_blocked()
    assert diary_of(ref) == []
    assert await proxy.read() == []
    await ref.stop(block=False)
    assert ref.stop() is False


async def test_only_our_actors_can_be_asked_from_a_task() -> None:
    ref = pykka.ThreadingActor.start()
    try:
        with pytest.raises(TypeError, match="TrioActor"):
            await ask(ref, 1, timeout=ASK_SECONDS)
    finally:
        await trio.to_thread.run_sync(ref.stop)


async def test_a_busy_actor_lets_other_tasks_run(system: ActorSystem) -> None:
    """An actor that always has mail, from itself, does not starve the loop."""

    def again(stage: Stage) -> None:
        stage.actor_ref.tell(again)

    ref = Stage.start(system=system)
    ref.tell(again)
    for _ in range(10):
        await trio.lowlevel.checkpoint()
    assert await ref.stop(block=False) is True


async def test_a_thread_may_ask_an_actor_of_a_system(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    answers: list[Any] = []

    def ask_from_here() -> None:
        answers.append(ref.ask(reply("here"), timeout=10))

    await trio.to_thread.run_sync(ask_from_here)
    assert answers == ["here"]


async def test_a_reply_may_come_later_while_the_actor_serves_others(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    await wait_all_tasks_blocked()
    at_once = ref.ask(Stage.put_off, block=False)
    got: list[Any] = []

    async def ask_and_note() -> None:
        got.append(await ask(ref, Stage.put_off, timeout=ASK_SECONDS))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_and_note)
        await wait_all_tasks_blocked()
        first, second = await ask(ref, Stage.handles, timeout=ASK_SECONDS)
        assert got == []
        assert not at_once.done()
        assert second.set("second")
        assert await trio.to_thread.run_sync(first.set, "first, from a thread")
    assert got == ["second"]
    assert await at_once == "first, from a thread"
    assert first.set("again") is False
    assert first.set_exception(ValueError()) is False


async def test_a_later_reply_may_be_an_exception(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    asked = ref.ask(Stage.put_off, block=False)
    (handle,) = await ask(ref, Stage.handles, timeout=ASK_SECONDS)
    assert handle.set_exception(KeyError("later"))
    with pytest.raises(KeyError, match="later"):
        await asked


async def test_a_proxied_method_may_reply_later(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    proxy: Any = ref.proxy()
    asked = proxy.put_off()
    (handle,) = await proxy.handles()
    handle.set("by proxy")
    assert await asked == "by proxy"


async def test_a_handle_may_be_answered_before_the_handler_returns(system: ActorSystem) -> None:
    def hasty(stage: Stage) -> LaterReply:
        handle = stage.put_off()
        handle.set("hasty")
        return handle

    ref = Stage.start(system=system)
    assert await ask(ref, hasty, timeout=ASK_SECONDS) == "hasty"
    await wait_all_tasks_blocked()
    assert await ask(ref, hasty, timeout=ASK_SECONDS) == "hasty"


async def test_replies_still_owed_when_the_actor_ends_say_that_it_is_dead(
    system: ActorSystem,
) -> None:
    ref = Stage.start(system=system)
    asked = ref.ask(Stage.put_off, block=False)
    (handle,) = await ask(ref, Stage.handles, timeout=ASK_SECONDS)
    await ref.stop(block=False)
    with pytest.raises(pykka.ActorDeadError, match="before it replied"):
        await asked
    assert handle.set("too late") is False


async def test_a_handle_that_was_not_returned_counts_for_nothing(system: ActorSystem) -> None:
    def forget(stage: Stage) -> str:
        stage.put_off()
        return "at once"

    ref = Stage.start(system=system)
    assert await ask(ref, forget, timeout=ASK_SECONDS) == "at once"
    (handle,) = await ask(ref, Stage.handles, timeout=ASK_SECONDS)
    assert handle.set("later") is False


async def test_the_handle_of_another_message_is_refused(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    asked = ref.ask(Stage.put_off, block=False)

    def return_the_first(stage: Stage) -> LaterReply:
        return stage.handles()[0]

    with pytest.raises(RuntimeError, match="another message"):
        await ask(ref, return_the_first, timeout=ASK_SECONDS)
    (handle,) = await ask(ref, Stage.handles, timeout=ASK_SECONDS)
    handle.set("for the first")
    assert await asked == "for the first"


async def test_a_reply_that_nobody_asked_for_goes_nowhere(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    ref.tell(Stage.put_off)
    (handle,) = await ask(ref, Stage.handles, timeout=ASK_SECONDS)
    assert handle.set("to nobody") is False


async def test_there_is_no_reply_to_put_off_outside_of_a_message(system: ActorSystem) -> None:
    class Eager(Stage):
        def on_start(self) -> None:
            with pytest.raises(RuntimeError, match="owes no reply"):
                self.reply_later()
            self.write("refused")

    ref = Eager.start(system=system)
    assert await ask(ref, Stage.read, timeout=ASK_SECONDS) == ["refused"]


async def test_hooks_may_be_async(system: ActorSystem) -> None:
    class Slow(Stage):
        async def on_start(self) -> None:  # type: ignore[override]
            await trio.lowlevel.checkpoint()
            self.write("started")

        async def on_stop(self) -> None:  # type: ignore[override]
            await trio.lowlevel.checkpoint()
            self.write("stopped slowly")

    ref = Slow.start(system=system)
    ref.tell(writing("served"))
    await ref.stop(block=False)
    assert diary_of(ref) == ["started", "served", "stopped slowly"]


async def test_a_last_hook_that_never_ends_is_cut_off(
    system: ActorSystem, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(Stage):
        async def on_stop(self) -> None:  # type: ignore[override]
            await trio.sleep_forever()

    ref = Stuck.start(system=system)
    assert await ref.stop(block=False) is True
    assert f"A last hook of {ref} took too long and was cut off" in caplog.messages


async def test_a_future_that_the_host_set_by_itself_does_no_harm(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    gate = trio.Event()
    ref = Stage.start(system=system)
    asked = ref.ask(busy(gate), block=False)
    await wait_all_tasks_blocked()
    asked.set("the host's")
    with caplog.at_level(logging.DEBUG, "pykka"):
        gate.set()
        assert await ask(ref, reply("alive"), timeout=ASK_SECONDS) == "alive"
    assert f"{ref} replied to a future that was set already" in caplog.messages


async def test_an_actor_runs_on_its_systems_thread_wherever_it_was_started(
    system: ActorSystem,
) -> None:
    start = functools.partial(Stage.start, system=system)
    ref = await trio.to_thread.run_sync(start)

    def where(stage: Stage) -> tuple[int, ActorSystem]:
        return threading.get_ident(), stage.system

    assert await ask(ref, where, timeout=ASK_SECONDS) == (threading.get_ident(), system)
