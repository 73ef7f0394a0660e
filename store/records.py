"""Every durable record: frozen, array-like, with an integer tag.

Rules of a version (FORMAT.md): a tag is never used again for something else; a field is
only ever added at the end, with a default, so that a record of an older version still
decodes; a field is never removed or given another meaning without a new format version.
Times are milliseconds since 1970 (`_ms`), sizes bytes, numbers count from 1.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from .ids import (
    ClientId,
    ConversationId,
    MessageId,
    OwnerId,
    PublicationId,
    RunId,
    ScopeId,
)


class Verb(StrEnum):
    """What a client id was used for. The first five are the entries of a message (D1)."""

    PLAIN = "plain"
    BACKGROUND = "background"
    STEER = "steer"
    ANSWER = "answer"
    CONTINUE = "continue"
    STOP = "stop"
    OPEN = "open"
    WITHDRAW = "withdraw"
    RESOLVE = "resolve"


class Depth(StrEnum):
    """How thorough the person wants background work to be: a preference, no budget (B23)."""

    NORMAL = "normal"
    DEEP = "deep"


class RunState(StrEnum):
    """Where a run is in its life (D12). The table of moves is in `runs.py`."""

    ADMITTED = "admitted"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPING = "stopping"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


class Reason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"
    BUDGET = "budget"
    DEADLINE = "deadline"
    AGENT_ERROR = "agent_error"
    INTERNAL = "internal"
    USER_STOP = "user_stop"
    OWNER_LOST = "owner_lost"
    HOST_SHUTDOWN = "host_shutdown"


class RevisionState(StrEnum):
    """Where one steering is: each value is a fact that a person is shown (B33)."""

    SAVED = "saved"
    """Stored with the run; no request has carried it yet."""
    CARRIED = "carried"
    """In the recorded input of a request that has not completed."""
    DELIVERED = "delivered"
    """In the input of a request that completed: the model has had it."""
    NOT_APPLIED = "not_applied"
    """The run ended before any request carried it."""
    DELIVERY_UNKNOWN = "delivery_unknown"
    """The run ended while no request that carried it had completed."""
    WITHDRAWN = "withdrawn"
    """The person took it back before any request carried it (C53)."""


class RequestState(StrEnum):
    """What became of one request to a model."""

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class Interruption(StrEnum):
    """Why a request was interrupted, strongest first (C21, D17)."""

    STOP = "stop"
    DEADLINE = "deadline"
    BUDGET = "budget"
    SHUTDOWN = "shutdown"
    STEERING = "steering"
    OWNER_LOST = "owner_lost"
    INTERNAL = "internal"


class EffectState(StrEnum):
    """What is known of one effect."""

    OPEN = "open"
    """Its intent is stored; it may be under way."""
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """It was decided under an older revision and never started (C13)."""
    UNKNOWN = "unknown"
    """Its owner went before its result was stored: it may have happened (C27)."""


class Repeat(StrEnum):
    """How an effect may be repeated (C26)."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    RECONCILABLE = "reconcilable"
    ONCE = "once"


class EventKind(StrEnum):
    """What an event says happened."""

    CONVERSATION_OPENED = "conversation_opened"
    MESSAGE_ADMITTED = "message_admitted"
    REVISION_SAVED = "revision_saved"
    REVISION_DELIVERED = "revision_delivered"
    REVISION_SETTLED = "revision_settled"
    REVISION_WITHDRAWN = "revision_withdrawn"
    REQUEST_STARTED = "request_started"
    REQUEST_ENDED = "request_ended"
    EFFECT_STARTED = "effect_started"
    EFFECT_ENDED = "effect_ended"
    EFFECT_RESOLVED = "effect_resolved"
    PROGRESS = "progress"
    RUN_PROMOTED = "run_promoted"
    PROMOTION_REFUSED = "promotion_refused"
    RUN_ADOPTED = "run_adopted"
    RUN_RESUMED = "run_resumed"
    STOP_ACCEPTED = "stop_accepted"
    RUN_ENDED = "run_ended"


class Record(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The base of everything that is stored."""


class Meaning(Record, frozen=True, kw_only=True, tag=1):
    """What a client id was used for: the same id must come with the same meaning (A14)."""

    verb: Verb
    conversation: ConversationId | None
    target: RunId | None = None
    parent: RunId | None = None
    text_sha256: bytes = b""
    depth: Depth | None = None
    expected_revision: int | None = None
    item: int | None = None
    """Which revision, effect or question of the target it is about."""


class Accepted(Record, frozen=True, kw_only=True, tag=2):
    """The outcome of an accepted verb, kept under its scope and client id (A16, C1)."""

    scope: ScopeId
    client_id: ClientId
    meaning: Meaning
    at_ms: int
    conversation: ConversationId
    version: int
    """The number of the event that tells of it."""
    message: MessageId | None = None
    run: RunId | None = None
    revision: int | None = None


class Conversation(Record, frozen=True, kw_only=True, tag=3):
    """The head of a conversation: rewritten with each event, so it stays small."""

    scope: ScopeId
    conversation: ConversationId
    title: str
    opened_at_ms: int
    events: int = 0
    """The number of its last event, which is its version too (C41)."""
    last_event: int = 0
    """The store sequence of its last event."""
    entries: int = 0
    """How many messages and published answers it has."""
    last_entry: MessageId | PublicationId | None = None
    skips: tuple[int, ...] = ()
    """Store sequences of its newest events whose number is a multiple of 8, 64, 512…"""


class Message(Record, frozen=True, kw_only=True, tag=4):
    """One submission by a person, verbatim (A4). Never rewritten."""

    scope: ScopeId
    conversation: ConversationId
    message: MessageId
    client_id: ClientId
    verb: Verb
    text: str
    text_sha256: bytes
    at_ms: int
    run: RunId
    """The run that it started, or the run that it steers."""
    entry: int
    """Its place among the conversation's messages and answers."""
    previous: MessageId | PublicationId | None
    revision: int | None = None
    """For a steering: which revision of `run` it is."""
    disposition: str = ""
    """What became of it, and by which rule (E1)."""


class Publication(Record, frozen=True, kw_only=True, tag=5):
    """A published answer, never rewritten. Its identity is its own, not a row's (B55)."""

    scope: ScopeId
    conversation: ConversationId
    publication: PublicationId
    run: RunId
    text: str
    at_ms: int
    entry: int
    previous: MessageId | PublicationId | None


class Budget(Record, frozen=True, kw_only=True, tag=6):
    """What a run may still use is this, less what its record says it has used (B44)."""

    requests_max: int
    effects_max: int
    active_ms_max: int
    tokens_max: int = 1 << 62
    deadline_at_ms: int | None = None
    """When the run must have ended, whatever it has used."""


class Run(Record, frozen=True, kw_only=True, tag=7):
    """One admitted execution (A5)."""

    scope: ScopeId
    conversation: ConversationId
    run: RunId
    message: MessageId
    client_id: ClientId
    agent: str
    run_class: str
    depth: Depth
    state: RunState
    owner: OwnerId
    admitted_at_ms: int
    budget: Budget
    history_head: MessageId | PublicationId | None
    """The newest entry that the run may see: entries are a chain, so this fixes all (B35)."""
    history_entries: int
    overview: tuple[RunId, ...]
    """The runs of the conversation that were live at admission (B36)."""
    reason: Reason | None = None
    revisions: int = 0
    """How many revisions were accepted: the number of the newest."""
    carried_through: int = 0
    """Every revision up to this one stood in the input of some request."""
    delivered_through: int = 0
    """Every revision up to this one stood in the input of a request that completed."""
    requests: int = 0
    open_requests: tuple[int, ...] = ()
    effects: int = 0
    open_effects: tuple[int, ...] = ()
    checkpoints: int = 0
    begun_at_ms: int | None = None
    stop_at_ms: int | None = None
    stop_client_id: ClientId | None = None
    ended_at_ms: int | None = None
    publication: PublicationId | None = None
    detail: str = ""
    """For an end that was not wished for: what happened, in a sentence."""
    withdrawn: int = 0
    """How many of its revisions were withdrawn."""
    entries: int = 1
    """How many times its agent was entered: more than once after a loss of its owner."""
    resumes: bool = False
    """Whether its agent wants to be entered again after that (D13)."""
    tokens: int = 0
    """Those that providers have said they counted, in and out."""
    unobserved: int = 0
    """Requests whose usage nobody has said (C33)."""
    entered_at_ms: int | None = None
    """When its agent was last entered, if that was not at its admission."""
    active_ms: int = 0
    """How long its agent worked before it was last entered; waiting does not count."""
    questions: int = 0
    open_questions: tuple[int, ...] = ()
    parent: RunId | None = None
    """The run that this one continues (A34, A55)."""
    origin: MessageId | None = None
    """The request at the root of the chain of continues, with its hash (A47, D14)."""
    origin_sha256: bytes = b""
    grants: tuple[str, ...] = ()
    """The sources and tools that it may use (A39)."""
    effects_saved: int = 0
    """How many effects its last checkpoint covers: an agent that is entered again from there
    asks for those behind it once more (C28)."""
    stop_entries: int | None = None
    """How many entries the conversation had when the stop was accepted. A run that was
    admitted later has as many or more behind it, whatever any clock says."""


class Revision(Record, frozen=True, kw_only=True, tag=8):
    """One accepted steering of one run. Its words are those of `message` (B28, B30)."""

    run: RunId
    number: int
    message: MessageId
    client_id: ClientId
    at_ms: int
    state: RevisionState
    request: int | None = None
    """The ordinal of the request that delivered it, or of the newest that carried it."""
    input_sha256: bytes = b""
    """The hash of that request's exact input (C11)."""
    reason: str = ""


class Request(Record, frozen=True, kw_only=True, tag=9):
    """One request to a model, recorded before it is sent."""

    run: RunId
    ordinal: int
    gateway: str
    input_sha256: bytes
    revision: int
    """The revision of the run that it was built under."""
    carries: tuple[int, ...]
    """The revisions whose words it takes to the model for the first time, or once more."""
    begun_at_ms: int
    state: RequestState = RequestState.OPEN
    ended_at_ms: int | None = None
    reason: str = ""
    input_tokens: int | None = None
    """None where it was not observed, never zero in its place (C33)."""
    output_tokens: int | None = None
    late: RequestState | None = None
    """What its provider still said after it had been closed (C22)."""


class Effect(Record, frozen=True, kw_only=True, tag=10):
    """One effect: its intent before it starts, its result before anyone sees it (C27)."""

    run: RunId
    number: int
    operation_id: str
    name: str
    arguments: bytes
    """JSON."""
    repeat: Repeat
    revision: int
    """The revision that it was decided under."""
    begun_at_ms: int
    state: EffectState = EffectState.OPEN
    ended_at_ms: int | None = None
    result: bytes | None = None
    """JSON."""
    reason: str = ""
    entry: int = 1
    """Which entry of its agent began it, or read it back last."""


class Event(Record, frozen=True, kw_only=True, tag=11):
    """One thing that happened in a conversation."""

    scope: ScopeId
    conversation: ConversationId
    number: int
    """Counts from 1 in its conversation, without a gap (E9)."""
    at_ms: int
    kind: EventKind
    back: tuple[int, ...]
    """Store sequences of earlier events of the conversation: see `events.py`."""
    run: RunId | None = None
    message: MessageId | None = None
    client_id: ClientId | None = None
    facts: dict[str, Any] = {}


class Owner(Record, frozen=True, kw_only=True, tag=12):
    """One host process that has opened the store."""

    owner: OwnerId
    pid: int
    host: str
    started_at_ms: int


class Checkpoint(Record, frozen=True, kw_only=True, tag=13):
    """What an agent wants to have again if it is entered a second time."""

    run: RunId
    number: int
    at_ms: int
    state: bytes


R = TypeVar("R", bound=Record)

RECORDS: Final[tuple[type[Record], ...]] = (
    Meaning,
    Accepted,
    Conversation,
    Message,
    Publication,
    Budget,
    Run,
    Revision,
    Request,
    Effect,
    Event,
    Owner,
    Checkpoint,
)

_decoders: Final[dict[type[Record], msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in RECORDS
}
_encoder: Final = msgspec.msgpack.Encoder()

encode: Final = _encoder.encode
"""Return the bytes of a record."""


class Damaged(Exception):
    """A record does not decode: the store was written by something else, or is damaged.

    Nothing was changed. `counterpoint verify` lists every such record of a store.
    """


def decode(kind: type[R], data: bytes) -> R:
    """Return the record of this kind in `data`.

    Raises:
      Damaged: if it is none.
    """
    try:
        record: R = _decoders[kind].decode(data)
    except (msgspec.DecodeError, RecursionError) as error:  # rubbish may nest without end
        raise Damaged(f"A {kind.__name__} record does not decode: {error}.") from error
    return record
