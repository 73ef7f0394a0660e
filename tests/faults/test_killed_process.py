"""A host process that is killed loses nothing that it had acknowledged.

Method: a real process talks to a store on LMDB and writes down each receipt once it has it;
it is killed by SIGKILL after as many of them as a seed says, in the midst of its next write.
Then the store is opened here: what was acknowledged is read back, its runs come to an end,
and their slots are free at once. Nothing is waited for but the process's own lines.
"""

import random
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import pytest
import trio

from counterpoint.runtime import Receipt, Runtime, open_runtime
from counterpoint.runtime.opening import FORMAT_VERSION
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.verify import verify

from ..runtime.stage import PATIENCE_S, answers, rests, run_of
from .talker import CONFIG

TALKER = Path(__file__).with_name("talker.py")
AGENTS = {"short": answers, "background": rests}


@contextmanager
def talker(store: Path, *arguments: str) -> Generator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, str(TALKER), str(store), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(stream: IO[bytes] | None) -> Generator[bytes]:
    assert stream is not None
    yield from stream


def life(store: Path, prefix: str, count: int) -> list[Receipt]:
    """Let a process talk, kill it after `count` receipts, and return all that it wrote down."""
    with talker(store, prefix) as process:
        output = lines(process.stdout)
        acknowledged = [next(output) for _ in range(count)]
        process.kill()
        acknowledged += [line for line in output if line.endswith(b"\n")]
    return [msgspec.json.decode(line, type=Receipt) for line in acknowledged]


async def check(runtime: Runtime, acknowledged: list[Receipt]) -> None:
    for receipt in acknowledged:
        assert await runtime.lookup(scope="ann", client_id=receipt.client_id) == receipt
    where = acknowledged[0].conversation
    begun = await runtime.submit(
        scope="ann",
        conversation=where,
        client_id=f"{where}-again",
        text="Dig again",
        entry="background",
    )
    await runtime.stop(scope="ann", run=run_of(begun), client_id=f"{where}-enough")
    view = await runtime.view(scope="ann", conversation=where)
    with trio.fail_after(PATIENCE_S):
        ended = [await runtime.wait(scope="ann", run=run) for run in view.runs]
    research = [run for run in ended if run.request == "Dig"]
    assert [(run.state, run.reason) for run in research] in (
        [("interrupted", "owner_lost")],
        [],  # it is older than what this page of the view shows
    )
    for run in ended:
        if run.request.startswith("Message"):  # one that had sent nothing is taken over
            assert run.answer == f"You said: {run.request}"


async def open_again(store: Path, acknowledged: list[Receipt]) -> None:
    async with open_runtime(store, agents=AGENTS, config=CONFIG) as runtime:
        await check(runtime, acknowledged)
    async with open_lmdb_engine(store, format_version=FORMAT_VERSION) as engine:
        with engine.read() as txn:
            assert list(verify(txn)) == []


@pytest.mark.slow
@pytest.mark.contract("E10", "A16", "C8", "C30", "C32", "D13", "C35", "A21", "P4", "P97")
def test_what_was_acknowledged_is_there_and_every_slot_is_free(
    fault_seed: int, tmp_path: Path
) -> None:
    rng = random.Random(fault_seed)
    for number in range(2):  # on the same store: it is killed more than once
        acknowledged = life(tmp_path / "store", f"life-{number}", rng.randrange(3, 60))
        trio.run(open_again, tmp_path / "store", acknowledged)


@pytest.mark.slow
@pytest.mark.contract("C6", "E2", "C42", "B45", "P2", "P16")
def test_two_processes_that_submit_the_same_ids_at_once_get_the_same_receipts(
    tmp_path: Path,
) -> None:
    count = 30
    receipts: list[dict[str, Receipt]] = []
    with talker(tmp_path, "race", str(count)) as one, talker(tmp_path, "race", str(count)) as two:
        outputs = [lines(process.stdout) for process in (one, two)]
        for output in outputs:
            assert next(output) == b"ready\n"
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
        for output in outputs:
            told = [msgspec.json.decode(line, type=Receipt) for line in output]
            receipts.append({receipt.client_id: receipt for receipt in told})
        assert (one.wait(), two.wait()) == (0, 0)

    assert receipts[0] == receipts[1]
    assert len(receipts[0]) == count + 1
    assert len({receipt.run for receipt in receipts[0].values()}) == count + 1  # and None
    trio.run(_every_message_once, tmp_path, receipts[0], count)


async def _every_message_once(store: Path, receipts: dict[str, Receipt], count: int) -> None:
    async with open_runtime(store, agents=AGENTS, config=CONFIG) as runtime:
        view = await runtime.view(scope="ann", conversation=receipts["race-c"].conversation)
        assert len(view.runs) == count
        assert {run.state for run in view.runs.values()} == {"completed"}
        said = [entry.text for entry in view.entries if entry.verb is not None]
        assert sorted(said) == sorted(f"Message {number}" for number in range(count))
