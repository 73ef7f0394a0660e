"""How one effect is carried out: its time, its faults, its size, and a stop that meets it.

Method: the tool waits at a gate or for a time of `autojump_clock`; then what the agent was
told, what is on record and what the stop's report says are compared.
"""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Config, Limits, OutcomeUnknown, RunContext, Turn
from counterpoint.runtime.effect import EffectResult
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.views import Inspection, StopView

from ..runtime.stage import InMemory, answers, as_input, person
from .stage import Acts, agents


async def life_of(acts: Acts, config: Config | None = None) -> Inspection:
    async with InMemory().open(agents(acts), config) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await ann.end_of(run, within_s=7200)
        return await runtime.inspect(scope="ann", run=run)


@pytest.mark.contract("C50", "C26", "C27")
@pytest.mark.parametrize(("repeat", "state"), [("read", "failed"), ("once", "unknown")])
async def test_an_effect_that_takes_too_long_is_failed_only_if_it_changes_nothing(
    repeat: str, state: str, autojump_clock: MockClock
) -> None:
    async def act(turn: Turn) -> EffectResult:
        if repeat == "read":
            return await turn.effect("slow", {}, do=_never, time_limit_s=3)
        return await turn.effect("slow", {}, do=_never_whole, repeat="once", time_limit_s=3)

    acts = Acts(act)
    inspection = await life_of(acts)
    assert [result.status for result in acts.results] == [state]
    assert [(item.state, item.reason) for item in inspection.effects] == [
        (state, "it took longer than 3 s")
    ]
    assert autojump_clock.current_time() == 3


async def _never(_: dict[str, Any]) -> None:
    await trio.sleep_forever()


async def _never_whole(_: dict[str, Any], __: str) -> None:
    await trio.sleep_forever()


@pytest.mark.contract("C2", "C27", "A59")
async def test_a_tool_that_can_not_tell_whether_it_happened_makes_the_effect_unknown() -> None:
    async def pay(_: dict[str, Any], __: str) -> None:
        raise OutcomeUnknown("the bank did not answer")

    async def act(turn: Turn) -> EffectResult:
        return await turn.effect("pay", {}, do=pay, repeat="once")

    acts = Acts(act)
    inspection = await life_of(acts)
    assert (acts.results[0].status, acts.results[0].reason) == (
        "unknown",
        "the bank did not answer",
    )
    assert [item.state for item in inspection.effects] == ["unknown"]
    assert inspection.run.state == "completed"


@pytest.mark.contract("C27", "C50")
async def test_a_result_too_large_to_keep_does_not_make_an_effect_look_as_if_it_had_failed() -> (
    None
):
    async def pay(_: dict[str, Any], __: str) -> str:
        return "x" * 1000

    async def act(turn: Turn) -> EffectResult:
        return await turn.effect("pay", {}, do=pay, repeat="once")

    acts = Acts(act)
    inspection = await life_of(acts, Config(limits=Limits(result_bytes_max=100)))
    assert (acts.results[0].status, acts.results[0].value) == ("done", None)
    assert acts.results[0].reason.startswith("not kept: ")
    assert [(item.state, item.result) for item in inspection.effects] == [("done", None)]


@pytest.mark.contract("P79", "C27")
async def test_two_effects_at_once_are_both_on_record() -> None:
    both = Gate()
    begun: list[str] = []
    results: list[EffectResult] = []

    async def wait(arguments: dict[str, Any], operation_id: str) -> str:
        begun.append(operation_id)
        if len(begun) == 2:
            both.release()
        await both.passed()
        return str(arguments["what"])

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():

            async def do(what: str, turn: Turn = turn) -> None:
                results.append(await turn.effect("wait", {"what": what}, do=wait, repeat="once"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(do, "tea")
                nursery.start_soon(do, "coffee")
            await run.complete("Done.")

    async with InMemory().open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await ann.end_of(run)
        inspection = await runtime.inspect(scope="ann", run=run)

    assert sorted(str(result.value) for result in results) == ["coffee", "tea"]
    assert [item.state for item in inspection.effects] == ["done", "done"]
    assert sorted(bytes(item.result or b"") for item in inspection.effects) == [
        b'"coffee"',
        b'"tea"',
    ]
    assert sorted(begun) == [item.operation_id for item in inspection.effects]


# A stop.


class Stopped:
    """A run that is stopped while its effect is under way and a steering waits."""

    def __init__(self, repeat: str) -> None:
        self.gate = Gate()
        self.repeat = repeat

    async def read(self, _: dict[str, Any]) -> str:
        return await self.pay({}, "")

    async def pay(self, _: dict[str, Any], __: str) -> str:
        await self.gate.passed()
        return "paid"

    async def __call__(self, turn: Turn) -> EffectResult:
        if self.repeat == "read":
            return await turn.effect("look", {}, do=self.read)
        return await turn.effect("pay", {}, do=self.pay, repeat="once")

    async def life(self, *, reacts: bool) -> tuple[Inspection, Inspection]:
        """Return what is on record when the stop is accepted, and in the end."""
        async with InMemory().open(agents(Acts(self))) as runtime:
            ann = await person(runtime)
            run = await ann.researches("Dig")
            await self.gate.reached()
            await ann.steers(run, "Not that")
            await ann.stops(run, client_id="stop-1")
            accepted = await runtime.inspect(scope="ann", run=run)
            if reacts:
                self.gate.release()
            await ann.end_of(run)
            ended = await runtime.inspect(scope="ann", run=run)
            self.gate.release()
            return accepted, ended


def report(inspection: Inspection) -> StopView:
    assert inspection.stop is not None
    return inspection.stop


@pytest.mark.contract("C19", "C17", "C46", "P61")
async def test_a_stop_waits_for_what_must_not_be_torn_and_reports_that_it_happened() -> None:
    accepted, ended = await Stopped("once").life(reacts=True)

    assert (accepted.run.state, accepted.holds_slot) == ("stopping", True)
    assert (report(accepted).client_id, report(accepted).stopped_at_ms) == ("stop-1", None)
    assert (ended.run.state, ended.holds_slot) == ("stopped", False)
    assert report(ended).stopped_at_ms == ended.run.ended_at_ms
    assert report(ended).happened_effects == (1,)
    assert report(ended).unknown_effects == ()
    assert report(ended).unapplied_revisions == (1,)
    assert [item.state for item in ended.effects] == ["done"]


@pytest.mark.contract("C19", "C17", "C27")
async def test_a_stop_that_waited_long_enough_ends_the_run_and_reports_what_is_unknown(
    autojump_clock: MockClock,
) -> None:
    _, ended = await Stopped("once").life(reacts=False)

    assert ended.run.state == "stopped"
    assert "did not react within 5 s" in ended.run.detail
    assert (report(ended).happened_effects, report(ended).unknown_effects) == ((), (1,))
    assert not ended.holds_slot
    assert autojump_clock.current_time() < 60


@pytest.mark.contract("C19", "C26")
async def test_a_read_is_cut_by_a_stop_at_once(autojump_clock: MockClock) -> None:
    _, ended = await Stopped("read").life(reacts=False)
    assert (ended.run.state, ended.run.detail) == ("stopped", "")
    assert report(ended).happened_effects == ()
    assert autojump_clock.current_time() == 0


@pytest.mark.contract("C19", "C21", "C46")
async def test_a_request_that_a_stop_cuts_is_in_its_report() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Let ", gate))

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            await turn.request(gateway, lambda added: as_input(run, added))

    async with InMemory().open({"short": answers, "background": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await gate.reached()
        before = await runtime.inspect(scope="ann", run=run)
        await ann.stops(run)
        await ann.end_of(run)
        ended = await runtime.inspect(scope="ann", run=run)
    assert before.stop is None
    assert report(ended).cancelled_requests == (1,)


@pytest.mark.contract("C19", "C29", "E4", "E8")
async def test_an_agent_that_does_not_react_to_a_stop_is_shut_out(
    autojump_clock: MockClock,
) -> None:
    """It swallows its cancellation and goes on for as long as it likes."""
    gateway = ScriptedGateway(say("Never.", lasting=True))
    raised: list[str] = []
    gate = Gate()

    async def agent(run: RunContext) -> None:
        with trio.CancelScope(shield=True):
            turn = await anext(aiter(run.turns()))
            await gate.passed()
            await trio.sleep(100)
            calls: list[Any] = [
                lambda: turn.request(gateway, lambda added: as_input(run, added)),
                lambda: turn.effect("look", {}, do=_never),
                lambda: run.save(1),
                lambda: run.progress("still here"),
                run.promote,
                lambda: run.complete("All the same"),
            ]
            for call in calls:
                try:
                    await call()
                except Exception as error:  # noqa: BLE001 — it wants to go on
                    raised.append(type(error).__name__)

    async with InMemory().open({"short": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Dig")
        await gate.reached()
        await ann.stops(run)
        await ann.stops(run)  # again, under another id
        gate.release()
        ended = await ann.end_of(run)
        assert trio.current_time() == 5
        await trio.sleep(200)
        assert await ann.run(run) == ended

    assert (ended.state, ended.reason, ended.requests) == ("stopped", "user_stop", 0)
    assert "did not react within 5 s; it was shut out" in ended.detail
    assert raised == ["OwnerLost"] * 6
    assert gateway.received == ()
    assert autojump_clock.current_time() < 300
