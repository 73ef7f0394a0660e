"""One story that goes through every verb, told to a runtime that may die at any word of it.

Whatever was acknowledged is kept with how it was asked for, so that it can be asked for
again afterwards; so is what was refused, and what was under way.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import trio

from counterpoint.runtime import (
    Call,
    Code,
    Config,
    ModelMessage,
    Receipt,
    Refused,
    Revision,
    RunContext,
    Runtime,
)
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.ids import ConversationId, RunId

from ..runtime.stage import Agents, as_input, run_of

CONFIG = Config()
LOOK = Call(call_id="1", name="look", arguments={"at": "tea"})

Verb = Callable[[Runtime], Awaitable[Receipt]]


class Notes(msgspec.Struct):
    pages: int


class Told:
    """What the people of a story were told."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[Verb, Receipt]] = []
        self.refused: list[str] = []
        self.under_way: Verb | None = None
        self.under_way_id = ""
        self.complete = False

    async def do(self, runtime: Runtime, name: str, client_id: str, **arguments: Any) -> Receipt:
        def verb(of: Runtime) -> Awaitable[Receipt]:
            function: Callable[..., Awaitable[Receipt]] = getattr(of, name)
            return function(scope="ann", client_id=client_id, **arguments)

        self.under_way, self.under_way_id = verb, client_id
        try:
            receipt = await verb(runtime)
        except Refused as refused:
            if refused.code not in (Code.STORE_FULL, Code.STORE_UNAVAILABLE):
                raise
            receipt = await verb(runtime)  # the disk was at fault, once
        self.under_way = None
        self.acknowledged.append((verb, receipt))
        return receipt


async def works(run: RunContext) -> None:
    """An agent of two requests, an effect, a checkpoint and a note in between."""
    gateway = ScriptedGateway(say(LOOK), say("Done.", lasting=True))
    said: list[ModelMessage] = []

    def build(revisions: tuple[Revision, ...]) -> Any:
        return as_input(run, revisions, said)

    async def look(arguments: dict[str, Any]) -> str:
        return f"saw {arguments['at']}"

    run.draft("What I have so far")
    async for turn in run.turns():
        reply = await turn.request(gateway, build)
        said.append(ModelMessage(role="assistant", text=reply.text, calls=reply.calls))
        for call in reply.calls:
            result = await turn.effect(call.name, call.arguments, do=look)
            said.append(ModelMessage(role="tool", text=str(result.value), call_id=call.call_id))
            await run.progress("I looked")
            await run.save(Notes(pages=turn.number))
        if run.request == "Stop me":
            await trio.sleep_forever()
        if reply.final:
            await run.complete(reply.text)


class Waits:
    """The same, once it is let go: it is steered meanwhile."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def __call__(self, run: RunContext) -> None:
        await self.gate.passed()
        await works(run)


def agents(waits: Waits) -> Agents:
    return {"short": works, "background": waits}


async def tell(runtime: Runtime, told: Told, waits: Waits) -> None:
    """Tell the story, from the opening of a conversation to the end of its last run."""
    opened = await told.do(runtime, "open_conversation", "c-1", title="Tea")
    where = opened.conversation
    asked = await told.do(runtime, "submit", "m-1", conversation=where, text="Hello")
    await runtime.wait(scope="ann", run=run_of(asked))

    research = await told.do(
        runtime, "submit", "m-2", conversation=where, text="Dig", entry="background", depth="deep"
    )
    run = run_of(research)
    await waits.gate.reached()
    await told.do(runtime, "steer", "s-1", run=run, text="Deeper", expected_revision=0)
    await told.do(runtime, "steer", "s-2", run=run, text="Wider")
    await told.do(runtime, "withdraw", "w-1", run=run, revision=2)
    with pytest.raises(Refused, match="slots are in use"):
        await told.do(
            runtime, "submit", "m-3", conversation=where, text="Too much", entry="background"
        )
    told.refused.append("m-3")
    told.under_way = None
    waits.gate.release()
    await runtime.wait(scope="ann", run=run)

    stopped = await told.do(runtime, "submit", "m-4", conversation=where, text="Stop me")
    await told.do(runtime, "stop", "stop-1", run=run_of(stopped))
    await runtime.wait(scope="ann", run=run_of(stopped))
    told.complete = True


async def everything_ends(runtime: Runtime, conversation: ConversationId) -> None:
    """Wait until every run has a final state, then show that all slots are free."""
    with trio.fail_after(60):
        view = await runtime.view(scope="ann", conversation=conversation)
        for run in view.runs.values():
            if run.request == "Stop me" and run.stoppable:  # it was taken over, and rests
                await runtime.stop(scope="ann", run=run.run, client_id=f"now-{run.run}")
            await runtime.wait(scope="ann", run=run.run)
        begun: list[RunId] = []
        for n in range(3):
            again = await runtime.submit(
                scope="ann", conversation=conversation, client_id=f"again-{n}", text="Stop me"
            )
            begun.append(run_of(again))
        again = await runtime.submit(
            scope="ann",
            conversation=conversation,
            client_id="again",
            text="Stop me",
            entry="background",
        )
        begun.append(run_of(again))
        for n, resting in enumerate(begun):
            await runtime.stop(scope="ann", run=resting, client_id=f"enough-{n}")
            await runtime.wait(scope="ann", run=resting)
