"""One rule for every verb: the same id with the same meaning is the first receipt again, with
any other meaning it is a conflict; whenever the second comes, and whatever it asks for.

Method: one table. A row says what an id was used for first, what it is used for then, and
which field differs. Each row is played at every moment: while the first is being committed,
after it, after its run has ended, in another process, and after a restart.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio

from counterpoint.runtime import Code, Receipt, Refused
from counterpoint.store.refusal import RETRY_UNCHANGED

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
    background,
    opening,
    plain,
    resolve,
    steer,
    stop,
    talk,
    withdraw,
)

# fmt: off
ROWS: list[tuple[Do, Do, str]] = [  # accepted first, sent then, the field that differs
    (plain(),             plain(),                             "nothing"),
    (plain(),             plain("Hello "),                     "text"),
    (plain(),             plain(where="there"),                "conversation"),
    (plain(),             plain(where="nowhere"),              "conversation"),
    (plain(),             background(),                        "verb"),
    (plain(),             steer(),                             "verb"),
    (plain(),             steer(target="never"),               "verb"),
    (plain(),             stop(),                              "verb"),
    (plain(),             opening(),                           "verb"),
    (background(),        background(),                        "nothing"),
    (background(),        background("Hi"),                    "text"),
    (background(),        background(depth="deep"),            "depth"),
    (background(),        background(where="there"),           "conversation"),
    (background(),        background(where="nowhere"),         "conversation"),
    (background(),        plain(),                             "verb"),
    (steer(),             steer(),                             "nothing"),
    (steer(),             steer("hello"),                      "text"),
    (steer(),             steer(target="sibling"),             "target"),
    (steer(),             steer(target="stranger"),            "conversation"),
    (steer(),             steer(target="never"),               "target"),
    (steer(),             steer(expected=2),                   "expected_revision"),
    (steer(expected=2),   steer(expected=2),                   "nothing"),
    (steer(expected=2),   steer(expected=3),                   "expected_revision"),
    (steer(expected=2),   steer(),                             "expected_revision"),
    (steer(),             plain(),                             "verb"),
    (steer(),             stop(),                              "verb"),
    (stop(),              stop(),                              "nothing"),
    (stop(),              stop("sibling"),                     "target"),
    (stop(),              stop("stranger"),                    "conversation"),
    (stop(),              stop("never"),                       "target"),
    (stop(),              withdraw(),                          "verb"),
    (withdraw(),          withdraw(),                          "nothing"),
    (withdraw(),          withdraw(2),                         "item"),
    (withdraw(),          withdraw(99),                        "item"),
    (withdraw(),          withdraw(target="sibling"),          "target"),
    (withdraw(),          withdraw(target="never"),            "target"),
    (withdraw(),          resolve(),                           "verb"),
    (resolve(),           resolve(),                           "nothing"),
    (resolve(),           resolve(happened=False),             "text"),
    (resolve(),           resolve(value={"room": 1}),          "text"),
    (resolve(),           resolve(reason="they said so"),      "text"),
    (resolve(),           resolve(2),                          "item"),
    (resolve(),           resolve(99),                         "item"),
    (resolve(),           resolve(target="sibling"),           "target"),
    (resolve(),           resolve(target="never"),             "target"),
    (resolve(),           steer(target="never"),               "verb"),
    (opening(),           opening(),                           "nothing"),
    (opening(),           opening("hello"),                    "text"),
    (opening(),           plain(),                             "verb"),
    (opening(),           plain(where="nowhere"),              "verb"),
    (opening(),           stop("never"),                       "verb"),
]
# fmt: on


def name_of(do: Do) -> str:
    return next(verb for verb, known in VERBS.items() if known.__qualname__ == do.__qualname__)


async def outcome(sent: Awaitable[Receipt]) -> Receipt | Refused:
    try:
        return await sent
    except Refused as refused:
        return refused


Both = tuple[Receipt | Refused, Receipt | Refused]


async def while_it_is_committed(place: InMemory, first: Do, then: Do) -> Both:
    found: dict[int, Receipt | Refused] = {}
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)

        async def send(turn: int, do: Do) -> None:
            found[turn] = await outcome(do(at))

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                for turn, do in enumerate((first, then)):
                    nursery.start_soon(send, turn, do)
                    await trio.testing.wait_all_tasks_blocked()
        await check_lookup(at, found[0])
    return found[0], found[1]


async def afterwards(place: InMemory, first: Do, then: Do) -> Both:
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        accepted = await first(at)
        await trio.testing.wait_all_tasks_blocked()
        with place.stores_nothing():
            second = await outcome(then(at))
        await check_lookup(at, accepted)
    return accepted, second


async def when_its_run_has_ended(place: InMemory, first: Do, then: Do) -> Both:
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        accepted = await first(at)
        for number, run in enumerate({at.run, accepted.run or at.run}):
            await outcome(runtime.stop(scope="ann", run=run, client_id=f"end-{number}"))
            await runtime.wait(scope="ann", run=run)
        with place.stores_nothing():
            second = await outcome(then(at))
        await check_lookup(at, accepted)
    return accepted, second


async def in_another_process(place: InMemory, first: Do, then: Do) -> Both:
    async with place.open(AGENTS, CONFIG) as one, place.open_beside(AGENTS, CONFIG) as other:
        at = await talk(one)
        accepted = await first(at)
        await trio.testing.wait_all_tasks_blocked()
        with place.stores_nothing():
            second = await outcome(then(at._replace(runtime=other)))
        await check_lookup(at._replace(runtime=other), accepted)
    return accepted, second


async def after_a_restart(place: InMemory, first: Do, then: Do) -> Both:
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        accepted = await first(at)
    async with place.open(AGENTS, CONFIG) as runtime:
        at = at._replace(runtime=runtime)
        await check_lookup(at, accepted)
        with place.stores_nothing():
            second = await outcome(then(at))
    return accepted, second


async def check_lookup(at: Talk, accepted: Receipt | Refused) -> None:
    assert await at.runtime.lookup(scope="ann", client_id=USED) == accepted


Moment = Callable[[InMemory, Do, Do], Awaitable[Both]]
MOMENTS: list[Moment] = [
    while_it_is_committed,
    afterwards,
    when_its_run_has_ended,
    in_another_process,
    after_a_restart,
]


@pytest.mark.contract("A11", "A12", "A14", "A16", "A17", "A56", "B31", "C1", "C3", "D7", "E2")
@pytest.mark.contract("P1", "P2")
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
@pytest.mark.parametrize(
    ("first", "then", "field"),
    ROWS,
    ids=[f"{n:02}-{name_of(row[0])}-{name_of(row[1])}-{row[2]}" for n, row in enumerate(ROWS)],
)
async def test_an_id_stands_for_what_it_was_first_used_for(
    first: Do, then: Do, field: str, moment: Moment
) -> None:
    accepted, second = await moment(InMemory(), first, then)
    assert isinstance(accepted, Receipt)
    if field == "nothing":
        assert second == accepted
        return
    assert isinstance(second, Refused)
    if moment is while_it_is_committed and second.code is Code.NOT_FOUND:
        # what it names is not there, and the first is not yet: it comes before the first
        assert second.facts["id"] in (NEVER_A_RUN, NEVER_A_CONVERSATION)
        return
    check_conflict(second, accepted, field)


def check_conflict(refused: Refused, accepted: Receipt, field: str) -> None:
    facts = refused.facts
    assert (refused.code, facts["field"]) == (Code.CONFLICT, field)
    assert facts["expected"] != facts["actual"]
    assert (facts["conversation"], facts["message"], facts["run"]) == (
        accepted.conversation,
        accepted.message,
        accepted.run,
    )
    assert USED in refused.sentence
    assert not refused.retry_same_id
    assert Code.CONFLICT not in RETRY_UNCHANGED
