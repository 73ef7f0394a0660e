"""The numbered events of a conversation, and the chain of what was said in it.

All events of a store stand in one family under a growing sequence, so that the events of
many conversations that are committed together lie on the same pages, and so that another
process can follow everything by reading on from the last sequence it saw. The events of
one conversation are found through back pointers: each names the event before it, and the
event numbered with a multiple of 8^k also names the one 8^k before. To find any number
takes at most seven steps a level to rounder numbers, and seven a level down from there
(the worst among 32,767 events takes 63 reads).

Messages and published answers, the *entries*, are a chain of their own through
`previous`. A chain only grows at its head, so a pointer to an entry fixes for ever what
somebody who starts there can see (B35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from . import keys
from .engine import ReadTxn, Txn
from .ids import ClientId, ConversationId, MessageId, PublicationId, RunId, ScopeId
from .records import (
    Conversation,
    Damaged,
    Event,
    EventKind,
    Message,
    Publication,
    decode,
    encode,
)
from .refusal import not_found

SKIP = 8


class Log:
    """What one transaction adds to one conversation. Call `close` once, at the end."""

    def __init__(self, txn: Txn, head: Conversation, now_ms: int) -> None:
        self._txn = txn
        self._now_ms = now_ms
        self._sequence = sequence(txn)
        self._skips = list(head.skips)
        self._events = head.events
        self._last_event = head.last_event
        self._entries = head.entries
        self._last_entry = head.last_entry
        self.head = head

    @property
    def now_ms(self) -> int:
        """When the transaction happens, for every record it makes."""
        return self._now_ms

    @property
    def last_entry(self) -> MessageId | PublicationId | None:
        """The newest entry so far."""
        return self._last_entry

    @property
    def entries(self) -> int:
        """How many entries there are so far."""
        return self._entries

    def enter(self, entry: MessageId | PublicationId) -> None:
        """Make `entry` the newest of the chain. Its record names what was the newest before."""
        self._entries += 1
        self._last_entry = entry

    def append(
        self,
        kind: EventKind,
        *,
        run: RunId | None = None,
        message: MessageId | None = None,
        client_id: ClientId | None = None,
        **facts: Any,
    ) -> int:
        """Add an event and return its number."""
        number = self._events + 1
        event = Event(
            scope=self.head.scope,
            conversation=self.head.conversation,
            number=number,
            at_ms=self._now_ms,
            kind=kind,
            back=self._back(number),
            run=run,
            message=message,
            client_id=client_id,
            facts=facts,
        )
        self._txn.put(keys.event(self._sequence), encode(event))
        self._events = number
        self._last_event = self._sequence
        self._sequence += 1
        return number

    def _back(self, number: int) -> tuple[int, ...]:
        """Return the back pointers of event `number`, and remember it for later ones."""
        if number == 1:
            return ()
        if number % SKIP:
            return (self._last_event,)
        back = [self._last_event]
        level, step = 0, SKIP
        while number % step == 0:
            if level < len(self._skips):
                back.append(self._skips[level])
                self._skips[level] = self._sequence
            else:
                self._skips.append(self._sequence)
            level, step = level + 1, step * SKIP
        return tuple(back)

    def close(self) -> Conversation:
        """Store the head; return it."""
        head = replace(
            self.head,
            events=self._events,
            last_event=self._last_event,
            entries=self._entries,
            last_entry=self._last_entry,
            skips=tuple(self._skips),
        )
        self._txn.put(keys.conversation(head.conversation), encode(head))
        self._txn.put(keys.SEQUENCE, self._sequence.to_bytes(8))
        return head


def sequence(txn: ReadTxn) -> int:
    """Return the sequence that the store's next event will have; the first is 1."""
    data = txn.get(keys.SEQUENCE)
    return 1 if data is None else int.from_bytes(data)


def head_of(txn: ReadTxn, scope: ScopeId, conversation: ConversationId) -> Conversation:
    """Return the head of a conversation of this scope.

    Raises:
      Refused: `not_found`, also for a conversation of another scope (D21).
    """
    head = find_head(txn, scope, conversation)
    if head is None:
        raise not_found("conversation", conversation)
    return head


def find_head(txn: ReadTxn, scope: ScopeId, conversation: ConversationId) -> Conversation | None:
    """As `head_of`, but return None."""
    if not conversation.startswith("c"):
        return None
    data = txn.get(keys.conversation(conversation))
    if data is None:
        return None
    head = decode(Conversation, data)
    return head if head.scope == scope else None


def event_at(txn: ReadTxn, at: int) -> Event:
    """Return the event with this store sequence.

    Raises:
      Damaged: if there is none, although something names it.
    """
    data = txn.get(keys.event(at))
    if data is None:
        raise Damaged(f"Event {at} is named by another record and does not exist.")
    return decode(Event, data)


def _seek(txn: ReadTxn, head: Conversation, number: int) -> Event:
    """Return event `number` of the conversation, with 1 <= number <= head.events."""
    event = event_at(txn, head.last_event)
    while event.number > number:
        level = 0
        while (
            level + 1 < len(event.back)
            and event.number - SKIP ** (level + 1) >= number
            and event.number % SKIP ** (level + 1) == 0
        ):
            level += 1
        event = event_at(txn, event.back[level])
    assert event.number == number
    return event


def page(txn: ReadTxn, head: Conversation, *, after: int, limit: int) -> list[Event]:
    """Return up to `limit` events with a number above `after`, oldest first."""
    after = max(after, 0)
    last = min(head.events, after + limit)
    if last <= after:
        return []
    event = _seek(txn, head, last)
    found = [event]
    while event.number > after + 1:
        event = event_at(txn, event.back[0])
        found.append(event)
    found.reverse()
    return found


def since(txn: ReadTxn, first: int) -> Iterator[Event]:
    """Yield every event of the store with a sequence of at least `first`, in order."""
    for _, data in txn.scan(keys.event(first), keys.after(keys.EVENTS)):
        yield decode(Event, data)


Entry = Message | Publication


def entry(txn: ReadTxn, identifier: MessageId | PublicationId) -> Entry:
    """Return a message or publication by its id.

    Raises:
      Damaged: if there is none, although something names it.
    """
    data = txn.get(identifier.encode())
    if data is None:
        raise Damaged(f"{identifier} is named by another record and does not exist.")
    return decode(Message, data) if identifier.startswith("m") else decode(Publication, data)


def entries_back(txn: ReadTxn, newest: MessageId | PublicationId | None) -> Iterator[Entry]:
    """Yield the entries from `newest` back to the conversation's first."""
    at = newest
    while at is not None:
        found = entry(txn, at)
        yield found
        at = found.previous
