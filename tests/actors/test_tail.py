"""The tail: whoever waits is woken by what was committed, also after a long backlog."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, cast

import pytest
import trio

from counterpoint.actors import tail as tail_module
from counterpoint.actors.tail import Tail
from counterpoint.store import admission
from counterpoint.store.engine import Engine, ReadTxn
from counterpoint.store.ids import ClientId, ConversationId, IdSource, RunId, ScopeId
from counterpoint.store.memory_engine import MemoryEngine


class Elsewhere:
    """The store as a process sees it that did not commit anything itself: it hears no commit."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine

    def read(self) -> AbstractContextManager[ReadTxn]:
        return self._engine.read()

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Nothing is committed here."""


class Store:
    """A store in memory, in which conversations are opened."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self._ids = IdSource(lambda: 1, node=1)
        self._opened = 0

    def tail(self) -> Tail:
        """Return the tail of a process that only reads."""
        return Tail(cast("Engine", cast("Any", Elsewhere(self.engine))))

    async def opens(self) -> ConversationId:
        """Open a conversation: one event in it."""
        self._opened += 1
        opening = admission.Opening(
            scope=ScopeId("ann"),
            client_id=ClientId(str(self._opened)),
            title="",
            conversation=self._ids.conversation(),
            now_ms=1,
        )
        rule = partial(admission.open_conversation, opening=opening)
        accepted = await self.engine.write(rule, deadline=trio.current_time() + 5)
        return accepted.conversation


@pytest.mark.contract("C42")
async def test_a_subscriber_is_woken_by_its_own_conversation_alone() -> None:
    store = Store()
    tail = store.tail()
    opened = await store.opens()
    mine, other = tail.subscribe(opened), tail.subscribe(ConversationId("c-other"))
    tail.catch_up()
    assert mine.woken
    assert not other.woken
    await mine.news()
    assert not mine.woken
    await store.engine.aclose()


async def test_far_behind_it_wakes_everybody_once_and_goes_on_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail_module, "BEHIND_MAX", 2)
    store = Store()
    tail = store.tail()
    signals: list[RunId | None] = []
    tail.on_signal(signals.append, lambda: signals.append(None))
    quiet = tail.subscribe(ConversationId("c-other"))
    for _ in range(3):
        await store.opens()
    tail.catch_up()
    tail.catch_up()
    assert signals == [None]
    assert quiet.woken
    await store.engine.aclose()
