"""Shows what happens in a conversation, in the order of its events and none twice."""

from __future__ import annotations

from contextlib import aclosing
from typing import Protocol

import trio

from ...store.records import EventKind
from ...store.views import EventView, RunView
from ..reading import StreamedText
from ..runtime import Runtime
from . import shown
from .labels import Labels

_WITH_WORDS = frozenset({EventKind.MESSAGE_ADMITTED, EventKind.REVISION_SAVED, EventKind.RUN_ENDED})


class Screen(Protocol):
    """Where things are shown."""

    def show(self, what: shown.AnyShown) -> None:
        """Take something to be shown. Never waits."""
        ...

    async def room(self) -> None:
        """Wait until not too much waits to be shown."""
        ...


class Follower:
    """Follows one conversation; `follow` runs for as long as the chat lasts."""

    def __init__(
        self, runtime: Runtime, screen: Screen, labels: Labels, *, scope: str, conversation: str
    ) -> None:
        self._runtime = runtime
        self._screen = screen
        self._labels = labels
        self._scope = scope
        self._conversation = conversation
        self._shown_to = 0
        self._moved = trio.Event()

    async def follow(self, after: int, *, task_status: trio.TaskStatus[None]) -> None:
        """Show every event behind the cursor `after`, until cancelled."""
        self._shown_to = after
        task_status.started()
        stream = self._runtime.events(
            scope=self._scope, conversation=self._conversation, after=after
        )
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, StreamedText):
                    label = self._labels.of(event.run)
                    self._screen.show(shown.Streamed(run=event.run, label=label, text=event.text))
                else:
                    self._labels.learn(event)
                    await self._tell(event)
                    self._shown_to = event.number
                    self._moved.set()
                    self._moved = trio.Event()
                await self._screen.room()

    async def reached(self, number: int) -> None:
        """Wait until the event with this number is shown."""
        while self._shown_to < number:
            await self._moved.wait()

    async def learn(self) -> None:
        """Learn the labels of all that was admitted so far, shown or not."""
        stream = self._runtime.events(
            scope=self._scope,
            conversation=self._conversation,
            after=self._labels.seen,
            follow=False,
        )
        async with aclosing(stream) as events:
            async for event in events:
                if not isinstance(event, StreamedText):
                    self._labels.learn(event)

    async def _tell(self, event: EventView) -> None:
        """Show an event, with the words that it is about, and an answer behind its run's end."""
        run: RunView | None = None
        if event.run is not None and event.kind in _WITH_WORDS:
            run = await self._runtime.view_run(scope=self._scope, run=event.run)
        label = self._labels.of(event.run)
        self._screen.show(
            shown.Happened(
                number=event.number,
                kind=str(event.kind),
                at_ms=event.at_ms,
                conversation=event.conversation,
                run=event.run,
                label=label,
                message=event.message,
                client_id=event.client_id,
                facts=event.facts,
                text=None if run is None else _words(event, run),
            )
        )
        if run is not None and event.kind == EventKind.RUN_ENDED and run.answer is not None:
            self._screen.show(
                shown.Answered(
                    number=event.number,
                    run=run.run,
                    label=label,
                    client_id=run.client_id,
                    publication=run.publication,
                    state=str(run.state),
                    text=run.answer,
                )
            )


def _words(event: EventView, run: RunView) -> str | None:
    """Return the person's words that an event is about."""
    if event.kind == EventKind.MESSAGE_ADMITTED:
        return run.request
    if event.kind == EventKind.REVISION_SAVED:
        number = event.facts["revision"]
        return next((item.text for item in run.revisions if item.number == number), None)
    return None
