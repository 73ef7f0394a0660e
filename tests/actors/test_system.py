"""A system takes actors while it is open; the default one is there for plain threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pykka
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from counterpoint.actors.kernel import (
    ActorSystem,
    SystemClosed,
    TrioActor,
    WouldBlockLoop,
    ask,
    default_system,
    open_actor_system,
    stop_default_system,
)

from .stage import ASK_SECONDS, Stage, reply

PATIENCE_SECONDS = 10.0


@pytest.fixture
def _default_system_ends() -> Iterator[None]:
    yield
    stop_default_system(timeout=PATIENCE_SECONDS)


def in_a_thread(run: Any, *args: Any) -> Any:
    """Run `run(*args)` in another thread while this one stands still."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(run, *args).result(PATIENCE_SECONDS)


async def test_an_open_system_knows_its_actors_in_order() -> None:
    async with open_actor_system() as system:
        refs = [Stage.start(system=system) for _ in range(3)]
        assert system.refs() == refs
        assert repr(system) == "<ActorSystem open, 3 actors>"
        await refs[1].stop(block=False)
        assert system.refs() == [refs[0], refs[2]]
    assert system.closed
    assert repr(system) == "<ActorSystem closed, 0 actors>"


async def test_a_closed_system_refuses_to_start_an_actor() -> None:
    async with open_actor_system() as system:
        pass
    with pytest.raises(SystemClosed):
        Stage.start(system=system)
    with pytest.raises(SystemClosed):
        in_a_thread(lambda: Stage.start(system=system))
    assert pykka.ActorRegistry.get_by_class(Stage) == []


def test_a_system_whose_loop_is_gone_refuses_to_start_an_actor() -> None:
    """The loop ended without closing the system, as when it breaks down."""

    async def leak() -> ActorSystem:
        async with trio.open_nursery() as nursery:
            return ActorSystem(nursery)

    system: ActorSystem = in_a_thread(trio.run, leak)
    with pytest.raises(SystemClosed, match="loop"):
        Stage.start(system=system)
    assert pykka.ActorRegistry.get_by_class(Stage) == []


async def test_a_start_that_a_closing_system_overtakes_ends_the_actor() -> None:
    """A thread starts an actor, and the system closes before the loop gets to it."""
    async with open_actor_system() as system:
        ref = in_a_thread(lambda: Stage.start(system=system))
        asked = ref.ask(reply(1), block=False)
        system.cancel()
    await wait_all_tasks_blocked()
    assert not ref.is_alive()
    assert ref not in pykka.ActorRegistry.get_all()
    with pytest.raises(pykka.ActorDeadError):
        await asked


async def test_two_systems_in_one_loop_end_each_its_own_actors() -> None:
    async with open_actor_system() as outer:
        survivor = Stage.start(system=outer)
        async with open_actor_system() as inner:
            Stage.start(system=inner)
        assert outer.refs() == [survivor]
        assert await ask(survivor, reply("here"), timeout=ASK_SECONDS) == "here"


@pytest.mark.usefixtures("_default_system_ends")
async def test_a_task_of_one_loop_may_ask_an_actor_of_another() -> None:
    ref = Stage.start()
    assert ref.ask(reply(1), block=False) is not None
    for expected in range(3):
        assert await ask(ref, reply(expected), timeout=ASK_SECONDS) == expected


@pytest.mark.usefixtures("_default_system_ends")
async def test_a_put_off_reply_crosses_loops() -> None:
    ref = Stage.start()
    asked = ref.ask(Stage.put_off, block=False)
    (handle,) = await ask(ref, Stage.handles, timeout=ASK_SECONDS)
    handle.set("across")
    assert await asked == "across"


@pytest.mark.usefixtures("_default_system_ends")
def test_the_default_system_is_one_for_all_and_runs_in_a_daemon_thread() -> None:
    where = TellsWhere.start()
    assert where.ask(1) == TellsWhere.start().ask(1)
    (thread,) = [thread for thread in threading.enumerate() if thread.ident == where.ask(1)]
    assert thread.daemon
    assert thread is not threading.current_thread()
    assert default_system().closed is False


class TellsWhere(TrioActor):
    """Replies the thread it runs on."""

    def on_receive(self, message: Any) -> Any:
        return threading.get_ident()


@pytest.mark.usefixtures("_default_system_ends")
def test_many_threads_start_the_same_default_system() -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        systems = [pool.submit(default_system) for _ in range(8)]
    assert {system.result() for system in systems} == {default_system()}


def test_stopping_the_default_system_stops_its_actors_and_its_thread() -> None:
    ref = Stage.start()
    before = default_system()
    stop_default_system(timeout=PATIENCE_SECONDS)
    assert before.closed
    assert not ref.is_alive()
    assert all(thread.name != "counterpoint-actors" for thread in threading.enumerate())
    stop_default_system()


@pytest.mark.usefixtures("_default_system_ends")
def test_the_default_system_comes_back_after_it_was_stopped() -> None:
    Stage.start()
    stop_default_system(timeout=PATIENCE_SECONDS)
    ref = Stage.start()
    assert ref.ask(reply("again"), timeout=PATIENCE_SECONDS) == "again"


@pytest.mark.usefixtures("_default_system_ends")
def test_an_actor_cannot_wait_for_the_end_of_its_own_system() -> None:
    def stop_it(_stage: Stage) -> None:
        stop_default_system()

    ref = Stage.start()
    with pytest.raises(WouldBlockLoop):
        ref.ask(stop_it, timeout=PATIENCE_SECONDS)
    assert ref.is_alive()


def test_a_default_system_that_is_slow_to_end_is_left_to_end_by_itself() -> None:
    gate, entered = threading.Event(), threading.Event()

    def wait(_stage: Stage) -> None:
        entered.set()
        gate.wait(PATIENCE_SECONDS)

    ref = Stage.start()
    ref.tell(wait)
    assert entered.wait(PATIENCE_SECONDS)
    with pytest.raises(pykka.Timeout):
        stop_default_system(timeout=0.001)
    gate.set()
    assert ref.actor_stopped.wait(PATIENCE_SECONDS)


@pytest.mark.usefixtures("_default_system_ends")
def test_an_interrupt_raised_off_the_main_thread_is_the_actors_own_affair() -> None:
    def interrupt(_stage: Stage) -> None:
        raise KeyboardInterrupt

    ref, neighbour = Stage.start(), Stage.start()
    with pytest.raises(pykka.ActorDeadError):
        ref.ask(interrupt, timeout=PATIENCE_SECONDS)
    assert neighbour.ask(reply("alive"), timeout=PATIENCE_SECONDS) == "alive"
