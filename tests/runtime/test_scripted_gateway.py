"""The scripted gateway does what its script says, and remembers what it was asked."""

import pytest
import trio

from counterpoint.runtime import Call, GatewayFailed, ModelInput, ModelMessage, Usage
from counterpoint.runtime.gateways import (
    Gate,
    ScriptedGateway,
    ScriptEnded,
    fail,
    mentions,
    say,
)

from .stage import InMemory, person, plays


class Stream:
    """What a gateway told while a reply came in."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, text: str, /) -> None:
        self.told.append(text)

    def calling(self) -> None:
        self.told.append("<call>")


def asked(*texts: str) -> ModelInput:
    return ModelInput(messages=tuple(ModelMessage(role="user", text=text) for text in texts))


SEARCH = Call(call_id="1", name="search", arguments={"for": "tea"})


async def test_lines_are_played_in_order_and_stream_their_pieces() -> None:
    gateway = ScriptedGateway(say("Tea ", "grows."), say("It rains."))
    stream = Stream()

    first = await gateway.complete(asked("tea"), stream)
    second = await gateway.complete(asked("rain"), stream)

    assert (first.text, second.text) == ("Tea grows.", "It rains.")
    assert stream.told == ["Tea ", "grows.", "It rains."]
    assert gateway.left == ()


async def test_a_call_is_announced_where_it_begins_and_comes_with_the_reply() -> None:
    gateway = ScriptedGateway(say("Let me look.", SEARCH, " Now."))
    stream = Stream()

    reply = await gateway.complete(asked("tea"), stream)

    assert reply.calls == (SEARCH,)
    assert not reply.final
    assert stream.told == ["Let me look.", "<call>", " Now."]


async def test_usage_is_what_the_script_says_and_otherwise_unobserved() -> None:
    usage = Usage(input_tokens=7, output_tokens=2)
    gateway = ScriptedGateway(say("One.", usage=usage), say("Two."))

    assert (await gateway.complete(asked("1"), Stream())).usage == usage
    assert (await gateway.complete(asked("2"), Stream())).usage is None


async def test_a_line_for_certain_inputs_waits_for_one() -> None:
    gateway = ScriptedGateway(say("Coffee.", when=mentions("coffee")), say("Other."))

    assert (await gateway.complete(asked("tea"), Stream())).text == "Other."
    assert (await gateway.complete(asked("a coffee"), Stream())).text == "Coffee."


async def test_a_lasting_line_is_not_used_up() -> None:
    gateway = ScriptedGateway(say("Yes.", lasting=True))

    replies = [(await gateway.complete(asked(str(n)), Stream())).text for n in range(3)]

    assert replies == ["Yes."] * 3
    assert len(gateway.left) == 1


async def test_a_failure_comes_after_what_had_streamed() -> None:
    gateway = ScriptedGateway(fail("overloaded", "Tea gr"))
    stream = Stream()

    with pytest.raises(GatewayFailed, match="overloaded"):
        await gateway.complete(asked("tea"), stream)

    assert stream.told == ["Tea gr"]


async def test_the_end_of_the_script_is_no_fault_of_a_provider() -> None:
    gateway = ScriptedGateway(say("Once."), say("Never.", when=mentions("coffee")))
    await gateway.complete(asked("tea"), Stream())

    with pytest.raises(ScriptEnded, match=r"Request 2 .*1 are left, .*'more tea'") as caught:
        await gateway.complete(asked("tea", "more tea"), Stream())

    assert not isinstance(caught.value, GatewayFailed)
    gateway.add(say("After all."))
    assert (await gateway.complete(asked("tea"), Stream())).text == "After all."


async def test_a_gate_holds_the_reply_until_it_is_released(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Tea ", gate, "grows."))
    stream = Stream()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.complete, asked("tea"), stream)
        await gate.reached()
        await trio.testing.wait_all_tasks_blocked()
        assert stream.told == ["Tea "]
        gate.release()

    assert stream.told == ["Tea ", "grows."]
    assert autojump_clock.current_time() == 0


async def test_a_gate_released_beforehand_holds_nobody() -> None:
    gate = Gate()
    gate.release()

    assert (await ScriptedGateway(say(gate, "Go.")).complete(asked("?"), Stream())).text == "Go."


async def test_a_reply_cancelled_at_a_gate_uses_up_its_line() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Never."), say("Next."))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.complete, asked("one"), Stream())
        await gate.reached()
        nursery.cancel_scope.cancel()

    assert (await gateway.complete(asked("two"), Stream())).text == "Next."


@pytest.mark.contract("C11")
async def test_what_it_received_is_byte_for_byte_what_the_run_recorded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gateway = ScriptedGateway(say("Fine."))
    async with InMemory().open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("What is 茶 “tea”?")
        await ann.end_of(run)
        exported = await runtime.export_request(scope="ann", run=run, ordinal=1)

    assert [received.data for received in gateway.received] == [exported]
