"""Conversations, what was said in them, and the index under their scope."""

from __future__ import annotations

from .. import keys
from ..identity import text_hash
from ..ids import ConversationId
from ..records import (
    Accepted,
    Conversation,
    Message,
    Publication,
    Revision,
    Run,
    Verb,
)
from ..runs import FINAL
from .breach import Breach, Findings
from .lookup import is_id, same_place, text
from .survey import Survey

ADMITTING = frozenset({Verb.PLAIN, Verb.BACKGROUND, Verb.CONTINUE})
"""The entries of a message that has a run of its own."""


def check_messages(survey: Survey) -> Findings[None]:
    """E1, E2, E10, E12: every message is whole, was accepted, and something became of it."""
    look = survey.look
    for key, data in look.family(b"m"):
        message = yield from look.standing(
            Message, key, data, lambda message: message.message.encode(), key
        )
        if message is None:
            continue
        if text_hash(message.text) != message.text_sha256:
            yield Breach("E12", f"The text of {message.message} is not that of its hash.", (key,))
        yield from _check_entry(survey, key, message)
        receipt = yield from look.receipt(message.scope, message.client_id, key)
        yield from _check_receipt_of(key, message, receipt)
        run = yield from look.named(Run, message.run, key)
        yield from same_place(message, key, run, message.run.encode())
        yield from _check_disposition(survey, key, message, run)


def _check_receipt_of(key: bytes, message: Message, receipt: Accepted | None) -> Findings[None]:
    if receipt is not None and receipt.message != message.message:
        yield Breach(
            "E2",
            f"Client id {message.client_id!r} was accepted for {receipt.message}, "
            f"and {message.message} has it too.",
            (key, keys.identity(message.scope, message.client_id)),
        )


def _check_disposition(
    survey: Survey, key: bytes, message: Message, run: Run | None
) -> Findings[None]:
    if not message.disposition:
        yield Breach("E1", f"Nothing is said of what became of {message.message}.", (key,))
    if message.verb in (Verb.STOP, Verb.OPEN):
        yield Breach("E12", f"A message does not come in as {message.verb}.", (key,))
    if (message.verb is Verb.STEER) is not (message.revision is not None):
        yield Breach("E1", f"Message {message.message} is a steering by half.", (key,))
    elif message.revision is not None:
        revision = yield from survey.look.numbered(
            Revision,
            lambda number: keys.revision(message.run, number),
            message.revision,
            key,
        )
        if revision is not None and revision.message != message.message:
            yield Breach(
                "E1",
                f"Revision {message.revision} of {message.run} is of another message.",
                (key, keys.revision(message.run, revision.number)),
            )
    elif message.verb in ADMITTING and run is not None and run.message != message.message:
        yield Breach(
            "E1",
            f"Run {message.run} was started by another message than {message.message}.",
            (key, message.run.encode()),
        )


def check_publications(survey: Survey) -> Findings[None]:
    """E5: every published answer is the one of a run that has ended."""
    look = survey.look
    for key, data in look.family(b"p"):
        publication = yield from look.standing(
            Publication, key, data, lambda found: found.publication.encode(), key
        )
        if publication is None:
            continue
        yield from _check_entry(survey, key, publication)
        run = yield from look.named(Run, publication.run, key)
        yield from same_place(publication, key, run, publication.run.encode())
        if run is not None and run.publication != publication.publication:
            yield Breach(
                "E5",
                f"Run {publication.run} published {run.publication}.",
                (key, keys.run(run.run)),
            )
        if run is not None and run.state not in FINAL:
            yield Breach(
                "E5", f"Run {publication.run} has not ended, but its answer is published.", (key,)
            )


def _check_entry(survey: Survey, key: bytes, entry: Message | Publication) -> Findings[None]:
    """E9: an entry stands in its conversation right behind the one before."""
    look = survey.look
    head = yield from look.named(Conversation, entry.conversation, key)
    yield from same_place(entry, key, head, entry.conversation.encode())
    survey.threads[entry.conversation].entries += 1
    if head is not None and entry.entry > head.entries:
        yield Breach(
            "E9",
            f"Entry {entry.entry} is beyond the {head.entries} of its conversation.",
            (key, entry.conversation.encode()),
        )
    if (entry.entry == 1) is not (entry.previous is None) or entry.entry < 1:
        yield Breach("E9", f"Entry {entry.entry} has {entry.previous} before it.", (key,))
    if entry.previous is None:
        return
    previous = yield from look.entry(entry.previous, key)
    yield from same_place(entry, key, previous, entry.previous.encode())
    if previous is not None and previous.entry != entry.entry - 1:
        yield Breach(
            "E9",
            f"Entry {entry.entry} has entry {previous.entry} before it.",
            (key, entry.previous.encode()),
        )


def check_conversations(survey: Survey) -> Findings[None]:
    """E9: the head of every conversation agrees with its events and its entries."""
    look = survey.look
    astray = dict[ConversationId, tuple[set[bytes], int]]()
    for key, data in look.family(b"c"):
        head = yield from look.standing(
            Conversation, key, data, lambda head: head.conversation.encode(), key
        )
        if head is None:
            continue
        index = keys.conversation_of_scope(head.scope, head.conversation)
        if not look.has(index):
            yield Breach("E12", f"{head.conversation} is not in its scope's index.", (key, index))
        thread = survey.threads[head.conversation]
        told = thread.events, thread.last_event, tuple(thread.skips)
        if told != (head.events, head.last_event, head.skips) or not head.events:
            yield Breach(
                "E9",
                f"{head.conversation} has {head.events} events up to {head.last_event} of the "
                f"store by its head, and {told[0]} up to {told[1]} by its events; its skips are "
                f"{head.skips} and should be {told[2]}.",
                (key, keys.event(max(0, min(head.last_event, 2**63)))),
            )
        yield from _check_last_entry(survey, key, head)
        if thread.entries != head.entries:
            yield Breach(
                "E9",
                f"{head.conversation} counts {head.entries} entries, "
                f"and {thread.entries} are stored.",
                (key,),
            )
            astray[head.conversation] = _chain(survey, head)
    yield from _check_astray(survey, astray)


def _check_last_entry(survey: Survey, key: bytes, head: Conversation) -> Findings[None]:
    if head.last_entry is None:
        if head.entries:
            yield Breach("E9", f"{head.conversation} has entries and no last one.", (key,))
        return
    last = yield from survey.look.entry(head.last_entry, key)
    yield from same_place(head, key, last, head.last_entry.encode())
    if last is not None and last.entry != head.entries:
        yield Breach(
            "E9",
            f"The last entry of {head.conversation} is number {last.entry}, not {head.entries}.",
            (key, head.last_entry.encode()),
        )


def _chain(survey: Survey, head: Conversation) -> tuple[set[bytes], int]:
    """Return the entries that are reached from the head, and the number of the oldest."""
    found = set[bytes]()
    lowest = head.entries + 1
    at: str | None = head.last_entry
    while at is not None and (is_id(Message, at) or is_id(Publication, at)):
        entry = survey.look.find_entry(at.encode())
        if entry is None or entry.entry >= lowest:
            break
        found.add(at.encode())
        lowest, at = entry.entry, entry.previous
    return found, lowest


def _check_astray(
    survey: Survey, chains: dict[ConversationId, tuple[set[bytes], int]]
) -> Findings[None]:
    """Name the entries that nothing leads to, down to where each chain is torn."""
    for first in (b"m", b"p") if chains else ():
        for key, _ in survey.look.family(first):
            entry = survey.look.find_entry(key)
            if entry is None or entry.conversation not in chains:
                continue
            chain, lowest = chains[entry.conversation]
            if key not in chain and entry.entry >= lowest:
                yield Breach(
                    "E9", f"Entry {entry.entry} is not in the chain of its conversation.", (key,)
                )


def check_index(survey: Survey) -> Findings[None]:
    """E11, E12: the index of a scope names its own conversations only."""
    for key, data in survey.look.family(b"n"):
        scope, _, conversation = (text(key[1:]) or "").partition("\0")
        if not is_id(Conversation, conversation) or data:
            yield Breach("E12", "This is no entry of a scope's index.", (key,))
            continue
        head = yield from survey.look.named(Conversation, conversation, key)
        if head is not None and head.scope != scope:
            yield Breach(
                "E11",
                f"{conversation} is of scope {head.scope!r}, and in the index of {scope!r}.",
                (key, conversation.encode()),
            )
