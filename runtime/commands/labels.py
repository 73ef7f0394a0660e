"""The short names of runs: r1, r2… in the order in which a conversation admitted them.

They follow from the conversation's events alone, so every process and every restart finds
the same ones.
"""

from __future__ import annotations

import re

from ...store.ids import RunId
from ...store.records import EventKind
from ...store.views import EventView

_RUN_ID = re.compile(r"\br[0-9a-f]{24}\b")


class Labels:
    """The labels of one conversation. Feed it every event in order; feeding one again is free."""

    def __init__(self) -> None:
        self.seen = 0
        """The number of the last event that was learnt from."""
        self._labels: dict[RunId, str] = {}
        self._runs: dict[str, RunId] = {}

    def learn(self, event: EventView) -> None:
        """Give the run that this event admitted its label."""
        if event.number <= self.seen:
            return
        assert event.number == self.seen + 1, "an event was left out: labels would be wrong"
        self.seen = event.number
        if event.kind == EventKind.MESSAGE_ADMITTED and event.run is not None:
            label = f"r{len(self._labels) + 1}"
            self._labels[event.run] = label
            self._runs[label] = event.run

    def of(self, run: str | None) -> str | None:
        """Return the label of a run, or None if it has none (yet)."""
        return None if run is None else self._labels.get(RunId(run))

    def place(self, run: str) -> int:
        """Return the place of a run in the order of admission; those without come last."""
        label = self.of(run)
        return len(self._labels) + 1 if label is None else int(label[1:])

    def run(self, name: str) -> str | None:
        """Return the id of the run with this label, or None if there is none (yet)."""
        return self._runs.get(name)

    def in_words(self, text: str) -> str:
        """Return a text for a person: the ids of runs in it by their labels."""
        return _RUN_ID.sub(lambda found: self.of(found[0]) or found[0], text)
