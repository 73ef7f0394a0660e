"""The errors that callers meet, and the codes of refusals (C2, C3).

A verb that changes something returns (accepted, and durable), or raises `Refused` (nothing
was stored), or raises `OutcomeUnknown` (look the id up, or repeat it unchanged). Opening a
store that can't be opened raises `StoreUnusable`. `RuntimeFailed` ends a runtime whose
supervisor died.
"""

from __future__ import annotations

from ..store.engine import StoreUnusable
from ..store.records import Damaged
from ..store.refusal import Code, OutcomeUnknown, Refused
from ..store.requests import BudgetSpent, GateClosed
from ..store.runs import OwnerLost


class RuntimeFailed(Exception):
    """The runtime can't go on: its supervisor ended by the exception that is the cause.

    Everything that was acknowledged is in the store. Open it again: what was under way is
    settled then.
    """


__all__ = [
    "BudgetSpent",
    "Code",
    "Damaged",
    "GateClosed",
    "OutcomeUnknown",
    "OwnerLost",
    "Refused",
    "RuntimeFailed",
    "StoreUnusable",
]
