"""The time in which nobody executed a run is not the run's (D13: its remaining budget).

Method: a process goes in the middle of something, and its heir comes an hour later.
"""

from collections.abc import Callable

import pytest

from counterpoint.store.ids import RunId

from ..store.world import World

HOUR_MS = 3_600_000

Act = Callable[[World, RunId], object]


ACTS: dict[str, Act] = {
    "asking": lambda world, run: world.begin_request(run),
    "acting": lambda world, run: world.begin_effect(run),
    "both": lambda world, run: (world.begin_request(run), world.begin_effect(run)),
    "in between": lambda world, run: world.ask(run),
}


@pytest.mark.contract("D13")
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_an_hour_without_a_process_costs_a_run_nothing(act: Act) -> None:
    world = World()
    run = world.start(world.open(), resumes=True)
    world.ask(run)
    act(world, run)
    world.step_ms = HOUR_MS
    after = world.enter_again(run)
    assert after.entered_at_ms is not None
    assert after.entered_at_ms - after.admitted_at_ms >= HOUR_MS
    assert after.active_ms < 100
