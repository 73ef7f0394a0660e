"""Messages: what a person said, verbatim, in the order in which it was accepted."""

from __future__ import annotations

from . import keys
from .engine import ReadTxn, Txn
from .events import Log
from .ids import ClientId, MessageId, RunId
from .records import Damaged, Message, Record, Verb, decode, encode


class Words(Record, frozen=True, kw_only=True):
    """What came in, and the message id that it gets."""

    message: MessageId
    client_id: ClientId
    verb: Verb
    text: str
    text_sha256: bytes


def put(
    txn: Txn,
    log: Log,
    words: Words,
    *,
    run: RunId,
    disposition: str,
    revision: int | None = None,
) -> None:
    """Store a message as the newest entry of the log's conversation."""
    key = keys.message(words.message)
    assert txn.get(key) is None, "message ids are never used twice"
    record = Message(
        scope=log.head.scope,
        conversation=log.head.conversation,
        message=words.message,
        client_id=words.client_id,
        verb=words.verb,
        text=words.text,
        text_sha256=words.text_sha256,
        at_ms=log.now_ms,
        run=run,
        entry=log.entries + 1,
        previous=log.last_entry,
        revision=revision,
        disposition=disposition,
    )
    txn.put(key, encode(record))
    log.enter(words.message)


def get(txn: ReadTxn, message: MessageId) -> Message:
    """Return a message by its id.

    Raises:
      Damaged: if it does not exist, although something names it.
    """
    data = txn.get(keys.message(message))
    if data is None:
        raise Damaged(f"Message {message} is named by another record and does not exist.")
    return decode(Message, data)
