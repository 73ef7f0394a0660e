"""Admitting: a conversation is opened; a message comes in with its own run.

The order of questions is fixed (A1, A11, A25): is the client id known, is the conversation
this scope's, is there a slot. Then message, run, slot and event are written in this one
transaction (D2, D9), so that a message can't exist without what becomes of it (E1).
"""

from __future__ import annotations

from . import capacity, events, identity, keys, messages, runs
from .engine import Txn
from .events import Log
from .ids import ClientId, ConversationId, MessageId, OwnerId, RunId, ScopeId
from .limits import BACKGROUND, SHORT, Limits
from .records import (
    Accepted,
    Budget,
    Conversation,
    Depth,
    EventKind,
    Meaning,
    Record,
    Run,
    RunState,
    Verb,
)
from .refusal import Code, Refused


class Opening(Record, frozen=True, kw_only=True):
    """A conversation to be opened."""

    scope: ScopeId
    client_id: ClientId
    title: str
    conversation: ConversationId
    """The id that it gets if it is new."""
    now_ms: int

    @property
    def meaning(self) -> Meaning:
        """What the client id stands for."""
        return Meaning(
            verb=Verb.OPEN, conversation=None, text_sha256=identity.text_hash(self.title)
        )


def open_conversation(txn: Txn, opening: Opening) -> Accepted:
    """Open a conversation.

    Raises:
      Refused: `conflict`.
    """

    def act() -> Accepted:
        key = keys.conversation(opening.conversation)
        assert txn.get(key) is None, "conversation ids are never used twice"
        head = Conversation(
            scope=opening.scope,
            conversation=opening.conversation,
            title=opening.title,
            opened_at_ms=opening.now_ms,
        )
        log = Log(txn, head, opening.now_ms)
        version = log.append(EventKind.CONVERSATION_OPENED, client_id=opening.client_id)
        log.close()
        txn.put(keys.conversation_of_scope(opening.scope, opening.conversation), b"")
        return identity.accepted(log, opening.client_id, opening.meaning, version)

    return identity.once(txn, opening.scope, opening.client_id, opening.meaning, act)


def run_class_of(verb: Verb) -> str:
    """Return the class of the slot that a message's own run needs."""
    return BACKGROUND if verb is Verb.BACKGROUND else SHORT


def meaning(verb: Verb, conversation: ConversationId, text_sha256: bytes, depth: Depth) -> Meaning:
    """Return what a client id stands for that a `plain` or `background` message came with."""
    return Meaning(
        verb=verb,
        conversation=conversation,
        text_sha256=text_sha256,
        depth=depth if verb is Verb.BACKGROUND else None,
    )


class Submission(Record, frozen=True, kw_only=True):
    """A message with entry `plain` or `background`, and the ids it gets if it is new."""

    scope: ScopeId
    conversation: ConversationId
    client_id: ClientId
    verb: Verb
    text: str
    text_sha256: bytes
    depth: Depth
    message: MessageId
    run: RunId
    owner: OwnerId
    now_ms: int
    resumes: bool = False
    """Whether the run's agent wants to be entered again if its owner is lost (D13)."""
    disposition: str
    """The router's decision, made before: by which rule the run may answer (B14, B16)."""

    @property
    def meaning(self) -> Meaning:
        """What the client id stands for."""
        return meaning(self.verb, self.conversation, self.text_sha256, self.depth)

    @property
    def run_class(self) -> str:
        """The class of the slot that its run needs."""
        return run_class_of(self.verb)


def admit(txn: Txn, limits: Limits, submission: Submission) -> Accepted:
    """Admit a message together with its own run.

    Raises:
      Refused: `conflict`, `not_found`, `runs_full` or `capacity_full`.
    """

    def act() -> Accepted:
        return _admit_new(txn, limits, submission)

    return identity.once(txn, submission.scope, submission.client_id, submission.meaning, act)


def _admit_new(txn: Txn, limits: Limits, submission: Submission) -> Accepted:
    scope, run_class = submission.scope, submission.run_class
    head = events.head_of(txn, scope, submission.conversation)
    live = runs.live(txn, submission.conversation)
    if len(live) >= limits.live_runs_of_conversation_max:
        raise Refused(
            Code.RUNS_FULL,
            f"The conversation has {len(live)} runs that have not ended; "
            "wait for one to end, or stop one.",
            limit=limits.live_runs_of_conversation_max,
        )
    capacity.take(txn, limits, scope, run_class, submission.run)
    assert txn.get(keys.run(submission.run)) is None, "run ids are never used twice"
    log = Log(txn, head, submission.now_ms)
    background = [run for run, live_class in live if live_class != SHORT]
    runs.put(txn, _new_run(submission, limits, log, background))
    txn.put(keys.live_run(submission.conversation, submission.run), run_class.encode())
    messages.put(
        txn,
        log,
        messages.Words(
            message=submission.message,
            client_id=submission.client_id,
            verb=submission.verb,
            text=submission.text,
            text_sha256=submission.text_sha256,
        ),
        run=submission.run,
        disposition=submission.disposition,
    )
    version = log.append(
        EventKind.MESSAGE_ADMITTED,
        run=submission.run,
        message=submission.message,
        client_id=submission.client_id,
        entry=str(submission.verb),
        run_class=run_class,
        disposition=submission.disposition,
    )
    log.close()
    return identity.accepted(
        log,
        submission.client_id,
        submission.meaning,
        version,
        message=submission.message,
        run=submission.run,
    )


def _new_run(submission: Submission, limits: Limits, log: Log, background: list[RunId]) -> Run:
    return Run(
        scope=submission.scope,
        conversation=submission.conversation,
        run=submission.run,
        message=submission.message,
        client_id=submission.client_id,
        agent=submission.run_class,
        run_class=submission.run_class,
        depth=submission.depth,
        state=RunState.ADMITTED,
        owner=submission.owner,
        admitted_at_ms=submission.now_ms,
        budget=Budget(
            requests_max=limits.requests_of_run_max,
            effects_max=limits.effects_of_run_max,
            active_ms_max=limits.active_ms_of_run_max,
            tokens_max=limits.tokens_of_run_max,
            deadline_at_ms=(
                None
                if limits.deadline_ms_of_run is None
                else submission.now_ms + limits.deadline_ms_of_run
            ),
        ),
        history_head=log.last_entry,
        history_entries=log.entries,
        overview=tuple(background[-limits.overview_runs_max :]),
        resumes=submission.resumes,
    )
