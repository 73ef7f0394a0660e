"""A steering or a stop that comes at any instant of a run ends as one of what it may end as.

Method: the commits of a whole run are counted; then it is executed once more for each of
them, and some steps of the loop after it, and the person acts at just that instant. Whether
that is while a request is recorded, an effect under way or the run about to complete, what
was told must agree with what is stored.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Agent, Code, Config, Limits, Receipt, Refused
from counterpoint.store.views import EventView, RunView

from ..runtime.stage import InMemory, Person, answers, person, user_words
from .story import works

STEPS = (0, 1, 2, 3, 5)
"""How many steps of the loop after a commit the person acts."""

WORDS = "Only the last year"

Act = Callable[[Person, str], Awaitable[Receipt]]


class Outcome:
    """What became of one run and of what a person did to it."""

    def __init__(self) -> None:
        self.receipt: Receipt | None = None
        self.refused: Refused | None = None
        self.run: RunView
        self.events: list[EventView] = []
        self.inputs: list[list[str]] = []


async def race(act: Act, commit: int, steps: int, config: Config, *, cuts: bool) -> Outcome:
    outcome = Outcome()
    place = InMemory()
    now = trio.Event()
    left = commit
    agent = Agent(works, when_steered="cut" if cuts else "after_request")

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            now.set()

    async def act_then(ann: Person, run: str) -> None:
        await now.wait()
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        try:
            outcome.receipt = await act(ann, run)
        except Refused as refused:
            outcome.refused = refused

    async with place.open({"short": answers, "background": agent}, config) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        place.engine.on_commit(count)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act_then, ann, run)
            await ann.end_of(run)
            nursery.cancel_scope.deadline = trio.current_time() + 1  # it may not have come to it
        outcome.run = await ann.run(run)
        outcome.events = await ann.events(run=run)
        for n in range(1, outcome.run.requests + 1):
            outcome.inputs.append(user_words(await ann.input_of(run, n)))
    return outcome


def outcomes(act: Act, config: Config, *, cuts: bool) -> list[Outcome]:
    """Return what comes of it at every commit of a run, up to its last."""
    found: list[Outcome] = []
    for commit in range(1, 100):
        for steps in STEPS:
            clock = MockClock(autojump_threshold=0)

            async def run(commit: int = commit, steps: int = steps) -> Outcome:
                return await race(act, commit, steps, config, cuts=cuts)

            found.append(trio.run(run, clock=clock))
        if found[-1].receipt is None:
            return found
    raise AssertionError("the run never came to an end")


async def steer(ann: Person, run: str) -> Receipt:
    return await ann.steers(run, WORDS)


async def stop(ann: Person, run: str) -> Receipt:
    return await ann.stops(run)


@pytest.mark.slow
@pytest.mark.contract("C9", "C10", "C11", "C12", "C13", "C18", "E3", "P22", "P26", "P49")
@pytest.mark.parametrize("cuts", [True, False], ids=["cut", "waited for"])
@pytest.mark.parametrize("budget", [64, 2], ids=["ample", "spent"])
def test_a_steering_at_any_instant_is_delivered_or_settled_or_refused(
    budget: int, *, cuts: bool
) -> None:
    config = Config(limits=Limits(requests_of_run_max=budget))
    states: set[str] = set()
    for outcome in outcomes(steer, config, cuts=cuts):
        run = outcome.run
        if outcome.receipt is None:
            assert outcome.refused is None or outcome.refused.code is Code.RUN_ENDED
            assert run.revisions == ()
            states.add("refused" if outcome.refused else "too late")
            continue
        [revision] = run.revisions
        states.add(revision.state)
        if revision.state == "delivered":
            carrier = revision.request
            assert carrier is not None
            assert [WORDS in words for words in outcome.inputs] == [
                n >= carrier for n in range(1, len(outcome.inputs) + 1)
            ]
        else:
            assert budget == 2
            assert revision.reason == "budget"
        assert_carried_by_the_next_request(outcome)
    assert states >= {"delivered", "refused" if budget == 64 else "not_applied"}


def assert_carried_by_the_next_request(outcome: Outcome) -> None:
    kinds = [event.kind for event in outcome.events]
    behind = outcome.events[kinds.index("revision_saved") :]
    started = [event for event in behind if event.kind == "request_started"]
    if started:
        assert started[0].facts["revisions"] == [1]
    assert not [
        event
        for event in behind[: behind.index(started[0]) if started else None]
        if event.kind == "effect_started"
    ]


@pytest.mark.slow
@pytest.mark.contract("C18", "C19", "C20", "C36", "D17", "E4", "E5", "C24")
def test_a_stop_at_any_instant_is_the_last_of_the_run_or_refused() -> None:
    ends: set[str] = set()
    for outcome in outcomes(stop, Config(), cuts=True):
        kinds = [event.kind for event in outcome.events]
        ends.add(outcome.run.state)
        assert kinds.count("run_ended") == 1
        if outcome.receipt is None:
            assert outcome.run.state == "completed"
            assert outcome.refused is None or outcome.refused.code is Code.RUN_ENDED
            continue
        assert (outcome.run.state, outcome.run.answer) == ("stopped", None)
        behind = kinds[kinds.index("stop_accepted") :]
        assert not {"request_started", "effect_started"} & set(behind)
        assert behind[-1] == "run_ended"
    assert ends == {"stopped", "completed"}
