"""The public API: open a runtime, say something in a conversation, read what became of it.

    async with open_runtime("store", agents={"short": answer, "background": research}) as runtime:
        opened = await runtime.open_conversation(scope="ann", client_id="c-1")
        receipt = await runtime.submit(
            scope="ann", conversation=opened.conversation, client_id="m-1", text="Hello"
        )
        run = await runtime.wait(scope="ann", run=receipt.run)

Every verb that changes something takes a client id of the caller's making, and obeys one
rule: the same id with the same meaning reads the first receipt back, with another meaning
it is refused as a conflict (C1). It returns a receipt (accepted, and durable), or raises
`Refused` (nothing was stored) or `OutcomeUnknown` (look the id up, or repeat it) (C2).

All of it is called in the trio loop that opened the runtime. Cancelling a verb means to
leave, not to take back: what had begun is committed all the same, and the id tells (C25).
"""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any

import msgspec
import pykka

from ..actors.conversation import ConversationActor
from ..actors.environment import Environment
from ..actors.kernel import (
    ActorSystem,
    MailboxFull,
    SystemClosed,
    TrioActorRef,
    TrioFuture,
)
from ..actors.messages import Demand, Resolve, Steer, Stop, Submit, Withdraw
from ..actors.roster import Roster
from ..actors.tail import Tail
from ..store import admission, identity
from ..store.ids import ClientId, ConversationId, MessageId, RunId, ScopeId
from ..store.records import Accepted, Depth, Verb
from ..store.refusal import Code, OutcomeUnknown, Refused
from . import validation
from .config import Config
from .reading import Readers, closing, named_client_id, named_scope

_ENTRIES = frozenset({Verb.PLAIN, Verb.BACKGROUND})


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was accepted. The same id always gets the same receipt."""

    client_id: ClientId
    verb: Verb
    conversation: ConversationId
    version: int
    """The number of the event that tells of it: `events(after=version)` goes on behind it."""
    at_ms: int
    message: MessageId | None
    run: RunId | None
    """The run that was admitted, or that is steered or stopped."""
    revision: int | None
    """For a steering: its number in the run."""


def _receipt(accepted: Accepted) -> Receipt:
    return Receipt(
        client_id=accepted.client_id,
        verb=accepted.meaning.verb,
        conversation=accepted.conversation,
        version=accepted.version,
        at_ms=accepted.at_ms,
        message=accepted.message,
        run=accepted.run,
        revision=accepted.revision,
    )


class Runtime(Readers):
    """One open store with its actors. Made by `open_runtime`."""

    def __init__(
        self,
        config: Config,
        environment: Environment,
        tail: Tail,
        system: ActorSystem,
        roster: Roster,
    ) -> None:
        super().__init__(config, environment.engine, tail)
        self._environment = environment
        self._system = system
        self._roster = roster
        self._on_their_way: dict[tuple[str, str], set[TrioFuture[Any]]] = {}

    # Verbs that change something.

    async def open_conversation(self, *, scope: str, client_id: str, title: str = "") -> Receipt:
        """Open a conversation in a scope; the receipt has its id.

        Raises:
          Refused: `invalid`, `too_large`, `conflict`, `busy`, `store_full`,
            `store_unavailable` or `shutting_down`.
          OutcomeUnknown: see there.
        """
        limits = self.config.limits
        scope, client_id = named_scope(scope), named_client_id(client_id)
        validation.text("title", title, bytes_max=limits.title_bytes_max, empty=True)
        ids = self._environment.ids
        opening = admission.Opening(
            scope=scope,
            client_id=client_id,
            title=title,
            conversation=ids.conversation(),
            now_ms=ids.now_ms(),
        )
        with self.reading() as txn:
            found = identity.find(txn, scope, client_id)
        if found is not None:
            return _receipt(identity.replay(found, opening.meaning))
        self._must_be_admitting()
        future: TrioFuture[Accepted] = TrioFuture()

        def done(accepted: Accepted | None, error: BaseException | None) -> None:
            if error is None:
                future.set(accepted)
            else:
                future.set_exception((type(error), error, error.__traceback__))

        self._environment.enqueue(partial(admission.open_conversation, opening=opening), done)
        with _Naming(client_id, None):
            return await self._outcome(scope, client_id, future)

    async def submit(
        self,
        *,
        scope: str,
        conversation: str,
        client_id: str,
        text: str,
        entry: str = Verb.PLAIN,
        depth: str = Depth.NORMAL,
    ) -> Receipt:
        """Take in a message; it gets a run of its own, which starts after the commit.

        `entry` is `plain` (typed in the conversation) or `background` (the person chose
        background work; then `depth` is `normal` or `deep`) (D1, B16, B23).

        Raises:
          Refused: `invalid`, `too_large`, `not_found`, `conflict`, `capacity_full` with the
            runs that hold the slots, `runs_full`, `overloaded`, `busy`, `store_full`,
            `store_unavailable` or `shutting_down`. Its `text` is this text (C4).
          OutcomeUnknown: see there.
        """
        with _Naming(client_id, text):
            validation.text("text", text, bytes_max=self.config.limits.text_bytes_max)
            submit = Submit(
                scope=named_scope(scope),
                client_id=named_client_id(client_id),
                verb=validation.choice("entry", entry, Verb, among=_ENTRIES),
                text=text,
                depth=validation.choice("depth", depth, Depth),
            )
            where = ConversationId(validation.identifier("conversation", conversation))
            return await self._take_in(where, submit)

    async def steer(
        self,
        *,
        scope: str,
        run: str,
        client_id: str,
        text: str,
        expected_revision: int | None = None,
    ) -> Receipt:
        """Add a requirement to a running run. The receipt says it is saved; that the model
        has had it is a later event and view (B33).

        Raises:
          Refused: `invalid`, `too_large`, `not_found`, `conflict`, `run_ended`,
            `run_stopping`, `stale_revision`, `revisions_full`, `busy`, `store_full`,
            `store_unavailable` or `shutting_down`. Its `text` is this text (C4).
          OutcomeUnknown: see there.
        """
        with _Naming(client_id, text):
            validation.text("text", text, bytes_max=self.config.limits.text_bytes_max)
            if expected_revision is not None:
                validation.whole_number("expected_revision", expected_revision, least=0)
            steer = Steer(
                scope=named_scope(scope),
                client_id=named_client_id(client_id),
                run=RunId(validation.identifier("run", run)),
                text=text,
                expected_revision=expected_revision,
            )
            return await self._take_in(self._conversation_of(Verb.STEER, steer), steer)

    async def stop(self, *, scope: str, run: str, client_id: str) -> Receipt:
        """Stop a run. The receipt says the stop is accepted: nothing more goes out of the
        run. That it has stopped is its final event, and the end of `wait`; what was
        cancelled, what had happened and what is unknown is `inspect(...).stop` (C19).

        Raises:
          Refused: `invalid`, `too_large`, `not_found`, `conflict`, `run_ended` (there is
            nothing to stop), `busy`, `store_full` or `store_unavailable`.
          OutcomeUnknown: see there.
        """
        stop = Stop(
            scope=named_scope(scope),
            client_id=named_client_id(client_id),
            run=RunId(validation.identifier("run", run)),
        )
        with _Naming(client_id, None):
            return await self._take_in(self._conversation_of(Verb.STOP, stop), stop)

    async def withdraw(self, *, scope: str, run: str, revision: int, client_id: str) -> Receipt:
        """Take back a steering that no request has taken yet (C53). Its message stays.

        Raises:
          Refused: `invalid`, `too_large`, `not_found`, `conflict`, `taken`, `busy`,
            `store_full` or `store_unavailable`.
          OutcomeUnknown: see there.
        """
        withdraw = Withdraw(
            scope=named_scope(scope),
            client_id=named_client_id(client_id),
            run=RunId(validation.identifier("run", run)),
            revision=validation.whole_number("revision", revision, least=1),
        )
        with _Naming(client_id, None):
            return await self._take_in(self._conversation_of(Verb.WITHDRAW, withdraw), withdraw)

    async def resolve(
        self,
        *,
        scope: str,
        run: str,
        effect: int,
        client_id: str,
        happened: bool,
        value: Any = None,
        reason: str = "",
    ) -> Receipt:
        """Say what became of an effect whose outcome is unknown (C27). `value` is its
        result, as JSON, if it happened; `reason` says how the person knows.

        Raises:
          Refused: `invalid`, `too_large`, `not_found`, `conflict`, `not_unknown`, `busy`,
            `store_full` or `store_unavailable`.
          OutcomeUnknown: see there.
        """
        limits = self.config.limits
        data = None if value is None else validation.as_json("value", value)
        validation.fits("value", len(data or b""), limits.result_bytes_max)
        validation.text("reason", reason, bytes_max=limits.text_bytes_max, empty=True)
        resolve = Resolve(
            scope=named_scope(scope),
            client_id=named_client_id(client_id),
            run=RunId(validation.identifier("run", run)),
            effect=validation.whole_number("effect", effect, least=1),
            happened=validation.yes_or_no("happened", happened),
            value=data,
            reason=reason,
        )
        with _Naming(client_id, None):
            return await self._take_in(self._conversation_of(Verb.RESOLVE, resolve), resolve)

    def _conversation_of(
        self, verb: Verb, demand: Steer | Stop | Withdraw | Resolve
    ) -> ConversationId:
        with self.reading() as txn:
            run = identity.run_of(txn, demand.scope, demand.client_id, verb, demand.run)
        return run.conversation

    async def _take_in(self, conversation: ConversationId, message: Demand) -> Receipt:
        if self._environment.closing and not isinstance(message, Stop):
            found = self._find(message.scope, message.client_id)
            if found is None:
                raise closing()
        try:
            future = self._actor_of(conversation, message).ask(message, block=False)
        except MailboxFull as full:
            raise Refused(
                Code.OVERLOADED,
                "Too much comes in for this conversation at once; nothing was stored. "
                "Try the same again.",
                limit=1024,
            ) from full
        except SystemClosed as closed:
            raise closing() from closed
        return await self._outcome(message.scope, message.client_id, future)

    def _actor_of(
        self, conversation: ConversationId, message: Demand
    ) -> TrioActorRef[ConversationActor]:
        """Return the conversation's actor; none is started for a conversation that is none."""
        scope = message.scope
        ref = self._roster.awake_in(scope, conversation)
        if ref is not None:
            return ref
        if isinstance(message, Submit):  # else it is the conversation of a run of the scope
            with self.reading() as txn:
                identity.must_have_conversation(
                    txn, scope, message.client_id, message.verb, conversation
                )
        return self._roster.conversation_in(scope, conversation)

    async def _outcome(
        self, scope: ScopeId, client_id: ClientId, future: TrioFuture[Any]
    ) -> Receipt:
        """Wait for what is on its way; who leaves changes nothing about it."""
        key = (scope, client_id)
        self._on_their_way.setdefault(key, set()).add(future)
        try:
            accepted: Accepted = await future.wait(timeout=self.config.ask_wait_s)
        except (pykka.Timeout, pykka.ActorDeadError) as error:
            raise OutcomeUnknown(
                f"No outcome was known after {self.config.ask_wait_s:g} s; look the id up."
            ) from error
        finally:
            if future.done():
                self._arrived(key, future)
            else:  # the caller left: it is committed, or not, all the same
                self._system.start_task(self._await_arrival, key, future)
        return _receipt(accepted)

    async def _await_arrival(self, key: tuple[str, str], future: TrioFuture[Any]) -> None:
        try:
            await future.wait()
        except Exception:  # noqa: BLE001 — whose it is has left; only the arrival counts
            pass
        finally:
            self._arrived(key, future)

    def _arrived(self, key: tuple[str, str], future: TrioFuture[Any]) -> None:
        waiting = self._on_their_way[key]
        waiting.discard(future)
        if not waiting:
            del self._on_their_way[key]

    def _must_be_admitting(self) -> None:
        if self._environment.closing:
            raise closing()

    def _find(self, scope: ScopeId, client_id: ClientId) -> Accepted | None:
        with self.reading() as txn:
            return identity.find(txn, scope, client_id)

    async def lookup(self, *, scope: str, client_id: str) -> Receipt | None:
        """Return the receipt of a client id, or None if nothing was accepted under it.

        Waits for what is on its way under this id in this process, so None means: not
        accepted, and nothing under way here (A19).
        """
        key = (named_scope(scope), named_client_id(client_id))
        for future in list(self._on_their_way.get(key, ())):
            try:
                await future.wait()
            except Exception:  # noqa: BLE001 — its own caller is told
                continue
        found = self._find(*key)
        return None if found is None else _receipt(found)

    async def quiet(self) -> None:
        """Wait until this process executes no run."""
        await self._roster.quiet()


class _Naming:
    """Name the id and give the text back in whatever is raised inside (C4)."""

    __slots__ = ("_client_id", "_text")

    def __init__(self, client_id: str, text: str | None) -> None:
        self._client_id = client_id
        self._text = text

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if isinstance(error, Refused):
            error.text = self._text if isinstance(self._text, str) else None
        elif isinstance(error, OutcomeUnknown):
            error.client_id = self._client_id
