"""A host whose agent carries out one effect of a class, and the outside world that it changes.

As a program it opens a store, begins one run and dies by SIGKILL at one of the points of that
run: `host.py STORE OUTSIDE CLASS HOW POINT`, where HOW is `resume` or `interrupt`. With
the point 0 it lives, and prints what it came by. The tests use its agent as well, so it
imports nothing of theirs.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio

from counterpoint.runtime import (
    Agent,
    AgentFunction,
    Call,
    Config,
    ModelInput,
    ModelMessage,
    Reply,
    RunContext,
    Turn,
)
from counterpoint.runtime.effect import DidNotHappen, EffectResult, Happened
from counterpoint.runtime.gateways import ScriptedGateway, say
from counterpoint.runtime.opening import FORMAT_VERSION, runtime_on
from counterpoint.store.engine import Done, Engine, ReadTxn, Statistics, Transaction
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.owner_lock import OwnerLocks

Class = Literal["read", "idempotent", "reconcilable", "once"]
CLASSES: tuple[Class, ...] = ("read", "idempotent", "reconcilable", "once")
Reach = Callable[[str], None]


class Outside:
    """The outside world: what happened in it, one line an operation, in order."""

    def __init__(self, done: list[str] | None = None) -> None:
        self.done = [] if done is None else done
        self.asked: list[str] = []

    def do(self, operation: str) -> str:
        self.done.append(operation)
        return f"receipt of {operation}"

    def happened(self, operation: str) -> bool:
        self.asked.append(operation)
        return operation in self.done


class OutsideInFile(Outside):
    """One that outlives whoever changes it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.read_text().split() if path.exists() else [])
        self._path = path

    def do(self, operation: str) -> str:
        with self._path.open("a") as file:
            file.write(f"{operation}\n")
            file.flush()
            os.fsync(file.fileno())
        return super().do(operation)


class Notes(msgspec.Struct):
    said: list[ModelMessage] = []


class Does:
    """An agent that asks, does what it is told, saves, asks again and completes."""

    def __init__(self, repeat: Class, outside: Outside, reach: Reach) -> None:
        self.repeat: Class = repeat
        self.outside = outside
        self.results: list[EffectResult] = []
        self._reach = reach
        call = Call(call_id="1", name="pay", arguments={"amount": 7})
        self._gateway = ScriptedGateway(
            say(call, when=_begins, lasting=True), say("Paid.", lasting=True)
        )

    async def __call__(self, run: RunContext) -> None:
        notes = run.restore(Notes) or Notes()

        def build(added: tuple[Any, ...]) -> ModelInput:
            asked = ModelMessage(role="user", text=run.request)
            more = [ModelMessage(role="user", text=revision.text) for revision in added]
            return ModelInput(messages=(asked, *notes.said, *more))

        async for turn in run.turns():
            reply: Reply = await turn.request(self._gateway, build)
            notes.said.append(ModelMessage(role="assistant", text=reply.text, calls=reply.calls))
            for call in reply.calls:
                result = await self.act(turn, call)
                self.results.append(result)
                text = f"{result.status} {result.value}"
                notes.said.append(ModelMessage(role="tool", text=text, call_id=call.call_id))
            await run.save(notes)
            if reply.final:
                await run.complete(reply.text)

    async def act(self, turn: Turn, call: Call) -> EffectResult:
        if self.repeat == "read":
            return await turn.effect(call.name, call.arguments, do=self.read)
        if self.repeat == "reconcilable":
            return await turn.effect(
                call.name,
                call.arguments,
                do=self.do,
                repeat="reconcilable",
                reconcile=self.reconcile,
            )
        return await turn.effect(call.name, call.arguments, do=self.do, repeat=self.repeat)

    async def read(self, _: dict[str, Any]) -> str:
        return await self.do({}, "a read")

    async def do(self, _: dict[str, Any], operation_id: str) -> str:
        self._reach("about to happen")
        receipt = self.outside.do(operation_id)
        self._reach("has happened")
        return receipt

    async def reconcile(self, operation_id: str) -> Happened | DidNotHappen:
        self._reach("about to ask")
        if self.outside.happened(operation_id):
            return Happened(f"receipt of {operation_id}")
        return DidNotHappen()


def _begins(model_input: ModelInput) -> bool:
    return all(message.role != "tool" for message in model_input.messages)


def agents(does: AgentFunction, *, resumes: bool) -> dict[str, AgentFunction | Agent]:
    return {"short": Agent(does, on_owner_loss="resume" if resumes else "interrupt")}


# As a program.


class Doomed:
    """Dies at the n-th point that is reached; with 0 never."""

    def __init__(self, at: int) -> None:
        self.reached: list[str] = []
        self._at = at

    def __call__(self, point: str) -> None:
        self.reached.append(point)
        if len(self.reached) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class DoomedEngine:
    """An engine that reaches a point before each write of a run, within it and behind it."""

    def __init__(self, engine: Engine, reach: Reach) -> None:
        self._engine = engine
        self._reach = reach

    async def write(self, transaction: Transaction[Any], *, deadline: float) -> Any:
        def reached(txn: Any) -> Any:
            result = transaction(txn)
            self._reach("written, and not committed")
            return result

        self._reach("before a write")
        result = await self._engine.write(reached, deadline=deadline)
        self._reach("committed")
        return result

    def enqueue(self, transaction: Transaction[Any], *, deadline: float, done: Done[Any]) -> None:
        self._engine.enqueue(transaction, deadline=deadline, done=done)

    def read(self) -> AbstractContextManager[ReadTxn]:
        return self._engine.read()

    def on_commit(self, callback: Callable[[], None]) -> None:
        self._engine.on_commit(callback)

    def statistics(self) -> Statistics:
        return self._engine.statistics()

    async def aclose(self) -> None:
        await self._engine.aclose()


async def main(store: Path, outside: Path, repeat: Class, how: str, at: int) -> None:
    doomed = Doomed(at)
    does = Does(repeat, OutsideInFile(outside), doomed)
    config = Config()
    async with (
        open_lmdb_engine(
            store,
            map_bytes=config.map_bytes,
            map_bytes_max=config.map_bytes_max,
            format_version=FORMAT_VERSION,
        ) as engine,
        runtime_on(
            DoomedEngine(engine, doomed),
            OwnerLocks(store / "owners"),
            agents=agents(does, resumes=how == "resume"),
            config=config,
        ) as runtime,
    ):
        opened = await runtime.open_conversation(scope="ann", client_id="c-1")
        receipt = await runtime.submit(
            scope="ann", conversation=opened.conversation, client_id="m-1", text="Pay 7"
        )
        assert receipt.run is not None
        await runtime.wait(scope="ann", run=receipt.run)
        sys.stdout.write("\n".join(doomed.reached))


if __name__ == "__main__":
    _, folder, world, what, way, point = sys.argv
    chosen: dict[str, Class] = {str(name): name for name in CLASSES}
    trio.run(main, Path(folder), Path(world), chosen[what], way, int(point))
