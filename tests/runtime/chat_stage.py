"""A stage for whole chats: a way in and out in memory, and agents that work when told to."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio

from counterpoint.runtime import (
    AgentFunction,
    ModelInput,
    ModelMessage,
    Reply,
    ReplyStream,
    Revision,
    RunContext,
)
from counterpoint.runtime.commands import json_lines, shown
from counterpoint.runtime.commands.arguments import Settings
from counterpoint.runtime.commands.chat import chat
from counterpoint.runtime.commands.command import AnyCommand, Mistake
from counterpoint.runtime.commands.labels import Labels
from counterpoint.runtime.commands.leaving import Leaving

S = TypeVar("S", bound=shown.Shown)

PATIENCE_S = 30.0
"""How long a test waits for what happens at once, or never."""


class Chat:
    """A chat in memory, in the JSON protocol. It is its own ways, and keeps what is shown."""

    reconciles = False

    def __init__(self, place: Path, **settings: Any) -> None:
        usual: dict[str, Any] = {
            "folder": place,
            "store": place / "store",
            "scope": "ann",
            "pace_s": 0.0,
            "drain_s": 0.05,
            "json": True,
            "after": None,
            "slots": {},
            "map_bytes_max": None,
        }
        self.settings = Settings(**(usual | settings))
        self.shown: list[shown.AnyShown] = []
        self.said: list[str] = []
        self.code: int | None = None
        self.leaving = Leaving(self.said.append)
        self._send, self._asked = trio.open_memory_channel[AnyCommand | Mistake](math.inf)
        self._news = trio.Event()

    # What a test does with it.

    def asks(self, line: bytes | None = None, **fields: Any) -> None:
        """Write a line, given as it is or as the fields of its object."""
        asked = json_lines.parse(msgspec.json.encode(fields) if line is None else line)
        assert asked is not None
        self._send.send_nowait(asked)

    def ends(self) -> None:
        """End the input."""
        self._send.close()

    def all(self, type_: type[S] | tuple[type[S], ...], /, **fields: Any) -> list[S]:
        """Return what was shown of this kind with these fields."""
        return [
            what
            for what in self.shown
            if isinstance(what, type_)
            and all(getattr(what, name) == value for name, value in fields.items())
        ]

    async def first(self, type_: type[S] | tuple[type[S], ...], /, **fields: Any) -> S:
        """Return the first that is shown of this kind with these fields, waiting for it."""
        with trio.fail_after(PATIENCE_S):
            while not (found := self.all(type_, **fields)):
                await self._news.wait()
        return found[0]

    async def outcome(self, identifier: str) -> shown.Received | shown.Declined:
        """Return what became of the message, steering or stop with this id."""
        return await self.first((shown.Received, shown.Declined), id=identifier)

    async def event(self, kind: str, **fields: Any) -> shown.Happened:
        """Return the first event of this kind with these fields, waiting for it."""
        return await self.first(shown.Happened, kind=kind, **fields)

    def events(self, **fields: Any) -> list[str]:
        """Return the kinds of the events with these fields so far."""
        return [event.kind for event in self.all(shown.Happened, **fields)]

    # What it is to the chat.

    @property
    def screen(self) -> Chat:
        return self

    @property
    def commands(self) -> Chat:
        return self

    def __aiter__(self) -> Chat:
        return self

    async def __anext__(self) -> AnyCommand | Mistake:
        try:
            return await self._asked.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def start(self, nursery: trio.Nursery) -> None: ...

    async def end_input(self) -> None: ...

    async def flush(self) -> None: ...

    def show(self, what: shown.AnyShown) -> None:
        json_lines.encode(what)  # whatever is shown must fit on a line
        self.shown.append(what)
        self._news.set()
        self._news = trio.Event()

    async def room(self) -> None: ...


@asynccontextmanager
async def chatting(
    place: Path, agents: Mapping[str, AgentFunction] | None = None, **settings: Any
) -> AsyncGenerator[Chat, None]:
    """Hold a chat; its input ends with the block, and its `code` is there afterwards."""
    held = Chat(place, **settings)

    async def hold() -> None:
        used = agents or {"short": answers, "background": answers}
        held.code = await chat(held.settings, used, Labels(), held, held.leaving)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold)
        yield held
        held.ends()


async def answers(run: RunContext) -> None:
    """An agent that makes no request: it says back what it was asked."""
    async for _ in run.turns():
        await run.complete(f"You said: {run.request}")


class Echo:
    """A gateway that says back every word of the person's."""

    name = "echo"

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        return Reply(text=" / ".join(message.text for message in model_input.messages))


class Worker:
    """A background agent that sends one request a permit, and completes when it may."""

    def __init__(self) -> None:
        self.permits = trio.Semaphore(0)
        self.may_complete = False

    def agents(self) -> dict[str, AgentFunction]:
        return {"short": answers, "background": self.work}

    async def work(self, run: RunContext) -> None:
        def build(revisions: tuple[Revision, ...]) -> ModelInput:
            words = [run.request, *(revision.text for revision in revisions)]
            return ModelInput(
                messages=tuple(ModelMessage(role="user", text=text) for text in words)
            )

        async for turn in run.turns():
            await run.progress(f"waiting before turn {turn.number}")
            await self.permits.acquire()
            reply = await turn.request(Echo(), build)
            if self.may_complete:
                await run.complete(reply.text)

    def finish(self) -> None:
        """Let every run complete with its next request."""
        self.may_complete = True
        for _ in range(8):
            self.permits.release()
