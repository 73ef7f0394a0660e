"""Tasks that an actor spawns live and die with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pykka
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from counterpoint.actors.kernel import ActorSystem, ask, open_actor_system

from .stage import ASK_SECONDS, Act, Stage, busy, diary_of, reply


@pytest.fixture
async def system() -> AsyncIterator[ActorSystem]:
    async with open_actor_system() as opened:
        yield opened


async def noted_sleep(stage: Stage) -> None:
    """A child that lasts until it is cancelled, and says so."""
    stage.write("child started")
    try:
        await trio.sleep_forever()
    finally:
        stage.write("child ended")


def spawning(child: Callable[[Stage], Awaitable[None]]) -> Act:
    return lambda stage: stage.spawn(child, stage)


async def test_a_child_runs_beside_the_handlers_and_ends_before_on_stop(
    system: ActorSystem,
) -> None:
    ref = Stage.start(system=system)
    await ask(ref, spawning(noted_sleep), timeout=ASK_SECONDS)
    await wait_all_tasks_blocked()
    assert await ask(ref, Stage.read, timeout=ASK_SECONDS) == ["child started"]
    await ref.stop(block=False)
    assert diary_of(ref) == ["child started", "child ended", "stopped"]


async def test_a_child_can_be_cancelled_alone(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    scope = await ask(ref, spawning(noted_sleep), timeout=ASK_SECONDS)
    await wait_all_tasks_blocked()
    scope.cancel()
    await wait_all_tasks_blocked()
    assert ref.is_alive()
    assert diary_of(ref) == ["child started", "child ended"]


async def test_a_child_that_fails_takes_its_actor_and_siblings_with_it(
    system: ActorSystem,
) -> None:
    deaths: list[BaseException] = []

    def note(_ref: pykka.ActorRef[Any], error: BaseException) -> None:
        deaths.append(error)

    system.on_actor_death = note

    async def fail(_stage: Stage) -> None:
        raise KeyError("child")

    ref = Stage.start(system=system)
    await ask(ref, spawning(noted_sleep), timeout=ASK_SECONDS)
    gate = trio.Event()
    working = ref.ask(busy(gate), block=False)
    ref.tell(spawning(fail))
    waiting = ref.ask(reply(1), block=False)
    await wait_all_tasks_blocked()
    gate.set()
    assert await working == "done"
    assert await waiting == 1
    await wait_all_tasks_blocked()
    assert not ref.is_alive()
    assert diary_of(ref)[-2:] == ["child ended", "failed by KeyError('child')"]
    assert [repr(death) for death in deaths] == ["KeyError('child')"]


async def test_a_childs_failure_goes_ahead_of_what_is_queued(system: ActorSystem) -> None:
    ref = Stage.start(system=system)
    gate = trio.Event()

    async def fail(_stage: Stage) -> None:
        raise KeyError("child")

    async def spawn_and_wait(stage: Stage) -> None:
        stage.spawn(fail, stage)
        await gate.wait()

    ref.tell(spawn_and_wait)
    await wait_all_tasks_blocked()
    queued = ref.ask(reply(1), block=False)
    gate.set()
    with pytest.raises(pykka.ActorDeadError):
        await queued


async def test_a_child_that_fails_while_its_actor_ends_is_logged(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_at_the_end(_stage: Stage) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("in the child's cleanup")

    ref = Stage.start(system=system)
    await ask(ref, spawning(fail_at_the_end), timeout=ASK_SECONDS)
    await wait_all_tasks_blocked()
    assert await ref.stop(block=False) is True
    assert diary_of(ref) == ["stopped"]
    assert f"Unhandled exception in a task of {ref}:" in caplog.messages


async def test_a_dead_actor_spawns_nothing(system: ActorSystem) -> None:
    class Restless(Stage):
        def on_stop(self) -> None:
            with pytest.raises(RuntimeError, match="has ended"):
                self.spawn(noted_sleep, self)
            self.write("refused")

    ref = Restless.start(system=system)
    await ref.stop(block=False)
    assert diary_of(ref) == ["refused"]


async def test_another_thread_cannot_spawn(system: ActorSystem) -> None:
    ref = Stage.start(system=system)

    async def from_a_thread(stage: Stage) -> None:
        await trio.to_thread.run_sync(stage.spawn, noted_sleep, stage)

    with pytest.raises(RuntimeError, match="thread of its loop"):
        await ask(ref, from_a_thread, timeout=ASK_SECONDS)
