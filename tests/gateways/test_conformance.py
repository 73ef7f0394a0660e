"""The suite passes what conforms, and names the rule that an adapter breaks.

Method: adapters without a wire read the suite's scenarios directly; each wrong one differs
from the right one in a single thing. Ours goes over a real connection to a provider on the
loopback that plays the same scenarios.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

import counterpoint.runtime.testing
from counterpoint.runtime import Gateway
from counterpoint.runtime.gateways import WithQuota
from counterpoint.runtime.gateways.openai import OpenAICompatible
from counterpoint.runtime.testing import GATEWAY_CHECKS, RULES, Check, Rule, Scenario, check_gateway

from . import adapters
from .adapters import Conforming, opening
from .faulty_provider import faulty_provider, plain_transport, plays

WRONG: list[tuple[type[Conforming], Rule]] = [
    (adapters.Flattening, Rule.CANCELLATION),
    (adapters.Swallowing, Rule.CANCELLATION),
    (adapters.Shielded, Rule.CANCELLATION),
    (adapters.Buffering, Rule.TEXT),
    (adapters.Trimming, Rule.TEXT),
    (adapters.Trailing, Rule.TEXT),
    (adapters.Unannouncing, Rule.CALLING),
    (adapters.AnnouncingLate, Rule.CALLING),
    (adapters.Leaking, Rule.FAULTS),
    (adapters.Lenient, Rule.FAULTS),
    (adapters.Zeroing, Rule.USAGE),
    (adapters.Merging, Rule.CALLS),
    (adapters.Polishing, Rule.INPUT),
    (adapters.Sharing, Rule.LATE),
    (adapters.Insisting, Rule.ONE_REQUEST),
    (adapters.Eager, Rule.ONE_REQUEST),
    (adapters.Mixing, Rule.APART),
]


@pytest.mark.contract("C21")
@pytest.mark.parametrize(("adapter", "rule"), WRONG, ids=[adapter.__name__ for adapter, _ in WRONG])
async def test_a_wrong_adapter_fails_for_the_rule_that_it_breaks_and_for_no_other(
    adapter: type[Conforming], rule: Rule, autojump_clock: MockClock
) -> None:
    report = await check_gateway(opening(adapter))

    assert report.broken == {rule}
    assert not report.conforms
    assert f"{rule} " in str(report)
    assert RULES[rule] in str(report)


@pytest.mark.contract("C21")
async def test_an_adapter_that_keeps_to_the_rules_conforms(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    report = await check_gateway(opening(Conforming))

    assert report.conforms, report
    assert report.checked == tuple(check.name for check in GATEWAY_CHECKS)
    assert str(report) == f"The gateway conforms in {len(GATEWAY_CHECKS)} checks."
    assert trio.current_time() == began, "it never takes the suite's patience"


async def test_a_quota_in_front_changes_nothing(autojump_clock: MockClock) -> None:
    def quoted(scenario: Scenario) -> Gateway:
        return WithQuota(Conforming(scenario), concurrent_max=2, per_minute_max=10)

    report = await check_gateway(opening(quoted))
    assert report.conforms, report


@asynccontextmanager
async def ours(scenario: Scenario) -> AsyncGenerator[Gateway, None]:
    async with (
        faulty_provider(*[plays(scenario)] * 3) as provider,
        OpenAICompatible(
            provider.base_url, "model", retries_max=0, transport=plain_transport()
        ) as gateway,
    ):
        yield gateway


@pytest.mark.contract("C21", "C22", "C33", "B60")
@pytest.mark.parametrize("check", GATEWAY_CHECKS, ids=str)
async def test_the_gateway_for_chat_completions_conforms(check: Check) -> None:
    report = await check_gateway(ours, checks=[check])
    assert report.conforms, report


def test_the_public_names_are_this_list() -> None:
    assert counterpoint.runtime.testing.__all__ == [
        "GATEWAY_CHECKS",
        "RULES",
        "Answer",
        "Breach",
        "CallPart",
        "Check",
        "Fault",
        "Make",
        "Part",
        "Report",
        "Rule",
        "Scenario",
        "Text",
        "UsageTold",
        "check_gateway",
    ]


def test_every_rule_has_a_sentence_a_check_and_a_wrong_adapter() -> None:
    assert set(RULES) == set(Rule)
    assert {check.rule for check in GATEWAY_CHECKS} == set(Rule)
    assert {rule for _, rule in WRONG} == set(Rule)
    names = [check.name for check in GATEWAY_CHECKS]
    assert len(set(names)) == len(names)
