"""The provider's quota: so many at once, so many a minute, first come first served."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import ModelInput, ModelMessage, Reply, ReplyStream
from counterpoint.runtime.gateways.quota import WithQuota


class Slow:
    """A provider that takes ten seconds, and notes when each request came."""

    name = "slow"

    def __init__(self) -> None:
        self.came: list[tuple[str, float]] = []
        self.under_way = 0
        self.most = 0

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        del emit
        self.came.append((model_input.messages[0].text, trio.current_time()))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        with trio.move_on_after(10):
            await trio.sleep_forever()
        self.under_way -= 1
        return Reply(text="done")


class Deaf:
    def __call__(self, text: str, /) -> None:
        del text

    def calling(self) -> None:
        """Nothing to do."""


async def send(gateway: WithQuota, count: int) -> None:
    async with trio.open_nursery() as nursery:
        for n in range(count):
            model_input = ModelInput(messages=(ModelMessage(role="user", text=str(n)),))
            nursery.start_soon(gateway.complete, model_input, Deaf())
            await trio.lowlevel.checkpoint()  # so that they come one after the other


@pytest.mark.contract("B44")
async def test_only_so_many_are_under_way_at_once(autojump_clock: MockClock) -> None:
    provider = Slow()
    gateway = WithQuota(provider, concurrent_max=2)
    await send(gateway, 5)
    assert provider.most == 2
    began = provider.came[0][1]
    assert [round(at - began) for _, at in provider.came] == [0, 0, 10, 10, 20]
    assert gateway.name == "slow"


@pytest.mark.contract("B44")
async def test_only_so_many_begin_in_any_minute(autojump_clock: MockClock) -> None:
    provider = Slow()
    began = trio.current_time()
    await send(WithQuota(provider, per_minute_max=2), 5)
    assert [round(at - began) for _, at in provider.came] == [0, 0, 60, 60, 120]


async def test_who_leaves_while_waiting_sends_nothing(autojump_clock: MockClock) -> None:
    provider = Slow()
    gateway = WithQuota(provider, concurrent_max=1, per_minute_max=1)
    await send(gateway, 1)
    with trio.move_on_after(5):
        await send(gateway, 1)
    assert len(provider.came) == 1
    await send(gateway, 1)
    assert len(provider.came) == 2


@pytest.mark.parametrize("bound", [{"concurrent_max": 0}, {"per_minute_max": -1}])
def test_a_bound_must_let_something_through(bound: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        WithQuota(Slow(), **bound)
