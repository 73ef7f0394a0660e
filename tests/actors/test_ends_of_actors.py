"""However an actor ends, it ends alone, and whoever waits for it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pykka
import pytest
import trio
from pykka._envelope import Envelope
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.actors.kernel import Mailbox, TrioFuture, ask, open_actor_system
from counterpoint.actors.life import Failed

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


class Collapse(BaseException):
    """Not an Exception, so no handler catches it by accident."""


class Deaths:
    """A hook that remembers who died of what."""

    def __init__(self) -> None:
        self.seen: list[tuple[pykka.ActorRef[Any], BaseException]] = []

    def __call__(self, ref: pykka.ActorRef[Any], error: BaseException) -> None:
        assert not ref.is_alive()
        self.seen.append((ref, error))


async def wreck_at_once(ref: pykka.ActorRef[Stage], error: BaseException) -> None:
    await wait_all_tasks_blocked()
    with pytest.raises(pykka.ActorDeadError):
        await ask(ref, raising(error), timeout=ASK_SECONDS)


async def wreck_in_its_task(ref: pykka.ActorRef[Stage], error: BaseException) -> None:
    with pytest.raises(pykka.ActorDeadError):
        await ask(ref, raising_in_its_task(error), timeout=ASK_SECONDS)


async def wreck_by_tell(ref: pykka.ActorRef[Stage], error: BaseException) -> None:
    ref.tell(raising(error))
    await wait_all_tasks_blocked()


async def wreck_by_child(ref: pykka.ActorRef[Stage], error: BaseException) -> None:
    async def child() -> None:
        raise error

    def spawn(stage: Stage) -> None:
        stage.spawn(child)

    ref.tell(spawn)
    await wait_all_tasks_blocked()


async def wreck_in_a_group(ref: pykka.ActorRef[Stage], error: BaseException) -> None:
    """A handler's own nursery wraps what its tasks raise."""
    with pytest.raises(pykka.ActorDeadError):
        await ask(ref, raising(BaseExceptionGroup("tasks", [error])), timeout=ASK_SECONDS)


WRECKS = [wreck_at_once, wreck_in_its_task, wreck_by_tell, wreck_by_child, wreck_in_a_group]


@pytest.mark.parametrize("wreck", WRECKS)
@pytest.mark.parametrize("error", [Collapse("c"), SystemExit(3)], ids=["own", "exit"])
async def test_an_actor_that_dies_of_a_base_exception_dies_alone(
    wreck: Callable[[pykka.ActorRef[Stage], BaseException], Any], error: BaseException
) -> None:
    """Neighbours here, in another system's thread, and pykka's own threads all live on."""
    deaths = Deaths()
    theirs = pykka.ThreadingActor.start()
    elsewhere = await trio.to_thread.run_sync(Stage.start)
    async with open_actor_system(on_actor_death=deaths) as system:
        ref, neighbour = Stage.start(system=system), Stage.start(system=system)
        await wreck(ref, error)
        await wait_all_tasks_blocked()
        assert not ref.is_alive()
        assert ref not in pykka.ActorRegistry.get_all()
        assert await ask(neighbour, reply("alive"), timeout=ASK_SECONDS) == "alive"
        assert await elsewhere.ask(reply("alive"), block=False) == "alive"
        assert theirs.is_alive()
        assert diary_of(ref) == ["stopped"]
        ((dead, cause),) = deaths.seen
        assert dead is ref
        assert cause is error or isinstance(cause, BaseExceptionGroup)
    await trio.to_thread.run_sync(theirs.stop)
    await elsewhere.stop(block=False)


async def test_who_is_queued_behind_a_collapse_learns_of_it() -> None:
    async with open_actor_system() as system:
        ref = Stage.start(system=system)
        gate = trio.Event()
        ref.tell(busy(gate))
        ref.tell(raising(Collapse("c")))
        queued = ref.ask(reply(1), block=False)
        await wait_all_tasks_blocked()
        gate.set()
        with pytest.raises(pykka.ActorDeadError) as caught:
            await queued
        assert isinstance(caught.value.__cause__, Collapse)


def wreck_class(hook: str, collapse: Callable[..., None]) -> type[Stage]:
    class Wreck(Stage):
        pass

    setattr(Wreck, hook, collapse)
    return Wreck


@pytest.mark.parametrize("hook", ["on_start", "on_stop", "on_failure"])
async def test_a_hook_that_collapses_ends_its_actor_alone(hook: str) -> None:
    def collapse(*_args: object) -> None:
        raise Collapse(hook)

    deaths = Deaths()
    async with open_actor_system(on_actor_death=deaths) as system:
        neighbour = Stage.start(system=system)
        ref = wreck_class(hook, collapse).start(system=system)
        if hook == "on_stop":
            assert await ref.stop(block=False) is True
        elif hook == "on_failure":
            ref.tell(raising(KeyError("told")))
        await wait_all_tasks_blocked()
        assert not ref.is_alive()
        assert neighbour.is_alive()
        assert [dead for dead, _ in deaths.seen] == [ref]


async def test_the_hook_hears_of_failures_and_not_of_stops() -> None:
    deaths = Deaths()
    async with open_actor_system(on_actor_death=deaths) as system:
        stopped, failed = Stage.start(system=system), Stage.start(system=system)
        await stopped.stop(block=False)
        failed.tell(raising(KeyError("told")))
        await wait_all_tasks_blocked()
        cancelled = Stage.start(system=system)
        system.cancel()
    assert [(ref, repr(error)) for ref, error in deaths.seen] == [(failed, "KeyError('told')")]
    assert not cancelled.is_alive()


async def test_the_hook_may_start_a_successor() -> None:
    successors: list[pykka.ActorRef[Any]] = []
    async with open_actor_system() as system:

        def restart(dead: pykka.ActorRef[Any], _error: BaseException) -> None:
            successors.append(dead.actor_class.start(system=system))

        system.on_actor_death = restart
        ref = Stage.start(system=system)
        ref.tell(raising(KeyError("k")))
        await wait_all_tasks_blocked()
        assert system.refs() == successors
        assert await ask(successors[0], reply("fresh"), timeout=ASK_SECONDS) == "fresh"


async def test_a_hook_that_fails_is_logged_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_ref: pykka.ActorRef[Any], _error: BaseException) -> None:
        raise ValueError("in the hook")

    async with open_actor_system(on_actor_death=fail) as system:
        ref, neighbour = Stage.start(system=system), Stage.start(system=system)
        ref.tell(raising(KeyError("k")))
        await wait_all_tasks_blocked()
        assert neighbour.is_alive()
    assert f"The hook on_actor_death failed for {ref}" in caplog.messages


async def test_a_cancelled_system_ends_its_actors_and_answers_who_waits() -> None:
    """One actor is idle, one in the middle of a message with another queued behind it."""
    gate = trio.Event()
    async with open_actor_system() as system:
        idle, working = Stage.start(system=system), Stage.start(system=system)
        being_served = working.ask(busy(gate), block=False)
        queued = working.ask(reply(1), block=False)
        owed = idle.ask(Stage.put_off, block=False)
        await wait_all_tasks_blocked()
        system.cancel()
    for future, sentence in ((being_served, "served"), (queued, "served"), (owed, "replied")):
        with pytest.raises(pykka.ActorDeadError, match=f"before it.* {sentence}"):
            await future
    assert diary_of(idle) == ["stopped"]
    assert diary_of(working) == ["busy", "stopped"]
    assert pykka.ActorRegistry.get_by_class(Stage) == []


async def test_an_async_on_stop_runs_to_its_end_although_the_system_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    class Tidy(Stage):
        async def on_stop(self) -> None:  # type: ignore[override]
            await trio.sleep(self.farewell_seconds_max / 2)
            self.write("tidied up")

    async with open_actor_system() as system:
        ref = Tidy.start(system=system)
        await wait_all_tasks_blocked()
        system.cancel()
    assert diary_of(ref) == ["tidied up"]


async def test_an_outer_cancellation_passes_through() -> None:
    refs: list[pykka.ActorRef[Stage]] = []
    with trio.CancelScope() as scope:
        async with open_actor_system() as system:
            refs.append(Stage.start(system=system))
            await wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert diary_of(refs[0]) == ["stopped"]


async def test_a_cancellation_mixed_with_a_failure_goes_on_and_the_failure_stays() -> None:
    """A handler's nursery that is cancelled may raise both at once, in one group."""
    deaths = Deaths()

    async def mixed(_stage: Stage) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            await trio.sleep_forever()

    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("cleanup")

    asked: list[TrioFuture[Any]] = []
    with trio.CancelScope() as scope:
        async with open_actor_system(on_actor_death=deaths) as system:
            asked.append(Stage.start(system=system).ask(mixed, block=False))
            await wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    with pytest.raises(pykka.ActorDeadError):
        await asked[0]
    ((_, error),) = deaths.seen
    assert isinstance(error, BaseExceptionGroup)
    assert "KeyError('cleanup')" in [repr(part) for part in error.exceptions]  # pyright: ignore


@pytest.mark.parametrize("wreck", [wreck_at_once, wreck_in_its_task, wreck_by_child])
def test_an_interrupt_on_the_main_thread_leaves_the_system(
    wreck: Callable[[pykka.ActorRef[Stage], BaseException], Any],
) -> None:
    """Ctrl-C is meant for the program, whichever actor happens to run when it comes."""
    neighbours: list[pykka.ActorRef[Any]] = []

    async def program() -> None:
        async with open_actor_system() as system:
            ref, neighbour = Stage.start(system=system), Stage.start(system=system)
            neighbours.append(neighbour)
            with trio.CancelScope(shield=True):
                await wreck(ref, KeyboardInterrupt("Ctrl-C"))
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt, match="Ctrl-C"):
        trio.run(program)
    assert not neighbours[0].is_alive()
    assert diary_of(neighbours[0]) == ["stopped"]


async def test_leaving_the_block_stops_the_last_started_first_and_serves_what_is_queued() -> None:
    ended: list[str] = []

    class Named(Stage):
        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name

        def on_stop(self) -> None:
            ended.append(self._name)

    async with open_actor_system() as system:
        refs = [Named.start(name, system=system) for name in "abc"]
        for ref in refs:
            ref.tell(writing("served"))
    assert ended == ["c", "b", "a"]
    assert [diary_of(ref) for ref in refs] == [["served"]] * 3


async def test_an_actor_that_does_not_drain_is_cancelled(autojump_clock: MockClock) -> None:
    never = trio.Event()
    async with open_actor_system(drain_seconds=60) as system:
        ref = Stage.start(system=system)
        asked = ref.ask(busy(never), block=False)
    assert trio.current_time() >= 60
    with pytest.raises(pykka.ActorDeadError):
        await asked
    assert diary_of(ref) == ["busy", "stopped"]


async def test_an_exception_of_the_block_leaves_it_as_it_is() -> None:
    refs: list[pykka.ActorRef[Stage]] = []

    async def block() -> None:
        async with open_actor_system() as system:
            refs.append(Stage.start(system=system))
            await wait_all_tasks_blocked()
            raise KeyError("the block's own")

    with pytest.raises(KeyError, match="the block's own"):
        await block()
    assert diary_of(refs[0]) == ["stopped"]


async def test_an_actor_may_stop_itself_while_it_is_asked() -> None:
    def leave(stage: Stage) -> str:
        stage.stop()
        return "bye"

    async with open_actor_system() as system:
        ref = Stage.start(system=system)
        await wait_all_tasks_blocked()
        assert await ask(ref, leave, timeout=ASK_SECONDS) == "bye"
        await wait_all_tasks_blocked()
        assert not ref.is_alive()


async def test_what_an_asker_began_is_given_up_when_the_actor_fails_before_it_goes_on() -> None:
    """A child's failure comes between the asker's start of a handler and its first step."""
    async with open_actor_system() as system:
        ref = Stage.start(system=system)
        await wait_all_tasks_blocked()
        mailbox = ref.actor_inbox
        assert isinstance(mailbox, Mailbox)
        assert mailbox.serve_at_once is not None
        asked: TrioFuture[Any] = TrioFuture()
        mailbox.serve_at_once(busy(trio.Event()), asked)
        mailbox.put_first(Envelope(Failed(KeyError("child"))))
        with pytest.raises(pykka.ActorDeadError):
            await asked
        assert diary_of(ref) == ["failed by KeyError('child')"]


async def test_many_actors_end_together() -> None:
    async with open_actor_system() as system:
        refs = [Stage.start(system=system) for _ in range(500)]
        replies = [ref.ask(reply(at), block=False) for at, ref in enumerate(refs)]
        assert [await future for future in replies] == list(range(500))
        stops = [ref.stop(block=False) for ref in refs]
        assert all([await stopped for stopped in stops])
        assert system.refs() == []
