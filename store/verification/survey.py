"""What one verification remembers from record to record: a little a conversation and a run."""

from __future__ import annotations

from collections import defaultdict

from ..ids import ConversationId, RunId, ScopeId
from ..limits import Limits
from .lookup import Lookup


class Thread:
    """One conversation, as its events and entries tell."""

    __slots__ = ("entries", "events", "last_event", "receipts", "scope", "skips", "told")

    def __init__(self) -> None:
        self.scope: ScopeId | None = None
        """None if its head is not to be read."""
        self.events = 0
        self.last_event = 0
        self.skips: list[int] = []
        self.entries = 0
        """How many entries are stored."""
        self.told = 0
        """How many of its events tell of a receipt that agrees."""
        self.receipts = 0
        """How many receipts are stored."""


class Trace:
    """One run, as its events tell."""

    __slots__ = (
        "conversation",
        "effects",
        "ended",
        "open_effects",
        "open_requests",
        "requests",
        "revisions",
        "run_class",
        "standing",
        "stopped",
        "unknown_effects",
    )

    def __init__(self, conversation: ConversationId) -> None:
        self.conversation = conversation
        self.run_class: object = None
        self.revisions = 0
        self.standing: tuple[int, ...] = ()
        """The revisions that are neither delivered nor withdrawn: the next request has them."""
        self.requests = 0
        self.effects = 0
        self.open_requests: tuple[int, ...] = ()
        self.open_effects: tuple[int, ...] = ()
        self.unknown_effects: tuple[int, ...] = ()
        self.stopped = False
        self.ended = False


class Survey:
    """One verification of one snapshot."""

    def __init__(self, look: Lookup, limits: Limits | None) -> None:
        self.look = look
        self.limits = limits
        self.sequence = 1
        """The sequence that the store's next event should have."""
        self.threads: defaultdict[ConversationId, Thread] = defaultdict(Thread)
        self.traces: dict[RunId, Trace] = {}
