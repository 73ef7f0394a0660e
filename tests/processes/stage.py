"""Real host processes on one store, driven from a test."""

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from counterpoint.runtime import open_runtime
from counterpoint.runtime.opening import FORMAT_VERSION
from counterpoint.store.engine import ReadTxn
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.runs import all_live
from counterpoint.store.verify import verify

from ..runtime.stage import answers, person
from .host import LIMITS, Command, Options

PROGRAM = Path(__file__).with_name("host.py")
PATIENCE_S = 60.0
"""How long a test waits for what happens at once, or never."""


class Answer(msgspec.Struct, frozen=True):
    tag: str
    answer: Any


class HostProcess:
    """A host process: what it is told, and what it has said so far."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._news = trio.Event()
        self._tags = 0
        self.said: list[Answer] = []
        self.ended = False

    async def read(self) -> None:
        """Take in what it says until it ends."""
        assert self._process.stdout is not None
        pending = b""
        async for piece in self._process.stdout:
            *whole, pending = (pending + bytes(piece)).split(b"\n")
            self.said += [msgspec.json.decode(line, type=Answer) for line in whole]
            self._tell()
        self.ended = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def told(self, **command: Any) -> str:
        """Give it a command; return the tag of its answers."""
        assert self._process.stdin is not None
        self._tags += 1
        tag: str = command.pop("tag", f"{self._process.pid}-{self._tags}")
        line = msgspec.json.encode(msgspec.convert({"tag": tag, **command}, Command))
        await self._process.stdin.send_all(line + b"\n")
        return tag

    def answers(self, tag: str) -> list[Any]:
        return [item.answer for item in self.said if item.tag == tag]

    async def answer(self, tag: str, number: int = 1) -> Any:
        """Wait for the answer of that number to a command."""
        with trio.fail_after(PATIENCE_S):
            while len(self.answers(tag)) < number:
                assert not self.ended, "the host ended"
                await self._news.wait()
        return self.answers(tag)[number - 1]

    async def does(self, **command: Any) -> Any:
        """Give it a command and wait for the first answer."""
        return await self.answer(await self.told(**command))

    async def has_said(self, count: int) -> None:
        """Wait until it has said so many things, or has ended."""
        with trio.fail_after(PATIENCE_S):
            while len(self.said) < count and not self.ended:
                await self._news.wait()

    async def done(self, tag: str) -> list[Any]:
        """Wait for the end of a race; return its receipts."""
        with trio.fail_after(PATIENCE_S * 10):
            while self.answers(tag)[-1:] != ["done"]:
                assert not self.ended, "the host ended"
                await self._news.wait()
        return self.answers(tag)[:-1]

    async def kill(self) -> None:
        """End it without a word, and take in what it had said."""
        self._process.kill()
        with trio.fail_after(PATIENCE_S):
            await self._process.wait()
            while not self.ended:
                await self._news.wait()

    async def leave(self) -> None:
        """Let it come to rest, and check that it does."""
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        with trio.fail_after(PATIENCE_S):
            assert await self._process.wait() == 0


@asynccontextmanager
async def host(folder: Path, options: Options | None = None) -> AsyncGenerator[HostProcess]:
    """Start a host process on the store in `folder`; kill it in the end if it is left."""
    given = msgspec.json.encode(options or Options()).decode()
    process = await trio.lowlevel.open_process(
        [sys.executable, str(PROGRAM), str(folder), given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    async with trio.open_nursery() as nursery:
        found = HostProcess(process)
        nursery.start_soon(found.read)
        try:
            await found.answer("")
            yield found
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()
            nursery.cancel_scope.cancel()


async def new_store(folder: Path) -> str:
    """Make a store with one conversation of Ann's; return the conversation."""
    async with open_runtime(folder, agents={"short": answers}) as runtime:
        ann = await person(runtime)
    return str(ann.conversation)


class Contents(msgspec.Struct):
    """What a store holds in the end."""

    messages: int
    runs: int
    live: int
    """Runs that have not ended."""
    breaches: list[str]


async def contents(folder: Path) -> Contents:
    async with open_lmdb_engine(folder, format_version=FORMAT_VERSION) as engine:
        with engine.read() as txn:
            return Contents(
                messages=count(txn, b"m"),
                runs=count(txn, b"r"),
                live=len(list(all_live(txn))),
                breaches=[str(breach) for breach in verify(txn, LIMITS)],
            )


def count(txn: ReadTxn, letter: bytes) -> int:
    """Count the records of a family whose key is an id and nothing more."""
    return sum(len(key) == 25 for key, _ in txn.scan(letter, bytes([letter[0] + 1])))
