"""A host process that looks after what another left, in a test of two of them.

Run as a program with the folder of a store and options. Every tenth of its commits fails, if
it is told so: refused by a full disk, or failed. It tells when it is ready, begins when a
line comes in, tells when its first pass is over, and leaves at the next line.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import trio

from counterpoint.runtime import Config, Limits, RunContext
from counterpoint.runtime.opening import FORMAT_VERSION, runtime_on
from counterpoint.store.limits import BACKGROUND, SHORT
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.owner_lock import OwnerLocks

LIMITS = Limits(capacity={SHORT: 4, BACKGROUND: 2})


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the process is set up."""

    fails_every: int = 0
    settle_every_s: float = 0.05


class Faulty:
    """An LMDB environment of which every so many write transactions can't be committed."""

    def __init__(self, environment: lmdb.Environment, every: int) -> None:
        self._environment: Any = environment
        self._every = every
        self._begun = 0
        self._faults: Iterator[Callable[[], lmdb.Error]] = cycle(
            (lambda: lmdb.DiskError("no space"), lambda: lmdb.Error("the disk failed"))
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def begin(self, **options: Any) -> Any:
        self._begun += bool(options.get("write"))
        if options.get("write") and self._begun % self._every == 0:
            raise next(self._faults)()
        transaction: Any = self._environment.begin(**options)
        return transaction


async def answer(run: RunContext) -> None:
    async for _ in run.turns():
        await run.complete("Done.")


def tell(what: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


async def main(folder: Path, options: Options) -> None:
    every = options.fails_every
    config = Config(limits=LIMITS, settle_every_s=options.settle_every_s)
    async with open_lmdb_engine(
        folder,
        format_version=FORMAT_VERSION,
        opened=lambda env: Faulty(env, every) if every else env,  # type: ignore[arg-type, return-value]
    ) as engine:
        tell("ready")
        await trio.to_thread.run_sync(sys.stdin.readline)
        agents = {SHORT: answer, BACKGROUND: answer}
        async with runtime_on(engine, OwnerLocks(folder / "owners"), agents=agents, config=config):
            tell("open")
            await trio.to_thread.run_sync(sys.stdin.readline)
    tell("left")


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=Options))
