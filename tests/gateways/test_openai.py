"""The gateway for chat completions against a provider with every fault, over a real socket.

Method: the provider plays its part at gates in the test's own loop, and each test waits for
what was told or for what the provider saw. Nothing waits for a clock; retries with a pause
are in `test_openai_retries.py`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from counterpoint.runtime import Call, GatewayFailed, Reply, Usage
from counterpoint.runtime.gateways import Gate
from counterpoint.runtime.gateways.chat_completions import CALLS_MAX
from counterpoint.runtime.gateways.openai import EVENT_BYTES_MAX, OpenAICompatible

from .faulty_provider import (
    CUT,
    SILENCE,
    FaultyProvider,
    Play,
    answers,
    calls,
    ends_with,
    faulty_provider,
    never_answers,
    plain_transport,
    refuses,
    says,
    took,
)
from .stage import KEY, PATIENCE_S, Told, asked


@asynccontextmanager
async def connected(
    *plays: Play, **settings: Any
) -> AsyncGenerator[tuple[FaultyProvider, OpenAICompatible], None]:
    """Open a provider, and a gateway to it with a key."""
    settings = {"api_key": KEY, "transport": plain_transport(), **settings}
    with trio.fail_after(PATIENCE_S):
        async with (
            faulty_provider(*plays) as provider,
            OpenAICompatible(provider.base_url, "model-1", **settings) as gateway,
        ):
            yield provider, gateway


async def reply_to(*plays: Play, **settings: Any) -> Reply:
    async with connected(*plays, **settings) as (_, gateway):
        return await gateway.complete(asked(), Told())


# What goes well.


async def test_a_slow_answer_is_told_as_it_comes() -> None:
    first, second, told = Gate(), Gate(), Told()
    play = answers("Tea ", first, "grows ", "in Yunnan.", second, took(7, 3))
    replies: list[Reply] = []

    async with connected(play) as (_, gateway), trio.open_nursery() as nursery:

        async def ask() -> None:
            replies.append(await gateway.complete(asked(), told))

        nursery.start_soon(ask)
        await told.hears("Tea ")
        first.release()
        await told.hears("Tea ", "grows ", "in Yunnan.")
        assert replies == []
        second.release()

    usage = Usage(input_tokens=7, output_tokens=3)
    assert replies == [Reply(text="Tea grows in Yunnan.", usage=usage)]


async def test_a_request_says_what_is_asked_for_and_carries_the_key() -> None:
    settings: dict[str, Any] = {
        "headers": {"X-Title": "tea"},
        "extra": {"temperature": 0.2, "stream_options": None},
    }
    async with connected(answers("Yes."), answers("Yes.")) as (provider, gateway):
        await gateway.complete(asked("茶?"), Told())
        plain = await provider.request(1)
        assert gateway.name == "model-1"
    async with connected(answers("Yes."), **settings) as (provider, gateway):
        await gateway.complete(asked("茶?"), Told())
        dressed = await provider.request(1)

    assert plain.target == "POST /v1/chat/completions"
    assert plain.headers["authorization"] == f"Bearer {KEY}"
    assert plain.headers["accept-encoding"] == "identity"
    assert plain.body == {
        "model": "model-1",
        "messages": [{"role": "user", "content": "茶?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert dressed.headers["x-title"] == "tea"
    assert dressed.body["temperature"] == 0.2
    assert "stream_options" not in dressed.body


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with connected(*[answers("Yes.")] * 3) as (provider, gateway):
        for _ in range(3):
            await gateway.complete(asked(), Told())
        assert provider.connections == 1


async def test_what_a_provider_wants_kept_is_not_sent_back_with_the_next_request() -> None:
    plays = (answers("Yes.", Set_Cookie="who=ann"), answers("Yes."))
    async with connected(*plays) as (provider, gateway):
        for _ in plays:
            await gateway.complete(asked(), Told())
        assert "cookie" not in provider.exchanges[1].headers


async def test_an_answer_ends_where_it_says_so_whatever_comes_behind() -> None:
    """The provider keeps the connection open, and would send more."""
    play = answers("Tea.", b"data: [DONE]\n\n", "More.", SILENCE)
    async with connected(play, answers("Two.")) as (provider, gateway):
        told = Told()
        assert (await gateway.complete(asked(), told)).text == "Tea."
        assert told.pieces == ["Tea."]
        await (await provider.request(1)).gone.wait()
        assert (await gateway.complete(asked(), Told())).text == "Two."
        assert provider.connections == 2


SEARCH = Call(call_id="a", name="search", arguments={"for": "茶"})
READ = Call(call_id="b", name="read", arguments={"line": 2})

# fmt: off
CALLS_IN_PIECES: dict[str, list[dict[str, Any]]] = {
    "whole": [calls(0, "a", "search", '{"for": "茶"}'), calls(1, "b", "read", '{"line": 2}')],
    "in pieces": [
        calls(0, "a", "search", ""), calls(0, None, None, '{"for"'),
        calls(0, None, None, ': "茶"}'),
        calls(1, "b", "read", ""), calls(1, None, None, '{"line": 2}'),
    ],
    "interleaved": [
        calls(0, "a", "search", '{"for"'), calls(1, "b", "read", '{"li'),
        calls(0, None, None, ': "茶"}'), calls(1, None, None, 'ne": 2}'),
    ],
    "the id in every piece": [
        calls(0, "a", "search", '{"for"'), calls(1, "b", "read", '{"li'),
        calls(0, "a", "search", ': "茶"}'), calls(1, "b", "read", 'ne": 2}'),
    ],
    "without an index": [
        calls(None, "a", "search", '{"for": "茶"}'), calls(None, "b", "read", '{"line"'),
        calls(None, None, None, ": 2}"),
    ],
    "the same index twice": [
        calls(0, "a", "search", '{"for": "茶"}'), calls(0, "b", "read", '{"line": 2}'),
    ],
}
# fmt: on


@pytest.mark.parametrize("chunks", CALLS_IN_PIECES.values(), ids=CALLS_IN_PIECES)
async def test_tool_calls_are_put_together_however_they_come(chunks: list[dict[str, Any]]) -> None:
    told = Told()
    play = answers("Wait. ", *chunks, ends_with("tool_calls"))
    async with connected(play) as (_, gateway):
        reply = await gateway.complete(asked(), told)

    assert reply.calls == (SEARCH, READ)
    assert told.pieces == ["Wait. ", "<call>"]


async def test_a_call_without_arguments_has_none() -> None:
    reply = await reply_to(answers(calls(0, "a", "tables", "")))
    assert reply.calls == (Call(call_id="a", name="tables", arguments={}),)


@pytest.mark.contract("C33")
@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        "none",
        {"prompt_tokens": None, "completion_tokens": 3},
        {"prompt_tokens": 7},
        {"prompt_tokens": 7, "completion_tokens": -1},
    ],
    ids=str,
)
async def test_usage_that_can_t_be_read_is_unobserved(usage: Any) -> None:
    reply = await reply_to(answers("Tea.", {"choices": [], "usage": usage}))
    assert reply == Reply(text="Tea.", usage=None)


async def test_what_is_null_or_unknown_in_a_chunk_does_no_harm() -> None:
    delta = {"role": "assistant", "content": None, "tool_calls": None, "reasoning": "hm"}
    odd: list[dict[str, Any]] = [
        {"id": "x", "choices": [{"delta": delta, "logprobs": None, "finish_reason": None}]},
        {"choices": None},
        {"choices": []},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"refusal": "I won't."}}, {"delta": {"content": "other"}}]},
    ]
    assert (await reply_to(answers(*odd, b": keep-alive\n\n"))).text == "I won't."


# What goes wrong.

HUGE = b"data: " + b"x" * (EVENT_BYTES_MAX + 1)
DEEP = b'data: {"usage": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n"
ERROR = {"error": {"message": "The server is\x1b[31m overloaded\n", "code": 418}}

# fmt: off
FAULTS: dict[str, tuple[Play, str]] = {
    "cut in mid-stream": (answers("Tea ", CUT), "The connection to the provider broke"),
    "cut in mid-event": (answers("Tea ", b"data: {", CUT), "The connection to the provider broke"),
    "ended too early": (answers("Tea ", done=False), "ended before it was whole"),
    "malformed JSON": (answers("Tea ", b'data: {"choices": [\n\n'), "no chunk of a reply"),
    "JSON of another kind": (answers(b'data: {"choices": 3}\n\n'), "no chunk of a reply"),
    "not UTF-8": (answers(b'data: {"error": "\xff"}\n\n'), "no chunk of a reply"),
    "nested too deep": (answers(DEEP), "no chunk of a reply"),
    "malformed events": (answers("Tea ", b"<html>\n\n", done=False), "ended before it was whole"),
    "empty": (answers(ends_with("content_filter")), "an empty answer. It ended with: cont"),
    "nothing but an end": (answers(), "an empty answer."),
    "an error in the stream": (answers("Tea ", ERROR), r"broke off: The server is \[31m over"),
    "an error in words": (answers("Tea ", {"error": "overloaded"}), "broke off: overloaded"),
    "an error of any kind": (answers("Tea ", {"error": [1]}), r"broke off: \[1\]"),
    "a page": (answers(b"<h1>Log in</h1>", content_type="text/html; charset=utf-8", done=False),
               "answered with text/html instead of a stream of events: <h1>Log in</h1>"),
    "a whole answer": (answers(b'{"choices": []}', content_type="application/json", done=False),
                       "answered with application/json instead"),
    "no content type": (answers("Tea.", content_type=""), "answered with no content type"),
    "compressed": (answers(b"\x1f", Content_Encoding="gzip"), "compressed its answer .gzip."),
    "redirect": (refuses(307, Location="http://127.0.0.1:1/elsewhere"),
                 "answered 307 and names another place, .*: http://127.0.0.1:1/elsewhere"),
    "no right": (refuses(401, "Incorrect API key."), "answered 401: Incorrect API key."),
    "no page": (answers(b"not found\n", status=404, done=False), "answered 404: not found"),
    "no words": (answers(status=400, done=False), "answered 400"),
    "no success": (answers("Tea.", status=201), "answered 201"),
    "a huge line": (answers(HUGE), f"an event of more than {EVENT_BYTES_MAX} bytes"),
    "a huge line at once": (answers("Tea ", HUGE + b"\n\n"), "an event of more than"),
    "half arguments": (answers(calls(0, "a", "read", '{"line": ')), "call of 'read' are no JSON"),
    "other arguments": (answers(calls(0, "a", "read", "[2]")), "call of 'read' are no JSON object"),
    "a call without an id": (answers(calls(0, None, "read", "{}")), "without an id or a name"),
    "a call without a name": (answers(calls(0, "a", None, "{}")), "without an id or a name"),
    "two calls of one id": (answers(calls(0, "a", "read", "{}"), calls(1, "a", "read", "{}")),
                            "two tool calls with the same id"),
    "too many calls": (answers(*[calls(n, f"{n}", "read", "{}") for n in range(CALLS_MAX + 1)]),
                       f"more than {CALLS_MAX} tool calls"),
    "too much text": (answers(*["x" * 512] * 4), "larger than this gateway takes"),
    "too many arguments": (answers(*[calls(0, "a", "read", "x" * 512)] * 4), "larger than this"),
}
# fmt: on


@pytest.mark.contract("C50")
@pytest.mark.parametrize(("play", "sentence"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_is_a_failure_in_words_and_the_request_is_not_sent_again(
    play: Play, sentence: str
) -> None:
    async with connected(play, answers("Next."), reply_bytes_max=2000, retries_max=0) as (
        provider,
        gateway,
    ):
        with pytest.raises(GatewayFailed, match=sentence) as caught:
            await gateway.complete(asked(), Told())
        assert len(provider.exchanges) == 1
        assert (await gateway.complete(asked(), Told())).text == "Next."
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 500


ONCE_BEGUN = {
    "cut": answers("Tea ", CUT),
    "cut in a call": answers(calls(0, "a", "read", "{"), CUT),
    "ended too early": answers("Tea ", done=False),
    "a passing error": answers("Tea ", {"error": {"message": "busy", "code": 503}}),
}


@pytest.mark.parametrize("play", ONCE_BEGUN.values(), ids=ONCE_BEGUN)
async def test_what_has_begun_to_answer_is_never_asked_again(play: Play) -> None:
    async with connected(play) as (provider, gateway):
        with pytest.raises(GatewayFailed):
            await gateway.complete(asked(), Told())
        assert len(provider.exchanges) == 1


PASSING = {
    "429": refuses(429, Retry_After="0"),
    "500": refuses(500, Retry_After="0"),
    "503, by a date": refuses(
        503,
        Retry_After="Tue, 01 Dec 2026 12:00:00 GMT",
        Date="Tue, 01 Dec 2026 12:00:00 GMT",
    ),
}


@pytest.mark.parametrize("play", PASSING.values(), ids=PASSING)
async def test_what_passes_is_asked_again_and_told_once(play: Play) -> None:
    told = Told()
    async with connected(play, play, answers("Tea.")) as (provider, gateway):
        reply = await gateway.complete(asked(), told)
        assert [exchange.body for exchange in provider.exchanges] == [
            provider.exchanges[0].body
        ] * 3
    assert reply.text == "Tea."
    assert told.pieces == ["Tea."]


async def test_a_provider_that_can_t_be_reached_is_a_failure() -> None:
    async with faulty_provider() as provider:
        nowhere = provider.base_url
    transport = plain_transport()
    async with OpenAICompatible(nowhere, "m", retries_max=0, transport=transport) as gateway:
        with pytest.raises(GatewayFailed, match="The provider could not be reached: "):
            await gateway.complete(asked(), Told())


# Silence and cancellation.


async def until_blocked(provider: FaultyProvider) -> None:
    """Wait until the provider has the request and the gateway waits for it."""
    await provider.request(1)
    await wait_all_tasks_blocked()


@pytest.mark.parametrize("play", [never_answers, answers("Tea ", SILENCE)], ids=["all", "half"])
async def test_a_provider_that_is_silent_too_long_is_given_up(
    play: Play, mock_clock: MockClock
) -> None:
    failed: list[str] = []
    async with connected(play, silence_s=PATIENCE_S / 4, retries_max=0) as (provider, gateway):

        async def ask() -> None:
            with pytest.raises(GatewayFailed) as caught:
                await gateway.complete(asked(), told)
            failed.append(str(caught.value))

        told = Told()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            if play is not never_answers:
                await told.hears("Tea ")
            await until_blocked(provider)
            mock_clock.jump(PATIENCE_S / 2)
    assert failed == ["The provider was silent for more than 5 s."]


@pytest.mark.contract("C21")
@pytest.mark.parametrize(
    "play",
    [never_answers, answers(SILENCE), answers("Tea ", SILENCE), answers(b"data: {", SILENCE)],
    ids=["no answer", "no text", "some text", "half an event"],
)
async def test_cancellation_closes_the_connection_and_passes(play: Play) -> None:
    async with connected(play) as (provider, gateway):
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def ask() -> None:
                with scope:
                    await gateway.complete(asked(), Told())

            nursery.start_soon(ask)
            await until_blocked(provider)
            scope.cancel()
        assert scope.cancelled_caught
        await provider.exchanges[0].gone.wait()


@pytest.mark.contract("C22")
async def test_what_comes_after_an_interruption_reaches_nobody() -> None:
    late, told, next_told = Gate(), Told(), Told()
    play = answers("Tea ", late, "grows late.", took(7, 3))
    async with connected(play, answers("Two.")) as (provider, gateway):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.complete, asked(), told)
            await told.hears("Tea ")
            nursery.cancel_scope.cancel()
        late.release()
        await provider.exchanges[0].ended.wait()
        reply = await gateway.complete(asked(), next_told)

    assert reply == Reply(text="Two.", usage=None)
    assert (told.pieces, next_told.pieces) == (["Tea "], ["Two."])


# Keys.

ECHOES = {
    "a refusal": refuses(401, f"Incorrect API key provided: {KEY}."),
    "a page": answers(f"<p>{KEY}</p>".encode(), content_type="text/html", done=False),
    "a redirect": refuses(308, Location=f"http://127.0.0.1:1/?key={KEY}"),
    "an error in the stream": answers("Tea ", {"error": {"message": f"Bearer {KEY} is spent"}}),
    "a tool's name": answers(calls(0, "a", KEY, "{")),
    "a finish": answers(ends_with(KEY)),
    "a long page": answers(b"x" * 490 + KEY.encode(), status=400, done=False),
}


@pytest.mark.parametrize("play", ECHOES.values(), ids=ECHOES)
async def test_a_key_is_shown_nowhere_even_if_the_provider_says_it(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(play, headers={"X-Other": f"{KEY}-other"}) as (_, gateway):
        with pytest.raises(GatewayFailed) as caught:
            await gateway.complete(asked(), Told())
        shown = [repr(gateway), str(vars(gateway)["_client"])]

    shown += [*traceback.format_exception(caught.value), repr(caught.value)]
    records = [record.getMessage() for record in caplog.records if record.name[:4] == "http"]
    assert records, "the log of the library is looked at too"
    # The log of httpcore shows what the provider answered; what we sent is in none of it.
    sent = [text for text in records if "receive_response" not in text]
    assert KEY[:12] not in " ".join([*shown, *sent])


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no URL": ({"base_url": "http://example.org:key"}, "no URL"),
    "no scheme": ({"base_url": "example.org/v1"}, "must begin with http"),
    "another scheme": ({"base_url": "ftp://example.org"}, "must begin with http"),
    "a key in the URL": ({"base_url": f"http://u:{KEY}@example.org"}, "pass a key as api_key"),
    "a key in the query": ({"base_url": f"http://example.org?key={KEY}"}, "pass a key as api_key"),
    "a key with a line end": ({"api_key": f"{KEY}\n"}, "'Authorization' is not plain"),
    "a key with an umlaut": ({"api_key": f"{KEY}ü"}, "'Authorization' is not plain"),
    "a header with a line end": ({"headers": {"X": f"a\r\nY: {KEY}"}}, "'X' is not plain"),
    "what is ours": ({"extra": {"stream": False}}, "extra must not hold any of"),
}


@pytest.mark.parametrize(("settings", "sentence"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_settings_that_can_t_be_used_are_refused_without_a_key(
    settings: dict[str, Any], sentence: str
) -> None:
    settings = {"base_url": "http://example.org/v1", "model": "m", **settings}
    with pytest.raises(ValueError, match=sentence) as caught:
        OpenAICompatible(**settings)
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_says_is_a_chunk() -> None:
    assert says("a") == {"choices": [{"index": 0, "delta": {"content": "a"}}]}
