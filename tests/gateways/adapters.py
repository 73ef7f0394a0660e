"""An adapter that keeps to the rules, and one for each rule that does not.

They need no wire: adapter and stand-in are one, and read a scenario's answer directly.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import msgspec
import trio

from counterpoint.runtime import (
    Call,
    Gateway,
    GatewayFailed,
    ModelInput,
    Reply,
    ReplyStream,
    Usage,
)
from counterpoint.runtime.testing import (
    Answer,
    CallPart,
    Fault,
    Make,
    Part,
    Scenario,
    Text,
    UsageTold,
)


class Conforming:
    """An adapter as it should be."""

    name = "conforming"

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        with self.scenario.asked(model_input) as answer:
            return await self.read(answer, emit)

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        assembly = Assembly(emit)
        while (part := await answer.next()) is not None:
            self.take(part, assembly)
        return assembly.reply()

    def take(self, part: Part, assembly: Assembly) -> None:
        match part:
            case Text():
                assembly.text += part.text
                assembly.emit(part.text)
            case CallPart():
                if not assembly.calls:
                    assembly.emit.calling()
                assembly.calls.setdefault(part.call_id, []).append(part)
            case UsageTold():
                assembly.usage = part.usage
            case Fault():
                raise GatewayFailed(f"The provider {part}.")


class Assembly:
    def __init__(self, emit: ReplyStream) -> None:
        self.emit = emit
        self.text = ""
        self.calls: dict[str, list[CallPart]] = {}
        self.usage: Usage | None = None

    def reply(self) -> Reply:
        return Reply(
            text=self.text,
            calls=tuple(whole(parts) for parts in self.calls.values()),
            usage=self.usage,
        )


def whole(parts: list[CallPart]) -> Call:
    try:
        arguments = msgspec.json.decode("".join(part.json for part in parts), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise GatewayFailed(f"The arguments are not whole: {error}.") from error
    return Call(call_id=parts[0].call_id, name=parts[0].name, arguments=arguments)


class Flattening(Conforming):
    """Makes an error of its own of a cancellation (R1, B63)."""

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        try:
            return await super().complete(model_input, emit)
        except trio.Cancelled as cancelled:
            raise GatewayFailed("The request was cancelled.") from cancelled


class Swallowing(Conforming):
    """Returns what it has when it is cancelled (R1)."""

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        assembly = Assembly(emit)
        try:
            while (part := await answer.next()) is not None:
                self.take(part, assembly)
        except trio.Cancelled:
            return Reply(text=assembly.text)
        return assembly.reply()


class Shielded(Conforming):
    """Waits for the whole answer, cancelled or not (R1)."""

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        reply: Reply | None = None
        with trio.CancelScope(shield=True):
            reply = await super().complete(model_input, emit)
        assert reply is not None
        return reply


class Buffering(Conforming):
    """Shows no text before it has all of it (R2)."""

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        parts: list[Part] = []
        while (part := await answer.next()) is not None:
            if isinstance(part, Text) and parts and isinstance(parts[-1], Text):
                parts[-1] = Text(parts[-1].text + part.text)
            elif isinstance(part, Text) and not parts:
                parts.append(part)
            else:
                break
        assembly = Assembly(emit)
        for known in parts:
            self.take(known, assembly)
        while part is not None:
            self.take(part, assembly)
            part = await answer.next()
        return assembly.reply()


class Trimming(Conforming):
    """Returns its text without the space around it (R2)."""

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        reply = await super().read(answer, emit)
        return msgspec.structs.replace(reply, text=reply.text.strip())


class Trailing(Conforming):
    """Shows one more piece when it has returned (R2)."""

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        reply = await super().complete(model_input, emit)

        async def trail() -> None:
            emit(" ")

        if not reply.calls:
            trio.lowlevel.spawn_system_task(trail)
        return reply


class Unannouncing(Conforming):
    """Never says that a call has begun (R3)."""

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        return await super().read(answer, TextOnly(emit))


class AnnouncingLate(Unannouncing):
    """Says that a call has begun when it is whole (R3)."""

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        reply = await super().read(answer, emit)
        if reply.calls:
            emit.calling()
        return reply


class TextOnly:
    """A stream that leaves the announcements out."""

    def __init__(self, emit: ReplyStream) -> None:
        self._emit = emit

    def __call__(self, text: str, /) -> None:
        self._emit(text)

    def calling(self) -> None:
        """Say nothing."""


class Leaking(Conforming):
    """Lets the errors of its own library out (R4)."""

    def take(self, part: Part, assembly: Assembly) -> None:
        if isinstance(part, Fault):
            raise ConnectionError(f"peer {part}")
        super().take(part, assembly)


class Lenient(Conforming):
    """Takes a broken answer for a whole one (R4)."""

    def take(self, part: Part, assembly: Assembly) -> None:
        if not isinstance(part, Fault):
            super().take(part, assembly)


class Zeroing(Conforming):
    """Says zero where nothing was said (R5)."""

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        reply = await super().read(answer, emit)
        usage = reply.usage or Usage(input_tokens=0, output_tokens=0)
        return msgspec.structs.replace(reply, usage=usage)


class Merging(Conforming):
    """Adds each piece to the call that began last (R6)."""

    def take(self, part: Part, assembly: Assembly) -> None:
        if isinstance(part, CallPart) and part.call_id in assembly.calls:
            last = list(assembly.calls)[-1]
            part = CallPart(last, part.name, part.json)
        super().take(part, assembly)


class Polishing(Conforming):
    """Sends the texts without the space around them (R7)."""

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        messages = [
            msgspec.structs.replace(message, text=message.text.strip())
            for message in model_input.messages
        ]
        polished = msgspec.structs.replace(model_input, messages=tuple(messages))
        return await super().complete(polished, emit)


class Sharing(Conforming):
    """Reads on where an interrupted request was left, as on a connection that all share (R8)."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self._left: Answer | None = None

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        with ExitStack() as stack:
            answer = stack.enter_context(self.scenario.asked(model_input))
            assembly = Assembly(emit)
            while self._left is not None and (part := await self._left.next()) is not None:
                self.take(part, assembly)
            try:
                while (part := await answer.next()) is not None:
                    self.take(part, assembly)
            except trio.Cancelled:
                self._left = answer
                raise
            return assembly.reply()


class Insisting(Conforming):
    """Sends a request again though text has been shown (R9)."""

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        try:
            return await super().complete(model_input, emit)
        except GatewayFailed:
            return await super().complete(model_input, emit)


class Eager(Conforming):
    """Sends a request to warm up (R9)."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        if scenario.name == "one_request":
            with scenario.asked(ModelInput(messages=())):
                pass


class Mixing(Conforming):
    """Keeps what it reads in one place for all requests (R10)."""

    async def read(self, answer: Answer, emit: ReplyStream) -> Reply:
        self._assembly = Assembly(emit)
        while (part := await answer.next()) is not None:
            self.take(part, self._assembly)
        return self._assembly.reply()


def opening(adapter: Callable[[Scenario], Gateway]) -> Make:
    """Return what opens the adapter on a scenario."""

    @asynccontextmanager
    async def make(scenario: Scenario) -> AsyncGenerator[Gateway, None]:
        yield adapter(scenario)

    return make
