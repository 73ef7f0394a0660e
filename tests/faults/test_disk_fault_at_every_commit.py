"""A disk that fails once, at any commit, costs a repetition and nothing else.

Method: the story is told to a runtime whose engine refuses its first commit, then its
second, and so on until the story is told without one. A person repeats what was refused
under the same id; what a run has to record the runtime repeats by itself. Every run ends
as if nothing had happened, and its slot comes back.
"""

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Refused
from counterpoint.store.engine import StoreError, StoreFailed, StoreFull
from counterpoint.store.memory_engine import Point
from counterpoint.store.views import ConversationView

from ..runtime.stage import InMemory
from .story import CONFIG, Told, Waits, agents, everything_ends, tell

COMMITS_MIN = 20


class FailingAt:
    """Lets the `at`-th commit fail; nothing of it is stored."""

    def __init__(self, error: type[StoreError], at: int) -> None:
        self.error = error
        self.left = at

    def __call__(self, point: Point) -> None:
        if point == "commit.before":
            self.left -= 1
            if self.left == 0:
                raise self.error("the disk says no")


async def life(told: Told, faults: FailingAt) -> tuple[ConversationView, bool]:
    """Tell the story; return what became of it, and whether the disk had failed."""
    place = InMemory(faults=faults)
    waits = Waits()
    async with place.open(agents(waits), CONFIG) as runtime:
        await tell(runtime, told, waits)
        failed, faults.left = faults.left <= 0, 0
        [conversation] = await runtime.conversations(scope="ann")
        view = await runtime.view(scope="ann", conversation=conversation.conversation)
        await everything_ends(runtime, conversation.conversation)
        return view, failed


@pytest.mark.slow
@pytest.mark.contract("C37", "C32", "C35", "A20", "D19", "P96", "P84")
@pytest.mark.parametrize("error", [StoreFailed, StoreFull])
def test_every_run_ends_as_if_nothing_had_happened(error: type[StoreError]) -> None:
    at = 1  # the first is this process's own registration: then it is not opened at all
    while True:
        at += 1
        faults = FailingAt(error, at)
        view, failed = trio.run(life, Told(), faults, clock=MockClock(autojump_threshold=0))
        ended = [(run.state, run.reason) for run in view.runs.values()]
        assert ended == [
            ("completed", "answered"),
            ("completed", "answered"),
            ("stopped", "user_stop"),
        ], at
        if not failed:
            break
    assert at > COMMITS_MIN


def test_a_store_that_fails_at_its_opening_is_not_opened() -> None:
    async def opening() -> None:
        with pytest.raises(Refused):
            await life(Told(), FailingAt(StoreFailed, 1))

    trio.run(opening)
