"""The events of a store, in order: the log is written again in the mind and compared.

Numbers and back pointers follow from the events before, so each event is held to what the
log would have written there. Where one differs, it is named and then believed, so that
one missing event is not told of once for every later one.
"""

from __future__ import annotations

from typing import Final

from .. import keys
from ..events import SKIP
from ..records import Accepted, Conversation, Event, EventKind, Message
from .breach import Breach, Findings
from .lookup import same_place
from .survey import Survey, Thread
from .tale import tell

RECEIPT_KINDS: Final = frozenset(
    {
        EventKind.CONVERSATION_OPENED,
        EventKind.MESSAGE_ADMITTED,
        EventKind.REVISION_SAVED,
        EventKind.REVISION_WITHDRAWN,
        EventKind.EFFECT_RESOLVED,
        EventKind.STOP_ACCEPTED,
    }
)
"""The events that tell of a receipt: its version is their number."""


def check_events(survey: Survey) -> Findings[None]:
    """E4, E5, E9: every event, in the order of the store."""
    for key, data in survey.look.family(keys.EVENTS):
        at = int.from_bytes(key[1:])
        if len(key) != 9:
            yield Breach("E12", "This is not the key of an event.", (key,))
            continue
        if at != survey.sequence:
            gap = keys.event(survey.sequence)
            yield Breach(
                "E9",
                f"The store's events {survey.sequence} to {at - 1} are not there.",
                (gap, key),
            )
        survey.sequence = at + 1
        event = yield from survey.look.standing(
            Event, key, data, lambda event: event.number > 0, True
        )
        if event is not None:
            yield from _check_event(survey, key, at, event)


def check_sequence(survey: Survey) -> Findings[None]:
    """E9: the store's counter is the sequence of its next event."""
    for key, data in survey.look.family(keys.SEQUENCE[:1]):
        if key != keys.SEQUENCE:
            yield Breach("E12", "No record of a store stands here.", (key,))
        elif len(data) != 8:
            yield Breach("E12", "The store's sequence is not a number of 8 bytes.", (key,))
        elif int.from_bytes(data) != survey.sequence:
            yield Breach(
                "E9",
                f"The store's next event would be {int.from_bytes(data)}, "
                f"and its last is {survey.sequence - 1}.",
                (key,),
            )
    if survey.sequence > 1 and not survey.look.has(keys.SEQUENCE):
        yield Breach("E9", "The store has events and no sequence.", (keys.SEQUENCE,))


def _check_event(survey: Survey, key: bytes, at: int, event: Event) -> Findings[None]:
    thread = survey.threads.get(event.conversation)
    if thread is None:
        # Said once a conversation, not once an event.
        head = yield from survey.look.named(Conversation, event.conversation, key)
        thread = survey.threads[event.conversation]
        thread.scope = None if head is None else head.scope
    if thread.scope not in (None, event.scope):
        yield Breach(
            "E11",
            f"An event of scope {event.scope!r} is of a conversation of {thread.scope!r}.",
            (key, event.conversation.encode()),
        )
    yield from _check_place(key, at, event, thread)
    if (event.number == 1) is not (event.kind is EventKind.CONVERSATION_OPENED):
        yield Breach("E9", "A conversation is opened by its first event, and by that only.", (key,))
    if event.run is not None:
        yield from tell(survey, key, event, event.run)
    elif event.kind is not EventKind.CONVERSATION_OPENED:
        yield Breach("E12", f"An event {event.kind} names no run.", (key,))
    yield from _check_names(survey, key, event, thread)


def _check_place(key: bytes, at: int, event: Event, thread: Thread) -> Findings[None]:
    if event.number != thread.events + 1:
        before = keys.event(thread.last_event)
        yield Breach(
            "E9",
            f"Event {event.number} of {event.conversation} follows event {thread.events}.",
            (before, key),
        )
    back = _back(event.number, at, thread)
    if event.back != back:
        yield Breach(
            "E9",
            f"Event {event.number} of {event.conversation} points back to {event.back} "
            f"instead of {back}.",
            (key,),
        )
    thread.events = event.number
    thread.last_event = at


def _back(number: int, at: int, thread: Thread) -> tuple[int, ...]:
    """Return what event `number` should point back to, and note it for later ones."""
    if number == 1:
        return ()
    back = [thread.last_event]
    level, step = 0, SKIP
    while number % step == 0:
        if level < len(thread.skips):
            back.append(thread.skips[level])
            thread.skips[level] = at
        else:
            thread.skips.append(at)
        level, step = level + 1, step * SKIP
    return tuple(back)


def _check_names(survey: Survey, key: bytes, event: Event, thread: Thread) -> Findings[None]:
    if event.message is not None:
        message = yield from survey.look.named(Message, event.message, key)
        yield from same_place(event, key, message, event.message.encode())
        if message is not None and event.kind is EventKind.MESSAGE_ADMITTED:
            told = event.facts.get("entry"), event.facts.get("disposition")
            if told != (message.verb, message.disposition):
                yield Breach(
                    "E1",
                    f"What became of {event.message} is told otherwise by its event.",
                    (key, event.message.encode()),
                )
    if event.client_id is None:
        if event.kind in RECEIPT_KINDS:
            yield Breach("E12", f"An event {event.kind} names no client id.", (key,))
        return
    if event.kind not in RECEIPT_KINDS and survey.look.has(
        keys.identity(event.scope, event.client_id)
    ):
        return
    receipt = yield from survey.look.receipt(event.scope, event.client_id, key)
    if event.kind in RECEIPT_KINDS and receipt is not None:
        if tells_of(event, receipt):
            thread.told += 1
        else:
            yield Breach(
                "E2",
                f"The receipt of client id {event.client_id!r} is of something else than "
                f"event {event.number} of {event.conversation}.",
                (key, keys.identity(event.scope, event.client_id)),
            )


def tells_of(event: Event, receipt: Accepted) -> bool:
    """Return whether `event` is the one that `receipt` gives as its version."""
    made = event.kind in (EventKind.MESSAGE_ADMITTED, EventKind.REVISION_SAVED)
    return (
        event.kind in RECEIPT_KINDS
        and receipt.conversation == event.conversation
        and receipt.version == event.number
        and receipt.message == (event.message if made else None)
        and receipt.run == event.run
        and receipt.revision == event.facts.get("revision")
    )


def check_untold_receipts(survey: Survey) -> Findings[None]:
    """E10: every receipt is told of by an event.

    They are counted as they are met, and looked for one by one only where the counts differ.
    """
    short = {
        conversation
        for conversation, thread in survey.threads.items()
        if thread.told != thread.receipts
    }
    if not short:
        return
    told = set[bytes]()
    for key, _ in survey.look.family(keys.EVENTS):
        event = survey.look.find(Event, key)
        if event is None or event.conversation not in short or event.client_id is None:
            continue
        receipt = keys.identity(event.scope, event.client_id)
        accepted = survey.look.find(Accepted, receipt)
        if accepted is not None and tells_of(event, accepted):
            told.add(receipt)
    for key, _ in survey.look.family(b"i"):
        accepted = survey.look.find(Accepted, key)
        if accepted is not None and accepted.conversation in short and key not in told:
            yield Breach(
                "E10",
                f"No event {accepted.version} of {accepted.conversation} tells of this receipt.",
                (key,),
            )
