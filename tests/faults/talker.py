"""A host process of its own, for tests that kill it. Run as a script, never imported.

    python talker.py STORE PREFIX COUNT

It opens the store, starts background work that sends a request and then waits for ever, and
says, steers and says again under ids that begin with PREFIX, COUNT times or until it is
killed. Each receipt is written to the output as a line of JSON once it has come. With a
COUNT it ends by itself, when it is told to on its input.
"""

import sys
from functools import partial

import msgspec
import trio

from counterpoint.runtime import (
    Config,
    Limits,
    ModelInput,
    ModelMessage,
    Receipt,
    Refused,
    RunContext,
    Runtime,
    open_runtime,
)
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

LIMITS = Limits(capacity={"short": 100, "background": 1}, requests_of_run_max=10_000)
CONFIG = Config(limits=LIMITS)


def told(receipt: Receipt) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(receipt) + b"\n")
    sys.stdout.buffer.flush()


async def answers(run: RunContext) -> None:
    async for _ in run.turns():
        await run.complete(f"You said: {run.request}")


async def digs(run: RunContext) -> None:
    gateway = ScriptedGateway(say(Gate(), lasting=True))
    asked = ModelMessage(role="user", text=run.request)
    async for turn in run.turns():
        await turn.request(
            gateway,
            lambda added: ModelInput(
                messages=(asked, *(ModelMessage(role="user", text=item.text) for item in added))
            ),
        )


async def talk(runtime: Runtime, prefix: str) -> None:
    opened = await runtime.open_conversation(scope="ann", client_id=f"{prefix}-c")
    told(opened)
    where = opened.conversation
    research = await runtime.submit(
        scope="ann", conversation=where, client_id=f"{prefix}-b", text="Dig", entry="background"
    )
    told(research)
    assert research.run is not None
    number = 0
    while True:
        number += 1
        told(
            await runtime.submit(
                scope="ann",
                conversation=where,
                client_id=f"{prefix}-m-{number}",
                text=f"Message {number}",
            )
        )
        told(
            await runtime.steer(
                scope="ann",
                run=research.run,
                client_id=f"{prefix}-s-{number}",
                text=f"Point {number}",
            )
        )


async def race(runtime: Runtime, prefix: str, count: int) -> None:
    """Submit the same ids as the other process does, all at once."""
    opened = await runtime.open_conversation(scope="ann", client_id=f"{prefix}-c")
    told(opened)

    async def submit(number: int) -> None:
        while True:
            try:
                told(
                    await runtime.submit(
                        scope="ann",
                        conversation=opened.conversation,
                        client_id=f"{prefix}-m-{number}",
                        text=f"Message {number}",
                    )
                )
            except Refused as refused:
                if not refused.retry_same_id:
                    raise
            else:
                return

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(submit, number)
    await runtime.quiet()


async def main(store: str, prefix: str, count: str = "") -> None:
    agents = {"short": answers, "background": digs}
    async with open_runtime(store, agents=agents, config=CONFIG) as runtime:
        if not count:
            await talk(runtime, prefix)
        sys.stdout.buffer.write(b"ready\n")
        sys.stdout.buffer.flush()
        await trio.to_thread.run_sync(sys.stdin.readline)
        await race(runtime, prefix, int(count))


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
