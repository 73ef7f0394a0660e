"""What a run may still use: it is told, it runs out, and nothing that comes in adds to it.

Method: an agent notes `run.left` at each step; in the end it is compared with what was used.
"""

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import (
    Config,
    Limits,
    RunContext,
    Usage,
)
from counterpoint.runtime.agent import Left
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

from .stage import Agents, InMemory, answers, as_input, person

LIMITS = Limits(
    requests_of_run_max=5, effects_of_run_max=3, tokens_of_run_max=100, active_ms_of_run_max=60_000
)


async def look(_: dict[str, object]) -> str:
    return "seen"


@pytest.mark.contract("B44", "C16")
async def test_a_run_knows_what_it_has_left_and_a_steering_adds_nothing(
    autojump_clock: MockClock,
) -> None:
    gate = Gate()
    left: list[Left] = []
    usage = Usage(input_tokens=20, output_tokens=10)
    gateway = ScriptedGateway(say("One.", usage=usage), say("Two."))

    async def agent(run: RunContext) -> None:
        left.append(run.left)
        async for turn in run.turns():
            await turn.request(gateway, lambda added: as_input(run, added))
            await turn.effect("look", {}, do=look)
            await trio.sleep(10)
            left.append(run.left)
            await gate.passed()
            left.append(run.left)
            await run.complete("Done.")

    async with InMemory().open({"short": agent}, Config(limits=LIMITS)) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await gate.reached()
        await ann.steers(run, "And this")
        gate.release()
        await ann.end_of(run)

    assert left[:3] == [
        Left(requests=5, effects=3, tokens=100, seconds=60.0),
        Left(requests=4, effects=2, tokens=70, seconds=50.0),
        Left(requests=4, effects=2, tokens=70, seconds=50.0),  # the steering is saved
    ]
    # The second request's usage was not observed: it is not known to have cost nothing.
    assert left[3:] == [Left(requests=3, effects=1, tokens=70, seconds=40.0)] * 2


BUDGETS = {  # what is scarce: the limits, and the requests and effects that it has means for
    "requests": (Limits(requests_of_run_max=2), "budget", (2, 2)),
    "effects": (Limits(effects_of_run_max=1), "budget", (2, 1)),
    "tokens": (Limits(tokens_of_run_max=50), "budget", (2, 2)),
    "active time": (Limits(active_ms_of_run_max=25_000), "deadline", (3, 3)),
}


@pytest.mark.contract("B44", "B65", "D12", "D17", "C46")
@pytest.mark.parametrize("scarce", BUDGETS)
async def test_a_run_that_runs_out_ends_in_part_with_what_it_has(
    scarce: str, autojump_clock: MockClock
) -> None:
    limits, reason, used = BUDGETS[scarce]
    usage = Usage(input_tokens=20, output_tokens=10)
    gateway = ScriptedGateway(say("On.", usage=usage, lasting=True))

    async def agent(run: RunContext) -> None:
        run.draft("So far.")
        async for turn in run.turns():
            await turn.request(gateway, lambda added: as_input(run, added))
            await turn.effect("look", {}, do=look)
            await trio.sleep(10)

    agents: Agents = {"short": answers, "background": agent}
    async with InMemory().open(agents, Config(limits=limits)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await ann.end_of(run)
        inspection = await runtime.inspect(scope="ann", run=run)
        await ann.stops(await ann.researches("Dig again"))  # its slot is free

    assert (inspection.run.state, inspection.run.reason) == ("partial", reason)
    assert inspection.run.answer == "So far."
    assert (inspection.run.requests, inspection.run.effects) == used
    if reason == "budget":
        assert scarce in inspection.run.detail


@pytest.mark.contract("C33", "B66")
async def test_what_nobody_has_said_of_usage_is_counted_as_unobserved() -> None:
    gate = Gate()
    silent = ScriptedGateway(say("On."))
    gateway = ScriptedGateway(
        say("Let ", gate), say("Done.", usage=Usage(input_tokens=4, output_tokens=2))
    )

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            await turn.request(silent, lambda added: as_input(run, added))
            reply = await turn.request(gateway, lambda added: as_input(run, added))
            await run.complete(reply.text)

    place = InMemory()
    async with place.open({"short": answers, "background": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await gate.reached()
        await ann.steers(run, "And this")  # cuts the second request
        await ann.end_of(run)
        inspection = await runtime.inspect(scope="ann", run=run)

    assert [
        (item.state, item.input_tokens, item.output_tokens) for item in inspection.requests
    ] == [
        ("completed", None, None),
        ("interrupted", None, None),
        ("completed", 4, 2),
    ]
