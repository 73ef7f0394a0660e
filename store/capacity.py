"""Slots by scope and class.

Occupancy is the set of the runs that hold a slot, one record each; there is no counter
beside it (C35). Every change of it happens in the transaction of the fact that causes it:
admission takes a slot, promotion takes the second before it gives back the first (D10),
the end gives it back (C36). All tabs, conversations and processes of a scope meet here
(B45, D9).
"""

from __future__ import annotations

from . import keys
from .engine import ReadTxn, Txn
from .ids import RunId, ScopeId
from .limits import Limits
from .refusal import Code, Refused


def holders(txn: ReadTxn, scope: ScopeId, run_class: str) -> list[RunId]:
    """Return the runs that hold a slot of the class in the scope, oldest first."""
    prefix = keys.slots(scope, run_class)
    return [RunId(key[len(prefix) :].decode()) for key, _ in txn.scan(prefix, keys.after(prefix))]


def take(txn: Txn, limits: Limits, scope: ScopeId, run_class: str, run: RunId) -> None:
    """Take a slot for `run`.

    Raises:
      Refused: `capacity_full` with the runs that hold the slots. Nothing waits in a queue
        (B47, B52).
    """
    limit = limits.slots(scope, run_class)
    held = holders(txn, scope, run_class)
    if len(held) >= limit:
        raise Refused(
            Code.CAPACITY_FULL,
            f"All {limit} {run_class} slots are in use; this was not admitted and not queued. "
            "Wait for one of the runs that hold them, or stop it.",
            run_class=run_class,
            limit=limit,
            holders=held,
            allowed=["stop", "steer"],
        )
    txn.put(keys.slot(scope, run_class, run), b"")


def release(txn: Txn, scope: ScopeId, run_class: str, run: RunId) -> None:
    """Give the run's slot back. Doing it again changes nothing (C35)."""
    txn.delete(keys.slot(scope, run_class, run))
