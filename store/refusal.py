"""A refusal: nothing was stored, and the reason is something a program can act on.

Rules raise it inside their transaction, so a refusal leaves nothing behind (D8); the same
object travels up to the caller unchanged (C3).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Code(StrEnum):
    """Why something was refused. Stable: programs may compare with these."""

    INVALID = "invalid"
    """An argument is not of the form that the verb takes. Facts: `field`."""
    TOO_LARGE = "too_large"
    """An argument is over its limit. Facts: `field`, `limit`, `actual`."""
    NOT_FOUND = "not_found"
    """No such conversation, run or message for this scope (D21). Facts: `kind`, `id`."""
    CONFLICT = "conflict"
    """The client id is in use with another meaning. Facts: `field`, `expected`, `actual`."""
    CAPACITY_FULL = "capacity_full"
    """Every slot of the class is held. Facts: `run_class`, `limit`, `holders`, `allowed`."""
    RUN_ENDED = "run_ended"
    """The run is in a final state. Facts: `run`, `state`, `reason`."""
    RUN_STOPPING = "run_stopping"
    """A stop of the run was accepted. Facts: `run`."""
    STALE_REVISION = "stale_revision"
    """The run has another revision by now. Facts: `run`, `expected`, `actual`."""
    REVISIONS_FULL = "revisions_full"
    """Too many revisions wait to be carried. Facts: `run`, `limit`."""
    TAKEN = "taken"
    """A request has taken the revision, so it can't be withdrawn. Facts: `run`, `revision`,
    `state`, `request`."""
    NOT_UNKNOWN = "not_unknown"
    """The effect's outcome is known, so there is nothing to resolve. Facts: `run`,
    `effect`, `state`."""
    RUNS_FULL = "runs_full"
    """The conversation has too many runs that have not ended. Facts: `limit`."""
    OVERLOADED = "overloaded"
    """This process can't take more work at the moment. Facts: `limit`."""
    UNAVAILABLE = "unavailable"
    """Something of ours fails over and over and is left alone for now. Facts: `failures`."""
    BUSY = "busy"
    """The store's write lock was not free in time (D18). Facts: `waited_s`."""
    STORE_FULL = "store_full"
    """The disk or the map is full (D19)."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The store can't be written: read-only, failed or closed."""
    SHUTTING_DOWN = "shutting_down"
    """The runtime admits nothing more (D20)."""


RETRY_UNCHANGED = frozenset(
    {
        Code.CAPACITY_FULL,
        Code.REVISIONS_FULL,
        Code.RUNS_FULL,
        Code.OVERLOADED,
        Code.UNAVAILABLE,
        Code.BUSY,
        Code.STORE_FULL,
        Code.STORE_UNAVAILABLE,
        Code.SHUTTING_DOWN,
    }
)
"""Codes after which the same submission under the same id may succeed later (A22, C3)."""


class Refused(Exception):
    """Something was asked for that is not allowed now; nothing was stored (C2, D8).

    Attributes:
      code: why, for a program.
      sentence: why, and what to do, for a person.
      facts: ids and numbers to act on; which ones stand beside each `Code`.
      text: the text of the submission, byte for byte, so that it can't be lost (C4).
      retry_same_id: whether the same submission under the same id may succeed later.
    """

    def __init__(self, code: Code, sentence: str, **facts: Any) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.facts: dict[str, Any] = facts
        self.text: str | None = None

    @property
    def retry_same_id(self) -> bool:
        """Whether the same submission under the same id may succeed later."""
        return self.code in RETRY_UNCHANGED

    def __str__(self) -> str:
        return f"{self.sentence} [{self.code}]"

    def as_dict(self) -> dict[str, Any]:
        """Return the refusal as plain values, for JSON."""
        return {
            "code": str(self.code),
            "sentence": self.sentence,
            "retry_same_id": self.retry_same_id,
            "facts": self.facts,
            "text": self.text,
        }


class OutcomeUnknown(Exception):
    """Whether this was accepted is not known: the caller must not assume either (C2, A20).

    Look the client id up, or repeat the same submission under the same id: both read the
    durable fact before anything else happens (A19). Never repeat it under a new id.

    Attributes:
      client_id: the id to look up, where the verb has one.
    """

    def __init__(self, sentence: str, client_id: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.client_id = client_id


def not_found(kind: str, identifier: str) -> Refused:
    """Return the one answer for what never was, is gone, or is another scope's (D21)."""
    return Refused(
        Code.NOT_FOUND, f"There is no {kind} {identifier!r} here.", kind=kind, id=identifier
    )
