"""From a plain thread, an actor without a system is used as one of pykka's threads is."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import pykka
import pytest

from counterpoint.actors.kernel import (
    MailboxFull,
    TrioActor,
    TrioActorRef,
    TrioFuture,
    stop_default_system,
)

PATIENCE_SECONDS = 10.0


@pytest.fixture(autouse=True)
def _default_system_ends() -> Iterator[None]:
    yield
    stop_default_system(timeout=PATIENCE_SECONDS)


class Diary:
    """What happened to an actor, in order, and a way for a thread to wait for it."""

    def __init__(self) -> None:
        self._lines: list[Any] = []
        self._changed = threading.Condition()

    def write(self, line: Any) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def lines(self, count: int) -> list[Any]:
        """Return all lines, once there are `count` of them."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self._lines) >= count, PATIENCE_SECONDS)
            assert enough, self._lines
            return list(self._lines)


class Parts:
    """Something traversable that an actor has."""

    pykka_traversable = True
    wheel = "round"

    def turn(self, times: int) -> str:
        return self.wheel * times


class Witness(TrioActor):
    """Writes down its life, and does what it is told."""

    parts = Parts()
    mood = "calm"

    def __init__(self, diary: Diary, *, fail_in: str = "") -> None:
        super().__init__()
        self._diary = diary
        self._fail_in = fail_in
        self._gate = threading.Event()

    @property
    def size(self) -> int:
        return 12

    def on_start(self) -> None:
        registered = pykka.ActorRegistry.get_by_urn(self.actor_urn) is self.actor_ref
        self._diary.write("started registered" if registered else "started")
        self._fail("on_start")

    def on_stop(self) -> None:
        self._diary.write("stopped")
        self._fail("on_stop")

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert exception_type is type(exception_value)
        assert traceback is not None
        self._diary.write(f"failed by {exception_value}")
        self._fail("on_failure")

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, threading.Event):
            message.wait(PATIENCE_SECONDS)
        elif callable(message):
            return message(self)
        else:
            self._diary.write(message)
        return f"heard {message}"

    def double(self, number: int) -> int:
        return number * 2

    async def double_later(self, number: int) -> int:
        return number * 2

    def refuse(self) -> None:
        raise ValueError("no")

    def learn(self, name: str) -> None:
        setattr(self, name, lambda: f"learnt {name}")

    def double_by_myself(self, number: int) -> pykka.Future[int]:
        future: pykka.Future[int] = self.actor_ref.proxy().double(number)
        return future

    def _fail(self, where: str) -> None:
        if self._fail_in == where:
            raise RuntimeError(f"in {where}")


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def ref(diary: Diary) -> TrioActorRef[Witness]:
    return Witness.start(diary)


def test_it_is_an_actor_of_pykkas(ref: TrioActorRef[Witness]) -> None:
    assert isinstance(ref, pykka.ActorRef)
    assert issubclass(ref.actor_class, pykka.Actor)
    assert isinstance(ref.ask("a", block=False), pykka.Future)
    assert uuid.UUID(ref.actor_urn).version == 4
    assert str(ref) == f"Witness ({ref.actor_urn})"


def test_an_actor_that_was_not_started_takes_any_arguments_and_has_a_name() -> None:
    idle = TrioActor(1, 2, three=3)
    assert idle.actor_urn in str(idle)
    with pytest.raises(RuntimeError, match="not started"):
        _ = idle.system


def test_ask_brings_the_reply(ref: TrioActorRef[Witness]) -> None:
    assert ref.ask("a") == "heard a"
    assert ref.ask("b", timeout=PATIENCE_SECONDS) == "heard b"
    assert ref.ask("c", block=False).get(timeout=PATIENCE_SECONDS) == "heard c"


@pytest.mark.parametrize("message", [7, 0.5, ("a", "pair"), ["list"], {"k": 1}, None])
def test_a_message_may_be_anything(ref: TrioActorRef[Witness], diary: Diary, message: Any) -> None:
    ref.tell(message)
    assert diary.lines(2)[1] == message


def test_messages_are_served_one_by_one_in_the_order_they_came(
    ref: TrioActorRef[Witness], diary: Diary
) -> None:
    for number in range(500):
        ref.tell(number)
    assert ref.ask("last") == "heard last"
    assert diary.lines(502)[1:] == [*range(500), "last"]


def test_on_start_comes_first_and_finds_the_actor_registered(
    ref: TrioActorRef[Witness], diary: Diary
) -> None:
    ref.tell("then")
    assert diary.lines(2) == ["started registered", "then"]


def test_stop_waits_for_what_was_queued_and_for_on_stop(
    ref: TrioActorRef[Witness], diary: Diary
) -> None:
    ref.tell("queued")
    assert ref.is_alive()
    assert ref.stop() is True
    assert diary.lines(3) == ["started registered", "queued", "stopped"]
    assert not ref.is_alive()
    assert ref.actor_stopped.wait(PATIENCE_SECONDS)
    assert ref.stop() is False


def test_a_dead_actor_refuses(ref: TrioActorRef[Witness]) -> None:
    ref.stop()
    with pytest.raises(pykka.ActorDeadError, match=ref.actor_urn):
        ref.tell("anyone?")
    with pytest.raises(pykka.ActorDeadError, match="not found"):
        ref.ask("anyone?")
    with pytest.raises(pykka.ActorDeadError, match="not found"):
        ref.ask("anyone?", block=False).get()
    with pytest.raises(pykka.ActorDeadError):
        ref.proxy()


def test_who_stands_behind_a_stop_is_told_that_the_actor_died(ref: TrioActorRef[Witness]) -> None:
    gate = threading.Event()
    ref.tell(gate)
    stopped = ref.stop(block=False)
    left_over = ref.ask("too late", block=False)
    stopped_again = ref.stop(block=False)
    gate.set()
    assert stopped.get(timeout=PATIENCE_SECONDS) is True
    assert stopped_again.get(timeout=PATIENCE_SECONDS) is True
    with pytest.raises(pykka.ActorDeadError, match="before it had served"):
        left_over.get(timeout=PATIENCE_SECONDS)


def test_an_actor_may_stop_itself_twice(ref: TrioActorRef[Witness], diary: Diary) -> None:
    def stop_twice(actor: Witness) -> str:
        actor.actor_ref.tell("before the end")
        actor.stop()
        actor.stop()
        return "stopping"

    assert ref.ask(stop_twice) == "stopping"
    assert diary.lines(3) == ["started registered", "before the end", "stopped"]


def test_an_exception_goes_to_who_asked_and_the_actor_lives_on(
    ref: TrioActorRef[Witness], diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pykka"), pytest.raises(KeyError, match="asked"):
        ref.ask(KeyError("asked"))
    assert f"Exception returned from {ref} to caller:" in caplog.messages
    assert ref.ask("still here") == "heard still here"
    assert diary.lines(2) == ["started registered", "still here"]


def test_an_exception_that_nobody_asked_for_ends_the_actor(
    ref: TrioActorRef[Witness], diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    ref.tell(gate)
    ref.tell(KeyError("told"))
    left_over = ref.ask("never", block=False)
    gate.set()
    with pytest.raises(pykka.ActorDeadError) as caught:
        left_over.get(timeout=PATIENCE_SECONDS)
    assert isinstance(caught.value.__cause__, KeyError)
    assert diary.lines(2) == ["started registered", "failed by 'told'"]
    assert f"Unhandled exception in {ref}:" in caplog.messages
    assert not ref.is_alive()
    assert ref not in pykka.ActorRegistry.get_all()


@pytest.mark.parametrize(
    ("where", "message", "lines"),
    [
        ("on_start", None, ["started registered"]),
        ("on_failure", KeyError("k"), ["started registered", "failed by 'k'"]),
        ("on_stop", Witness.stop, ["started registered", "stopped"]),
    ],
)
def test_a_hook_that_fails_is_logged_and_ends_the_actor(
    diary: Diary,
    caplog: pytest.LogCaptureFixture,
    where: str,
    message: Any,
    lines: list[str],
) -> None:
    ref = Witness.start(diary, fail_in=where)
    if message is not None:
        ref.tell(message)
    assert ref.actor_stopped.wait(PATIENCE_SECONDS)
    stop_default_system(timeout=PATIENCE_SECONDS)
    assert diary.lines(len(lines)) == lines
    failures = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert f"in {where}" in [str(failure) for failure in failures]
    assert ref not in pykka.ActorRegistry.get_all()


def test_a_message_that_no_handler_wants_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    ref = TrioActor.start()
    assert ref.ask({"strange": 1}) is None
    assert caplog.messages == [f"Unexpected message received by {ref}: {{'strange': 1}}"]


def test_ask_times_out_and_the_message_is_served_all_the_same(
    ref: TrioActorRef[Witness], diary: Diary
) -> None:
    gate = threading.Event()
    ref.tell(gate)
    with pytest.raises(pykka.Timeout):
        ref.ask("slowly", timeout=0.001)
    gate.set()
    assert diary.lines(2) == ["started registered", "slowly"]


def test_the_registry_finds_actors_and_stops_them(diary: Diary) -> None:
    class Other(TrioActor):
        pass

    first, second, other = Witness.start(diary), Witness.start(diary), Other.start()
    assert pykka.ActorRegistry.get_by_class(Witness) == [first, second]
    assert pykka.ActorRegistry.get_by_class_name("Other") == [other]
    assert pykka.ActorRegistry.get_by_urn(second.actor_urn) is second
    pykka.ActorRegistry.broadcast("all of you", target_class=Witness)
    assert diary.lines(4).count("all of you") == 2
    assert pykka.ActorRegistry.stop_all() == [True, True, True]
    assert pykka.ActorRegistry.get_all() == []


def test_a_class_may_keep_out_of_the_registry() -> None:
    class Discreet(TrioActor):
        registered = False

    ref = Discreet.start()
    assert ref not in pykka.ActorRegistry.get_all()
    assert ref.stop() is True


def test_a_proxy_reads_sets_and_calls(ref: TrioActorRef[Witness]) -> None:
    proxy: Any = ref.proxy()
    assert proxy.mood.get() == "calm"
    proxy.mood = "merry"
    assert proxy.mood.get() == "merry"  # pyright: ignore
    assert proxy.size.get() == 12
    assert proxy.double(4).get() == 8
    assert proxy.double_later(4).get() == 8
    assert proxy.parts.wheel.get() == "round"
    assert proxy.parts.turn(2).get() == "roundround"
    assert proxy == ref.proxy()
    with pytest.raises(AttributeError, match="absent"):
        proxy.absent.get()
    with pytest.raises(AttributeError):
        proxy.size = 13
    with pytest.raises(ValueError, match="no"):
        proxy.refuse().get()
    assert ref.is_alive()


def test_a_proxy_learns_what_its_actor_learns(ref: TrioActorRef[Witness]) -> None:
    proxy: Any = ref.proxy()
    proxy.learn("trick").get()
    assert proxy.trick().get() == "learnt trick"


def test_an_actor_can_put_off_work_by_a_proxy_to_itself(ref: TrioActorRef[Witness]) -> None:
    proxy: Any = ref.proxy()
    assert proxy.double_by_myself(5).get().get(timeout=PATIENCE_SECONDS) == 10


def test_a_deferred_call_that_fails_ends_the_actor(
    ref: TrioActorRef[Witness], diary: Diary
) -> None:
    proxy: Any = ref.proxy()
    assert proxy.double.defer(1) is None
    proxy.refuse.defer()
    assert diary.lines(2) == ["started registered", "failed by no"]


def test_many_threads_may_ask_one_actor_at_once(ref: TrioActorRef[Witness]) -> None:
    """Eight threads, a hundred asks each; every reply reaches the one who asked."""

    def ask_away(base: int) -> list[Any]:
        return [ref.ask(number, timeout=PATIENCE_SECONDS) for number in range(base, base + 100)]

    with ThreadPoolExecutor(max_workers=8) as pool:
        for base, replies in zip(range(8), pool.map(ask_away, range(8)), strict=True):
            assert replies == [f"heard {number}" for number in range(base, base + 100)]


def test_a_full_mailbox_refuses_the_teller_and_the_asker_but_never_a_stop(diary: Diary) -> None:
    class Small(Witness):
        mailbox_len_max = 2

    ref = Small.start(diary)
    gate, entered = threading.Event(), threading.Event()

    def wait(_actor: Witness) -> None:
        entered.set()
        gate.wait(PATIENCE_SECONDS)

    ref.tell(wait)
    assert entered.wait(PATIENCE_SECONDS)
    ref.tell("one")
    ref.tell("two")
    with pytest.raises(MailboxFull):
        ref.tell("three")
    with pytest.raises(MailboxFull):
        ref.ask("three", block=False)
    stopped = ref.stop(block=False)
    gate.set()
    assert stopped.get(timeout=PATIENCE_SECONDS) is True
    assert diary.lines(4) == ["started registered", "one", "two", "stopped"]


def test_get_all_collects_from_actors(ref: TrioActorRef[Witness]) -> None:
    futures = [ref.ask(letter, block=False) for letter in "ab"]
    assert pykka.get_all(futures, timeout=PATIENCE_SECONDS) == ["heard a", "heard b"]
    mapped = futures[0].map(str.upper)
    assert mapped.get() == "HEARD A"
    assert isinstance(mapped, TrioFuture)
