"""What an agent's author writes against.

An agent is one async function. It takes turns; in each it may send a request to a model and
carry out effects; at the end it completes the run:

    async def research(run: RunContext) -> None:
        notes = run.restore(Notes) or Notes()
        async for turn in run.turns():
            reply = await turn.request(gateway, lambda revisions: prompt(run, notes, revisions))
            for call in reply.calls:
                result = await turn.effect(call.name, call.arguments, do=tools[call.name])
                notes.add(call, result)
            await run.save(notes)
            if reply.final:
                await run.complete(reply.text)

The loop ends by itself once the run has ended. If a steering came in just before the end,
`complete` publishes nothing and returns False, and the loop takes one more turn (C10). An
agent that uses only this can't break what the contract promises.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar, overload

import msgspec

from ..actors.causes import in_words
from ..actors.environment import Executor
from ..actors.flight import Flight
from ..actors.run import RunActor
from ..store import requests
from ..store.history import Snapshot
from ..store.ids import ConversationId, RunId, ScopeId
from ..store.limits import Limits
from ..store.records import Depth, Repeat, Request, RequestState
from ..store.revisions import Words as Revision
from . import validation
from .effect import EffectResult, Reconcile, RepeatClass, Undertaking, carry_out
from .gateways.pairing import paired
from .gateways.protocol import Gateway, GatewayFailed, ModelInput, Reply

S = TypeVar("S")

AgentFunction = Callable[["RunContext"], Awaitable[None]]
"""An agent: an async function of its run. It returns once the run has ended."""


class Agent(msgspec.Struct, frozen=True):
    """An agent with what its author decides beforehand. A bare function means the defaults."""

    function: AgentFunction
    when_steered: Literal["cut", "after_request"] = "cut"
    """`cut`: a saved revision interrupts the request in flight, as long as only text has
    streamed and no tool call has begun; the next request carries everything (B61, B62).
    `after_request`: the request is always waited for."""
    on_owner_loss: Literal["interrupt", "resume"] = "interrupt"
    """`resume`: a run whose process died is entered again from its last checkpoint; committed
    effects are read back, unknown ones are treated by their class (C26, D13).
    `interrupt`: it ends as interrupted, and what it committed is kept."""


Build = Callable[[tuple[Revision, ...]], ModelInput]
"""Makes a request's input from the revisions so far. It must be pure: it is called again if
one more revision was saved before the request could be recorded (C12)."""

_json = msgspec.json.Encoder(order="deterministic")


class RevisionNotCarried(Exception):
    """An agent built an input in which a revision's words do not stand verbatim as the
    user's. Nothing was sent: the agent must put `revision.text` into a user message (C11).
    """


class Turn:
    """One turn of an agent's loop."""

    def __init__(self, actor: RunActor, limits: Limits, number: int) -> None:
        self._actor = actor
        self._limits = limits
        self.number = number
        self._seen = actor.seen()

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """Every accepted steering that stands, oldest first, in its own words: as of this
        turn's newest request, or of the turn's begin."""
        return self._seen.words

    async def request(self, gateway: Gateway, build: Build) -> Reply:
        """Send one request that carries every revision saved by now, and return its reply.

        The request is recorded before it is sent, with the hash of its exact input and the
        revisions that it carries; afterwards `self.revisions` are those. If the run is cut
        meanwhile, the request's outcome is recorded with the reason.

        Raises:
          RevisionNotCarried: the input lacks a revision's words; nothing was sent.
          GatewayFailed: the provider's fault; the request is recorded as failed.
          GateClosed, BudgetSpent, OwnerLost: nothing was sent. Let them pass.
        """
        while True:
            opened, model_input = await self._record_request(gateway, build)
            reply = await self._fly(gateway, opened, model_input)
            if reply is not None:
                return reply

    async def _record_request(self, gateway: Gateway, build: Build) -> tuple[Request, ModelInput]:
        """Record a request that carries all that is saved; build it again until it does."""
        while True:
            self._seen = self._actor.seen()
            model_input = paired(build(self.revisions))
            _must_carry(model_input, self.revisions)
            data = _json.encode(model_input)
            validation.fits("model_input", len(data), self._limits.input_bytes_max)
            opened = await self._actor.begin_request(
                gateway.name, data, hashlib.sha256(data).digest(), self._seen
            )
            if not isinstance(opened, requests.Stale):
                return opened, model_input

    async def _fly(
        self, gateway: Gateway, request: Request, model_input: ModelInput
    ) -> Reply | None:
        """Send a recorded request and record its outcome; None if a steering cut it."""
        flight = self._actor.take_off(request)
        reply: Reply | None = None
        fault: Exception | None = None
        try:
            with flight.scope:
                reply = await gateway.complete(model_input, flight)
        except Exception as error:  # noqa: BLE001 — an adapter is the host's code: raised again below
            fault = error
        finally:
            self._actor.land()
        await self._actor.end_request(request.ordinal, _outcome(flight, reply, fault))
        if fault is not None and flight.reason is None:
            raise fault
        return reply

    @overload
    async def effect(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[[dict[str, Any]], Awaitable[Any]],
        repeat: Literal["read"] = "read",
        time_limit_s: float | None = None,
    ) -> EffectResult: ...

    @overload
    async def effect(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[[dict[str, Any], str], Awaitable[Any]],
        repeat: Literal["idempotent", "once"],
        time_limit_s: float | None = None,
    ) -> EffectResult: ...

    @overload
    async def effect(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[[dict[str, Any], str], Awaitable[Any]],
        repeat: Literal["reconcilable"],
        reconcile: Reconcile,
        time_limit_s: float | None = None,
    ) -> EffectResult: ...

    async def effect(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[..., Awaitable[Any]],
        repeat: RepeatClass = "read",
        reconcile: Reconcile | None = None,
        time_limit_s: float | None = None,
    ) -> EffectResult:
        """Carry out `do` as an effect of this run, and return what became of it.

        Its intent is durable before it starts, and its result before this returns (C27). It
        does not start if a revision was saved since this turn's request: the result then
        says `skipped`, so that the next request can pair it with its call (C13).

        `repeat` declares how it may be repeated; see `effect.py`. A read is called as
        `do(arguments)`, everything else as `do(arguments, operation_id)`: pass the operation
        id on to the outside. What `do` raises becomes a result with the status `failed`;
        let it raise `OutcomeUnknown` if it can't tell whether it happened. `arguments` and
        what `do` returns must be JSON. The default of `time_limit_s` is
        `limits.effect_ms_max`.

        An agent that is entered again gets the result that the same effect had before (C28).

        Raises:
          GateClosed, BudgetSpent, OwnerLost: it was not started. Let them pass.
        """
        values = dict(arguments)

        def bound(operation_id: str) -> Awaitable[Any]:
            return do(values) if repeat == "read" else do(values, operation_id)

        undertaking = Undertaking(
            name=name,
            arguments=values,
            repeat=Repeat(repeat),
            do=bound,
            reconcile=reconcile,
            time_limit_s=time_limit_s or self._limits.effect_ms_max / 1000,
        )
        return await carry_out(self._actor, self._limits, undertaking, self._seen.revision)


def _outcome(flight: Flight, reply: Reply | None, fault: Exception | None) -> requests.Outcome:
    """Name what became of a request. A reply that came in spite of a cut is a reply."""
    if reply is not None:
        usage = reply.usage
        return requests.Outcome(
            state=RequestState.COMPLETED,
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
        )
    if flight.reason is not None:  # whatever the adapter made of it (C21)
        return requests.Outcome(state=RequestState.INTERRUPTED, reason=str(flight.reason))
    assert fault is not None
    known = isinstance(fault, GatewayFailed)
    reason = in_words(fault)
    if known:
        reason = reason.removeprefix(f"{type(fault).__name__}: ")
    return requests.Outcome(state=RequestState.FAILED, reason=reason)


def _must_carry(model_input: ModelInput, revisions: tuple[Revision, ...]) -> None:
    said = [message.text for message in model_input.messages if message.role == "user"]
    for revision in revisions:
        if not any(revision.text in text for text in said):
            raise RevisionNotCarried(
                f"Revision {revision.number} does not stand verbatim in a user message of the "
                "request's input; nothing was sent. Put revision.text into one."
            )


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may still use (B44)."""

    requests: int
    effects: int
    tokens: int
    seconds: float


class _Turns:
    """An iterator and no generator: an agent that is cut leaves its loop midway, and would
    have to close one."""

    def __init__(self, actor: RunActor, limits: Limits) -> None:
        self._actor = actor
        self._limits = limits
        self._number = 0

    def __aiter__(self) -> _Turns:
        return self

    async def __anext__(self) -> Turn:
        if self._actor.ended:
            raise StopAsyncIteration
        self._number += 1
        return Turn(self._actor, self._limits, self._number)


class RunContext:
    """One run, as its agent sees it. Used in the agent's own task."""

    def __init__(self, actor: RunActor, limits: Limits) -> None:
        self._actor = actor
        self._limits = limits
        self.run_id: RunId = actor.run.run
        self.conversation_id: ConversationId = actor.run.conversation
        self.scope: ScopeId = actor.run.scope
        self.request: str = actor.request_text
        """The words that the run was started with, verbatim."""
        self.depth: Depth = actor.run.depth

    @property
    def run_class(self) -> str:
        """The class of the slot that the run holds: `short` or `background`."""
        return self._actor.run_class

    @property
    def left(self) -> Left:
        """What the run may still use; steering adds nothing to it (C16)."""
        run, seconds = self._actor.now(), self._actor.seconds_left()
        return Left(
            requests=run.budget.requests_max - run.requests,
            effects=run.budget.effects_max - run.effects,
            tokens=max(0, run.budget.tokens_max - run.tokens),
            seconds=max(0.0, seconds),
        )

    @property
    def history(self) -> Snapshot:
        """What the run may see of its conversation: fixed at its admission, and bounded."""
        return self._actor.history()

    def restore(self, kind: type[S]) -> S | None:
        """Return the last checkpoint, or None if none was saved.

        Raises:
          msgspec.ValidationError: what was saved is not a `kind`.
        """
        data = self._actor.restored
        return None if data is None else msgspec.msgpack.decode(data, type=kind)

    def turns(self) -> AsyncIterator[Turn]:
        """Iterate over turns until the run has ended."""
        return _Turns(self._actor, self._limits)

    async def progress(self, text: str) -> None:
        """Record what the run is doing, in words for a person; cut at the limit."""
        data = text.encode()[: self._limits.progress_bytes_max]
        await self._actor.note_progress(data.decode(errors="ignore"))

    def emit(self, text: str) -> None:
        """Stream a piece of the answer to those who listen now; it is not durable."""
        self._actor.stream(text)

    def draft(self, text: str) -> None:
        """Set what is published if the run is cut for time or budget, or its host goes.

        Raises:
          Refused: `too_large`.
        """
        validation.fits("draft", len(text.encode()), self._limits.answer_bytes_max)
        self._actor.draft = text

    async def save(self, state: Any) -> None:
        """Replace the run's checkpoint by `state`, which msgspec must be able to encode.

        Raises:
          Refused: `too_large`.
        """
        data = msgspec.msgpack.encode(state)
        validation.fits("checkpoint", len(data), self._limits.checkpoint_bytes_max)
        await self._actor.save(data)

    async def promote(self) -> bool:
        """Move this run into the background; False if that is full and it stays short (D10)."""
        return await self._actor.promote() is None

    async def complete(self, text: str) -> bool:
        """Publish the answer and end the run, in one transaction (D16).

        Return False if a steering wants one more turn first; nothing was published then.

        Raises:
          Refused: `too_large`.
        """
        validation.fits("answer", len(text.encode()), self._limits.answer_bytes_max)
        return await self._actor.complete(text)


def carried_out_by(agent: AgentFunction | Agent, limits: Limits) -> Executor:
    """Return `agent` as the actors use it."""
    spec = agent if isinstance(agent, Agent) else Agent(agent)

    def execute(actor: RunActor) -> Awaitable[None]:
        return spec.function(RunContext(actor, limits))

    return Executor(
        execute=execute,
        cuts_for_steering=spec.when_steered == "cut",
        resumes=spec.on_owner_loss == "resume",
    )
