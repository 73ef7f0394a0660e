"""Real processes look after what one of them left, at once, and only if it is really gone.

Method: the store is made by the rules alone; the processes are told over pipes when to
begin. A third one, whose disk does not fail, makes the next pass.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from counterpoint.runtime.opening import FORMAT_VERSION
from counterpoint.store import runs
from counterpoint.store.engine import Txn
from counterpoint.store.lmdb_engine import LmdbEngine, open_lmdb_engine
from counterpoint.store.verify import verify

from ..processes.stage import PATIENCE_S, host, new_store
from .orphans import Left, adoptions, ends, left_behind, nothing_is_left
from .settler import Options

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("settler.py")


async def _make(folder: Path, left: Left) -> None:
    def rule(txn: Txn) -> None:
        for key, value in left.world.base.values.items():
            txn.put(key, value)

    async with open_lmdb_engine(folder, format_version=FORMAT_VERSION) as engine:
        await engine.write(rule, deadline=trio.current_time() + PATIENCE_S)


class Settler:
    """One process that settles."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self.tells("ready")

    def tells(self, expected: str) -> None:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, "the process has ended"
        assert msgspec.json.decode(line) == expected

    def goes_on(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()


@contextmanager
def settler(folder: Path, options: Options) -> Generator[Settler]:
    given = msgspec.json.encode(options).decode()
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            yield Settler(child)
        finally:
            child.kill()


async def _look(folder: Path, check: Any) -> None:
    async with open_lmdb_engine(folder, format_version=FORMAT_VERSION) as engine:
        check(engine)


@pytest.mark.contract("C31", "C32", "C35", "E5", "E6", "P86", "P99")
def test_two_processes_with_failing_disks_settle_a_hundred_orphans_once_each(
    tmp_path: Path,
) -> None:
    left, folder = left_behind(100), tmp_path / "store"
    trio.run(_make, folder, left)
    faulty = Options(fails_every=10, settle_every_s=3_600)
    with settler(folder, faulty) as one, settler(folder, faulty) as other:
        for process in (one, other):
            process.goes_on()  # both look after the same hundred
        for process in (one, other):
            process.tells("open")
        for process in (one, other):
            process.goes_on()
            process.tells("left")

    def each_at_most_once(engine: LmdbEngine) -> None:
        with engine.read() as txn:
            assert max(ends(txn).values()) == 1
            assert len(list(runs.all_live(txn))) <= 30

    trio.run(_look, folder, each_at_most_once)
    with settler(folder, Options()) as healthy:
        for word in ("open", "left"):
            healthy.goes_on()
            healthy.tells(word)

    def all_once(engine: LmdbEngine) -> None:
        with engine.read() as txn:
            nothing_is_left(txn, left.orphans)
            assert max(adoptions(txn).values()) <= 2  # by the faulty one's leaving, at the most

    trio.run(_look, folder, all_once)


def _pid(tag: str) -> int:
    return int(tag.split("-")[0])


@pytest.mark.contract("C30", "C31", "P74")
async def test_the_run_of_a_process_that_stands_still_is_not_settled(tmp_path: Path) -> None:
    conversation = await new_store(tmp_path)
    async with host(tmp_path) as slow:
        tag = await slow.told(do="say", conversation=conversation, text="Wait for me")
        run = (await slow.answer(tag))["run"]
        os.kill(_pid(tag), signal.SIGSTOP)
        async with host(tmp_path) as other:  # it has settled by the time that it is open
            view = await other.does(do="view", conversation=conversation)
            assert view["runs"][run]["state"] == "admitted"
            said = await other.does(do="say", conversation=conversation, text="And you?")
            ended = await other.answer(await other.told(do="wait", run=said["run"]), number=2)
            assert ended["state"] == "completed"
            os.kill(_pid(tag), signal.SIGCONT)
            await slow.told(do="release")
            ended = await slow.answer(await slow.told(do="wait", run=run), number=2)
            assert ended["answer"] == "You said: Wait for me"
    async with open_lmdb_engine(tmp_path, format_version=FORMAT_VERSION) as engine:
        with engine.read() as txn:
            assert ends(txn)[run] == 1
            assert run not in adoptions(txn)


@pytest.mark.contract("C29", "C30", "E5", "E8")
async def test_a_process_that_has_lost_its_run_can_write_nothing_more_to_it(
    tmp_path: Path,
) -> None:
    conversation = await new_store(tmp_path)
    async with host(tmp_path) as fenced:
        tag = await fenced.told(do="say", conversation=conversation, text="Wait for me")
        run = (await fenced.answer(tag))["run"]
        os.kill(_pid(tag), signal.SIGSTOP)
        [lock] = (tmp_path / "owners").glob("*.lock")
        lock.unlink()  # whoever sees this takes it for dead
        async with host(tmp_path) as heir:
            view = await heir.does(do="view", conversation=conversation)
            assert view["runs"][run]["state"] == "admitted"  # adopted: it waits there, too
            os.kill(_pid(tag), signal.SIGCONT)
            await fenced.told(do="release")  # its agent completes a run that is not its own
            said = await fenced.does(do="say", conversation=conversation, text="Another")
            await fenced.answer(await fenced.told(do="wait", run=said["run"]), number=2)
            view = await heir.does(do="view", conversation=conversation)
            assert view["runs"][run]["state"] == "admitted"
            await heir.told(do="release")
            ended = await heir.answer(await heir.told(do="wait", run=run), number=2)
            assert (ended["state"], ended["answer"]) == ("completed", "You said: Wait for me")
    async with open_lmdb_engine(tmp_path, format_version=FORMAT_VERSION) as engine:
        with engine.read() as txn:
            assert ends(txn)[run] == adoptions(txn)[run] == 1
            assert list(verify(txn)) == []
