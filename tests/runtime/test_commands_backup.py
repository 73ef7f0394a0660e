"""A copy of a store is whole, of one moment, and a store of its own.

Method: what was acknowledged before a copy began must be in it, each client id with the
very same receipt, and the copy must keep what always holds; the slow test takes it from a
process that goes on writing. Restoring is copying the folder back.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from counterpoint.runtime.cli import main
from counterpoint.runtime.controls import open_controls
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.backup import back_up
from counterpoint.store.engine import StoreFull

from .stage import OnDisk, Person, answers, person, plays
from .test_cli_process import PATIENCE_S
from .test_commands import the_sentence

ANSWERS = {"short": answers, "background": answers}


class Copier:
    """What is copied: a file that is written whole, in part, or not at all."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def copy_to(self, folder: Path) -> None:
        (folder / "data.mdb").write_bytes(b"some of it")
        if self.error is not None:
            raise self.error


def test_the_copy_is_for_its_owner_alone_and_nothing_else_is_there(tmp_path: Path) -> None:
    assert back_up(Copier(), tmp_path / "copy") == len(b"some of it")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["data.mdb"]
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "copy" / "data.mdb").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("error", [StoreFull("the disk is full"), OSError(5, "I/O error")])
def test_of_a_copy_that_fails_nothing_is_left(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        back_up(Copier(error), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_destination_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(FileExistsError):
        back_up(Copier(), tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


@pytest.mark.slow
@pytest.mark.contract("C1", "C6", "C32", "D13", "E10", "E12")
async def test_a_store_comes_back_from_its_copy_with_every_receipt(tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    gate = Gate()
    agents = {"short": answers, "background": plays(ScriptedGateway(say("Half", gate)))}
    async with OnDisk(store).open(agents) as runtime:
        ann = await person(runtime)
        receipts = [await ann.says(f"Tea {n}?", client_id=f"m-{n}") for n in range(3)]
        for receipt in receipts:
            assert receipt.run is not None
            await ann.end_of(receipt.run)
        live = await ann.researches("Dig")
        await gate.reached()
        view = await ann.view()
        code, out, errors = _from_beside(store, copy)
        assert (code, errors) == (0, "")
        assert str(copy) in out
        await ann.end_of(await ann.starts("After the copy"))
        await ann.stops(live)
        await ann.end_of(live)
    shutil.rmtree(store)
    shutil.copytree(copy, store)

    async with open_controls(store) as controls:
        assert list(controls.breaches()) == []
    async with OnDisk(store).open(ANSWERS) as runtime:
        again = Person(runtime, "ann", ann.conversation)
        assert [await again.says(f"Tea {n}?", client_id=f"m-{n}") for n in range(3)] == receipts
        restored = await again.view()
        assert restored.entries == view.entries
        lost = await again.end_of(live)
        assert (lost.state, lost.reason) == ("interrupted", "owner_lost")
        assert await runtime.lookup(scope="ann", client_id="ann-5") is None  # it came after


def _from_beside(store: Path, copy: Path) -> tuple[int, str, str]:
    """Back up from another process: in this one, the store is open already."""
    done = subprocess.run(
        [sys.executable, "-m", "counterpoint.runtime.cli", "backup", copy, "--store", store],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_copy_is_made_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--store", str(tmp_path / "store")]) == 0
    argv = ["backup", str(tmp_path / "copy"), "--store", str(tmp_path / "store")]
    assert main(argv) == 0
    data = (tmp_path / "copy" / "data.mdb").read_bytes()
    capfd.readouterr()
    assert main(argv) == 2
    assert "is there already" in the_sentence(capfd)
    assert (tmp_path / "copy" / "data.mdb").read_bytes() == data
    assert main(["backup", str(tmp_path / "no" / "copy"), *argv[2:]]) == 2
    assert "No such file" in the_sentence(capfd)


WRITES_ON = """
import sys, trio
from counterpoint.runtime import open_runtime

async def answer(run):
    async for _ in run.turns():
        await run.complete("You said: " + run.request)

async def main():
    async with open_runtime(sys.argv[1], agents={"short": answer}) as runtime:
        opened = await runtime.open_conversation(scope="ann", client_id="c")
        print(opened.conversation, flush=True)
        n = 0
        while True:
            n += 1
            receipt = await runtime.submit(
                scope="ann", conversation=opened.conversation, client_id=f"m-{n}", text="x" * 500
            )
            print(receipt.run, flush=True)
            await runtime.wait(scope="ann", run=receipt.run)

trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.contract("C1", "C6", "E10", "E12")
def test_a_copy_taken_from_under_a_writer_is_of_one_moment(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", WRITES_ON, store], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        try:
            conversation = writer.stdout.readline().decode().strip()
            told: list[list[str]] = []
            for n in range(3):
                told.append([*(told[-1] if told else []), *_read(writer, 50)])
                assert _from_beside(store, tmp_path / f"copy-{n}")[0] == 0
            _read(writer, 200)  # it went on, past all that could have waited in the pipe
        finally:
            writer.kill()
    for n, runs in enumerate(told):
        restored = tmp_path / f"restored-{n}"
        shutil.copytree(tmp_path / f"copy-{n}", restored)
        trio.run(_holds, restored, conversation, runs)


async def _holds(store: Path, conversation: str, runs: list[str]) -> None:
    """Check that what always holds does, and that each run is what its client id leads to."""
    async with open_controls(store) as controls:
        assert list(controls.breaches()) == []
    async with OnDisk(store).open(ANSWERS) as runtime:
        for number, run in enumerate(runs, start=1):
            found = await runtime.lookup(scope="ann", client_id=f"m-{number}")
            assert found is not None
            assert (found.run, found.conversation) == (run, conversation)


def _read(writer: subprocess.Popen[bytes], count: int) -> list[str]:
    assert writer.stdout is not None
    return [writer.stdout.readline().decode().strip() for _ in range(count)]
