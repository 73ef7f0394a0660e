"""One check of a gateway: a scenario, the adapter in it, and what the check notes down."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import trio
import trio.testing

from ..gateways.protocol import Gateway, ModelInput, Reply
from ..gateways.scripted import Gate
from .gateway_rules import Breach, Rule
from .scenario import Scenario, Script, Step

Make = Callable[[Scenario], AbstractAsyncContextManager[Gateway]]
"""Opens the host's adapter, connected to a stand-in for the provider that plays the scenario."""


class Attempt:
    """One call of `complete`, and what became of it. It is its own `ReplyStream`."""

    def __init__(self, model_input: ModelInput) -> None:
        self.model_input = model_input
        self.told: list[str | None] = []
        """The pieces of text that were shown; None stands for `calling()`."""
        self.reply: Reply | None = None
        self.error: Exception | None = None
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self._news = trio.Event()

    def __call__(self, text: str, /) -> None:
        self._tell(text)

    def calling(self) -> None:
        self._tell(None)

    def _tell(self, told: str | None) -> None:
        self.told.append(told)
        self._news.set()
        self._news = trio.Event()

    @property
    def text(self) -> str:
        """All the text that was shown."""
        return "".join(piece for piece in self.told if piece is not None)

    async def heard(self) -> None:
        """Wait until something was told, or the attempt has ended."""
        while not self.told and not self.ended.is_set():
            await self._news.wait()

    async def shows(self, text: str) -> None:
        """Wait until as much text was shown, or the attempt has ended."""
        while len(self.text) < len(text) and not self.ended.is_set():
            await self._news.wait()

    async def fly(self, gateway: Gateway) -> None:
        """Call the gateway, and keep what it returns or raises."""
        try:
            with self.scope:
                self.reply = await gateway.complete(self.model_input, self)
        except Exception as error:  # noqa: BLE001 — an adapter is the host's code: it is judged for this
            self.error = error
        finally:
            self.ended.set()
            self._news.set()

    def became(self) -> str:
        """Say what became of it."""
        if self.error is not None:
            return f"raised {type(self.error).__name__}: {str(self.error)[:200]}"
        if self.reply is not None:
            return f"returned the text {self.reply.text[:80]!r}"
        return "was cancelled" if self.scope.cancelled_caught else "did not end"


class Trial:
    """What a check works with, and notes its findings in."""

    def __init__(self, check: Check, make: Make, patience_s: float) -> None:
        self.breaches: list[Breach] = []
        self.patience_s = patience_s
        self._check = check
        self._make = make
        self._gates: list[Gate] = []

    def gate(self) -> Gate:
        """Return a point for the provider to wait at, until the check releases it or ends."""
        gate = Gate()
        self._gates.append(gate)
        return gate

    def breach(self, sentence: str) -> None:
        """Note that the rule is broken."""
        self.breaches.append(Breach(self._check.rule, self._check.name, sentence))

    def scenario(self, script: Script) -> Scenario:
        return Scenario(self._check.name, self._check.sentence, script)

    @asynccontextmanager
    async def opened(self, scenario: Scenario, *attempts: Attempt) -> AsyncGenerator[Gateway, None]:
        """Open the adapter and let the attempts begin; at the end the provider waits no more."""
        async with self._make(scenario) as gateway, trio.open_nursery() as nursery:
            for attempt in attempts:
                nursery.start_soon(attempt.fly, gateway)
            try:
                yield gateway
            finally:
                for gate in self._gates:
                    gate.release()

    async def one(self, model_input: ModelInput, *steps: Step) -> tuple[Attempt, Scenario]:
        """Let one request be answered by `steps`, and the same to every further one."""
        scenario = self.scenario(lambda _, __: steps)
        attempt = Attempt(model_input)
        async with self.opened(scenario, attempt):
            await self.ends(attempt)
        return attempt, scenario

    async def reply(self, model_input: ModelInput, *steps: Step) -> Attempt | None:
        """Return the attempt if it ends with a reply; note a breach and return None if not."""
        attempt, _ = await self.one(model_input, *steps)
        if attempt.reply is None:
            self.breach(f"It {attempt.became()}, where the answer had nothing wrong with it.")
            return None
        return attempt

    async def in_time(self, what: Callable[[], Awaitable[object]]) -> bool:
        """Wait for `what`; False if it takes longer than the suite's patience."""
        with trio.move_on_after(self.patience_s) as scope:
            await what()
        return not scope.cancelled_caught

    async def ends(self, attempt: Attempt) -> None:
        """Wait for the attempt's end, and cut it off if it takes too long."""
        if not await self.in_time(attempt.ended.wait):
            attempt.scope.cancel()

    async def fly(self, attempt: Attempt, gateway: Gateway) -> None:
        """Let the attempt run to its end here, and cut it off if it takes too long."""
        with trio.move_on_after(self.patience_s):
            await attempt.fly(gateway)

    async def settle(self) -> None:
        """Let whatever else is going on come to rest, so that what comes late has come."""
        await self.in_time(trio.testing.wait_all_tasks_blocked)


class Check(msgspec.Struct, frozen=True):
    """One check: what the provider does, and the rule that the adapter is held to meanwhile."""

    name: str
    rule: Rule
    sentence: str
    play: Callable[[Trial], Awaitable[None]]

    def __str__(self) -> str:
        return self.name
