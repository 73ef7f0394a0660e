"""The runs of a scope with their labels, and which of them a person means."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final, NamedTuple

from ...store.ids import ID_LENGTH, RunId
from ...store.records import Conversation, EventKind
from ..errors import Code, Refused
from ..reading import Readers, StreamedText
from .labels import Labels

_NAMED_MAX: Final = 4


class KnownRun(NamedTuple):
    """One run, as a person may name it."""

    run: str
    label: str | None
    """As in a chat in its conversation; other conversations have the same labels."""


async def runs_of(readers: Readers, scope: str, conversation: Conversation) -> list[KnownRun]:
    """Return a conversation's runs in order of admission. Reads all of its events."""
    labels = Labels()
    found: list[KnownRun] = []
    stream = readers.events(scope=scope, conversation=conversation.conversation, follow=False)
    async with aclosing(stream) as events:
        async for event in events:
            assert not isinstance(event, StreamedText), "nobody listened before"
            labels.learn(event)
            if event.kind == EventKind.MESSAGE_ADMITTED and event.run is not None:
                found.append(KnownRun(event.run, labels.of(event.run)))
    return found


async def find_run(readers: Readers, scope: str, name: str) -> KnownRun:
    """Return the run of the scope that `name` means: its id, its label in a conversation, or
    the beginning or end of its id, if that is of no other.

    Raises:
      Refused: `not_found`, or `invalid` if it may mean several.
    """
    if name.startswith("r") and len(name) == ID_LENGTH:  # without reading all events
        return KnownRun((await readers.view_run(scope=scope, run=name)).run, None)
    known: list[KnownRun] = []
    for conversation in await readers.conversations(scope=scope):
        known += await runs_of(readers, scope, conversation)
    return choose(known, scope, name)


def choose(known: list[KnownRun], scope: str, name: str) -> KnownRun:
    """Return the one of `known` that `name` means. Raises as `find_run`."""
    meant = [run for run in known if run.label == name] or [
        run for run in known if name and (run.run.startswith(name) or run.run.endswith(name))
    ]
    if not meant:
        raise Refused(
            Code.NOT_FOUND,
            f"Scope {scope!r} has no run {name!r}. `counterpoint runs` lists them.",
            kind="run",
            id=name,
        )
    if len(meant) > 1:
        ids = [RunId(run.run) for run in meant]
        more = "" if len(ids) <= _NAMED_MAX else f" and {len(ids) - _NAMED_MAX} more"
        raise Refused(
            Code.INVALID,
            f"{name!r} may mean {', '.join(ids[:_NAMED_MAX])}{more}: say more of its id.",
            field="run",
            runs=ids,
        )
    return meant[0]
