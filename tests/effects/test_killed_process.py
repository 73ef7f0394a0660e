"""The same with a real process that dies by SIGKILL, on LMDB and with an outside in a file.

Method: `host.py` counts the points of its run and kills itself at one of them; then this
process opens the store and lets the run go on. By default some points are tried, spread
over all; `--fault-seeds 100` tries every one.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from counterpoint.runtime import Code, Config, Refused, open_runtime
from counterpoint.store.views import Inspection

from ..runtime.stage import Person, run_of
from .host import CLASSES, Class, Does, OutsideInFile, agents

HOST = Path(__file__).with_name("host.py")
SIGKILL = -9


def host(folder: Path, repeat: Class, how: str, point: int) -> "subprocess.CompletedProcess[bytes]":
    """Let a host live in `folder` up to a point, or for good."""
    folder.mkdir()
    return subprocess.run(
        [sys.executable, HOST, folder / "store", folder / "outside", repeat, how, str(point)],
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )


_points: dict[Class, list[str]] = {}


def points_of(repeat: Class, folder: Path) -> list[str]:
    """Return the points that a host comes by if it lives: the same each time."""
    if repeat not in _points:
        _points[repeat] = host(folder / "alive", repeat, "resume", 0).stdout.decode().splitlines()
    return _points[repeat]


async def _goes_on(folder: Path, repeat: Class, *, resumes: bool) -> tuple[Inspection, Does]:
    does = Does(repeat, OutsideInFile(folder / "outside"), lambda _: None)
    async with open_runtime(
        folder / "store", agents=agents(does, resumes=resumes), config=Config()
    ) as runtime:
        opened = await runtime.open_conversation(scope="ann", client_id="c-1")
        ann = Person(runtime, "ann", opened.conversation)
        run = run_of(await ann.says("Pay 7", client_id="m-1"))
        await ann.end_of(run)
        return await runtime.inspect(scope="ann", run=run), does


def _outside(folder: Path) -> list[str]:
    path = folder / "outside"
    return path.read_text().split() if path.exists() else []


@pytest.mark.slow
@pytest.mark.contract("A59", "C26", "C27", "C28", "C32", "D13", "E7", "E10", "P82", "P91")
@pytest.mark.parametrize("repeat", CLASSES)
async def test_killed_at_a_point_only_what_may_be_repeated_is_repeated(
    repeat: Class, tmp_path: Path, fault_seed: int
) -> None:
    """The agent is entered again."""
    points = len(points_of(repeat, tmp_path))
    stride = next(number for number in (7, 11, 13) if points % number)
    point = 1 + fault_seed * stride % points  # every one, in as many seeds
    folder = tmp_path / "killed"
    assert host(folder, repeat, "resume", point).returncode == SIGKILL
    before = _outside(folder)
    inspection, does = await _goes_on(folder, repeat, resumes=True)
    after = _outside(folder)

    assert inspection.run.state == "completed"
    [effect] = inspection.effects
    if repeat == "once":
        assert len(after) <= 1
        assert effect.state in ("done", "unknown")
        assert effect.state == "done" or after == before
    elif repeat == "read":
        assert effect.state == "done"
    else:
        assert effect.state == "done"
        assert set(after) == {effect.operation_id}
        if repeat == "reconcilable":
            assert len(after) == 1
            assert not before or does.outside.asked or after == before


@pytest.mark.slow
@pytest.mark.contract("C27", "A59", "E7", "P82")
@pytest.mark.parametrize("happened", [True, False])
async def test_what_was_killed_on_the_way_is_unknown_until_a_person_says_what_became_of_it(
    tmp_path: Path, *, happened: bool
) -> None:
    """Killed when it had happened outside, and before that was on record."""
    folder = tmp_path / "killed"
    point = 1 + points_of("once", tmp_path).index("has happened")
    assert host(folder, "once", "interrupt", point).returncode == SIGKILL
    assert len(_outside(folder)) == 1
    inspection, _ = await _goes_on(folder, "once", resumes=False)
    run = inspection.run.run
    assert (inspection.run.state, inspection.run.reason) == ("interrupted", "owner_lost")
    assert [effect.state for effect in inspection.effects] == ["unknown"]

    does = Does("once", OutsideInFile(folder / "outside"), lambda _: None)
    async with open_runtime(
        folder / "store", agents=agents(does, resumes=False), config=Config()
    ) as runtime:
        value = {"paid": 7} if happened else None
        await runtime.resolve(
            scope="ann", run=run, effect=1, client_id="r-1", happened=happened, value=value
        )
        with pytest.raises(Refused) as caught:
            await runtime.resolve(scope="ann", run=run, effect=1, client_id="r-2", happened=True)
        after = await runtime.inspect(scope="ann", run=run)

    assert caught.value.code is Code.NOT_UNKNOWN
    assert [effect.state for effect in after.effects] == ["done" if happened else "failed"]
    assert after.run.state == "interrupted"  # a final state stays
    assert len(_outside(folder)) == 1
