"""Why a run ends, from what ended it: decisions on values, taken before anything is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from ..store import requests, runs
from ..store.records import Reason
from ..store.refusal import Code, OutcomeUnknown, Refused

CUES: Final = {
    Reason.BUDGET: runs.Cue.FALL_SHORT,
    Reason.DEADLINE: runs.Cue.FALL_SHORT,
    Reason.HOST_SHUTDOWN: runs.Cue.INTERRUPT,
    Reason.AGENT_ERROR: runs.Cue.FAIL,
    Reason.INTERNAL: runs.Cue.FAIL,
    Reason.USER_STOP: runs.Cue.QUIESCE,
}
"""How a run ends for each reason that is not its agent's answer."""

STRONGEST_FIRST: Final = (
    Reason.USER_STOP,
    Reason.DEADLINE,
    Reason.BUDGET,
    Reason.HOST_SHUTDOWN,
)
"""Which of several reasons that are there before the end is recorded it is recorded with (D17)."""

WORDS_BYTES_MAX: Final = 4 * 1024
"""How much is kept of what an exception says."""


def in_words(error: BaseException) -> str:
    """Return what an exception says, bounded and fit to be stored."""
    text = f"{type(error).__name__}: {error}"
    return text.encode(errors="replace")[:WORDS_BYTES_MAX].decode(errors="ignore")


def why_it_ended(error: Exception) -> tuple[Reason | None, str]:
    """Return for which reason an agent that raised `error` ends its run, and what to say.

    None means that the run is somebody else's by now. Several tasks of an agent may have
    raised at once: then a fault of its own comes before what the run's gate told them.
    """
    found = [_why(leaf) for leaf in _leaves(error)]
    for reason in (Reason.AGENT_ERROR, Reason.INTERNAL, None, Reason.USER_STOP, Reason.BUDGET):
        for why, words in found:
            if why is reason:
                whole = reason is Reason.AGENT_ERROR and len(found) > 1
                return reason, in_words(error) if whole else words
    raise AssertionError("every exception has a reason")


def _why(error: Exception) -> tuple[Reason | None, str]:
    match error:
        case requests.BudgetSpent():
            return Reason.BUDGET, str(error)
        case requests.GateClosed():
            return Reason.USER_STOP, ""
        case runs.OwnerLost():
            return None, ""
        case Refused(code=Code.RUN_STOPPING):
            return Reason.USER_STOP, ""
        case Refused(code=Code.INVALID | Code.TOO_LARGE):
            return Reason.AGENT_ERROR, error.sentence
        case Refused() | OutcomeUnknown():
            return Reason.INTERNAL, error.sentence
        case _:
            return Reason.AGENT_ERROR, in_words(error)


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in cast("ExceptionGroup[Exception]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def outranks(reason: Reason, other: Reason) -> bool:
    """Whether `reason`, come later, is what the run ends for. What its agent did wrong
    before anything cut it stays the reason."""
    if reason is Reason.USER_STOP:
        return True
    if reason not in STRONGEST_FIRST or other not in STRONGEST_FIRST:
        return False
    return STRONGEST_FIRST.index(reason) < STRONGEST_FIRST.index(other)
