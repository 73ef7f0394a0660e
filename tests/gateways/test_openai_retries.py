"""A request that can't be taken for the moment is sent again, within the time that is left.

Method: a transport without a wire plays the provider, on a clock that jumps, so that every
pause can be read from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import GatewayFailed, Reply
from counterpoint.runtime.gateways.openai import OpenAICompatible

from .stage import Told, asked

TEA = httpx.Response(
    200,
    headers={"Content-Type": "text/event-stream"},
    content=b'data: {"choices": [{"delta": {"content": "Tea."}}]}\n\ndata: [DONE]\n\n',
)

Turn = httpx.Response | Exception


def busy(status: int = 429, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


class Provider:
    """Takes its turns in order, the last one for ever, and notes when."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.came: list[float] = []
        self.began = trio.current_time()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.came.append(trio.current_time() - self.began)
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, Exception):
            raise turn
        return httpx.Response(turn.status_code, headers=turn.headers, content=turn.content)


async def complete(provider: Provider, **settings: Any) -> Reply:
    transport = httpx.MockTransport(provider)
    async with OpenAICompatible(
        "http://provider/v1", "m", transport=transport, **settings
    ) as gateway:
        return await gateway.complete(asked(), Told())


ERROR_IN_STREAM = httpx.Response(
    200,
    headers={"Content-Type": "text/event-stream"},
    content=b'data: {"error": {"message": "busy", "code": 502}}\n\n',
)
NOTHING = httpx.Response(200, headers={"Content-Type": "text/event-stream"})

# fmt: off
PAUSES: dict[str, tuple[list[Turn], list[float]]] = {
    "its own": ([busy(), busy(503), TEA], [0, 0.5, 1.5]),
    "in seconds": ([busy(Retry_After="7"), TEA], [0, 7]),
    "as a date": ([busy(Retry_After="Tue, 01 Dec 2026 12:01:40 GMT",
                        Date="Tue, 01 Dec 2026 12:00:00 GMT"), TEA], [0, 100]),
    "unreadable": ([busy(Retry_After="soon"), TEA], [0, 0.5]),
    "in seconds, then its own": ([busy(Retry_After="7"), busy(), TEA], [0, 7, 8]),
    "no connection": ([httpx.ConnectError("refused"), TEA], [0, 0.5]),
    "too slow": ([httpx.ConnectTimeout(""), httpx.ReadTimeout(""), TEA], [0, 0.5, 1.5]),
    "hung up": ([httpx.RemoteProtocolError("Server disconnected."), TEA], [0, 0.5]),
    "an error in the stream": ([ERROR_IN_STREAM, TEA], [0, 0.5]),
    "a stream of nothing": ([NOTHING, TEA], [0, 0.5]),
    "other statuses": ([*[busy(status, Retry_After="1") for status in (408, 500, 502, 529)], TEA],
                       [0, 1, 2, 3, 4]),
}
# fmt: on


@pytest.mark.parametrize(("turns", "came"), PAUSES.values(), ids=PAUSES)
async def test_a_request_is_sent_again_after_the_pause(
    turns: Sequence[Turn], came: list[float], autojump_clock: MockClock
) -> None:
    provider = Provider(*turns)
    assert (await complete(provider)).text == "Tea."
    assert provider.came == came


@pytest.mark.contract("C50")
async def test_it_is_sent_so_often_and_no_more(autojump_clock: MockClock) -> None:
    provider = Provider(busy(503))
    with pytest.raises(GatewayFailed) as caught:
        await complete(provider)
    assert provider.came == [0, 0.5, 1.5, 3.5, 7.5]
    assert (
        str(caught.value) == "The provider answered 503: Service Unavailable. It was tried 5 times."
    )

    never_again = Provider(busy(503))
    with pytest.raises(GatewayFailed, match="answered 503"):
        await complete(never_again, retries_max=0)
    assert len(never_again.came) == 1


@pytest.mark.contract("B44")
@pytest.mark.parametrize(("pause", "left_s"), [("30", 30.0), ("31", 30.0), (None, 0.5)])
async def test_a_retry_that_would_come_too_late_fails_at_once(
    pause: str | None, left_s: float, autojump_clock: MockClock
) -> None:
    headers = {} if pause is None else {"Retry_After": pause}
    provider = Provider(busy(429, **headers), TEA)
    began = trio.current_time()
    with (
        trio.fail_after(left_s),
        pytest.raises(GatewayFailed, match="The run has no time left for another try in "),
    ):
        await complete(provider)
    assert trio.current_time() == began
    assert len(provider.came) == 1


async def test_a_retry_that_comes_in_time_is_sent(autojump_clock: MockClock) -> None:
    provider = Provider(busy(Retry_After="29"), TEA)
    with trio.fail_after(30):
        assert (await complete(provider)).text == "Tea."
    assert provider.came == [0, 29]


@pytest.mark.contract("C50")
async def test_a_provider_that_asks_for_a_long_pause_fails_at_once(
    autojump_clock: MockClock,
) -> None:
    for pause in ("121", "inf"):
        provider = Provider(busy(Retry_After=pause), TEA)
        with pytest.raises(GatewayFailed, match=r"a pause of \w+ s; the longest is 120 s"):
            await complete(provider)
        assert len(provider.came) == 1


@pytest.mark.contract("C21")
async def test_cancellation_in_a_pause_passes_and_nothing_more_is_sent(
    autojump_clock: MockClock,
) -> None:
    provider = Provider(busy(Retry_After="60"))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(complete, provider)
            await trio.testing.wait_all_tasks_blocked()
            assert len(provider.came) == 1
            scope.cancel()
    assert scope.cancelled_caught
    assert len(provider.came) == 1


@pytest.mark.contract("C21")
async def test_a_request_that_is_cut_while_it_is_refused_was_cut_and_did_not_fail(
    autojump_clock: MockClock,
) -> None:
    """Its deadline is past from then on; that must not be taken for a lack of time."""
    scope = trio.CancelScope()

    async def refuse(_: httpx.Request) -> httpx.Response:
        scope.cancel()
        return busy()

    async with OpenAICompatible(
        "http://provider/v1", "m", transport=httpx.MockTransport(refuse)
    ) as gateway:
        with scope:
            await gateway.complete(asked(), Told())
    assert scope.cancelled_caught


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 501])
async def test_what_will_not_pass_is_not_sent_again(status: int, autojump_clock: MockClock) -> None:
    provider = Provider(busy(status, Retry_After="1"))
    with pytest.raises(GatewayFailed, match=f"answered {status}"):
        await complete(provider)
    assert len(provider.came) == 1
