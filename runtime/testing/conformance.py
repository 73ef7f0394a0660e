"""Holds a host's adapter to the rules of a gateway.

The host writes a stand-in for its provider: a local server, or whatever its adapter can be
connected to, that plays a `Scenario`. It hands the suite a function that opens the adapter
on it:

    @asynccontextmanager
    async def make(scenario: Scenario) -> AsyncGenerator[Gateway, None]:
        async with stand_in(scenario) as base_url, MyGateway(base_url) as gateway:
            yield gateway

    async def test_my_gateway_conforms() -> None:
        report = await check_gateway(make)
        assert report.conforms, report

or, with each check a test of its own:

    @pytest.mark.parametrize("check", GATEWAY_CHECKS, ids=str)
    async def test_my_gateway(check: Check) -> None:
        report = await check_gateway(make, checks=[check])
        assert report.conforms, report

It is for adapters that stream. Make the adapter's own retries few and quick: a stand-in that
refuses does so for good. Beside an adapter with real sockets take no clock that jumps.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .gateway_checks import GATEWAY_CHECKS
from .gateway_rules import Breach, Rule
from .trial import Check, Make, Trial


class Report(msgspec.Struct, frozen=True):
    """What the suite found. `str()` of it is for people."""

    checked: tuple[str, ...]
    breaches: tuple[Breach, ...]

    @property
    def conforms(self) -> bool:
        """True if no rule was broken."""
        return not self.breaches

    @property
    def broken(self) -> frozenset[Rule]:
        """The rules that were broken."""
        return frozenset(breach.rule for breach in self.breaches)

    def __str__(self) -> str:
        if self.conforms:
            return f"The gateway conforms in {len(self.checked)} checks."
        return "\n".join(["The gateway breaks these rules:", *map(str, self.breaches)])


async def check_gateway(
    make: Make, *, checks: Sequence[Check] = GATEWAY_CHECKS, patience_s: float = 5.0
) -> Report:
    """Put the adapter through the checks, each with a gateway of its own, and report.

    Called in the trio loop. `patience_s` is waited for what a gateway must do at once; one
    that conforms never takes it. What `make` and its stand-in raise passes. An adapter that
    shields itself from cancellation and never ends can't be cut off.
    """
    breaches: list[Breach] = []
    for check in checks:
        trial = Trial(check, make, patience_s)
        await check.play(trial)
        breaches += trial.breaches
    return Report(tuple(check.name for check in checks), tuple(breaches))
