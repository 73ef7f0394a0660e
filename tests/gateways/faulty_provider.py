"""A provider of chat completions on the loopback, with every fault that one can have.

It runs in the test's own loop and plays what it is told: each request takes the next play,
which is mostly made by `answers` from steps. Nothing here looks at a clock: where a play is
to wait, it waits at a `Gate` or until the client has gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import h11
import httpx
import msgspec
import trio

from counterpoint.runtime import Call, ModelInput, ModelMessage, Tool
from counterpoint.runtime.gateways import Gate
from counterpoint.runtime.testing import CallPart, Fault, Scenario, Text, UsageTold


class Odd(Enum):
    """Steps that are no data."""

    CUT = "close the connection at once"
    SILENCE = "send nothing more, until the client goes"


CUT, SILENCE = Odd.CUT, Odd.SILENCE

Step = str | bytes | dict[str, Any] | Gate | Odd
"""A piece of text, raw bytes, a chunk, a point to wait at, or something odd."""


class Exchange:
    """One request, and the answer as a play writes it."""

    def __init__(
        self, stream: trio.SocketStream, connection: h11.Connection, request: h11.Request, body: Any
    ) -> None:
        self.headers = {name.decode(): value.decode() for name, value in request.headers}
        self.target = f"{request.method.decode()} {request.target.decode()}"
        self.body = body
        self.gone = trio.Event()
        """Set when the client has closed the connection."""
        self.ended = trio.Event()
        """Set when the play is over."""
        self._stream = stream
        self._connection = connection

    @property
    def model_input(self) -> ModelInput:
        """What the request says, as the runtime would say it."""
        return ModelInput(
            messages=tuple(_message(message) for message in self.body["messages"]),
            tools=tuple(Tool(**tool["function"]) for tool in self.body.get("tools", ())),
        )

    async def starts(
        self, status: int = 200, content_type: str = "text/event-stream", **headers: str
    ) -> None:
        fields = [("Content-Type", content_type)] if content_type else []
        fields += [(name.replace("_", "-"), value) for name, value in headers.items()]
        await self._send(h11.Response(status_code=status, headers=fields, reason=b""))

    async def sends(self, data: bytes) -> None:
        """Send raw bytes; a client that has gone does not get them."""
        await self._send(h11.Data(data=data))

    async def chunk(self, chunk: dict[str, Any]) -> None:
        await self.sends(b"data: " + msgspec.json.encode(chunk) + b"\n\n")

    async def ends(self) -> None:
        await self._send(h11.EndOfMessage())

    async def cuts(self) -> None:
        """Close the connection, whatever is still owed."""
        await self._stream.aclose()

    async def _send(self, event: h11.Event) -> None:
        data = self._connection.send(event)
        if data and not self.gone.is_set():
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.gone.set()


Play = Callable[[Exchange], Awaitable[None]]


class FaultyProvider:
    """The provider of one test. Made by `faulty_provider`."""

    def __init__(self, base_url: str, plays: tuple[Play, ...]) -> None:
        self.base_url = base_url
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._plays = list(plays)
        self._came = trio.Condition()

    async def request(self, number: int) -> Exchange:
        """Wait for the request of this number, counted from 1."""
        async with self._came:
            while len(self.exchanges) < number:
                await self._came.wait()
        return self.exchanges[number - 1]

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        self.connections += 1
        connection = h11.Connection(h11.SERVER)
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                while await self._serve_one(stream, connection):
                    connection.start_next_cycle()

    async def _serve_one(self, stream: trio.SocketStream, connection: h11.Connection) -> bool:
        """Serve one request; False if no other can follow."""
        request, body = None, bytearray()
        while not isinstance(event := await _next(stream, connection), h11.EndOfMessage):
            if isinstance(event, h11.ConnectionClosed):
                return False
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
        assert request is not None
        exchange = Exchange(stream, connection, request, msgspec.json.decode(bytes(body)))
        async with self._came:
            self.exchanges.append(exchange)
            self._came.notify_all()
        assert self._plays, "one request more than there are plays"
        play = self._plays.pop(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, stream, connection, exchange)
            await play(exchange)
            nursery.cancel_scope.cancel()
        exchange.ended.set()
        both = (connection.our_state, connection.their_state)
        return both == (h11.DONE, h11.DONE) and not exchange.gone.is_set()


async def _next(stream: trio.SocketStream, connection: h11.Connection) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.receive_some())
    return event


async def _watch(stream: trio.SocketStream, connection: h11.Connection, exchange: Exchange) -> None:
    """Notice when the client goes; keep what it sends in advance."""
    try:
        while data := await stream.receive_some():
            connection.receive_data(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    exchange.gone.set()


@asynccontextmanager
async def faulty_provider(*plays: Play) -> AsyncGenerator[FaultyProvider, None]:
    """Serve as the plays say, one for each request."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        provider = FaultyProvider(f"http://127.0.0.1:{port}/v1", plays)
        nursery.start_soon(trio.serve_listeners, provider.serve, listeners)
        yield provider
        nursery.cancel_scope.cancel()


def plain_transport() -> httpx.AsyncBaseTransport:
    """Return a transport for the loopback: no proxy, and no certificates to load."""
    return httpx.AsyncHTTPTransport(verify=False)


def answers(
    *steps: Step,
    status: int = 200,
    content_type: str = "text/event-stream",
    done: bool = True,
    **headers: str,
) -> Play:
    """Return a play that goes through the steps; `done` as a proper answer ends."""

    async def play(exchange: Exchange) -> None:
        await exchange.starts(status, content_type, **headers)
        for step in steps:
            match step:
                case str():
                    await exchange.chunk(says(step))
                case bytes():
                    await exchange.sends(step)
                case Gate():
                    await step.passed()
                case Odd.CUT:
                    await exchange.cuts()
                    return
                case Odd.SILENCE:
                    await exchange.gone.wait()
                    return
                case _:
                    await exchange.chunk(step)
        if done:
            await exchange.sends(b"data: [DONE]\n\n")
        await exchange.ends()

    return play


def refuses(status: int, message: str = "no", **headers: str) -> Play:
    """Return a play that answers with an error."""
    body = msgspec.json.encode({"error": {"message": message}})
    return answers(body, status=status, content_type="application/json", done=False, **headers)


async def never_answers(exchange: Exchange) -> None:
    """Take the request, and send nothing."""
    await exchange.gone.wait()


async def hangs_up(exchange: Exchange) -> None:
    """Take the request, and close the connection."""
    await exchange.cuts()


# Chunks.


def says(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def calls(index: int | None, call_id: str | None, name: str | None, json: str) -> dict[str, Any]:
    """Return a piece of a tool call; what is None is left out."""
    function = {"name": name, "arguments": json}
    piece = {"index": index, "id": call_id, "type": "function", "function": function}
    there = {key: value for key, value in piece.items() if value is not None}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [there]}}]}


def ends_with(reason: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def took(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    usage = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens}
    return {"choices": [], "usage": usage}


def _message(message: dict[str, Any]) -> ModelMessage:
    return ModelMessage(
        role=message["role"],
        text=message["content"],
        calls=tuple(
            Call(
                call_id=call["id"],
                name=call["function"]["name"],
                arguments=msgspec.json.decode(call["function"]["arguments"]),
            )
            for call in message.get("tool_calls", ())
        ),
        call_id=message.get("tool_call_id"),
    )


# Scenarios of the conformance suite.


def plays(scenario: Scenario) -> Play:
    """Return the play of one request of a scenario."""

    async def play(exchange: Exchange) -> None:
        with scenario.asked(exchange.model_input) as answer:
            part = await answer.next()
            if part is Fault.REFUSES:
                await refuses(400)(exchange)
                return
            await exchange.starts()
            ids: list[str] = []
            while part is not None:
                match part:
                    case Text():
                        await exchange.chunk(says(part.text))
                    case CallPart():
                        begins = part.call_id not in ids
                        ids += [part.call_id] if begins else []
                        call_id, name = (part.call_id, part.name) if begins else (None, None)
                        index = ids.index(part.call_id)
                        await exchange.chunk(calls(index, call_id, name, part.json))
                    case UsageTold():
                        usage = part.usage
                        await exchange.chunk(took(usage.input_tokens, usage.output_tokens))
                    case Fault.BREAKS_OFF:
                        await exchange.cuts()
                        return
                    case _:
                        await exchange.sends(b'data: {"choices": [{"delta"\n\n')
                part = await answer.next()
            await exchange.sends(b"data: [DONE]\n\n")
            await exchange.ends()

    return play
