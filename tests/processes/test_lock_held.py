"""A process that stands still with the store's write lock in its hand refuses nobody for ever.

Method: a child takes the lock file and is stopped by the system, as a debugger or a laptop's
lid would. What had not begun is refused as busy, and may be sent again unchanged.
"""

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from counterpoint.runtime import Code, Config, Receipt, Refused, Runtime, open_runtime

from ..runtime.stage import person, rests
from .stage import contents

pytestmark = pytest.mark.slow

WAIT_S = 0.3

HOLDS = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
os.write(1, b"held\\n")
sys.stdin.readline()
"""


@contextmanager
def lock_in_other_hands(folder: Path) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", HOLDS, str(folder / "write.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()


class At(NamedTuple):
    runtime: Runtime
    conversation: str
    run: str


Do = Callable[[At, str], Awaitable[Receipt]]

# fmt: off
VERBS: Mapping[str, Do] = {
    "open":   lambda at, c: at.runtime.open_conversation(scope="ann", client_id=c),
    "submit": lambda at, c: at.runtime.submit(scope="ann", conversation=at.conversation,
                                              client_id=c, text="Hello"),
    "steer":  lambda at, c: at.runtime.steer(scope="ann", run=at.run, client_id=c, text="More"),
    "stop":   lambda at, c: at.runtime.stop(scope="ann", run=at.run, client_id=c),
}
# fmt: on


@pytest.mark.contract("D18", "B46", "C2", "C3", "A20", "A22")
async def test_what_could_not_begin_is_refused_as_busy_and_goes_through_afterwards(
    folder: Path,
) -> None:
    config = Config(write_wait_s=WAIT_S)
    refused: dict[str, Refused] = {}
    async with open_runtime(folder, agents={"short": rests}, config=config) as runtime:
        ann = await person(runtime)
        at = At(runtime, ann.conversation, await ann.starts("Hello"))

        async def send(verb: str) -> None:
            try:
                await VERBS[verb](at, verb)
            except Refused as error:
                refused[verb] = error

        with lock_in_other_hands(folder) as holder:
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                for verb in VERBS:
                    nursery.start_soon(send, verb)
            assert trio.current_time() - began >= WAIT_S
            assert {verb: error.code for verb, error in refused.items()} == dict.fromkeys(
                VERBS, Code.BUSY
            )
            assert all(error.retry_same_id for error in refused.values())
            assert all(error.facts == {"waited_s": WAIT_S} for error in refused.values())
            for verb in VERBS:  # a reader needs no lock
                assert await runtime.lookup(scope="ann", client_id=verb) is None
            assert [entry.text for entry in (await ann.view()).entries] == ["Hello"]
            holder.kill()  # and the kernel gives the lock back

        for verb, do in VERBS.items():
            receipt = await do(at, verb)
            assert await runtime.lookup(scope="ann", client_id=verb) == receipt
        for run in (await ann.view()).live:
            await ann.stops(run) if run != at.run else None
        await runtime.quiet()
    assert (await contents(folder)).breaches == []


@pytest.mark.contract("D18", "B46", "B47")
async def test_a_lock_that_is_given_back_in_time_refuses_nobody(folder: Path) -> None:
    receipts: list[Receipt] = []
    async with open_runtime(folder, agents={"short": rests}) as runtime:
        ann = await person(runtime)

        async def send() -> None:
            receipts.append(await ann.says("Hello", client_id="patient"))

        with lock_in_other_hands(folder) as holder:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                await trio.testing.wait_all_tasks_blocked()
                assert receipts == []
                holder.kill()
        assert receipts == [await runtime.lookup(scope="ann", client_id="patient")]
        assert receipts[0].run is not None
        await ann.stops(receipts[0].run)
        await runtime.quiet()
