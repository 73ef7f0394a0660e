"""A gateway that plays a script: for tests and demos, offline and without chance.

    gate = Gate()
    gateway = ScriptedGateway(
        say("Let me look.", Call(call_id="1", name="search", arguments={"for": "tea"})),
        say("Tea is ", gate, "grown in Yunnan."),
        fail("overloaded", when=mentions("coffee")),
    )

Each request takes the first line that is left and is for its input. A line goes through its
steps in order: it streams a text, makes a call, or waits at a `Gate` until somebody
releases it, so that a test decides what happens in between. Nothing here ever sleeps or
looks at a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import trio

from .protocol import Call, GatewayFailed, ModelInput, Reply, ReplyStream, Usage

_json: Final = msgspec.json.Encoder(order="deterministic")


class ScriptEnded(Exception):
    """No line of the script is left for this input.

    A fault of the script, not of a provider, so it is no `GatewayFailed`: an agent that
    tries again after a provider's fault does not go on for ever. Add a line, or look at
    `ScriptedGateway.received` for what asked once too often.
    """


class Gate:
    """A point at which a line waits until it is released; it then stays open."""

    def __init__(self) -> None:
        self._reached = trio.Event()
        self._released = trio.Event()

    async def reached(self) -> None:
        """Wait until a line stands at the gate, or has passed it."""
        await self._reached.wait()

    def release(self) -> None:
        """Let pass whoever waits here, now and later. May be called before anyone does."""
        self._released.set()

    async def passed(self) -> None:
        """Stand at the gate until it is released. A tool of a test may wait here as well."""
        self._reached.set()
        await self._released.wait()


Match = Callable[[ModelInput], bool]
"""Tells whether a line is meant for an input."""


Step = str | Call | Gate
"""A piece of text that streams, a tool call that begins, or a point to wait at."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one request. Made by `say` and `fail`."""

    steps: tuple[Step, ...]
    usage: Usage | None = None
    failure: str | None = None
    when: Match | None = None
    lasting: bool = False


def say(
    *steps: Step, usage: Usage | None = None, when: Match | None = None, lasting: bool = False
) -> Line:
    """Return a line that goes through `steps`, and replies with all their text and calls.

    With `when` it is only for inputs for which that is true. A `lasting` line is not used
    up: it answers every request that comes to it.
    """
    return Line(steps=steps, usage=usage, when=when, lasting=lasting)


def fail(sentence: str, *steps: Step, when: Match | None = None, lasting: bool = False) -> Line:
    """Return a line that goes through `steps`, then fails as a provider would."""
    return Line(steps=steps, failure=sentence, when=when, lasting=lasting)


def mentions(words: str) -> Match:
    """Return a match for inputs in which `words` stand in any message."""
    return lambda model_input: any(words in message.text for message in model_input.messages)


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request that came in."""

    model_input: ModelInput
    data: bytes
    """The input as JSON, byte for byte as the run's record has it."""


class ScriptedGateway:
    """A `Gateway` that answers from a script and records what it was asked."""

    def __init__(self, *lines: Line, name: str = "scripted") -> None:
        self._name = name
        self._left: list[Line] = list(lines)
        self._received: list[Received] = []

    @property
    def name(self) -> str:
        """The name under which its requests are recorded."""
        return self._name

    @property
    def received(self) -> tuple[Received, ...]:
        """Every request so far, in the order in which they came in."""
        return tuple(self._received)

    @property
    def left(self) -> tuple[Line, ...]:
        """The lines that no request has taken yet, lasting ones included."""
        return tuple(self._left)

    def add(self, *lines: Line) -> None:
        """Put lines at the end of the script."""
        self._left += lines

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        """Play the line for this input.

        A line is taken when the request comes in, so one that is cancelled at a gate is
        used up.

        Raises:
          GatewayFailed: the line says so.
          ScriptEnded: no line is left for this input.
        """
        data = _json.encode(model_input)
        self._received.append(Received(model_input=model_input, data=data))
        line = self._take(model_input)
        await trio.lowlevel.checkpoint()
        text: list[str] = []
        calls: list[Call] = []
        for step in line.steps:
            match step:
                case Gate():
                    await step.passed()
                case Call():
                    calls.append(step)
                    emit.calling()
                case str():
                    text.append(step)
                    emit(step)
        if line.failure is not None:
            raise GatewayFailed(line.failure)
        return Reply(text="".join(text), calls=tuple(calls), usage=line.usage)

    def _take(self, model_input: ModelInput) -> Line:
        for at, line in enumerate(self._left):
            if line.when is None or line.when(model_input):
                if not line.lasting:
                    del self._left[at]
                return line
        last = model_input.messages[-1].text if model_input.messages else ""
        raise ScriptEnded(
            f"Request {len(self._received)} to {self._name!r} found no line in the script "
            f"({len(self._left)} are left, none for this input); it ended with {last[:80]!r}."
        )
