"""Who is alive: the same answers from locked files and from memory."""

from pathlib import Path

import pytest

from counterpoint.store.ids import OwnerId
from counterpoint.store.owner_lock import Liveness, OwnerLocks, OwnersInMemory

ME, OTHER, NOBODY = OwnerId("w-me"), OwnerId("w-other"), OwnerId("w-nobody")


@pytest.fixture(params=["locks", "memory"])
def liveness(request: pytest.FixtureRequest, tmp_path: Path) -> Liveness:
    return OwnerLocks(tmp_path / "owners") if request.param == "locks" else OwnersInMemory(set())


@pytest.mark.contract("C30")
def test_who_never_was_is_gone_and_oneself_is_not(liveness: Liveness) -> None:
    liveness.claim(ME)
    assert liveness.gone([ME, NOBODY]) == {NOBODY}
    liveness.forget(NOBODY)
    assert liveness.gone([ME]) == frozenset()
    liveness.release()
    assert liveness.gone([ME]) == {ME}


def test_who_is_taken_for_dead_does_not_take_itself_for_dead() -> None:
    """It would settle its own runs, which others settle at the same time."""
    alive: set[OwnerId] = set()
    me, other = OwnersInMemory(alive), OwnersInMemory(alive)
    me.claim(ME)
    other.claim(OTHER)
    alive.discard(ME)
    assert other.gone([ME, OTHER]) == {ME}
    assert me.gone([ME, OTHER]) == frozenset()
