"""The limits that the rules of the store enforce, with their defaults and units (C50)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from .keys import ID_BYTES_MAX

SHORT: Final = "short"
BACKGROUND: Final = "background"

DEFAULT_CAPACITY: Final[Mapping[str, int]] = MappingProxyType({SHORT: 3, BACKGROUND: 1})
"""Slots by class in every scope, as the second article began (B41, D9)."""


def must_be_of_their_types(settings: msgspec.Struct) -> None:
    """Check each field of what a host has written by hand: a struct does not check it itself.

    Raises:
      TypeError: naming the first field that is of another type than it is declared with.
    """
    for field in msgspec.structs.fields(settings):
        try:
            msgspec.convert(getattr(settings, field.name), field.type)
        except msgspec.ValidationError as error:
            raise TypeError(f"{field.name} is not of its type: {error}") from error


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one store accepts. Every process that opens a store should use the same.

    `capacity` maps a class to its slots in every scope; `capacity_of_scope` overrides
    classes of single scopes. A class that is in neither has no slots.
    """

    capacity: Mapping[str, int] = msgspec.field(default_factory=lambda: dict(DEFAULT_CAPACITY))
    capacity_of_scope: Mapping[str, Mapping[str, int]] = msgspec.field(
        default_factory=dict[str, Mapping[str, int]]
    )
    text_bytes_max: int = 64 * 1024
    title_bytes_max: int = 256
    undelivered_revisions_max: int = 32
    live_runs_of_conversation_max: int = 64
    overview_runs_max: int = 16
    history_items_max: int = 40
    history_bytes_max: int = 32 * 1024
    requests_of_run_max: int = 64
    effect_ms_max: int = 60_000
    """How long one effect may take, if its agent says nothing else."""
    effects_of_run_max: int = 1_024
    entries_of_run_max: int = 5
    """How often the agent of one run is entered, losses of its owner included."""
    tokens_of_run_max: int = 4_000_000
    keep_inputs: bool = True
    """Whether the exact input of each request is kept with its run, or its hash alone."""
    active_ms_of_run_max: int = 60 * 60 * 1000
    deadline_ms_of_run: int | None = None
    """How long after its admission a run must have ended, waiting included; None: never."""
    progress_bytes_max: int = 4 * 1024
    result_bytes_max: int = 256 * 1024
    checkpoint_bytes_max: int = 1024 * 1024
    input_bytes_max: int = 1024 * 1024
    answer_bytes_max: int = 1024 * 1024
    event_page: int = 500
    settle_page: int = 1_000
    """How many runs of processes that are gone are looked up at once; all are settled."""

    def __post_init__(self) -> None:
        must_be_of_their_types(self)
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is int and value < 1:  # a switch is no bound
                raise ValueError(f"{name} must be at least 1, not {value}")
        for classes in (self.capacity, *self.capacity_of_scope.values()):
            for run_class, slots in classes.items():
                if not run_class.isidentifier() or len(run_class.encode()) > ID_BYTES_MAX:
                    raise ValueError(f"{run_class!r} is not the name of a capacity class")
                if slots < 0:
                    raise ValueError(f"class {run_class!r} can't have {slots} slots")

    def slots(self, scope: str, run_class: str) -> int:
        """Return how many runs of a class a scope may hold at once."""
        of_scope = self.capacity_of_scope.get(scope)
        if of_scope is not None and run_class in of_scope:
            return of_scope[run_class]
        return self.capacity.get(run_class, 0)
