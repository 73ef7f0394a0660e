"""What the actors say to each other."""

from __future__ import annotations

import msgspec

from ..store.ids import ClientId, ConversationId, RunId, ScopeId
from ..store.records import Depth, Verb


class ActorMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The base of every message between actors."""


class Submit(ActorMessage, frozen=True, kw_only=True):
    """To a conversation: a message that gets a run of its own. Answered with `Accepted`."""

    scope: ScopeId
    client_id: ClientId
    verb: Verb
    text: str
    depth: Depth


class Steer(ActorMessage, frozen=True, kw_only=True):
    """To a conversation: an addition to one of its runs. Answered with `Accepted`."""

    scope: ScopeId
    client_id: ClientId
    run: RunId
    text: str
    expected_revision: int | None


class Stop(ActorMessage, frozen=True, kw_only=True):
    """To a conversation: the stop of one of its runs. Answered with `Accepted`."""

    scope: ScopeId
    client_id: ClientId
    run: RunId


class Withdraw(ActorMessage, frozen=True, kw_only=True):
    """To a conversation: take back an addition to one of its runs. Answered with `Accepted`."""

    scope: ScopeId
    client_id: ClientId
    run: RunId
    revision: int


class Resolve(ActorMessage, frozen=True, kw_only=True):
    """To a conversation: what became of an unknown effect. Answered with `Accepted`."""

    scope: ScopeId
    client_id: ClientId
    run: RunId
    effect: int
    happened: bool
    value: bytes | None
    reason: str


Demand = Submit | Steer | Stop | Withdraw | Resolve
"""What a person's client may ask of a conversation."""


class LookAgain(ActorMessage, frozen=True, kw_only=True):
    """To a run: something about it was committed. It reads what; so one is as good as many."""


class ShutDown(ActorMessage, frozen=True, kw_only=True):
    """To a run: end as interrupted by the host. To the supervisor: bring everything to rest,
    answered with None when nothing is under way any more."""


class Rest(ActorMessage, frozen=True, kw_only=True):
    """To a conversation: stop if nobody has asked anything for `idle_s` seconds."""

    conversation: ConversationId
    idle_s: float
