"""One background run whose agent carries out one effect after one request."""

from collections.abc import Awaitable, Callable

from counterpoint.runtime import RunContext, Turn
from counterpoint.runtime.effect import EffectResult
from counterpoint.runtime.gateways import ScriptedGateway, say

from ..runtime.stage import Agents, answers, as_input

Act = Callable[[Turn], Awaitable[EffectResult]]


class Acts:
    """An agent that asks once, then does what `act` says, and completes."""

    def __init__(self, act: Act) -> None:
        self.results: list[EffectResult] = []
        self._act = act

    async def __call__(self, run: RunContext) -> None:
        gateway = ScriptedGateway(say("Let me.", lasting=True))
        async for turn in run.turns():
            await turn.request(gateway, lambda added: as_input(run, added))
            self.results.append(await self._act(turn))
            await run.complete("Done.")


def agents(acts: Acts) -> Agents:
    return {"short": answers, "background": acts}
