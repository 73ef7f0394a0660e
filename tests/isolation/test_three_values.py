"""A verb is accepted, refused or unknown, and each of these is told as what it is.

Method: every verb is sent once while the store fails in one way. What the caller is told is
held against what is then stored, and the same id is sent again.
"""

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from counterpoint.runtime import Code, OutcomeUnknown, Receipt
from counterpoint.store.engine import (
    OutcomeInDoubt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
)
from counterpoint.store.memory_engine import Point

from ..runtime.stage import InMemory
from .verbs import (
    AGENTS,
    CONFIG,
    NEVER_A_CONVERSATION,
    NEVER_A_RUN,
    USED,
    VERBS,
    Do,
    Talk,
    plain,
    resolve,
    steer,
    stop,
    talk,
    withdraw,
)

every_verb = pytest.mark.parametrize("do", VERBS.values(), ids=VERBS.keys())


class Fault:
    """Fails one batch, at one point of it, once it is armed."""

    def __init__(self) -> None:
        self._at: Point | None = None
        self._error: StoreError = StoreFailed()

    def arm(self, at: Point, error: StoreError) -> None:
        self._at, self._error = at, error

    def __call__(self, point: Point) -> None:
        if point == self._at:
            self._at = None
            raise self._error


async def looked_up(at: Talk) -> Receipt | None:
    return await at.runtime.lookup(scope="ann", client_id=USED)


@pytest.mark.contract("C2", "D19", "A19", "A20")
@pytest.mark.parametrize("stored", [False, True], ids=["lost", "stored"])
@every_verb
async def test_a_commit_in_doubt_is_unknown_and_the_id_tells_what_became_of_it(
    do: Do, stored: bool
) -> None:
    fault = Fault()
    place = InMemory(faults=fault)
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        fault.arm("commit.after" if stored else "commit.before", OutcomeInDoubt("torn"))
        with pytest.raises(OutcomeUnknown) as caught:
            await do(at)
        assert caught.value.client_id == USED
        assert "look the id up" in caught.value.sentence

        found = await looked_up(at)
        assert (found is not None) is stored
        again = await do(at)
        assert found in (None, again), "reconciled with the original id"
        assert await looked_up(at) == again


@pytest.mark.contract("C2", "C25", "A19", "A20")
@every_verb
async def test_who_has_waited_long_enough_is_told_that_the_outcome_is_unknown(
    do: Do, autojump_clock: MockClock
) -> None:
    place = InMemory()
    config = replace(CONFIG, write_wait_s=1e6, ask_wait_s=5.0)
    found: list[Receipt | None] = []
    async with place.open(AGENTS, config) as runtime:
        at = await talk(runtime)

        async def look_up() -> None:
            found.append(await looked_up(at))

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                with pytest.raises(OutcomeUnknown) as caught:
                    await do(at)
                nursery.start_soon(look_up)
                await trio.testing.wait_all_tasks_blocked()
                assert found == [], "it is on its way, so nobody can say yet"
        assert autojump_clock.current_time() >= config.ask_wait_s
        assert caught.value.client_id == USED
        assert found == [await do(at)]
        assert found != [None]


REFUSALS: list[tuple[StoreError, Code]] = [
    (StoreFull("full"), Code.STORE_FULL),
    (StoreFailed("read back"), Code.STORE_UNAVAILABLE),
    (StoreReadOnly("remounted"), Code.STORE_UNAVAILABLE),
]


@pytest.mark.contract("C2", "C3", "D19", "A21", "A22", "D8")
@pytest.mark.parametrize(
    ("error", "code"), REFUSALS, ids=[type(error).__name__ for error, _ in REFUSALS]
)
@every_verb
async def test_a_commit_that_failed_is_a_refusal_and_its_id_is_free(
    do: Do, error: StoreError, code: Code
) -> None:
    fault = Fault()
    place = InMemory(faults=fault)
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        fault.arm("commit.before", error)
        with place.refuses(code) as caught:
            await do(at)
        assert caught.value.retry_same_id
        assert await looked_up(at) is None
        accepted = await do(at)
        assert await looked_up(at) == accepted


@pytest.mark.contract("D18", "C2", "C3", "B46", "A20")
@every_verb
async def test_a_store_that_stays_locked_refuses_every_verb_as_busy(
    do: Do, autojump_clock: MockClock
) -> None:
    place = InMemory()
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        with place.engine.locked_elsewhere(), place.refuses(Code.BUSY) as caught:
            await do(at)
        assert autojump_clock.current_time() >= CONFIG.write_wait_s
        assert caught.value.facts == {"waited_s": CONFIG.write_wait_s}
        assert caught.value.retry_same_id
        assert await looked_up(at) is None
        accepted = await do(at)
        assert await looked_up(at) == accepted


@pytest.mark.contract("B46", "B47")
@every_verb
async def test_a_store_that_is_locked_for_a_moment_refuses_nobody(
    do: Do, autojump_clock: MockClock
) -> None:
    place = InMemory()
    receipts: list[Receipt] = []
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)

        async def send() -> None:
            receipts.append(await do(at))

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                nursery.start_soon(send)
                await trio.sleep(CONFIG.write_wait_s / 2)
                assert receipts == []
        assert autojump_clock.current_time() >= CONFIG.write_wait_s / 2
        assert receipts == [await looked_up(at)]


@pytest.mark.contract("A19", "C1", "C2", "C25")
@every_verb
async def test_looking_up_comes_after_what_is_on_its_way_also_when_its_caller_has_left(
    do: Do,
) -> None:
    place = InMemory()
    found: list[Receipt | None] = []
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)

        async def look_up() -> None:
            found.append(await looked_up(at))

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                with trio.CancelScope() as left:
                    left.cancel()
                    await do(at)
                assert left.cancelled_caught
                for _ in range(2):
                    nursery.start_soon(look_up)
                await trio.testing.wait_all_tasks_blocked()
                assert found == []
        assert found == [await do(at)] * 2


NOWHERE: dict[str, Do] = {
    "plain": plain(where="nowhere"),
    "steer": steer(target="never"),
    "stop": stop("never"),
    "withdraw": withdraw(target="never"),
    "resolve": resolve(target="never"),
    "withdraw nothing": withdraw(99),
    "resolve nothing": resolve(99),
}


@pytest.mark.contract("A21", "A22", "C1", "D8")
@pytest.mark.parametrize("refused", NOWHERE.values(), ids=NOWHERE.keys())
@every_verb
async def test_an_id_that_was_refused_is_free_for_every_verb(do: Do, refused: Do) -> None:
    place = InMemory()
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        with place.refuses(Code.NOT_FOUND) as caught:
            await refused(at)
        identifier = str(caught.value.facts["id"])
        assert identifier.startswith((NEVER_A_RUN, NEVER_A_CONVERSATION, at.run))
        accepted = await do(at)
        assert await looked_up(at) == accepted


@pytest.mark.contract("C6", "E2", "P17")
@every_verb
async def test_many_at_once_are_one(do: Do) -> None:
    place = InMemory()
    receipts: list[Receipt] = []
    async with place.open(AGENTS, CONFIG) as one, place.open_beside(AGENTS, CONFIG) as other:
        at = await talk(one)

        async def send(here: Talk) -> None:
            receipts.append(await do(here))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(send, at._replace(runtime=(one, other)[number % 2]))
        assert receipts == receipts[:1] * 20
        assert await do(at) == receipts[0]
