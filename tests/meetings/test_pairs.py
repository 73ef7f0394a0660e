"""Two things meet a run, at one point or at two: the stronger says how it ends (D17).

Method: as in `test_every_point.py`, with every ordered pair at each point, and with pairs at
points drawn by a seed; `--fault-seeds N` draws more of them.
"""

import random

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Config, Limits, RunContext
from counterpoint.runtime.gateways import Gate

from ..runtime.stage import InMemory, answers, person
from .outcome import wrong
from .stage import Life, live
from .test_every_point import LIVES, may_meet, points_of

PAIRS = [
    ("steer", "steer"),
    ("steer", "stop"),
    ("stop", "steer"),
    ("stop", "stop"),
    ("steer", "deadline"),
    ("deadline", "steer"),
    ("steer", "shutdown"),
    ("shutdown", "steer"),
    ("stop", "deadline"),
    ("deadline", "stop"),
    ("stop", "shutdown"),
    ("shutdown", "stop"),
    ("deadline", "shutdown"),
]
"""A deadline after a shutdown is in a test of its own: the host does not wait for it."""
LIVES_OF_A_SEED = 60

ids = [f"{first} then {second}" for first, second in PAIRS]


@pytest.mark.slow
@pytest.mark.contract("D17", "B65", "B71", "C12", "C15", "C17", "C19", "C24", "E4", "E5")
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=ids)
def test_at_one_point_the_stronger_of_two_says_how_the_run_ends(first: str, second: str) -> None:
    for point in points_of(Life()):
        if may_meet(first, point) and may_meet(second, point):
            met = live(Life(), {point.number: [first, second]})
            assert wrong(met) == [], point


@pytest.mark.slow
@pytest.mark.contract("D17", "B65", "B71", "C12", "C15", "C17", "C19", "C24", "E4", "E5")
def test_at_two_points_the_stronger_of_two_says_how_the_run_ends(fault_seed: int) -> None:
    rng = random.Random(fault_seed)
    points = {name: points_of(life) for name, life in LIVES.items()}
    for _ in range(LIVES_OF_A_SEED):
        name = rng.choice(list(LIVES))
        pair = rng.choice(PAIRS)
        here, there = sorted(rng.sample(range(len(points[name])), 2))
        if not all(
            may_meet(what, points[name][at]) for what, at in zip(pair, (here, there), strict=True)
        ):
            continue
        plan = {here: [pair[0]], there: [pair[1]]}
        met = live(LIVES[name], plan)
        assert wrong(met) == [], (name, plan, met.came)


@pytest.mark.contract("D17")
async def test_a_deadline_that_comes_while_a_shut_down_run_comes_to_rest_outranks_it(
    autojump_clock: MockClock,
) -> None:
    """Both are there before the end is recorded."""
    gate = Gate()

    async def agent(run: RunContext) -> None:
        run.draft("So far.")
        with trio.CancelScope(shield=True):
            await gate.passed()
        await trio.sleep_forever()

    place = InMemory()
    config = Config(limits=Limits(active_ms_of_run_max=12_000), drain_s=10.0)
    async with trio.open_nursery() as nursery, place.open({"short": agent}, config) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")

        async def release() -> None:
            await trio.sleep(13)
            gate.release()

        nursery.start_soon(release)
        await gate.reached()
    async with place.open({"short": answers}) as runtime:
        ended = await ann.in_runtime(runtime).run(run)
    assert (ended.state, ended.reason, ended.answer) == ("partial", "deadline", "So far.")
    assert autojump_clock.current_time() == 13
