"""What a gateway is: the adapter between a run's request and a model provider.

A gateway turns one `ModelInput` into one `Reply`. It knows nothing of runs, revisions or
budgets: the run's gate decides whether a request may go out, records it before it does,
and records what became of it (contract B60-B66, C11, C21).
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

Role = Literal["system", "user", "assistant", "tool"]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call that a model asks for."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class ModelMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a model's input, in the provider's usual roles."""

    role: Role
    text: str
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    """For role `tool`: which call this is the result of."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a model may call, as it is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of the arguments, which are an object."""


class ModelInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The exact input of one request: what is hashed, recorded and may be exported (C11)."""

    messages: tuple[ModelMessage, ...]
    tools: tuple[Tool, ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider says a request took, in tokens."""

    input_tokens: int
    output_tokens: int


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A completed request. `usage` is None where it was not observed, never zero (C33)."""

    text: str
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None

    @property
    def final(self) -> bool:
        """True if the model asks for nothing more."""
        return not self.calls


class GatewayFailed(Exception):
    """The provider answered with an error, or not in a form that can be used.

    The request is recorded as failed with this sentence; the run may make another one
    within its budget.
    """


class ReplyStream(Protocol):
    """Where a gateway tells how a reply comes in. Both methods return at once."""

    def __call__(self, text: str, /) -> None:
        """Take one more piece of the answer's text; subscribers see it, marked not durable."""
        ...

    def calling(self) -> None:
        """Hear that the model has begun a tool call: from here on a steering no longer cuts
        the request, because the call may be whole in a moment (B61)."""
        ...


class Gateway(Protocol):
    """An adapter to one model provider. Called in the trio loop."""

    @property
    def name(self) -> str:
        """A short name for records and for people, such as `scripted`."""
        ...

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        """Send one request and return its reply.

        Call `emit(text)` with the pieces of the answer as they stream in, and
        `emit.calling()` when a tool call begins. Raise `GatewayFailed` for a provider's
        fault. On cancellation stop reading and let `trio.Cancelled` pass: the run's gate
        knows why the request was interrupted, and an adapter that translates the
        cancellation into an error of its own flattens that reason (B63, B64, C21).
        """
        ...
