"""Every limit and time-out of a runtime, with its default and its unit.

Config()                                        # three short, one background a scope
Config(limits=Limits(capacity={"short": 5, "background": 2}))
"""

from __future__ import annotations

import msgspec

from ..actors.environment import Timing
from ..store.limits import Limits, must_be_of_their_types

GIB = 1 << 30


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How one runtime is set up. Sizes in bytes, times in seconds; checked when built.

    Processes that share a store should share `limits`: each enforces its own.
    """

    limits: Limits = msgspec.field(default_factory=Limits)
    write_wait_s: float = 5.0
    """How long a write waits to begin before it is refused as `busy` (D18)."""
    ask_wait_s: float = 30.0
    """How long a verb waits for its outcome before that counts as unknown."""
    actor_idle_s: float = 60.0
    poll_s: float = 0.25
    """How soon, at the latest, what another process committed is noticed."""
    settle_every_s: float = 2.0
    """How often runs of processes that are gone are looked for."""
    drain_s: float = 10.0
    """How long runs may still work when the runtime is left (D20)."""
    stop_wait_s: float = 5.0
    """How long a run that is cut may take to come to rest before it ends without its agent."""
    restarts_max: int = 5
    """How often a conversation's actor that dies is started again in `restarts_s`."""
    restarts_s: float = 60.0
    live_runs_max: int = 2_000
    """Runs that this process executes at once."""
    map_bytes: int = 1 * GIB
    map_bytes_max: int = 64 * GIB

    def __post_init__(self) -> None:
        must_be_of_their_types(self)
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not value > 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        if self.map_bytes > self.map_bytes_max:
            raise ValueError("map_bytes must not be above map_bytes_max")

    def timing(self) -> Timing:
        """Return the part that actors need."""
        return Timing(
            write_wait_s=self.write_wait_s,
            actor_idle_s=self.actor_idle_s,
            poll_s=self.poll_s,
            settle_every_s=self.settle_every_s,
            drain_s=self.drain_s,
            stop_wait_s=self.stop_wait_s,
            restarts_max=self.restarts_max,
            restarts_s=self.restarts_s,
        )
