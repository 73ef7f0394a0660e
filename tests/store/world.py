"""A store in a dict, and the rules carried out on it one transaction at a time.

No engine and no actor: a rule runs on an `Overlay` and what it wrote is applied when it
returns, or dropped when it raises, as every engine promises. Ids and times come from a
clock that steps by a millisecond whenever it is asked, so a test reads the same each time.
"""

import contextlib
import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterator
from typing import Concatenate, ParamSpec, TypeVar

import pytest

from counterpoint.store import (
    admission,
    effects,
    endings,
    events,
    identity,
    keys,
    requests,
    revisions,
    runs,
    settlement,
)
from counterpoint.store.engine import Overlay, Txn
from counterpoint.store.ids import ClientId, ConversationId, IdSource, OwnerId, RunId, ScopeId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import (
    Accepted,
    Conversation,
    Depth,
    Effect,
    EffectState,
    Event,
    Owner,
    Reason,
    Repeat,
    Request,
    RequestState,
    Revision,
    Run,
    Verb,
)
from counterpoint.store.refusal import Code, Refused

P = ParamSpec("P")
T = TypeVar("T")

ANN = ScopeId("ann")
BOB = ScopeId("bob")


class Base:
    """What is committed. Counts its reads, so that a test can bound them."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.reads = 0
        self._keys: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return self.values.get(key)

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        found = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]
        for key in reversed(found) if reverse else found:
            yield key, self.values[key]

    def apply(self, overlay: Overlay) -> None:
        for key, value in overlay.writes():
            if value is None:
                self._remove(key)
                continue
            if key not in self.values:
                insort(self._keys, key)
            self.values[key] = value

    def _remove(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]


class World:
    """One store, one process that owns its runs, and people who talk."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.base = Base()
        self.step_ms = 1
        self._time_ms = 1_000
        self._clients = 0
        self.ids = IdSource(self._clock, node=1)
        self.owner = self.new_owner()

    def _clock(self) -> int:
        self._time_ms += self.step_ms
        return self._time_ms

    def now_ms(self) -> int:
        return self.ids.now_ms()

    def new_owner(self) -> OwnerId:
        owner = self.ids.owner()
        record = Owner(owner=owner, pid=7, host="here", started_at_ms=self.now_ms())
        self.run(settlement.register, record)
        return owner

    def client_id(self) -> ClientId:
        self._clients += 1
        return ClientId(f"client-{self._clients}")

    def run(self, rule: Callable[Concatenate[Txn, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Carry out one transaction: all that the rule wrote is stored, or nothing."""
        overlay = Overlay(self.base)
        result = rule(overlay, *args, **kwargs)
        self.base.apply(overlay)
        return result

    @contextlib.contextmanager
    def refuses(self, code: Code) -> Generator[pytest.ExceptionInfo[Refused]]:
        """Check that what is done inside is refused so, and that it leaves nothing (D8)."""
        before = dict(self.base.values)
        with pytest.raises(Refused) as caught:
            yield caught
        assert caught.value.code is code
        assert self.base.values == before

    @contextlib.contextmanager
    def changes_nothing(self) -> Generator[None]:
        before = dict(self.base.values)
        yield
        assert self.base.values == before

    # What people do.

    def open(
        self, scope: ScopeId = ANN, *, client_id: str | None = None, title: str = "a talk"
    ) -> ConversationId:
        return self.open_as(scope, client_id=client_id, title=title).conversation

    def open_as(self, scope: ScopeId, *, client_id: str | None, title: str) -> Accepted:
        opening = admission.Opening(
            scope=scope,
            client_id=ClientId(client_id) if client_id else self.client_id(),
            title=title,
            conversation=self.ids.conversation(),
            now_ms=self.now_ms(),
        )
        return self.run(admission.open_conversation, opening)

    def say(
        self,
        conversation: ConversationId,
        text: str = "What is it?",
        *,
        client_id: str | None = None,
        background: bool = False,
        depth: Depth = Depth.NORMAL,
        scope: ScopeId = ANN,
        owner: OwnerId | None = None,
        resumes: bool = False,
    ) -> Accepted:
        submission = admission.Submission(
            scope=scope,
            conversation=conversation,
            client_id=ClientId(client_id) if client_id else self.client_id(),
            verb=Verb.BACKGROUND if background else Verb.PLAIN,
            text=text,
            text_sha256=identity.text_hash(text),
            depth=depth,
            message=self.ids.message(),
            run=self.ids.run(),
            owner=owner or self.owner,
            now_ms=self.now_ms(),
            resumes=resumes,
            disposition="background by choice" if background else "answer",
        )
        return self.run(admission.admit, self.limits, submission)

    def start(
        self,
        conversation: ConversationId,
        text: str = "What is it?",
        *,
        background: bool = False,
        scope: ScopeId = ANN,
        owner: OwnerId | None = None,
        resumes: bool = False,
    ) -> RunId:
        accepted = self.say(
            conversation, text, background=background, scope=scope, owner=owner, resumes=resumes
        )
        assert accepted.run is not None
        return accepted.run

    def steer(
        self,
        run: RunId,
        text: str = "Only this year.",
        *,
        client_id: str | None = None,
        expected: int | None = None,
        scope: ScopeId = ANN,
    ) -> Accepted:
        steering = revisions.Steering(
            scope=scope,
            run=run,
            client_id=ClientId(client_id) if client_id else self.client_id(),
            text=text,
            text_sha256=identity.text_hash(text),
            expected_revision=expected,
            message=self.ids.message(),
            now_ms=self.now_ms(),
        )
        return self.run(revisions.steer, self.limits, steering)

    def withdraw(
        self,
        run: RunId,
        revision: int,
        *,
        client_id: str | None = None,
        scope: ScopeId = ANN,
    ) -> Accepted:
        withdrawal = revisions.Withdrawal(
            scope=scope,
            run=run,
            revision=revision,
            client_id=ClientId(client_id) if client_id else self.client_id(),
            now_ms=self.now_ms(),
        )
        return self.run(revisions.withdraw, withdrawal)

    def resolve(
        self,
        run: RunId,
        effect: int,
        *,
        happened: bool = True,
        value: bytes | None = None,
        reason: str = "seen in the books",
        client_id: str | None = None,
        scope: ScopeId = ANN,
    ) -> Accepted:
        resolution = effects.Resolution(
            scope=scope,
            run=run,
            effect=effect,
            client_id=ClientId(client_id) if client_id else self.client_id(),
            happened=happened,
            value=value,
            reason=reason,
            now_ms=self.now_ms(),
        )
        return self.run(effects.resolve, resolution)

    def stop(
        self,
        run: RunId,
        *,
        client_id: str | None = None,
        scope: ScopeId = ANN,
        owner_gone: OwnerId | None = None,
    ) -> Accepted:
        stopping = endings.Stopping(
            scope=scope,
            run=run,
            client_id=ClientId(client_id) if client_id else self.client_id(),
            publication=self.ids.publication(),
            now_ms=self.now_ms(),
            owner_gone=owner_gone,
        )
        return self.run(endings.stop, stopping)

    # What the owner of a run does.

    def try_request(
        self, run: RunId, *, revision: int | None = None, owner: OwnerId | None = None
    ) -> Request | requests.Stale:
        record = self.record(run)
        seen = record.revisions if revision is None else revision
        model_input = f"input of {run} at {seen}".encode()
        outgoing = requests.Outgoing(
            run=run,
            owner=owner or self.owner,
            gateway="scripted",
            input_sha256=hashlib.sha256(model_input).digest(),
            model_input=model_input,
            revision=seen,
            now_ms=self.now_ms(),
            withdrawn=record.withdrawn,
            keep_input=self.limits.keep_inputs,
        )
        return self.run(requests.begin, outgoing)

    def begin_request(self, run: RunId) -> Request:
        request = self.try_request(run)
        assert isinstance(request, Request)
        return request

    def end_request(
        self,
        run: RunId,
        ordinal: int,
        state: RequestState = RequestState.COMPLETED,
        *,
        reason: str = "",
        tokens: tuple[int | None, int | None] = (None, None),
        owner: OwnerId | None = None,
    ) -> None:
        outcome = requests.Outcome(
            state=state, reason=reason, input_tokens=tokens[0], output_tokens=tokens[1]
        )
        self.run(requests.end, run, owner or self.owner, ordinal, outcome, self.now_ms())

    def ask(self, run: RunId) -> Request:
        """One whole request, completed."""
        request = self.begin_request(run)
        self.end_request(run, request.ordinal)
        return request

    def begin_effect(
        self,
        run: RunId,
        *,
        name: str = "post",
        revision: int | None = None,
        repeat: Repeat = Repeat.ONCE,
        owner: OwnerId | None = None,
    ) -> Effect:
        intent = effects.Intent(
            run=run,
            owner=owner or self.owner,
            name=name,
            arguments=b"{}",
            repeat=repeat,
            revision=self.record(run).revisions if revision is None else revision,
            now_ms=self.now_ms(),
        )
        return self.run(effects.begin, intent)

    def end_effect(
        self,
        run: RunId,
        number: int,
        state: EffectState = EffectState.DONE,
        *,
        value: bytes | None = b"1",
        owner: OwnerId | None = None,
    ) -> None:
        result = effects.Result(state=state, value=value)
        self.run(effects.end, run, owner or self.owner, number, result, self.now_ms())

    def finish(
        self,
        run: RunId,
        cue: runs.Cue = runs.Cue.COMPLETE,
        reason: Reason = Reason.ANSWERED,
        *,
        text: str | None = "It is this.",
        insist_through: int = 0,
        owner: OwnerId | None = None,
    ) -> Run | endings.OneMore:
        ending = endings.Ending(
            run=run,
            owner=owner or self.owner,
            cue=cue,
            reason=reason,
            publication=self.ids.publication(),
            now_ms=self.now_ms(),
            text=text,
            insist_through=insist_through,
        )
        return self.run(endings.finish, ending)

    def complete(self, run: RunId, text: str = "It is this.") -> Run:
        ended = self.finish(run, text=text)
        assert isinstance(ended, Run)
        return ended

    def save(self, run: RunId, state: bytes = b"so far") -> int:
        return self.run(runs.save_checkpoint, run, self.owner, state, self.now_ms())

    def promote(self, run: RunId, *, owner: OwnerId | None = None) -> list[RunId] | None:
        return self.run(runs.promote, self.limits, run, owner or self.owner, self.now_ms())

    def settle(
        self,
        run: RunId,
        *,
        lost: OwnerId | None = None,
        heir: OwnerId | None = None,
        agents: tuple[str, ...] | None = None,
    ) -> settlement.Adopted | settlement.Settled | None:
        orphan = settlement.Orphan(
            run=run,
            lost=lost or self.owner,
            heir=heir or self.new_owner(),
            publication=self.ids.publication(),
            now_ms=self.now_ms(),
            agents=agents,
        )
        return self.run(settlement.settle, self.limits, orphan)

    def enter_again(self, run: RunId) -> Run:
        """The process dies, and its heir goes on with the run."""
        heir = self.new_owner()
        settled = self.settle(run, heir=heir)
        assert isinstance(settled, settlement.Adopted)
        self.owner = heir
        return settled.run

    # What is stored.

    def record(self, run: RunId) -> Run:
        found = runs.find(self.base, run)
        assert found is not None
        return found

    def revision(self, run: RunId, number: int) -> Revision:
        return revisions.get(self.base, run, number)

    def request(self, run: RunId, ordinal: int) -> Request:
        return requests.get(self.base, run, ordinal)

    def effect(self, run: RunId, number: int) -> Effect:
        return effects.get(self.base, run, number)

    def head(self, conversation: ConversationId, scope: ScopeId = ANN) -> Conversation:
        return events.head_of(self.base, scope, conversation)

    def events(self, conversation: ConversationId, scope: ScopeId = ANN) -> list[Event]:
        head = self.head(conversation, scope)
        return events.page(self.base, head, after=0, limit=head.events)

    def last_event(self, conversation: ConversationId) -> Event:
        return self.events(conversation)[-1]

    def slots(self, run_class: str = SHORT, scope: ScopeId = ANN) -> list[str]:
        prefix = keys.slots(scope, run_class)
        return [
            key[len(prefix) :].decode() for key, _ in self.base.scan(prefix, keys.after(prefix))
        ]

    def slots_of_run(self, run: RunId, scope: ScopeId = ANN) -> list[str]:
        return [
            run_class for run_class in (SHORT, BACKGROUND) if run in self.slots(run_class, scope)
        ]
