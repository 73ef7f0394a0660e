"""The message identity gate: one rule for every verb that changes something.

Identity is decided first and meaning second (A11). A client id belongs to its scope. The
first accepted use of it stores what it meant; the same meaning again reads the first
outcome back, and any other meaning is a conflict (A14-A18, C1, D7). A refusal stores
nothing, so its id stays free (D8).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from . import events, keys, runs
from .engine import ReadTxn, Txn
from .ids import ClientId, ConversationId, MessageId, RunId, ScopeId
from .records import Accepted, Meaning, Run, Verb, decode, encode
from .refusal import Code, Refused, not_found


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


def run_of(txn: ReadTxn, scope: ScopeId, client_id: ClientId, verb: Verb, run_id: RunId) -> Run:
    """Return the run that a verb is for.

    Raises:
      Refused: `not_found`, also for a run of another scope (D21); but `conflict` if the id is
        in use: it can't have stood for a run that is not there, and identity is decided
        first (A11).
    """
    run = runs.find(txn, run_id)
    if run is not None and run.scope == scope:
        return run
    found = find(txn, scope, client_id)
    if found is not None:
        replay(found, Meaning(verb=verb, conversation=found.meaning.conversation, target=run_id))
    raise not_found("run", run_id)


def must_have_conversation(
    txn: ReadTxn, scope: ScopeId, client_id: ClientId, verb: Verb, conversation: ConversationId
) -> None:
    """Check that the conversation that a message is for is there. Raises as `run_of`."""
    if events.find_head(txn, scope, conversation) is not None:
        return
    found = find(txn, scope, client_id)
    if found is not None:
        replay(found, Meaning(verb=verb, conversation=conversation))
    raise not_found("conversation", conversation)


def accepted(
    log: events.Log,
    client_id: ClientId,
    meaning: Meaning,
    version: int,
    *,
    message: MessageId | None = None,
    run: RunId | None = None,
    revision: int | None = None,
) -> Accepted:
    """Return the outcome of a verb whose event in `log` has the number `version`."""
    return Accepted(
        scope=log.head.scope,
        client_id=client_id,
        meaning=meaning,
        at_ms=log.now_ms,
        conversation=log.head.conversation,
        version=version,
        message=message,
        run=run,
        revision=revision,
    )


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
    outcome = act()
    assert outcome.meaning == meaning
    txn.put(keys.identity(scope, client_id), encode(outcome))
    return outcome
