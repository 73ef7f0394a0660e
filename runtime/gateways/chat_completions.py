"""Chat completions on the wire: a request's body, and a reply put together from its chunks.

Nothing here reads or waits. A chunk is a JSON object with `choices[0].delta`; a tool call
comes in pieces, told apart by their `index`; usage comes in a last chunk without choices.
Providers differ in small things, and what can be understood is: an index left out or used
twice, `null` in place of what is absent, an error in place of a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .protocol import Call, ModelInput, ModelMessage, Reply, ReplyStream, Tool, Usage

CALLS_MAX: Final = 128
PASSING_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""What a provider answers when the same request may succeed later."""


class ProviderFault(Exception):
    """What is wrong with an answer, in a sentence that may hold the provider's own words.

    `passing`: the same request may succeed later. `after_s`: when, if the provider said so.
    """

    def __init__(
        self, sentence: str, *, passing: bool = False, after_s: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.passing = passing
        self.after_s = after_s


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


class _Refusal(msgspec.Struct):
    error: Any = None


class _Error(msgspec.Struct):
    message: str
    code: Any = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


_UNREADABLE: Final = (msgspec.DecodeError, RecursionError)

_chunks: Final = msgspec.json.Decoder(_Chunk)
_arguments: Final = msgspec.json.Decoder(dict[str, Any])


def request_body(model: str, model_input: ModelInput, extra: Mapping[str, Any]) -> bytes:
    """Return the body of a request. What stands as None in `extra` is left out."""
    body: dict[str, Any] = {
        "stream_options": {"include_usage": True},
        **extra,
        "model": model,
        "messages": [_message(message) for message in model_input.messages],
        "stream": True,
    }
    if model_input.tools:
        body["tools"] = [_tool(tool) for tool in model_input.tools]
    return msgspec.json.encode({name: value for name, value in body.items() if value is not None})


def _message(message: ModelMessage) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        said["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": msgspec.json.encode(call.arguments).decode(),
                },
            }
            for call in message.calls
        ]
    if message.call_id is not None:
        said["tool_call_id"] = message.call_id
    return said


def _tool(tool: Tool) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def error_in(body: bytes) -> str:
    """Return what the body of a refusal says: the message of its error, or all of it."""
    try:
        answer = msgspec.json.decode(body, type=_Refusal)
    except _UNREADABLE:
        return body.decode(errors="replace")
    return body.decode() if answer.error is None else _error_words(answer.error)


def _error_words(error: Any) -> str:
    if isinstance(error, str):
        return error
    try:
        return msgspec.convert(error, _Error).message
    except msgspec.ValidationError:
        return msgspec.json.encode(error).decode()


class _CallInParts:
    """A tool call in the making."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []

    def whole(self) -> Call:
        if not self.call_id or not self.name:
            raise ProviderFault("The provider sent a tool call without an id or a name.")
        text = "".join(self.arguments)
        try:
            arguments = _arguments.decode(text or "{}")
        except _UNREADABLE as error:
            raise ProviderFault(
                f"The arguments of the provider's call of {self.name!r} are no JSON object."
            ) from error
        return Call(call_id=self.call_id, name=self.name, arguments=arguments)


class Assembly:
    """A reply in the making, of at most `reply_bytes_max` bytes of text and arguments."""

    def __init__(self, emit: ReplyStream, reply_bytes_max: int) -> None:
        self._emit = emit
        self._bytes_left = reply_bytes_max
        self._text: list[str] = []
        self._calls: list[_CallInParts] = []
        self._at: dict[int | None, _CallInParts] = {}
        self._usage: Usage | None = None
        self._finish: str | None = None

    @property
    def begun(self) -> bool:
        """Whether anything of an answer has been told."""
        return bool(self._text or self._calls)

    def take(self, data: bytes) -> None:
        """Take one chunk, and tell what it adds.

        Raises:
          ProviderFault: it can't be used, or says that the provider failed.
        """
        try:
            chunk = _chunks.decode(data)
        except _UNREADABLE as error:
            raise ProviderFault(
                "The provider sent something that is no chunk of a reply."
            ) from error
        if chunk.error is not None:
            raise _broken_off(chunk.error)
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        for choice in (chunk.choices or [])[:1]:
            self._finish = choice.finish_reason or self._finish
            if choice.delta is not None:
                self._take_delta(choice.delta)

    def _take_delta(self, delta: _Delta) -> None:
        for text in (delta.content, delta.refusal):
            if text:
                self._weigh(text)
                self._text.append(text)
                self._emit(text)
        for piece in delta.tool_calls or ():
            if not self._calls:
                self._emit.calling()
            self._take_piece(piece)

    def _take_piece(self, piece: _CallPiece) -> None:
        call = self._at.get(piece.index)
        if call is None or (piece.id and call.call_id and piece.id != call.call_id):
            if len(self._calls) == CALLS_MAX:
                raise ProviderFault(f"The provider sent more than {CALLS_MAX} tool calls.")
            call = self._at[piece.index] = _CallInParts()
            self._calls.append(call)
        call.call_id = call.call_id or piece.id or ""
        if piece.function is not None:
            call.name = call.name or piece.function.name or ""
            if piece.function.arguments:
                self._weigh(piece.function.arguments)
                call.arguments.append(piece.function.arguments)

    def _weigh(self, text: str) -> None:
        self._bytes_left -= len(text.encode())
        if self._bytes_left < 0:
            raise ProviderFault("The provider's reply is larger than this gateway takes.")

    def reply(self) -> Reply:
        """Return the whole reply.

        Raises:
          ProviderFault: it is empty, or a call of it can't be used.
        """
        calls = tuple(call.whole() for call in self._calls)
        if len({call.call_id for call in calls}) < len(calls):
            raise ProviderFault("The provider sent two tool calls with the same id.")
        text = "".join(self._text)
        if not text and not calls:
            ended = f" It ended with: {self._finish}." if self._finish else ""
            raise ProviderFault(f"The provider gave an empty answer.{ended}")
        return Reply(text=text, calls=calls, usage=self._usage)


def _usage(told: Any) -> Usage | None:
    """Return the usage, or None if it can't be read: it was not observed then (C33)."""
    try:
        usage = msgspec.convert(told, _Usage)
    except msgspec.ValidationError:
        return None
    if usage.prompt_tokens < 0 or usage.completion_tokens < 0:
        return None
    return Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)


def _broken_off(error: Any) -> ProviderFault:
    try:
        code = msgspec.convert(error, _Error).code
    except msgspec.ValidationError:
        code = None
    return ProviderFault(
        f"The provider broke off: {_error_words(error)}",
        passing=isinstance(code, int) and code in PASSING_STATUSES,
    )
