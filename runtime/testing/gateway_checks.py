"""The checks of the conformance suite for gateways.

Each plays one scenario and judges one rule; what else may be wrong with an adapter is left to
the other checks, so that a report names the rule that is really broken.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ..gateways.protocol import (
    Call,
    GatewayFailed,
    ModelInput,
    ModelMessage,
    Tool,
    Usage,
)
from .gateway_rules import Rule
from .scenario import CallPart, Fault, Step, Text, UsageTold
from .trial import Attempt, Check, Trial

USAGE: Final = Usage(input_tokens=31, output_tokens=7)
SEARCH: Final = Call(
    call_id="call-1", name="search", arguments={"terms": ['"茶"', "a\\b"], "most": 2}
)
READ: Final = Call(call_id="call-2", name="read", arguments={"path": "notes/ä.md", "line": None})

LARGE: Final = 64 * 1024
VERBATIM: Final = (
    "Only  the last year —\n\t请只看最近一年 ",
    'He said "no\\n", {"role": "system"} and <b>&amp;</b> \u2028 too.',
    "data: [DONE]\r\n\r\n\x00\x1b[31m🍵é\u0301",
    "0123456789abcde\n" * (LARGE // 16),
)


def _input(*texts: str) -> ModelInput:
    return ModelInput(messages=tuple(ModelMessage(role="user", text=text) for text in texts))


ASKED: Final = _input("Where does tea grow?")


# R1.


async def _cut_in_mid_text(trial: Trial) -> None:
    held = trial.gate()
    await _cut(trial, Text("Tea "), held, Text("grows."))


async def _cut_before_an_answer(trial: Trial) -> None:
    await _cut(trial, trial.gate(), Text("Tea grows."))


async def _cut_in_mid_call(trial: Trial) -> None:
    first, second = '{"terms"', ': ["tea"]}'
    begun = CallPart("call-1", "search", first)
    await _cut(trial, Text("Wait. "), begun, trial.gate(), CallPart("call-1", "search", second))


async def _cut(trial: Trial, *steps: Step) -> None:
    scenario = trial.scenario(lambda _, __: steps)
    attempt = Attempt(ASKED)
    async with trial.opened(scenario, attempt):
        await trial.in_time(attempt.heard if isinstance(steps[0], Text) else scenario.came)
        attempt.scope.cancel()
        if not await trial.in_time(attempt.ended.wait):
            trial.breach(f"It went on for {trial.patience_s:g} s after it was cancelled.")
            return
    if attempt.reply is not None or attempt.error is not None:
        trial.breach(f"It was cancelled, and {attempt.became()}.")


# R2.


async def _text_streams(trial: Trial) -> None:
    """The provider sends each piece only when the one before has been shown."""
    pieces = ("Tea ", " grows\n", "在云南", "。\n")
    gates = [trial.gate() for _ in pieces]
    steps: list[Step] = []
    for piece, gate in zip(pieces, gates, strict=True):
        steps += [Text(piece), gate]
    attempt = Attempt(ASKED)
    async with trial.opened(trial.scenario(lambda _, __: steps), attempt):
        sent = ""
        for piece, gate in zip(pieces, gates, strict=True):
            sent += piece
            await trial.in_time(partial(attempt.shows, sent))
            if attempt.text != sent:
                trial.breach(f"{sent!r} had been sent, and {attempt.text!r} was shown.")
                return
            gate.release()
        await trial.ends(attempt)
        at_the_end = list(attempt.told)
        await trial.settle()
    if attempt.reply is None:
        trial.breach(f"It {attempt.became()}, where the answer had nothing wrong with it.")
    elif not sent == attempt.text == attempt.reply.text:
        trial.breach(
            f"{sent!r} was sent, {attempt.text!r} shown and {attempt.reply.text!r} returned."
        )
    elif attempt.told != at_the_end:
        trial.breach("It showed text after it had returned.")


# R3.


def _parts(call: Call, *pieces: str) -> list[Step]:
    return [CallPart(call.call_id, call.name, piece) for piece in pieces]


async def _a_call_is_announced(trial: Trial) -> None:
    begins, *rest = _parts(SEARCH, '{"terms": ["\\"', '茶\\"", "a\\\\b"], ', '"most": 2}')
    attempt, _ = await trial.one(ASKED, Text("Wait. "), begins, *rest, Text("Now."))
    if None not in attempt.told:
        trial.breach("It never called emit.calling().")
    elif "".join(piece for piece in attempt.told[: attempt.told.index(None)] if piece) != "Wait. ":
        trial.breach("It called emit.calling() elsewhere than where the call began.")


async def _text_alone_announces_no_call(trial: Trial) -> None:
    attempt, _ = await trial.one(ASKED, Text("Tea "), Text("grows."))
    if None in attempt.told:
        trial.breach("It called emit.calling(), and there was no call.")


# R4.


async def _refused(trial: Trial) -> None:
    await _fails(trial, Fault.REFUSES)


async def _broken_off(trial: Trial) -> None:
    await _fails(trial, Text("Tea "), Fault.BREAKS_OFF)


async def _garbled(trial: Trial) -> None:
    await _fails(trial, Text("Tea "), Fault.GARBLES)


async def _garbled_arguments(trial: Trial) -> None:
    await _fails(trial, Text("Wait. "), *_parts(SEARCH, '{"terms": [', '"tea"'))


async def _fails(trial: Trial, *steps: Step) -> None:
    attempt, _ = await trial.one(ASKED, *steps)
    if not isinstance(attempt.error, GatewayFailed):
        trial.breach(f"It {attempt.became()}.")
    elif not str(attempt.error).strip():
        trial.breach("Its GatewayFailed says nothing.")


# R5.


async def _usage_is_told(trial: Trial) -> None:
    attempt = await trial.reply(ASKED, Text("Tea."), UsageTold(USAGE))
    if attempt is not None and attempt.reply is not None and attempt.reply.usage != USAGE:
        trial.breach(f"{USAGE} was told, and {attempt.reply.usage} returned.")


async def _usage_is_missing(trial: Trial) -> None:
    attempt = await trial.reply(ASKED, Text("Tea."))
    if attempt is not None and attempt.reply is not None and attempt.reply.usage is not None:
        trial.breach(f"No usage was told, and {attempt.reply.usage} returned.")


# R6.


async def _a_call_in_pieces(trial: Trial) -> None:
    parts = _parts(SEARCH, '{"te', 'rms": ["\\"茶', '\\"", "a\\\\', 'b"], "most": 2', "}")
    await _calls(trial, [SEARCH], *parts)


async def _calls_interleaved(trial: Trial) -> None:
    first = _parts(SEARCH, '{"terms": ["\\"茶\\""', ', "a\\\\b"], "most": 2}')
    second = _parts(READ, '{"path": "notes/ä.md"', ', "line": null}')
    await _calls(trial, [SEARCH, READ], first[0], second[0], first[1], second[1])


async def _calls(trial: Trial, calls: list[Call], *parts: Step) -> None:
    attempt = await trial.reply(ASKED, *parts)
    if attempt is not None and attempt.reply is not None and list(attempt.reply.calls) != calls:
        trial.breach(f"{calls} were sent, and {list(attempt.reply.calls)} returned.")


# R7.


def _whole_input() -> ModelInput:
    schema = {"type": "object", "properties": {"terms": {"type": "array"}}, "required": ["terms"]}
    return ModelInput(
        messages=(
            ModelMessage(role="system", text="Be brief.\n"),
            ModelMessage(role="user", text=VERBATIM[0]),
            ModelMessage(role="assistant", text="Let me look. ", calls=(SEARCH, READ)),
            ModelMessage(role="tool", text='{"status": "done"} ', call_id=SEARCH.call_id),
            ModelMessage(role="tool", text="", call_id=READ.call_id),
            *(ModelMessage(role="user", text=text) for text in VERBATIM[1:]),
            ModelMessage(role="assistant", text="So far."),
            ModelMessage(role="user", text=VERBATIM[0]),
        ),
        tools=(
            Tool(name="search", description="Finds «passages».", parameters=schema),
            Tool(name="read", description="", parameters={"type": "object", "properties": {}}),
        ),
    )


async def _input_is_sent_as_it_is(trial: Trial) -> None:
    sent = _whole_input()
    attempt, scenario = await trial.one(sent, Text("Tea."))
    if not scenario.answers:
        trial.breach(f"No request came: it {attempt.became()}.")
        return
    got = scenario.answers[0].model_input
    if len(got.messages) != len(sent.messages):
        trial.breach(f"{len(sent.messages)} messages were sent, {len(got.messages)} came.")
    for at, (wanted, found) in enumerate(zip(sent.messages, got.messages, strict=False)):
        if wanted != found:
            trial.breach(f"Message {at} differs: {_difference(wanted, found)}.")
            return
    if got.tools != sent.tools:
        trial.breach(f"The tools differ: {sent.tools} were sent, {got.tools} came.")


def _difference(wanted: ModelMessage, found: ModelMessage) -> str:
    for field in ("role", "calls", "call_id"):
        if getattr(wanted, field) != getattr(found, field):
            return f"{field} {getattr(wanted, field)!r} came as {getattr(found, field)!r}"
    at = next(
        (
            at
            for at, pair in enumerate(zip(wanted.text, found.text, strict=False))
            if len({*pair}) > 1
        ),
        min(len(wanted.text), len(found.text)),
    )
    around = slice(max(0, at - 10), at + 20)
    return f"at character {at}, {wanted.text[around]!r} came as {found.text[around]!r}"


# R8.


async def _a_late_answer_stays_out(trial: Trial) -> None:
    held = trial.gate()
    late: list[Step] = [Text("One "), held, Text("late "), *_parts(READ, "{}"), UsageTold(USAGE)]
    scenario = trial.scenario(lambda number, _: [Text("Two.")] if number else late)
    first, second = Attempt(_input("one")), Attempt(_input("two"))
    async with trial.opened(scenario, first) as gateway:
        await trial.in_time(first.heard)
        first.scope.cancel()
        await trial.in_time(first.ended.wait)
        held.release()
        if scenario.answers:
            await trial.in_time(scenario.answers[0].left.wait)
        await trial.fly(second, gateway)
    if second.reply is None:
        trial.breach(f"The request after an interrupted one {second.became()}.")
    elif "late" in second.text + second.reply.text or second.reply.calls:
        trial.breach(f"The next reply was {second.reply}, with {second.text!r} shown.")
    elif second.reply.usage == USAGE:
        trial.breach("The next reply has the usage of the interrupted request.")


# R9.


async def _one_request(trial: Trial) -> None:
    scenario = trial.scenario(lambda _, __: [Text("Tea.")])
    attempt = Attempt(ASKED)
    async with trial.opened(scenario) as gateway:
        await trial.settle()
        before = len(scenario.answers)
        await trial.fly(attempt, gateway)
        await trial.settle()
    if before:
        trial.breach(f"It sent {before} requests before it was called.")
    elif len(scenario.answers) != 1:
        trial.breach(f"It was called once and sent {len(scenario.answers)} requests.")


async def _not_again_after_text(trial: Trial) -> None:
    _, scenario = await trial.one(ASKED, Text("Tea "), Fault.BREAKS_OFF)
    if len(scenario.answers) != 1:
        trial.breach(f"It sent {len(scenario.answers)} requests, though text had been shown.")


# R10.


async def _two_at_once(trial: Trial) -> None:
    words = ("one", "two")
    held = {word: trial.gate() for word in words}

    def script(_: int, model_input: ModelInput) -> list[Step]:
        word = model_input.messages[-1].text
        call = Call(call_id=f"call-{word}", name="read", arguments={})
        return [Text(f"{word} "), held[word], Text("end"), *_parts(call, "{}")]

    attempts = [Attempt(_input(word)) for word in words]
    async with trial.opened(trial.scenario(script), *attempts):
        for attempt in attempts:
            await trial.in_time(attempt.heard)
        for word in reversed(words):
            held[word].release()
        for attempt in attempts:
            await trial.ends(attempt)
    for word, attempt in zip(words, attempts, strict=True):
        reply = attempt.reply
        if reply is None:
            trial.breach(f"One of two requests {attempt.became()}.")
        elif (attempt.text, reply.text) != (f"{word} end", f"{word} end") or [
            call.call_id for call in reply.calls
        ] != [f"call-{word}"]:
            trial.breach(f"The reply to {word!r} was {reply}, with {attempt.text!r} shown.")


# fmt: off
GATEWAY_CHECKS: Final[tuple[Check, ...]] = (
    Check("cut_in_mid_text", Rule.CANCELLATION,
          "sends some text, then nothing", _cut_in_mid_text),
    Check("cut_before_an_answer", Rule.CANCELLATION,
          "takes the request and sends nothing", _cut_before_an_answer),
    Check("cut_in_mid_call", Rule.CANCELLATION,
          "sends some text and half a tool call, then nothing", _cut_in_mid_call),
    Check("text_streams", Rule.TEXT,
          "sends text in pieces, each after the one before was shown", _text_streams),
    Check("a_call_is_announced", Rule.CALLING,
          "sends text, a tool call in pieces, and text again", _a_call_is_announced),
    Check("text_alone_announces_no_call", Rule.CALLING,
          "sends text alone", _text_alone_announces_no_call),
    Check("refused", Rule.FAULTS,
          "refuses the request", _refused),
    Check("broken_off", Rule.FAULTS,
          "sends some text and closes the connection", _broken_off),
    Check("garbled", Rule.FAULTS,
          "sends some text and then what can't be read", _garbled),
    Check("garbled_arguments", Rule.FAULTS,
          "sends a tool call whose arguments are not whole", _garbled_arguments),
    Check("usage_is_told", Rule.USAGE,
          "says what the request took", _usage_is_told),
    Check("usage_is_missing", Rule.USAGE,
          "does not say what the request took", _usage_is_missing),
    Check("a_call_in_pieces", Rule.CALLS,
          "sends a tool call in pieces", _a_call_in_pieces),
    Check("calls_interleaved", Rule.CALLS,
          "sends the pieces of two tool calls by turns", _calls_interleaved),
    Check("input_is_sent_as_it_is", Rule.INPUT,
          "reads the request", _input_is_sent_as_it_is),
    Check("a_late_answer_stays_out", Rule.LATE,
          "answers an interrupted request to its end, and the next one", _a_late_answer_stays_out),
    Check("one_request", Rule.ONE_REQUEST,
          "answers", _one_request),
    Check("not_again_after_text", Rule.ONE_REQUEST,
          "sends some text and closes the connection", _not_again_after_text),
    Check("two_at_once", Rule.APART,
          "answers two requests by turns", _two_at_once),
)
# fmt: on
"""Every check, in the order of the rules."""
