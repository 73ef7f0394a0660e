"""What a provider does in one check of a gateway, for the host's stand-in to carry out.

A stand-in is told nothing in advance: for each request that comes in it calls
`Scenario.asked` with what it received, and puts on the wire whatever `Answer.next` returns,
until that is None. When a part is due is the scenario's business, so a stand-in waits for
nothing else:

    with scenario.asked(model_input) as answer:
        while (part := await answer.next()) is not None:
            match part:
                case Text(): ...        # a piece of the answer's text
                case CallPart(): ...    # a piece of a tool call
                case UsageTold(): ...   # how many tokens it took
                case Fault.REFUSES: ... # an error in place of an answer; return
                case Fault.BREAKS_OFF: ...  # close the connection in mid-answer; return
                case Fault.GARBLES: ... # something that no adapter can read
        ...  # the proper end of an answer
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum

import msgspec
import trio

from ..gateways.protocol import ModelInput, Usage
from ..gateways.scripted import Gate


class Text(msgspec.Struct, frozen=True):
    """The provider sends a piece of the answer's text."""

    text: str


class CallPart(msgspec.Struct, frozen=True):
    """The provider sends a piece of a tool call. The first one of a `call_id` begins it."""

    call_id: str
    name: str
    json: str
    """The next characters of the arguments' JSON: what comes before and behind is not whole."""


class UsageTold(msgspec.Struct, frozen=True):
    """The provider says what the request took."""

    usage: Usage


class Fault(StrEnum):
    """What the provider does wrong. Nothing comes after it."""

    REFUSES = "refuses"
    """It answers with an error that will not go away, such as an invalid key."""
    BREAKS_OFF = "breaks_off"
    """The connection is closed before the answer is whole."""
    GARBLES = "garbles"
    """It sends something in which no adapter can find an answer, then ends."""


Part = Text | CallPart | UsageTold | Fault
Step = Part | Gate
Script = Callable[[int, ModelInput], Sequence[Step]]
"""Tells what is answered to the request of this number, counted from 0."""


class Answer:
    """What the provider answers to one request."""

    def __init__(self, model_input: ModelInput, steps: Sequence[Step]) -> None:
        self.model_input = model_input
        self.left = trio.Event()
        """Set when the stand-in has ended with this request, whichever way."""
        self._steps = list(steps)

    async def next(self) -> Part | None:
        """Wait until something is to be sent, and return it; None at the answer's end."""
        await trio.lowlevel.checkpoint()
        while self._steps:
            step = self._steps.pop(0)
            if not isinstance(step, Gate):
                return step
            await step.passed()
        return None


class Scenario:
    """One check's provider. Made by the suite, handed to the host's `make`."""

    def __init__(self, name: str, sentence: str, script: Script) -> None:
        self.name = name
        self.sentence = sentence
        """What the provider does, in words."""
        self.answers: list[Answer] = []
        """One for each request so far."""
        self._script = script
        self._came = trio.Event()

    def __repr__(self) -> str:
        return f"<Scenario {self.name}: {self.sentence}>"

    @contextmanager
    def asked(self, model_input: ModelInput) -> Generator[Answer, None, None]:
        """Hear that a request came in, as the provider read it from the wire.

        Leave the block when the answer has been sent, or can't be.
        """
        answer = Answer(model_input, self._script(len(self.answers), model_input))
        self.answers.append(answer)
        self._came.set()
        try:
            yield answer
        finally:
            answer.left.set()

    async def came(self) -> None:
        """Wait until there has been a request."""
        await self._came.wait()
