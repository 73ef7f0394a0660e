"""A run over a real connection: what cuts it, what fails it, and how it goes on.

Method: the store is in memory, the provider on the loopback plays its part at known points,
and afterwards what the provider saw is compared with what the run has on record.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import trio

from counterpoint.runtime import (
    AgentFunction,
    Config,
    Gateway,
    GatewayFailed,
    Limits,
    ModelInput,
    Reply,
    ReplyStream,
    RunContext,
    StreamedText,
)
from counterpoint.runtime.gateways.openai import OpenAICompatible

from ..runtime.stage import (
    InMemory,
    Person,
    as_input,
    person,
    plays,
    user_words,
)
from ..runtime.stage import (
    answers as says_back,
)
from .faulty_provider import (
    SILENCE,
    FaultyProvider,
    Play,
    answers,
    calls,
    faulty_provider,
    never_answers,
    plain_transport,
    refuses,
    took,
)
from .stage import KEY, PATIENCE_S

WORDS = 'Only  the last year —\n"请只看最近一年" '


class Flattening:
    """A host's adapter that makes an error of its own of every cancellation (B63)."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def name(self) -> str:
        return self._gateway.name

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        try:
            return await self._gateway.complete(model_input, emit)
        except trio.Cancelled as cancelled:
            raise GatewayFailed("Request cancelled.") from cancelled


@asynccontextmanager
async def provided(*turns: Play) -> AsyncGenerator[tuple[FaultyProvider, Gateway], None]:
    with trio.fail_after(PATIENCE_S):
        async with (
            faulty_provider(*turns) as provider,
            OpenAICompatible(
                provider.base_url, "model-1", api_key=KEY, transport=plain_transport()
            ) as gateway,
        ):
            yield provider, gateway


def agents(background: AgentFunction) -> dict[str, AgentFunction]:
    return {"short": says_back, "background": background}


async def streams(someone: Person, text: str) -> None:
    """Wait until somebody who listens has seen this much of an answer."""
    seen = ""
    events = someone.runtime.events(scope=someone.scope, conversation=someone.conversation)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, StreamedText):
                seen += event.text
                if seen == text:
                    return


async def look(arguments: dict[str, Any]) -> str:
    return f"saw {arguments['at']}"


@pytest.mark.contract("B63", "B64", "B66", "B60", "B62", "C11", "C12", "C16", "C21", "C33")
@pytest.mark.parametrize("flattens", [False, True], ids=["passes it", "flattens it"])
async def test_a_steering_cuts_the_request_and_the_run_goes_on_with_all_its_budget(
    flattens: bool,
) -> None:
    """The regression for B63: an adapter flattened the reason, and the run only wrapped up."""
    left: list[tuple[int, int]] = []
    turns = (
        answers("All ", "ye", SILENCE),
        answers("Let me look.", calls(0, "a", "look", '{"at": "tea"}'), took(20, 5)),
        answers("This year.", took(30, 7)),
    )
    async with provided(*turns) as (provider, ours):
        agent = plays(Flattening(ours) if flattens else ours, {"look": look})

        async def noting(run: RunContext) -> None:
            await agent(run)
            left.append((run.left.requests, run.left.effects))

        async with InMemory().open(agents(noting), Config(limits=FEW)) as runtime:
            ann = await person(runtime)
            run = await ann.researches("Compare")
            await streams(ann, "All ye")
            await ann.steers(run, WORDS)
            await provider.exchanges[0].gone.wait()
            ended = await ann.end_of(run)
            inspected = await runtime.inspect(scope="ann", run=run)
            recorded = [await ann.input_of(run, number) for number in (1, 2, 3)]

    assert (ended.state, ended.answer) == ("completed", "This year.")
    assert [
        (item.state, item.reason, item.carries, item.input_tokens, item.output_tokens)
        for item in inspected.requests
    ] == [
        ("interrupted", "steering", (), None, None),
        ("completed", "", (1,), 20, 5),
        ("completed", "", (), 30, 7),
    ]
    assert [item.state for item in inspected.effects] == ["done"]
    assert [(item.state, item.request) for item in ended.revisions] == [("delivered", 2)]
    sent = [exchange.model_input for exchange in provider.exchanges]
    assert sent == recorded
    assert [user_words(model_input) for model_input in sent] == [
        ["Compare"],
        ["Compare", WORDS],
        ["Compare", WORDS],
    ]
    assert left == [(FEW.requests_of_run_max - 3, FEW.effects_of_run_max - 1)]


FEW = Limits(requests_of_run_max=4, effects_of_run_max=3)


@pytest.mark.contract("C19", "C21", "B65", "C24")
@pytest.mark.parametrize("flattens", [False, True], ids=["passes it", "flattens it"])
@pytest.mark.parametrize("play", [answers("All ", SILENCE), never_answers], ids=["text", "nothing"])
async def test_a_stop_closes_the_connection_and_nothing_more_is_sent(
    play: Play, flattens: bool
) -> None:
    async with provided(play) as (provider, ours):
        agent = plays(Flattening(ours) if flattens else ours)
        async with InMemory().open(agents(agent)) as runtime:
            ann = await person(runtime)
            run = await ann.researches("Compare")
            await provider.request(1)
            await ann.stops(run)
            ended = await ann.end_of(run)
            await provider.exchanges[0].gone.wait()
            inspected = await runtime.inspect(scope="ann", run=run)

    assert (ended.state, ended.reason, ended.answer) == ("stopped", "user_stop", None)
    assert [(item.state, item.reason) for item in inspected.requests] == [("interrupted", "stop")]
    assert len(provider.exchanges) == 1


@pytest.mark.contract("B61")
async def test_a_steering_waits_for_a_request_whose_call_has_begun() -> None:
    held = trio.Event()

    async def holds(exchange: Any) -> None:
        await exchange.starts()
        await exchange.chunk(calls(0, "a", "look", '{"at": '))
        await held.wait()
        await exchange.chunk(calls(0, None, None, '"tea"}'))
        await exchange.sends(b"data: [DONE]\n\n")
        await exchange.ends()

    begun = trio.Event()
    async with provided(holds, answers("This year.")) as (provider, ours):

        class Noticing:
            name = ours.name

            async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
                return await ours.complete(model_input, Announced(emit, begun))

        agent = plays(Noticing(), {"look": look})
        async with InMemory().open(agents(agent)) as runtime:
            ann = await person(runtime)
            run = await ann.researches("Compare")
            await begun.wait()
            await ann.steers(run, WORDS)
            held.set()
            ended = await ann.end_of(run)
            inspected = await runtime.inspect(scope="ann", run=run)

    assert ended.answer == "This year."
    assert [item.state for item in inspected.requests] == ["completed", "completed"]
    assert [(item.state, item.reason) for item in inspected.effects] == [
        ("skipped", "superseded by revision 1")
    ]
    last = provider.exchanges[-1].model_input
    assert [message.text for message in last.messages if message.call_id == "a"] == [
        "skipped: superseded by revision 1"
    ]


class Announced:
    """A stream that sets an event when a call begins."""

    def __init__(self, emit: ReplyStream, begun: trio.Event) -> None:
        self._emit = emit
        self._begun = begun

    def __call__(self, text: str, /) -> None:
        self._emit(text)

    def calling(self) -> None:
        self._emit.calling()
        self._begun.set()


@pytest.mark.contract("C17")
async def test_a_provider_s_fault_is_on_record_in_its_own_words_and_without_the_key() -> None:
    async with (
        provided(refuses(401, f"Incorrect API key: {KEY}.")) as (_, ours),
        InMemory().open(agents(plays(ours))) as runtime,
    ):
        ann = await person(runtime)
        run = await ann.researches("Compare")
        ended = await ann.end_of(run)
        inspected = await runtime.inspect(scope="ann", run=run)

    said = "The provider answered 401: Incorrect API key: [key]."
    assert [(item.state, item.reason) for item in inspected.requests] == [("failed", said)]
    assert (ended.state, ended.detail) == ("failed", f"GatewayFailed: {said}")


@pytest.mark.contract("C17", "B44")
async def test_a_run_whose_time_would_not_reach_to_the_retry_fails_at_once() -> None:
    config = Config(limits=Limits(active_ms_of_run_max=50_000))
    async with (
        provided(refuses(429, "Slow down", Retry_After="60")) as (provider, ours),
        InMemory().open(agents(plays(ours)), config) as runtime,
    ):
        ann = await person(runtime)
        run = await ann.researches("Compare")
        ended = await ann.end_of(run)
        inspected = await runtime.inspect(scope="ann", run=run)

    said = "The run has no time left for another try in 60 s."
    assert ended.state == "failed"
    assert [(item.state, item.reason) for item in inspected.requests] == [
        ("failed", f"The provider answered 429: Slow down. {said}")
    ]
    assert len(provider.exchanges) == 1


async def test_an_agent_may_go_on_after_a_fault_with_what_it_has() -> None:
    async with provided(refuses(400, "Too long"), answers("Whole.")) as (provider, ours):

        async def agent(run: RunContext) -> None:
            async for turn in run.turns():
                try:
                    reply = await turn.request(ours, lambda added: as_input(run, added))
                except GatewayFailed:
                    continue
                await run.complete(reply.text)

        async with InMemory().open(agents(agent)) as runtime:
            ann = await person(runtime)
            ended = await ann.end_of(await ann.researches("Compare"))

    assert ended.answer == "Whole."
    assert len(provider.exchanges) == 2
