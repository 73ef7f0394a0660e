"""The message identity gate: one rule for every verb that changes something.

Identity is decided first and meaning second (A11). A client id belongs to its scope. The
first accepted use of it stores what it meant; the same meaning again reads the first
outcome back, and any other meaning is a conflict (A14-A18, C1, D7). A refusal stores
nothing, so its id stays free (D8).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from . import keys
from .engine import ReadTxn, Txn
from .ids import ClientId, ScopeId
from .records import Accepted, Meaning, decode, encode
from .refusal import Code, Refused


def text_hash(text: str) -> bytes:
    """Return the hash by which two texts count as the same: SHA-256 of its UTF-8."""
    return hashlib.sha256(text.encode()).digest()


def find(txn: ReadTxn, scope: ScopeId, client_id: ClientId) -> Accepted | None:
    """Return what this client id was accepted for, or None."""
    data = txn.get(keys.identity(scope, client_id))
    return None if data is None else decode(Accepted, data)


def replay(found: Accepted, meaning: Meaning) -> Accepted:
    """Return the first outcome if the meaning is the same.

    Raises:
      Refused: `conflict`, naming the first field that differs, with both values. Texts are
        never shown, only that they differ.
    """
    if found.meaning == meaning:
        return found
    for field in Meaning.__struct_fields__:
        expected, actual = getattr(found.meaning, field), getattr(meaning, field)
        if expected == actual:
            continue
        if field == "text_sha256":
            field, expected, actual = "text", expected.hex(), actual.hex()
        raise Refused(
            Code.CONFLICT,
            f"Client id {found.client_id!r} was accepted before with another {field}. "
            "What was accepted then stands unchanged; submit this under a new id.",
            field=field,
            expected=expected,
            actual=actual,
            conversation=found.conversation,
            message=found.message,
            run=found.run,
        )
    raise AssertionError("unequal meanings differ in a field")


def once(
    txn: Txn,
    scope: ScopeId,
    client_id: ClientId,
    meaning: Meaning,
    act: Callable[[], Accepted],
) -> Accepted:
    """Carry out `act` the first time, and read its outcome back every other time.

    The check comes before every other one, so a retry is never refused for want of the
    very slot that its own run holds (C5).

    Raises:
      Refused: as `replay`, or whatever `act` raises.
    """
    found = find(txn, scope, client_id)
    if found is not None:
        return replay(found, meaning)
    accepted = act()
    assert accepted.meaning == meaning
    txn.put(keys.identity(scope, client_id), encode(accepted))
    return accepted
