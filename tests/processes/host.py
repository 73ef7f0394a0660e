"""A host process that does what it is told: one command a line in, one answer a line out.

Run as a program with the folder of a store and its options. A run whose words begin with
"Wait" goes on until it is released or cut; every other one ends at once.
"""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
import trio

from counterpoint.runtime import Config, Limits, RunContext, Runtime
from counterpoint.runtime.opening import FORMAT_VERSION, runtime_on
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.owner_lock import OwnerLocks

LIMITS = Limits(
    capacity={"short": 100_000, "background": 100_000}, live_runs_of_conversation_max=100_000
)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the host is set up."""

    bells: bool = True
    poll_s: float = 3_600.0
    settle_every_s: float = 0.2


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What the host is told. Every answer to it carries its tag."""

    do: Literal["race", "say", "steer", "stop", "wait", "listen", "view", "release"]
    tag: str
    conversation: str = ""
    run: str = ""
    ids: list[str] = []
    text: str = ""
    tasks: int = 1
    seed: int = 0


class Host:
    """One open runtime and its commands."""

    def __init__(self, runtime: Runtime, released: trio.Event) -> None:
        self._runtime = runtime
        self._released = released

    async def obey(self, command: Command) -> None:
        runtime, given = self._runtime, command
        first = given.ids[0] if given.ids else given.tag
        match given.do:
            case "race":
                await self._race(given)
            case "say":
                say(given, await self._submit(given, first))
            case "steer":
                steered = await runtime.steer(
                    scope="ann", run=given.run, client_id=first, text=given.text
                )
                say(given, steered)
            case "stop":
                say(given, await runtime.stop(scope="ann", run=given.run, client_id=first))
            case "wait":
                say(given, "waits")
                say(given, await runtime.wait(scope="ann", run=given.run))
            case "view":
                say(given, await runtime.view(scope="ann", conversation=given.conversation))
            case "listen":
                await self._listen(given)
            case "release":
                self._released.set()

    async def _submit(self, given: Command, client_id: str) -> object:
        return await self._runtime.submit(
            scope="ann",
            conversation=given.conversation,
            client_id=client_id,
            text=given.text or f"What is {client_id}?",
        )

    async def _race(self, given: Command) -> None:
        async def racer(number: int) -> None:
            order = list(given.ids)
            Random(f"{given.seed} {number}").shuffle(order)
            for client_id in order:
                say(given, await self._submit(given, client_id))

        async with trio.open_nursery() as nursery:
            for number in range(given.tasks):
                nursery.start_soon(racer, number)
        say(given, "done")

    async def _listen(self, given: Command) -> None:
        stream = self._runtime.events(scope="ann", conversation=given.conversation)
        async with aclosing(stream) as events:
            async for event in events:
                say(given, event)


def say(command: Command, answer: object) -> None:
    os.write(1, msgspec.json.encode({"tag": command.tag, "answer": answer}) + b"\n")


@asynccontextmanager
async def opened(folder: Path, options: Options) -> AsyncGenerator[Host]:
    released = trio.Event()

    async def agent(run: RunContext) -> None:
        async for _ in run.turns():
            if run.request.startswith("Wait"):
                await released.wait()
            await run.complete(f"You said: {run.request}")

    config = Config(
        limits=LIMITS,
        poll_s=options.poll_s,
        settle_every_s=options.settle_every_s,
        write_wait_s=60,
        ask_wait_s=60,
        live_runs_max=100_000,
    )
    owners = folder / "owners"
    async with (
        open_lmdb_engine(folder, format_version=FORMAT_VERSION) as engine,
        runtime_on(
            engine,
            OwnerLocks(owners),
            agents={"short": agent, "background": agent},
            config=config,
            bell_folder=owners if options.bells else None,
        ) as runtime,
    ):
        yield Host(runtime, released)


async def lines() -> AsyncGenerator[bytes]:
    pending = b""
    source = trio.lowlevel.FdStream(os.dup(0))
    async with source:
        async for piece in source:
            *whole, pending = (pending + piece).split(b"\n")
            for line in whole:
                yield line


async def main(folder: str, options: str) -> None:
    """Obey until the input ends, then leave."""
    commands = msgspec.json.Decoder(Command)
    async with (
        opened(Path(folder), msgspec.json.decode(options, type=Options)) as host,
        trio.open_nursery() as nursery,
    ):
        os.write(1, b'{"tag": "", "answer": "open"}\n')
        async with aclosing(lines()) as given:
            async for line in given:
                nursery.start_soon(host.obey, commands.decode(line))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    arguments: list[Any] = sys.argv[1:]
    trio.run(main, *arguments)
