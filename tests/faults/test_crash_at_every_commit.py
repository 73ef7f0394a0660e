"""A crash at any commit loses nothing that was acknowledged, and leaves nothing behind.

Method: the story is told to a runtime whose engine dies before or after its first commit,
then its second, and so on until the story comes to its end undisturbed. After each death
another process opens what had been committed by then, repeats every verb that was
acknowledged, and the one that was under way; then every run must come to an end, and every
slot must be free.
"""

from enum import Enum

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Refused, Runtime
from counterpoint.store.memory_engine import Crash, Image, Point
from counterpoint.store.verify import verify

from ..runtime.stage import InMemory
from .story import CONFIG, Told, Verb, Waits, agents, everything_ends, tell

COMMITS_MIN = 20
"""The story has more commits than this, however they are batched."""


class When(Enum):
    BEFORE = "commit.before"
    AFTER = "commit.after"


class DyingAt:
    """Lets the process die at the `at`-th time that a point is reached."""

    def __init__(self, point: Point, at: int) -> None:
        self.point = point
        self.left = at

    def __call__(self, point: Point) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                raise Crash(f"at {point}")


def first_life(told: Told, faults: DyingAt) -> Image:
    """Tell the story until the process dies; return what is then on disk."""
    place = InMemory(faults=faults)
    waits = Waits()

    async def life() -> None:
        async with place.open(agents(waits), CONFIG) as runtime:
            await tell(runtime, told, waits)

    try:
        trio.run(life, clock=MockClock(autojump_threshold=0))
    except* Crash:
        pass  # the process has died, and its tasks with it
    return place.engine.crash_image()


async def second_life(told: Told, image: Image) -> None:
    place = InMemory(image)
    waits = Waits()
    waits.gate.release()
    async with place.open(agents(waits), CONFIG) as runtime:
        for client_id in told.refused:
            assert await runtime.lookup(scope="ann", client_id=client_id) is None
        for verb, receipt in told.acknowledged:
            assert await verb(runtime) == receipt
        if told.under_way is not None:
            await repeat(runtime, told.under_way, told.under_way_id)
        for conversation in await runtime.conversations(scope="ann"):
            await everything_ends(runtime, conversation.conversation)


async def repeat(runtime: Runtime, verb: Verb, client_id: str) -> None:
    """Repeat a verb of which nobody knows whether it was accepted (A19)."""
    found = await runtime.lookup(scope="ann", client_id=client_id)
    try:
        receipt = await verb(runtime)
    except Refused:  # what it was about has ended with the process
        assert await runtime.lookup(scope="ann", client_id=client_id) is None
    else:
        assert found in (None, receipt)
        assert await runtime.lookup(scope="ann", client_id=client_id) == receipt


@pytest.mark.slow
@pytest.mark.contract("E10", "C32", "C6", "A16", "A19", "A21", "C17", "D8", "D13", "P4", "P21")
@pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())
def test_every_acknowledged_receipt_survives_and_every_run_ends(when: When) -> None:
    at = 0
    while True:
        at += 1
        told = Told()
        image = first_life(told, DyingAt(when.value, at))
        assert list(verify(image)) == []
        if told.complete:
            break
        trio.run(second_life, told, image, clock=MockClock(autojump_threshold=0))
    assert at > COMMITS_MIN
