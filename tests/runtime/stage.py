"""A stage for whole conversations: a store, people who talk, agents that play a script.

In memory nothing takes time: where a test wants some to pass it takes `autojump_clock`. On
LMDB a commit takes a thread, and that clock would not wait for it.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
import trio

from counterpoint.runtime import (
    Agent,
    AgentFunction,
    Code,
    Config,
    Gateway,
    ModelInput,
    ModelMessage,
    Receipt,
    Refused,
    Reply,
    Revision,
    RunContext,
    Runtime,
    StreamedText,
    Turn,
    open_runtime,
)
from counterpoint.runtime.opening import runtime_on
from counterpoint.store.ids import ConversationId, OwnerId, RunId
from counterpoint.store.memory_engine import Faults, Image, MemoryEngine
from counterpoint.store.owner_lock import OwnersInMemory
from counterpoint.store.verify import verify
from counterpoint.store.views import ConversationView, EventView, RunView

Agents = Mapping[str, AgentFunction | Agent]
Tool = Callable[[dict[str, Any]], Any]

PATIENCE_S = 30.0
"""How long a test waits for what happens at once, or never."""


class Place(Protocol):
    """A store that can be opened, left and opened again."""

    def open(
        self, agents: Agents, config: Config | None = None
    ) -> AbstractAsyncContextManager[Runtime]: ...


class InMemory:
    """A store in memory. What is committed outlives the engine, as a disk would."""

    def __init__(self, image: Image | None = None, *, faults: Faults | None = None) -> None:
        self.image = image or Image()
        self.alive: set[OwnerId] = set()
        self._faults = faults
        self._engine: MemoryEngine | None = None

    @property
    def engine(self) -> MemoryEngine:
        assert self._engine is not None, "the store is not open"
        return self._engine

    @asynccontextmanager
    async def open(
        self, agents: Agents, config: Config | None = None
    ) -> AsyncGenerator[Runtime, None]:
        self._engine = engine = MemoryEngine(self.image, faults=self._faults)
        try:
            async with self.open_beside(agents, config) as runtime:
                yield runtime
            assert list(verify(engine.crash_image())) == []  # part E, whatever was told
        finally:
            self.image = engine.crash_image()
            with trio.CancelScope(shield=True):
                await engine.aclose()

    @asynccontextmanager
    async def open_beside(
        self, agents: Agents, config: Config | None = None
    ) -> AsyncGenerator[Runtime, None]:
        """Open one more runtime on the store that is open already, as a second process would."""
        liveness = OwnersInMemory(self.alive)
        async with runtime_on(
            self.engine, liveness, agents=agents, config=config or Config()
        ) as runtime:
            yield runtime

    def after_a_crash(self) -> "InMemory":
        """Return the store as a new process finds it if every process dies at this instant."""
        return InMemory(self.engine.crash_image())

    @contextmanager
    def refuses(self, code: Code) -> Generator[pytest.ExceptionInfo[Refused]]:
        """Check that what is done inside is refused so, and that nothing is stored by it (D8)."""
        before = self.engine.committed()
        with pytest.raises(Refused) as caught:
            yield caught
        assert caught.value.code is code
        assert self.engine.committed() is before

    @contextmanager
    def stores_nothing(self) -> Generator[None]:
        before = self.engine.committed()
        yield
        assert self.engine.committed() is before


class OnDisk:
    """A store on LMDB."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(
        self, agents: Agents, config: Config | None = None
    ) -> AbstractAsyncContextManager[Runtime]:
        return open_runtime(self.path, agents=agents, config=config)


class Person:
    """Somebody with a scope and a conversation of their own, who counts what they send."""

    def __init__(
        self, runtime: Runtime, scope: str, conversation: ConversationId, sent: int = 0
    ) -> None:
        self.runtime = runtime
        self.scope = scope
        self.conversation = conversation
        self._sent = sent

    def next_id(self) -> str:
        self._sent += 1
        return f"{self.scope}-{self._sent}"

    def in_runtime(self, runtime: Runtime) -> "Person":
        """Return the same person, talking to another process or to the next one."""
        return Person(runtime, self.scope, self.conversation, self._sent + 1000)

    async def says(
        self,
        text: str,
        *,
        client_id: str | None = None,
        entry: str = "plain",
        depth: str = "normal",
    ) -> Receipt:
        return await self.runtime.submit(
            scope=self.scope,
            conversation=self.conversation,
            client_id=client_id or self.next_id(),
            text=text,
            entry=entry,
            depth=depth,
        )

    async def starts(
        self, text: str, *, entry: str = "plain", client_id: str | None = None
    ) -> RunId:
        """Say something, and return the run that it started."""
        return run_of(await self.says(text, entry=entry, client_id=client_id))

    async def researches(self, text: str) -> RunId:
        return await self.starts(text, entry="background")

    async def steers(
        self, run: str, text: str, *, client_id: str | None = None, expected: int | None = None
    ) -> Receipt:
        return await self.runtime.steer(
            scope=self.scope,
            run=run,
            client_id=client_id or self.next_id(),
            text=text,
            expected_revision=expected,
        )

    async def stops(self, run: str, *, client_id: str | None = None) -> Receipt:
        return await self.runtime.stop(
            scope=self.scope, run=run, client_id=client_id or self.next_id()
        )

    async def end_of(self, run: str, *, within_s: float = PATIENCE_S) -> RunView:
        with trio.fail_after(within_s):
            return await self.runtime.wait(scope=self.scope, run=run)

    async def run(self, run: str) -> RunView:
        return await self.runtime.view_run(scope=self.scope, run=run)

    async def view(self) -> ConversationView:
        return await self.runtime.view(scope=self.scope, conversation=self.conversation)

    async def events(self, *kinds: str, run: str | None = None) -> list[EventView]:
        """Return what has happened so far, of these kinds or of all."""
        found: list[EventView] = []
        stream = self.runtime.events(scope=self.scope, conversation=self.conversation, follow=False)
        async with aclosing(stream) as events:
            async for event in events:
                assert not isinstance(event, StreamedText), "nobody listened before"
                if (not kinds or event.kind in kinds) and (run is None or event.run == run):
                    found.append(event)
        return found

    async def input_of(self, run: str, ordinal: int) -> ModelInput:
        """Return the exact input of one request, as it was exported."""
        data = await self.runtime.export_request(scope=self.scope, run=run, ordinal=ordinal)
        return msgspec.json.decode(data, type=ModelInput)


async def person(runtime: Runtime, scope: str = "ann", title: str = "") -> Person:
    """Open a conversation, and return its person."""
    opened = await runtime.open_conversation(scope=scope, client_id=f"{scope}-0", title=title)
    return Person(runtime, scope, opened.conversation)


def run_of(receipt: Receipt) -> RunId:
    assert receipt.run is not None
    return receipt.run


def user_words(model_input: ModelInput) -> list[str]:
    return [message.text for message in model_input.messages if message.role == "user"]


# Agents.


def as_input(
    run: RunContext, revisions: Sequence[Revision], said: Sequence[ModelMessage] = ()
) -> ModelInput:
    """What went before, the request, the work so far, and every revision in its own words."""
    before = [ModelMessage(role=item.role, text=item.text) for item in run.history.items]
    asked = ModelMessage(role="user", text=run.request)
    added = [ModelMessage(role="user", text=revision.text) for revision in revisions]
    return ModelInput(messages=(*before, asked, *said, *added))


def plays(gateway: Gateway, tools: Mapping[str, Tool] | None = None) -> AgentFunction:
    """Return an agent as its author would write it: request, effects, again, complete."""

    async def agent(run: RunContext) -> None:
        said: list[ModelMessage] = []

        def build(revisions: tuple[Revision, ...]) -> ModelInput:
            return as_input(run, revisions, said)

        async for turn in run.turns():
            reply = await turn.request(gateway, build)
            said += [ModelMessage(role="assistant", text=reply.text, calls=reply.calls)]
            said += await _effects(turn, reply, tools or {})
            if reply.final:
                await run.complete(reply.text)

    return agent


async def _effects(turn: Turn, reply: Reply, tools: Mapping[str, Tool]) -> list[ModelMessage]:
    results: list[ModelMessage] = []
    for call in reply.calls:
        result = await turn.effect(call.name, call.arguments, do=tools[call.name])
        text = f"{result.status}: {result.reason or result.value}"
        results.append(ModelMessage(role="tool", text=text, call_id=call.call_id))
    return results


async def answers(run: RunContext) -> None:
    """An agent that makes no request: it says back what it was asked."""
    async for _ in run.turns():
        await run.complete(f"You said: {run.request}")


async def rests(_: RunContext) -> None:
    """An agent that does nothing until it is cut."""
    await trio.sleep_forever()
