"""The readers of the public API: views, events, inspection, waiting for an end.

Each reads one snapshot of the store on the calling thread; none changes anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager

import msgspec

from ..actors.tail import Delta, Tail
from ..store import runs, views
from ..store.engine import Engine, ReadTxn, StoreClosed, StoreError
from ..store.ids import ClientId, ConversationId, RunId, ScopeId
from ..store.records import Conversation
from ..store.refusal import Code, Refused
from . import validation
from .config import Config


class StreamedText(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an answer in progress: not durable; the published answer replaces it."""

    conversation: ConversationId
    run: RunId
    text: str


class Readers:
    """What may be read of an open runtime. Used in the loop that opened it."""

    def __init__(self, config: Config, engine: Engine, tail: Tail) -> None:
        self.config = config
        self._engine = engine
        self._tail = tail

    @contextmanager
    def reading(self) -> Generator[ReadTxn]:
        """Open a snapshot, and name what a driver may raise for it."""
        try:
            with self._engine.read() as txn:
                yield txn
        except StoreClosed as closed:
            raise closing() from closed
        except StoreError as error:
            raise Refused(Code.STORE_UNAVAILABLE, f"The store can't be read: {error}") from error

    async def view(
        self, *, scope: str, conversation: str, before: int | None = None
    ) -> views.ConversationView:
        """Return a conversation as it is now: the newest entries, or those before `before`.

        Raises:
          Refused: `invalid` or `not_found`.
        """
        if before is not None:
            validation.whole_number("before", before, least=1)
        where = ConversationId(validation.identifier("conversation", conversation))
        with self.reading() as txn:
            return views.conversation(txn, named_scope(scope), where, before=before)

    async def view_run(self, *, scope: str, run: str) -> views.RunView:
        """Return one run as it is now.

        Raises:
          Refused: `invalid` or `not_found`.
        """
        which = RunId(validation.identifier("run", run))
        with self.reading() as txn:
            return views.run(txn, named_scope(scope), which)

    async def inspect(self, *, scope: str, run: str) -> views.Inspection:
        """Return all that is recorded of a run (C46).

        Raises:
          Refused: `invalid` or `not_found`.
        """
        which = RunId(validation.identifier("run", run))
        with self.reading() as txn:
            return views.inspect(txn, named_scope(scope), which)

    async def export_request(self, *, scope: str, run: str, ordinal: int) -> bytes:
        """Return the exact input of one request of a run, as JSON (C11).

        Raises:
          Refused: `invalid` or `not_found`.
        """
        which = RunId(validation.identifier("run", run))
        validation.whole_number("ordinal", ordinal, least=1)
        with self.reading() as txn:
            return views.request_input(txn, named_scope(scope), which, ordinal)

    async def conversations(self, *, scope: str) -> list[Conversation]:
        """Return the scope's conversations, oldest first."""
        with self.reading() as txn:
            return views.conversations(txn, named_scope(scope))

    async def events(
        self, *, scope: str, conversation: str, after: int = 0, follow: bool = True
    ) -> AsyncGenerator[views.EventView | StreamedText, None]:
        """Yield the conversation's events behind the cursor `after`, oldest first, without a
        gap and none twice; then, with `follow`, new ones as they are committed, by whichever
        process, and streamed text in between.

        To leave is not to stop anything (C25). Close it with `contextlib.aclosing`.

        Raises:
          Refused: `invalid` or `not_found`.
        """
        owner = named_scope(scope)
        where = ConversationId(validation.identifier("conversation", conversation))
        cursor = validation.whole_number("after", after, least=0)
        page_len = self.config.limits.event_page
        subscription = self._tail.subscribe(where)
        try:
            while True:
                while subscription.deltas:
                    yield _streamed(subscription.deltas.popleft())
                with self.reading() as txn:
                    page = views.events_after(txn, owner, where, after=cursor, limit=page_len)
                for event in page:
                    cursor = event.number
                    yield event
                if page:
                    continue
                if not follow:
                    return
                await subscription.news()
        finally:
            self._tail.unsubscribe(where, subscription)

    async def wait(self, *, scope: str, run: str) -> views.RunView:
        """Wait until a run has ended, in whichever process, and return it.

        Raises:
          Refused: `invalid` or `not_found`.
        """
        view = await self.view_run(scope=scope, run=run)
        subscription = self._tail.subscribe(view.conversation)
        try:
            while True:
                view = await self.view_run(scope=scope, run=run)
                if view.state in runs.FINAL:
                    return view
                await subscription.news()
        finally:
            self._tail.unsubscribe(view.conversation, subscription)


def named_scope(value: str) -> ScopeId:
    """Return a scope as the host named it, checked."""
    return ScopeId(validation.identifier("scope", value))


def named_client_id(value: str) -> ClientId:
    """Return a client id as the caller made it, checked."""
    return ClientId(validation.identifier("client_id", value))


def _streamed(delta: Delta) -> StreamedText:
    return StreamedText(conversation=delta.conversation, run=delta.run, text=delta.text)


def closing() -> Refused:
    """Return the refusal of everything new while a runtime shuts down (D20)."""
    return Refused(
        Code.SHUTTING_DOWN,
        "The host is shutting down; nothing was stored. Try the same again when it is back.",
    )
