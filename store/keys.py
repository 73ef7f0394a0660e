"""The ordered key of each record family.

Families, by first byte (FORMAT.md has the table with what each costs):

    !   the store itself            c   conversations       e   events, by store sequence
    i   identities, by client id    l   live runs           m   messages
    n   conversations of a scope    p   publications        r   runs and all that is theirs
    s   slots, by scope and class   w   owners

Client ids come first in their key and the scope after: ids made in time order (UUIDv7)
then stand side by side whatever their scope. All numbers are big-endian, so byte order
is numeric order.
"""

from __future__ import annotations

from .ids import (
    ClientId,
    ConversationId,
    MessageId,
    OwnerId,
    PublicationId,
    RunId,
    ScopeId,
)

ID_BYTES_MAX = 128
KEY_BYTES_MAX = 511  # LMDB's limit
assert 1 + ID_BYTES_MAX + 1 + ID_BYTES_MAX + 1 + ID_BYTES_MAX <= KEY_BYTES_MAX

SEQUENCE = b"!sequence"
"""How many events the store has: the sequence of the next one."""

EVENTS = b"e"
LIVE = b"l"
OWNERS = b"w"
SLOTS = b"s"


def after(prefix: bytes) -> bytes:
    """Return the smallest key above every key that begins with `prefix`."""
    assert prefix
    assert prefix[-1] < 0xFF
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def identity(scope: ScopeId, client_id: ClientId) -> bytes:
    """One caller's intent."""
    return b"i" + client_id.encode() + b"\0" + scope.encode()


def conversation(conversation_id: ConversationId) -> bytes:
    """The head of one conversation."""
    return conversation_id.encode()


def conversation_of_scope(scope: ScopeId, conversation_id: ConversationId) -> bytes:
    """The index entry of one conversation under its scope."""
    return conversations_of_scope(scope) + conversation_id.encode()


def conversations_of_scope(scope: ScopeId) -> bytes:
    """The prefix of a scope's conversations, oldest first."""
    return b"n" + scope.encode() + b"\0"


def message(message_id: MessageId) -> bytes:
    """One message."""
    return message_id.encode()


def publication(publication_id: PublicationId) -> bytes:
    """One publication."""
    return publication_id.encode()


def event(sequence: int) -> bytes:
    """One event, by its sequence in the store."""
    return EVENTS + sequence.to_bytes(8)


def live_run(conversation_id: ConversationId, run_id: RunId) -> bytes:
    """The index entry of a run that has not ended."""
    return live_runs(conversation_id) + run_id.encode()


def live_runs(conversation_id: ConversationId) -> bytes:
    """The prefix of a conversation's live runs, oldest first."""
    return LIVE + conversation_id.encode() + b"\0"


def run(run_id: RunId) -> bytes:
    """One run. What is the run's own has this key as its prefix."""
    return run_id.encode()


def request(run_id: RunId, ordinal: int) -> bytes:
    """One request of a run."""
    return requests(run_id) + ordinal.to_bytes(4)


def requests(run_id: RunId) -> bytes:
    """The prefix of a run's requests."""
    return run_id.encode() + b"q"


def request_input(run_id: RunId, ordinal: int) -> bytes:
    """The exact input of one request, where it is kept."""
    return run_id.encode() + b"i" + ordinal.to_bytes(4)


def effect(run_id: RunId, number: int) -> bytes:
    """One effect of a run."""
    return effects(run_id) + number.to_bytes(4)


def effects(run_id: RunId) -> bytes:
    """The prefix of a run's effects."""
    return run_id.encode() + b"x"


def revision(run_id: RunId, number: int) -> bytes:
    """One revision of a run."""
    return revisions(run_id) + number.to_bytes(4)


def revisions(run_id: RunId) -> bytes:
    """The prefix of a run's revisions."""
    return run_id.encode() + b"v"


def checkpoint(run_id: RunId) -> bytes:
    """A run's last checkpoint."""
    return run_id.encode() + b"k"


def owner(owner_id: OwnerId) -> bytes:
    """One host process."""
    return owner_id.encode()


def slot(scope: ScopeId, run_class: str, run_id: RunId) -> bytes:
    """The slot that a run holds."""
    return slots(scope, run_class) + run_id.encode()


def slots(scope: ScopeId, run_class: str) -> bytes:
    """The prefix of the slots of one class in one scope."""
    return SLOTS + scope.encode() + b"\0" + run_class.encode() + b"\0"
