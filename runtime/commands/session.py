"""One chat in one conversation: carries out what is asked, and shows what came of it."""

from __future__ import annotations

import msgspec

from ...store.views import ConversationView
from ..errors import OutcomeUnknown, Refused
from ..runtime import Receipt, Runtime
from . import shown
from .command import (
    AnyCommand,
    Background,
    Deep,
    Export,
    Help,
    Inspect,
    ListRuns,
    Lookup,
    Mistake,
    Plain,
    Quit,
    Steer,
    Stop,
    View,
)
from .follower import Follower, Screen
from .labels import Labels
from .typed_lines import HELP

FIRST_CONVERSATION = "counterpoint-chat-first"
"""The client id under which a scope's first conversation is opened: always the same, so that
a crash in between, or two chats at once, open one."""


class Session:
    """A chat. Made by `open_session`; its follower runs beside whatever calls the rest."""

    def __init__(
        self,
        runtime: Runtime,
        screen: Screen,
        labels: Labels,
        *,
        scope: str,
        conversation: str,
        reconciles: bool,
    ) -> None:
        self.conversation = conversation
        self.labels = labels
        self._runtime = runtime
        self._screen = screen
        self._scope = scope
        self._reconciles = reconciles
        self.follower = Follower(runtime, screen, labels, scope=scope, conversation=conversation)

    async def view(self, before: int | None = None) -> ConversationView:
        """Return the conversation as it is now."""
        return await self._runtime.view(
            scope=self._scope, conversation=self.conversation, before=before
        )

    async def rest(self) -> None:
        """Wait until nothing runs here any more, and all that has happened is shown."""
        await self._runtime.quiet()
        await self.follower.reached((await self.view()).version)

    async def carry_out(self, asked: AnyCommand | Mistake) -> None:
        """Do what is asked and show what came of it."""
        if isinstance(asked, Mistake):
            self._decline(asked.refused, asked.id, asked.entry)
            return
        entry = asked.__struct_config__.tag
        assert isinstance(entry, str)
        try:
            self._screen.show(await self._do(asked))
        except Refused as refused:
            self._decline(refused, asked.id, entry)
        except OutcomeUnknown as unknown:
            self._screen.show(
                await self._reconciled(asked.id)
                or shown.Unknown(id=asked.id, entry=entry, sentence=unknown.sentence)
            )

    async def _reconciled(self, identifier: str | None) -> shown.AnyShown | None:
        """Look up what became of an unknown outcome, for a person who types no ids (A19)."""
        if not self._reconciles or identifier is None:
            return None
        receipt = await self._runtime.lookup(scope=self._scope, client_id=identifier)
        return None if receipt is None else await self._received(receipt)

    def _decline(self, refused: Refused, identifier: str | None, entry: str | None) -> None:
        self._screen.show(
            shown.Declined(
                id=identifier,
                entry=entry,
                code=str(refused.code),
                sentence=refused.sentence,
                retry_same_id=refused.retry_same_id,
                facts=refused.facts,
                text=refused.text,
            )
        )

    async def _do(self, asked: AnyCommand) -> shown.AnyShown:
        match asked:
            case Plain():
                return await self._submit(asked, "plain", "normal")
            case Background():
                return await self._submit(asked, "background", asked.depth)
            case Deep():
                return await self._submit(asked, "background", "deep")
            case Steer() | Stop():
                return await self._control(asked)
            case Inspect():
                run = await self._run(asked.run)
                found = await self._runtime.inspect(scope=self._scope, run=run)
                label = self.labels.of(run)
                return shown.Inspected(id=asked.id, run=run, label=label, inspection=found)
            case Export():
                return await self._export(asked)
            case View():
                view = await self.view(asked.before)
                await self.follower.learn()
                labels = {run: self.labels.of(run) for run in view.runs}
                return shown.Viewed(id=asked.id, labels=labels, view=view)
            case Lookup():
                receipt = await self._runtime.lookup(scope=self._scope, client_id=asked.id)
                found_receipt = None if receipt is None else await self._received(receipt)
                return shown.Found(id=asked.id, receipt=found_receipt)
            case ListRuns():
                return shown.Listed(id=asked.id, runs=await self.runs())
            case Help():
                return shown.Helped(text=HELP)
            case Quit():
                raise AssertionError("whoever reads the input leaves")

    async def _submit(
        self, asked: Plain | Background | Deep, entry: str, depth: str
    ) -> shown.Received:
        receipt = await self._runtime.submit(
            scope=self._scope,
            conversation=self.conversation,
            client_id=asked.id,
            text=asked.text,
            entry=entry,
            depth=depth,
        )
        return await self._received(receipt)

    async def _control(self, asked: Steer | Stop) -> shown.Received:
        run = await self._run(asked.run)
        if isinstance(asked, Stop):
            receipt = await self._runtime.stop(scope=self._scope, run=run, client_id=asked.id)
        else:
            receipt = await self._runtime.steer(
                scope=self._scope,
                run=run,
                client_id=asked.id,
                text=asked.text,
                expected_revision=asked.expected_revision,
            )
        return await self._received(receipt)

    async def _export(self, asked: Export) -> shown.Exported:
        run = await self._run(asked.run)
        data = await self._runtime.export_request(scope=self._scope, run=run, ordinal=asked.ordinal)
        return shown.Exported(
            id=asked.id,
            run=run,
            label=self.labels.of(run),
            ordinal=asked.ordinal,
            input=msgspec.Raw(data),
        )

    async def _received(self, receipt: Receipt) -> shown.Received:
        if receipt.run is not None and self.labels.of(receipt.run) is None:
            await self.follower.learn()
        return shown.Received(
            id=receipt.client_id,
            verb=str(receipt.verb),
            conversation=receipt.conversation,
            version=receipt.version,
            at_ms=receipt.at_ms,
            message=receipt.message,
            run=receipt.run,
            label=self.labels.of(receipt.run),
            revision=receipt.revision,
        )

    async def runs(self) -> tuple[shown.RunLine, ...]:
        """Return the runs of the newest page, and every one that lives, in order of admission."""
        view = await self.view()
        await self.follower.learn()
        found = sorted(view.runs.values(), key=lambda run: self.labels.place(run.run))
        return tuple(shown.run_line(run, self.labels.of(run.run)) for run in found)

    async def live(self) -> tuple[str, ...]:
        """Return the labels of the runs that have not ended."""
        view = await self.view()
        await self.follower.learn()
        return tuple(self.labels.of(run) or run for run in view.live)

    async def _run(self, name: str) -> str:
        """Return the id of a run that is named by its label; anything else as it is."""
        if self.labels.run(name) is None:
            await self.follower.learn()  # it may have been admitted just now
        return self.labels.run(name) or name


async def open_session(
    runtime: Runtime, screen: Screen, labels: Labels, *, scope: str, reconciles: bool
) -> tuple[Session, bool]:
    """Reopen the scope's newest conversation, or open its first; learn what happened so far.

    Return the session, and whether its conversation had been there.

    Raises:
      Refused, OutcomeUnknown: see `Runtime.open_conversation`.
    """
    known = await runtime.conversations(scope=scope)
    if known:
        conversation = known[-1].conversation
    else:
        opened = await runtime.open_conversation(scope=scope, client_id=FIRST_CONVERSATION)
        conversation = opened.conversation
    session = Session(
        runtime,
        screen,
        labels,
        scope=scope,
        conversation=conversation,
        reconciles=reconciles,
    )
    await session.follower.learn()
    return session, bool(known)
