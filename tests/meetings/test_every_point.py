"""Whatever meets a run at whichever of its points, it comes to what is stated.

Method: `points.py` counts the commits and awaits of a life without incident; then there is
one life for each of them and each thing that may come. `outcome.py` states what a life must
come to, and checks part E and the rows on steering, stopping and effects after each.
"""

import pytest

from .outcome import wrong
from .points import Point
from .stage import Life, Met, live

WHAT = ["steer", "stop", "deadline", "shutdown"]

LIVES = {
    "plain": Life(),
    "patient": Life(patient=True),
    "faulty": Life(faults=2),
    "one request": Life(requests=1),
    "two requests": Life(requests=2, patient=True),
    "no request to spare": Life(requests=3, faults=1),
    "no tokens": Life(tokens=15),
    "one effect": Life(effects=1),
    "three effects": Life(effects=3),
}


def points_of(life: Life) -> list[Point]:
    return live(life).passed


def may_meet(what: str, point: Point) -> bool:
    """Time does not come as a commit does."""
    return what in ("steer", "stop") or not point.in_a_batch


@pytest.mark.parametrize("name", LIVES)
def test_without_incident_a_life_comes_to_what_it_has_means_for(name: str) -> None:
    met = live(LIVES[name])
    assert wrong(met) == []
    assert met.ran_out == (name in ENDS_SHORT)
    assert str(met.run.reason) == ("budget" if name in ENDS_SHORT else "answered")


ENDS_SHORT = {"one request", "no tokens", "one effect", "three effects"}


@pytest.mark.slow
@pytest.mark.contract(
    "B61", "B62", "B64", "B65", "C9", "C10", "C11", "C12", "C13", "C17", "C18", "C19", "C20",
    "C34", "C36", "D12", "D16", "D17", "E3", "E4", "E5", "E9", "P26", "P34", "P36", "P41",
)  # fmt: skip
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", LIVES)
def test_wherever_it_is_met_a_run_comes_to_what_is_stated(name: str, what: str) -> None:
    life = LIVES[name]
    for point in points_of(life):
        if may_meet(what, point):
            met = live(life, {point.number: [what]})
            assert wrong(met) == [], point
            assert [came.what for came in met.came] == [what], point


def fates(life: Life, what: str) -> set[str]:
    """What becomes of a life that is met at each of its points in turn."""
    met = [live(life, {p.number: [what]}) for p in points_of(life) if may_meet(what, p)]
    return {_fate(one) for one in met}


def _fate(met: Met) -> str:
    if met.revisions:
        return f"{met.run.state}, {met.revisions[0].state} by {met.revisions[0].request}"
    return str(met.run.state)


@pytest.mark.slow
def test_the_points_lead_to_different_ends() -> None:
    """Else the test of every point would prove little."""
    plain = Life()
    assert fates(plain, "stop") == {"stopped", "completed"}
    assert fates(plain, "deadline") == {"partial", "completed"}
    assert fates(plain, "shutdown") == {"interrupted", "completed"}
    assert fates(plain, "steer") == {
        "completed",  # refused
        "completed, delivered by 1",
        "completed, delivered by 2",
        "completed, delivered by 3",
    }
    assert fates(Life(requests=2, patient=True), "steer") >= {"completed, not_applied by None"}
