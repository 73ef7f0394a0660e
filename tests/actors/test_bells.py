"""Bells: what one process commits, the others hear of."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from counterpoint.actors.bells import Bells
from counterpoint.store.ids import OwnerId


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose path is short enough for the name of a socket."""
    monkeypatch.chdir(tmp_path)
    return Path()


async def test_a_bell_is_heard_by_every_other_process(folder: Path) -> None:
    bells = [Bells(folder, OwnerId(f"w{n}")) for n in range(3)]
    heard: list[int] = []
    async with trio.open_nursery() as nursery:
        for n, bell in enumerate(bells):
            nursery.start_soon(bell.listen, lambda n=n: heard.append(n))
            await wait_all_tasks_blocked()
        heard.clear()
        bells[0].ring()
        await wait_all_tasks_blocked()
        assert sorted(heard) == [1, 2]
        nursery.cancel_scope.cancel()
    for bell in bells:
        bell.close()


async def test_a_process_that_came_later_is_rung_at_once(folder: Path) -> None:
    first, second = Bells(folder, OwnerId("w1")), Bells(folder, OwnerId("w2"))
    heard: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.listen, lambda: heard.append("first"))
        await wait_all_tasks_blocked()
        first.ring()  # nobody is there: the list of bells is fresh, and empty
        nursery.start_soon(second.listen, lambda: heard.append("second"))
        await wait_all_tasks_blocked()
        first.ring()
        await wait_all_tasks_blocked()
        assert heard == ["first", "second"]
        nursery.cancel_scope.cancel()
    first.close()
    second.close()


async def test_a_path_too_long_for_a_socket_leaves_the_poll(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    bells = Bells(deep, OwnerId("w1"))
    await bells.listen(lambda: None)  # returns: it has no bell
    bells.ring()
    bells.close()


async def test_a_bell_that_nobody_answers_is_passed_over(folder: Path) -> None:
    (folder / "w9.bell").write_bytes(b"")  # what a killed process left
    bells = Bells(folder, OwnerId("w1"))
    bells.ring()
    bells.close()
