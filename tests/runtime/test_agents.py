"""An agent may do anything wrong, and its run still ends, says why, and gives its slot back.

Method: one agent a fault. Each is the only background run of its scope, so that the next
one shows that the slot came back.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import (
    BudgetSpent,
    Call,
    Code,
    Config,
    GatewayFailed,
    Limits,
    ModelInput,
    ModelMessage,
    Refused,
    RunContext,
)
from counterpoint.runtime.gateways import Gate, ScriptedGateway, fail, say
from counterpoint.store.views import Inspection, RunView

from .stage import InMemory, answers, as_input, person, plays

AgentFunction = Callable[[RunContext], Awaitable[None]]

LOOK = Call(call_id="1", name="look", arguments={})
SMALL = Limits(
    requests_of_run_max=2,
    effects_of_run_max=2,
    answer_bytes_max=100,
    checkpoint_bytes_max=100,
    input_bytes_max=1000,
    result_bytes_max=100,
    progress_bytes_max=10,
)


async def end_of(agent: AgentFunction, limits: Limits = SMALL) -> RunView:
    return (await inspect(agent, limits)).run


async def inspect(agent: AgentFunction, limits: Limits = SMALL) -> Inspection:
    """Let the agent execute a run, and return what is recorded of it in the end."""
    agents = {"short": answers, "background": agent}
    async with InMemory().open(agents, Config(limits=limits)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        ended = await ann.end_of(run, within_s=7200)
        assert len(await ann.events("run_ended")) == 1
        inspection = await runtime.inspect(scope="ann", run=run)
        assert inspection.run == ended
        assert not inspection.holds_slot
        again = await ann.researches("Dig again")
        await ann.end_of(again, within_s=7200)
        return inspection


async def ask(run: RunContext, gateway: ScriptedGateway) -> None:
    async for turn in run.turns():
        await turn.request(gateway, lambda added: as_input(run, added))


async def look_at_nothing(_: dict[str, Any]) -> None:
    pass


# Agents that end in a way of their own.


async def raises(_: RunContext) -> None:
    raise RuntimeError("no idea")


async def raises_several(_: RunContext) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_raise, ValueError("one"))
        nursery.start_soon(_raise, KeyError("two"))


async def _raise(error: Exception) -> None:
    raise error


async def returns(_: RunContext) -> None:
    pass


async def raises_before_it_waits(run: RunContext) -> None:
    raise GatewayFailed("not even a gateway")


def not_async(_: RunContext) -> Any:
    return None


def raises_at_once(_: RunContext) -> Any:
    raise RuntimeError("no coroutine")


# fmt: off
FAULTY: list[tuple[AgentFunction, str]] = [
    (raises, "RuntimeError: no idea"),
    (raises_several, "ExceptionGroup"),
    (returns, "The agent returned without completing the run."),
    (raises_before_it_waits, "GatewayFailed: not even a gateway"),
    (not_async, "TypeError"),
    (raises_at_once, "RuntimeError: no coroutine"),
]
# fmt: on


@pytest.mark.contract("D12", "E5", "C32", "C35", "C37")
@pytest.mark.parametrize(("agent", "detail"), FAULTY, ids=[a.__name__ for a, _ in FAULTY])
async def test_an_agent_that_ends_badly_fails_its_run_and_says_how(
    agent: AgentFunction, detail: str
) -> None:
    ended = await end_of(agent)

    assert (ended.state, ended.reason, ended.answer) == ("failed", "agent_error", None)
    assert detail in ended.detail


@pytest.mark.contract("A61e", "C3")
async def test_an_entry_that_nobody_would_execute_is_refused_and_stores_nothing() -> None:
    place = InMemory()
    async with place.open({"short": answers}) as runtime:
        ann = await person(runtime)
        with place.refuses(Code.INVALID) as caught:
            await ann.researches("Dig")
    assert caught.value.facts == {"field": "entry"}
    assert caught.value.text == "Dig"


@pytest.mark.contract("C50")
async def test_what_went_wrong_is_told_in_bounded_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("CRITICAL", "counterpoint")  # a report can't hold half a character

    async def agent(_: RunContext) -> None:
        raise RuntimeError("x" * 1_000_000 + "\ud800")

    ended = await end_of(agent)

    assert ended.detail.startswith("RuntimeError: xxx")
    assert len(ended.detail) < 5_000


# Agents that exceed what they may.


async def long_answer(run: RunContext) -> None:
    await run.complete("x" * 101)


async def long_checkpoint(run: RunContext) -> None:
    await run.save("x" * 101)


LONG = ModelInput(messages=(ModelMessage(role="user", text="x" * 1000),))


async def long_input(run: RunContext) -> None:
    async for turn in run.turns():
        await turn.request(ScriptedGateway(), lambda _: LONG)


async def long_draft(run: RunContext) -> None:
    run.draft("x" * 101)


TOO_MUCH = [long_answer, long_checkpoint, long_input, long_draft]


@pytest.mark.contract("C50", "C3")
@pytest.mark.parametrize("agent", TOO_MUCH, ids=[agent.__name__ for agent in TOO_MUCH])
async def test_more_than_a_limit_is_refused_to_the_agent_which_fails_by_it(
    agent: AgentFunction,
) -> None:
    inspected = await inspect(agent)

    run = inspected.run
    assert (run.state, run.reason) == ("failed", "agent_error"), run.detail
    assert "bytes; at most" in run.detail
    assert inspected.requests == ()


@pytest.mark.contract("C50")
async def test_an_agent_may_catch_the_refusal_and_do_with_less() -> None:
    async def agent(run: RunContext) -> None:
        with pytest.raises(Refused):
            await run.complete("x" * 101)
        with pytest.raises(Refused):
            await run.save("x" * 101)
        await run.complete("x" * 100)

    assert (await end_of(agent)).answer == "x" * 100


@pytest.mark.contract("C50")
async def test_progress_over_its_limit_is_cut_at_a_character() -> None:
    async def agent(run: RunContext) -> None:
        await run.progress("茶" * 5)
        await run.complete("ok")

    async with InMemory().open({"short": agent}, Config(limits=SMALL)) as runtime:
        ann = await person(runtime)
        await ann.end_of(await ann.starts("Dig"))
        [event] = await ann.events("progress")

    assert event.facts["text"] == "茶茶茶"


# Budget and time.


@pytest.mark.contract("B44", "D12", "C50")
@pytest.mark.parametrize("draft", [None, "What I have so far"])
async def test_a_run_without_requests_left_ends_in_part_with_its_draft(draft: str | None) -> None:
    gateway = ScriptedGateway(say(LOOK, lasting=True))

    async def agent(run: RunContext) -> None:
        if draft:
            run.draft(draft)
        await ask(run, gateway)

    ended = await end_of(agent)

    assert (ended.state, ended.reason, ended.answer) == ("partial", "budget", draft)
    assert (ended.requests, len(gateway.received)) == (2, 2 * 2)  # two runs


@pytest.mark.contract("B44", "D12")
async def test_a_run_without_effects_left_ends_in_part_also_from_tasks_of_its_own() -> None:
    done: list[int] = []

    async def look(_: dict[str, Any]) -> None:
        done.append(1)

    async def agent(run: RunContext) -> None:
        run.draft("In part")
        async for turn in run.turns():
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(partial(turn.effect, "look", {}, do=look))

    ended = await end_of(agent)

    assert (ended.state, ended.reason, ended.answer) == ("partial", "budget", "In part")
    assert ended.effects == 2


@pytest.mark.contract("B44")
async def test_an_agent_may_catch_the_end_of_its_budget_and_answer_with_what_it_has() -> None:
    gateway = ScriptedGateway(say("Half.", lasting=True))

    async def agent(run: RunContext) -> None:
        try:
            await ask(run, gateway)
        except BudgetSpent as spent:
            await run.complete(f"All I could find; {spent.what} are spent")

    ended = await end_of(agent)

    assert (ended.state, ended.answer) == ("completed", "All I could find; requests are spent")


@pytest.mark.contract("B65", "D12", "D17", "C21")
async def test_a_run_whose_time_is_up_ends_in_part_with_its_draft(
    autojump_clock: MockClock,
) -> None:
    gateway = ScriptedGateway(say(Gate(), lasting=True))

    async def agent(run: RunContext) -> None:
        run.draft("What I have so far")
        await ask(run, gateway)

    inspected = await inspect(agent, Limits(active_ms_of_run_max=90_000))

    assert (inspected.run.state, inspected.run.reason) == ("partial", "deadline")
    assert inspected.run.answer == "What I have so far"
    assert [(item.state, item.reason) for item in inspected.requests] == [
        ("interrupted", "deadline")
    ]
    assert 180 <= autojump_clock.current_time() < 190


# Gateways and tools.


@pytest.mark.contract("C33", "C17")
async def test_a_provider_that_fails_leaves_a_failed_request_and_the_agent_may_go_on() -> None:
    gateway = ScriptedGateway(fail("overloaded", "Half a "), say("Whole."), say("Whole."))

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            try:
                reply = await turn.request(gateway, lambda added: as_input(run, added))
            except GatewayFailed:
                continue
            await run.complete(reply.text)

    inspected = await inspect(agent)

    assert inspected.run.answer == "Whole."
    assert [(item.state, item.reason, item.input_tokens) for item in inspected.requests] == [
        ("failed", "overloaded", None),
        ("completed", "", None),
    ]


@pytest.mark.contract("C17", "D12")
async def test_a_provider_s_failure_that_nobody_catches_fails_the_run() -> None:
    inspected = await inspect(plays(ScriptedGateway(fail("overloaded", lasting=True))))

    assert (inspected.run.state, inspected.run.detail) == ("failed", "GatewayFailed: overloaded")
    assert [item.state for item in inspected.requests] == ["failed"]


@pytest.mark.contract("C27", "C34")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "result can't be written as JSON"),
        ({1j: 2}, "result can't be written as JSON"),
        ("ÿ" * 60, "result has 122 bytes; at most 100"),
    ],
    ids=["object", "key", "large"],
)
async def test_a_result_that_can_t_be_recorded_is_a_failed_effect_and_no_end(
    value: Any, reason: str
) -> None:
    told: list[str] = []

    async def look(_: dict[str, Any]) -> Any:
        return value

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            result = await turn.effect("look", {}, do=look)
            told.append(f"{result.status}: {result.reason}")
            await run.complete("ok")

    inspected = await inspect(agent)

    assert inspected.run.state == "completed"
    assert [item.state for item in inspected.effects] == ["failed"]
    assert told[0].startswith(f"failed: {reason}")


@pytest.mark.contract("C27")
async def test_a_tool_that_raises_is_a_result_that_says_so() -> None:
    async def look(_: dict[str, Any]) -> Any:
        raise OSError("no such folder")

    gateway = ScriptedGateway(say(LOOK), say("Sorry."), say(LOOK), say("Sorry."))
    inspected = await inspect(plays(gateway, {"look": look}))

    assert inspected.run.answer == "Sorry."
    [effect] = inspected.effects
    assert (effect.state, effect.reason) == ("failed", "OSError: no such folder")
    assert gateway.received[1].model_input.messages[-1].text == "failed: OSError: no such folder"


@pytest.mark.contract("C26", "C27")
async def test_an_effect_s_intent_is_stored_before_it_starts_and_its_result_before_it_is_seen() -> (
    None
):
    place = InMemory()
    seen: list[tuple[str, str]] = []

    async def agent(run: RunContext) -> None:
        async def look(arguments: dict[str, Any]) -> str:
            seen.append(("doing", await state()))
            return f"saw {arguments['at']}"

        async def state() -> str:
            inspected = await runtime.inspect(scope="ann", run=run.run_id)
            return inspected.effects[0].state

        async for turn in run.turns():
            result = await turn.effect("look", {"at": "tea"}, do=look)
            seen.append((result.value, await state()))
            await run.complete("ok")

    async with place.open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await ann.end_of(run)
        [effect] = (await runtime.inspect(scope="ann", run=run)).effects

    assert seen == [("doing", "open"), ("saw tea", "done")]
    assert effect.operation_id.startswith(run)
    assert msgspec.json.decode(effect.arguments) == {"at": "tea"}


# What an agent gets to work with.


async def test_an_agent_knows_its_run_and_the_exact_words_it_was_started_with() -> None:
    known: list[tuple[Any, ...]] = []

    async def agent(run: RunContext) -> None:
        known.append((run.run_id, run.conversation_id, run.scope, run.request, run.depth))
        await answers(run)

    async with InMemory().open({"short": answers, "background": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts(" Dig\n", entry="background")
        await ann.end_of(run)

    assert known == [(run, ann.conversation, "ann", " Dig\n", "normal")]


@pytest.mark.contract("D16", "C19")
async def test_what_an_agent_does_after_its_end_is_refused_to_it() -> None:
    after: list[str] = []

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            await run.complete("ok")
            for late in (
                lambda: run.complete("again"),
                lambda: run.progress("again"),
                lambda: run.save("again"),
                partial(turn.effect, "look", {}, do=look_at_nothing),
            ):
                try:
                    await late()
                except Exception as error:  # noqa: BLE001 - its type is what is looked at
                    after.append(type(error).__name__)

    ended = await end_of(agent)

    assert (ended.state, ended.answer) == ("completed", "ok")
    assert after == ["OwnerLost"] * 4 * 2


@pytest.mark.contract("C50", "C36")
async def test_an_agent_that_goes_on_after_its_end_does_not_stay_for_ever(
    autojump_clock: MockClock,
) -> None:
    async def agent(run: RunContext) -> None:
        await run.complete("ok")
        await trio.sleep_forever()

    async with InMemory().open({"short": agent}, Config(live_runs_max=2)) as runtime:
        ann = await person(runtime)
        for n in range(2):
            assert (await ann.end_of(await ann.starts(f"Question {n}"))).answer == "ok"
        left = autojump_clock.current_time()
        await runtime.quiet()  # both are gone after a while, and a third may come
        assert (await ann.end_of(await ann.starts("Question 2"))).answer == "ok"
    assert autojump_clock.current_time() - left < 15
