"""A process that dies at any point of an effect: what is known, repeated and unknown then.

Method: one life in memory is watched; at each commit, on either side of it, and around the
change of the outside world, what is committed and what has happened outside is kept. Each of
these is what the next process finds. It goes on from there, and is watched in the same way,
so a third process finds what is left of two.
"""

from typing import NamedTuple

import pytest

from counterpoint.runtime import Config
from counterpoint.store.limits import Limits
from counterpoint.store.memory_engine import Image, Point
from counterpoint.store.records import Effect, Run
from counterpoint.store.views import EffectView, Inspection

from ..runtime.stage import InMemory, Person, run_of
from ..store.invariants import breaches, read
from .host import CLASSES, Class, Does, Outside, agents


class Left(NamedTuple):
    """What a process that died at one point left behind."""

    where: str
    image: Image
    done: list[str]

    def run(self) -> Run | None:
        return next(iter(read(self.image).runs.values()), None)

    def effect(self) -> Effect | None:
        return next(iter(read(self.image).effects.values()), None)


class Watched:
    """A life in which everything that a death could leave is kept."""

    def __init__(self, repeat: Class, found: Left | None = None) -> None:
        self.left: list[Left] = []
        self.outside = Outside(list(found.done) if found else [])
        self.does = Does(repeat, self.outside, self.keep)
        self.place = InMemory(found.image if found else None, faults=self.at)

    def at(self, point: Point) -> None:
        if point in ("commit.before", "commit.after"):
            self.keep(point)

    def keep(self, where: str) -> None:
        image = self.place.engine.crash_image()
        self.left.append(Left(where, image, list(self.outside.done)))

    async def live(self, *, resumes: bool) -> Inspection:
        """Send the message, again or for the first time, and let its run end."""
        async with self.place.open(agents(self.does, resumes=resumes), Config()) as runtime:
            opened = await runtime.open_conversation(scope="ann", client_id="c-1")
            ann = Person(runtime, "ann", opened.conversation)
            run = run_of(await ann.says("Pay 7", client_id="m-1"))
            ended = await ann.end_of(run)
            inspection = await runtime.inspect(scope="ann", run=run)
            assert inspection.run == ended
            assert not inspection.holds_slot
            with self.place.engine.read() as txn:
                assert breaches(txn, Limits()) == []
            return inspection


def check(repeat: Class, found: Left, life: Watched, inspection: Inspection) -> None:
    """What the process after `found` made of it, where its agent is entered again."""
    assert (inspection.run.state, inspection.run.answer) == ("completed", "Paid.")
    [effect] = inspection.effects
    before = found.effect()
    operation = effect.operation_id
    if before is not None:
        assert operation == before.operation_id
    done, new = life.outside.done, life.outside.done[len(found.done) :]
    known = before is not None and before.state == "done"
    if known:
        assert new == []  # read back, not done again (C28)
    if repeat == "once":
        check_once(found, before, effect, done)
        return
    assert effect.state == "done"
    if repeat == "read":
        return
    assert set(done) == {operation}  # whatever is repeated, it is so under its own id
    if repeat == "reconcilable":
        assert len(done) == 1
        begun = before is not None and not known
        assert (operation in life.outside.asked) == begun
        if begun:
            assert new == ([] if found.done else [operation])


def check_once(found: Left, before: Effect | None, effect: EffectView, done: list[str]) -> None:
    assert len(done) <= 1
    if before is None or before.state == "done":
        assert effect.state == "done"
        assert len(done) == 1
    else:
        assert effect.state == "unknown"
        assert done == found.done  # never done by itself


@pytest.mark.contract("A59", "C26", "C27", "C28", "C32", "D13", "E7", "E10", "P82", "P77", "P92")
@pytest.mark.parametrize("repeat", CLASSES)
async def test_a_run_that_is_entered_again_repeats_only_what_its_class_allows(
    repeat: Class,
) -> None:
    first = Watched(repeat)
    await first.live(resumes=True)
    assert len(first.outside.done) == 1
    assert len(first.left) > 20
    for found in first.left:
        life = Watched(repeat, found)
        check(repeat, found, life, await life.live(resumes=True))


@pytest.mark.slow
@pytest.mark.contract("A59", "C26", "C27", "C28", "D13", "E7", "E10")
@pytest.mark.parametrize("repeat", CLASSES)
async def test_also_after_a_second_death_on_the_way(repeat: Class) -> None:
    first = Watched(repeat)
    await first.live(resumes=True)
    for found in first.left[::4]:
        second = Watched(repeat, found)
        await second.live(resumes=True)
        for left in second.left[::3]:
            life = Watched(repeat, left)
            inspection = await life.live(resumes=True)
            check_twice(repeat, life, inspection)


def check_twice(repeat: Class, life: Watched, inspection: Inspection) -> None:
    assert inspection.run.state == "completed"
    [effect] = inspection.effects
    if repeat == "once":
        assert len(life.outside.done) <= 1
        assert effect.state in ("done", "unknown")
        assert effect.state == "unknown" or life.outside.done == [effect.operation_id]
    elif repeat != "read":
        assert effect.state == "done"
        assert set(life.outside.done) == {effect.operation_id}
        assert repeat == "idempotent" or len(life.outside.done) == 1


@pytest.mark.contract("A59", "C27", "C32", "D13", "E7", "A61b", "P82")
@pytest.mark.parametrize("repeat", CLASSES)
async def test_a_run_that_is_not_entered_again_keeps_what_it_has_and_repeats_nothing(
    repeat: Class,
) -> None:
    first = Watched(repeat)
    await first.live(resumes=False)
    seen: set[str] = set()
    for found in first.left:
        life = Watched(repeat, found)
        inspection = await life.live(resumes=False)
        run, before = found.run(), found.effect()
        seen.add(str(inspection.run.state))
        if run is None or run.state == "admitted" or run.state == "completed":
            assert inspection.run.state == "completed"
            assert len(life.outside.done) == 1
            continue
        assert (inspection.run.state, inspection.run.reason) == ("interrupted", "owner_lost")
        assert life.outside.done == found.done
        states = [effect.state for effect in inspection.effects]
        if before is None:
            assert states == []
        else:
            assert states == ["unknown" if before.state == "open" else str(before.state)]
    assert seen == {"completed", "interrupted"}
