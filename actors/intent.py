"""The intent router: what may become of a message, decided from values, before any model.

The order of authority narrows step by step (ROUTER): an explicit entry is settled by what
it is (D1); a plain message with nothing to decide is answered at once, with no model asked
(D2, B20). That something is running never decides what a sentence means (B12): a plain
message is answered beside it, and is never made into a steering, a stop or a continue by
anything but an explicit act or a proposal that was checked.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ..store.records import Verb


class Act(StrEnum):
    """What the runtime does with a message's own run."""

    ANSWER = "answer"
    RESEARCH = "research"


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of the conversation at the moment of the decision."""

    background_runs: int
    """Live runs that a message could be about."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a message, and by which rule; the rule is stored with it (C46)."""

    act: Act
    rule: str

    @property
    def disposition(self) -> str:
        """The decision in one line, as it is stored with the message."""
        return f"{self.act}: {self.rule}"


def decide(verb: Verb, surroundings: Surroundings) -> Decision:
    """Return what becomes of a message that came in by `verb` with a run of its own."""
    if verb is Verb.BACKGROUND:
        return Decision(act=Act.RESEARCH, rule="the person chose background")
    assert verb is Verb.PLAIN
    if not surroundings.background_runs:
        return Decision(act=Act.ANSWER, rule="nothing to decide")
    return Decision(act=Act.ANSWER, rule="no classifier: beside what is running")
