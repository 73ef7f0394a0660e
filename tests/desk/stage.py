"""A run for the desk's agents to play on: turns, effects and steerings, without a store.

It keeps the rules of `counterpoint.runtime.agent` that matter to an agent: a request carries
every revision saved by now, in its own words; an effect decided under an older revision is
skipped; `complete` says False while a revision has not been carried.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from counterpoint.runtime.agent import Build
from counterpoint.runtime.effect import EffectResult
from counterpoint.runtime.gateways.protocol import Gateway, ModelInput, Reply
from counterpoint.store.revisions import Words

S = TypeVar("S")


class StagedRun:
    """One run. `before` and `within` map a turn or an effect to what is steered in there."""

    def __init__(
        self,
        request: str,
        *,
        depth: str = "normal",
        before: Mapping[int, str] | None = None,
        within: Mapping[str, str] | None = None,
        at_the_end: str = "",
        checkpoint: bytes | None = None,
        turns_max: int = 40,
    ) -> None:
        self.request = request
        self.depth = depth
        self.revisions: list[Words] = []
        self.inputs: list[ModelInput] = []
        self.effects: list[tuple[str, dict[str, Any], str]] = []
        self.said: list[str] = []
        self.checkpoint = checkpoint
        self.answer: str | None = None
        self._before = dict(before or {})
        self._within = dict(within or {})
        self._at_the_end = at_the_end
        self._turns_max = turns_max

    def steer(self, text: str) -> None:
        self.revisions.append(Words(number=len(self.revisions) + 1, text=text, at_ms=0))

    def restore(self, kind: type[S]) -> S | None:
        data = self.checkpoint
        return None if data is None else msgspec.msgpack.decode(data, type=kind)

    async def turns(self) -> AsyncIterator[StagedTurn]:
        for number in range(1, self._turns_max + 1):
            if self.answer is not None:
                return
            if number in self._before:
                self.steer(self._before[number])
            yield StagedTurn(self)
        raise AssertionError(f"no end after {self._turns_max} turns")

    async def progress(self, text: str) -> None:
        self.said.append(text)

    async def save(self, state: Any) -> None:
        self.checkpoint = msgspec.msgpack.encode(state)

    async def complete(self, text: str) -> bool:
        if self._at_the_end:
            self.steer(self._at_the_end)
            self._at_the_end = ""
            return False
        self.answer = text
        return True

    def steered_within(self, name: str) -> None:
        if name in self._within:
            self.steer(self._within.pop(name))


class Silence:
    """A stream that nobody listens to."""

    def __call__(self, text: str, /) -> None: ...

    def calling(self) -> None: ...


class StagedTurn:
    """One turn of a `StagedRun`."""

    def __init__(self, run: StagedRun) -> None:
        self._run = run
        self._seen = tuple(run.revisions)

    @property
    def revisions(self) -> tuple[Words, ...]:
        return self._seen

    async def request(self, gateway: Gateway, build: Build) -> Reply:
        self._seen = tuple(self._run.revisions)
        model_input = build(self.revisions)
        said = [message.text for message in model_input.messages if message.role == "user"]
        assert said == [self._run.request, *(revision.text for revision in self.revisions)]
        _assert_paired(model_input)
        self._run.inputs.append(model_input)
        return await gateway.complete(model_input, Silence())

    async def effect(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[[dict[str, Any]], Awaitable[Any]],
        repeat: Literal["read"] = "read",
    ) -> EffectResult:
        self._run.steered_within(name)
        values = dict(arguments)
        status: Literal["done", "skipped", "failed"] = "done"
        value: Any = None
        reason = ""
        if len(self._run.revisions) > len(self.revisions):
            status, reason = "skipped", "a revision came in"
        else:
            try:
                value = await do(values)
            except Exception as error:  # noqa: BLE001 — as the runtime does
                status, reason = "failed", f"{type(error).__name__}: {error}"
        self._run.effects.append((name, values, status))
        return EffectResult(
            status=status, operation_id=str(len(self._run.effects)), value=value, reason=reason
        )


def _assert_paired(model_input: ModelInput) -> None:
    """Every call is followed by its result before anybody else speaks."""
    waiting: list[str] = []
    for message in model_input.messages:
        if message.role == "tool":
            assert message.call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call.call_id for call in message.calls]
    assert not waiting
