"""One conversation: it takes in what a person says, asks the router, and acts on the verdict.

The actor holds nothing that is not in the store: it can be put to sleep and started again
at any time, and messages of one conversation may even come in through several processes at
once. It gives order: what comes in here is committed in the order in which it came in. It
does not wait for one commit before it takes in the next message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ..store import admission, effects, endings, identity, revisions, runs
from ..store.engine import Transaction
from ..store.ids import ConversationId, OwnerId
from ..store.limits import SHORT
from ..store.records import Accepted
from . import intent
from .environment import Environment
from .kernel import LaterReply, TrioActor
from .messages import Resolve, Rest, Steer, Stop, Submit, Withdraw

if TYPE_CHECKING:
    from .roster import Roster


class ConversationActor(TrioActor):
    """Admits the messages of one conversation."""

    registered = False  # they come by the thousand, and only the roster looks for them

    def __init__(
        self, environment: Environment, roster: Roster, conversation: ConversationId
    ) -> None:
        super().__init__()
        self._environment = environment
        self._roster = roster
        self._conversation = conversation
        self._last_used = trio.current_time()
        self._under_way = 0

    def on_receive(self, message: Any) -> Any:
        """Take in one thing; see `messages.py`."""
        match message:
            case Submit():
                return self._take_submission(message)
            case Steer():
                return self._take_steering(message)
            case Stop():
                return self._take_stop(message)
            case Withdraw():
                return self._take_withdrawal(message)
            case Resolve():
                return self._take_resolution(message)
            case Rest():
                return self._rest(message)
            case _:
                raise TypeError(f"a conversation takes no {type(message).__name__}")

    def _take_submission(self, message: Submit) -> Accepted | LaterReply:
        environment = self._environment
        ids = environment.ids
        with environment.engine.read() as txn:
            found = identity.find(txn, message.scope, message.client_id)
            live = () if found is not None else runs.live(txn, self._conversation)
        text_sha256 = identity.text_hash(message.text)
        if found is not None:
            # a retry costs a read, never a commit (G9), and no slot or new decision (C5)
            meaning = admission.meaning(
                message.verb, self._conversation, text_sha256, message.depth
            )
            return identity.replay(found, meaning)
        self._roster.must_have_room()
        environment.must_have_agent(message.verb)
        background = sum(run_class != SHORT for _, run_class in live)
        decision = intent.decide(message.verb, intent.Surroundings(background_runs=background))
        submission = admission.Submission(
            scope=message.scope,
            conversation=self._conversation,
            client_id=message.client_id,
            verb=message.verb,
            text=message.text,
            text_sha256=text_sha256,
            depth=message.depth,
            message=ids.message(),
            run=ids.run(),
            owner=environment.owner,
            now_ms=ids.now_ms(),
            resumes=environment.resumes(message.verb),
            disposition=decision.disposition,
        )

        def begin(accepted: Accepted) -> None:
            if accepted.run == submission.run:  # else it was admitted before
                self._roster.begin(submission.run)

        admit = partial(admission.admit, limits=environment.limits, submission=submission)
        return self._commit(admit, begin)

    def _take_steering(self, message: Steer) -> LaterReply:
        environment = self._environment
        steering = revisions.Steering(
            scope=message.scope,
            run=message.run,
            client_id=message.client_id,
            text=message.text,
            text_sha256=identity.text_hash(message.text),
            expected_revision=message.expected_revision,
            message=environment.ids.message(),
            now_ms=environment.ids.now_ms(),
        )
        return self._commit(partial(revisions.steer, limits=environment.limits, steering=steering))

    def _take_withdrawal(self, message: Withdraw) -> LaterReply:
        withdrawal = revisions.Withdrawal(
            scope=message.scope,
            run=message.run,
            revision=message.revision,
            client_id=message.client_id,
            now_ms=self._environment.ids.now_ms(),
        )
        return self._commit(partial(revisions.withdraw, withdrawal=withdrawal))

    def _take_resolution(self, message: Resolve) -> LaterReply:
        resolution = effects.Resolution(
            scope=message.scope,
            run=message.run,
            effect=message.effect,
            client_id=message.client_id,
            happened=message.happened,
            value=message.value,
            reason=message.reason,
            now_ms=self._environment.ids.now_ms(),
        )
        return self._commit(partial(effects.resolve, resolution=resolution))

    def _take_stop(self, message: Stop) -> LaterReply:
        environment = self._environment
        stopping = endings.Stopping(
            scope=message.scope,
            run=message.run,
            client_id=message.client_id,
            publication=environment.ids.publication(),
            now_ms=environment.ids.now_ms(),
            owner_gone=self._owner_if_gone(message),
        )
        return self._commit(partial(endings.stop, stopping=stopping))

    def _owner_if_gone(self, message: Stop) -> OwnerId | None:
        """Return the owner of the run if its process is gone: nobody else would stop it (C23)."""
        with self._environment.engine.read() as txn:
            run = runs.of_scope(txn, message.scope, message.run)
        if run.owner == self._environment.owner:
            return None
        return run.owner if self._environment.liveness.gone([run.owner]) else None

    def _commit(
        self,
        transaction: Transaction[Accepted],
        then: Callable[[Accepted], None] = lambda accepted: None,
    ) -> LaterReply:
        """Commit, and answer only afterwards; meanwhile the next message is taken in."""
        reply: LaterReply = self.reply_later()
        self._under_way += 1

        def done(accepted: Accepted | None, error: BaseException | None) -> None:
            self._under_way -= 1
            self._last_used = trio.current_time()
            if error is not None:
                reply.set_exception(error)
                return
            assert accepted is not None
            then(accepted)
            reply.set(accepted)

        self._environment.enqueue(transaction, done)
        return reply

    def _rest(self, message: Rest) -> None:
        quiet_s = trio.current_time() - self._last_used
        if not self._under_way and quiet_s >= message.idle_s:
            self._roster.forget_conversation(self._conversation)
            self.stop()
