"""The life of a run, as one table.

Rule 1: every change of state is in `TRANSITIONS`. Code elsewhere asks `step`; it never
sets a state.
Rule 2: the owner that executes a run is named in its record, and whoever writes as another
owner is refused (`OwnerLost`): a process that has lost its run can't change it (C29, E8).

A stop outranks everything that comes after it (B65, D17): a run that is stopping can only
become stopped, whatever its agent still returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from . import capacity, keys
from .engine import ReadTxn, Txn
from .events import Log, find_head
from .ids import ID_LENGTH, ConversationId, OwnerId, RunId, ScopeId
from .limits import BACKGROUND, Limits
from .records import (
    Checkpoint,
    Conversation,
    Damaged,
    EventKind,
    Run,
    RunState,
    decode,
    encode,
)
from .refusal import Code, Refused, not_found


class Cue(StrEnum):
    """What can happen to a run."""

    WORK = "work"
    """It sends a request or starts an effect."""
    PARK = "park"
    """It waits for an answer."""
    WAKE = "wake"
    """The answer was accepted."""
    STOP = "stop"
    """A person's stop is accepted."""
    COMPLETE = "complete"
    FALL_SHORT = "fall_short"
    """It ends with part of its work done."""
    FAIL = "fail"
    INTERRUPT = "interrupt"
    """Its host goes, with or without notice."""
    QUIESCE = "quiesce"
    """A stopping run has nothing under way any more."""


_ENDINGS: Final = {
    Cue.COMPLETE: RunState.COMPLETED,
    Cue.FALL_SHORT: RunState.PARTIAL,
    Cue.FAIL: RunState.FAILED,
    Cue.INTERRUPT: RunState.INTERRUPTED,
}

TRANSITIONS: Final[Mapping[RunState, Mapping[Cue, RunState]]] = MappingProxyType(
    {
        RunState.ADMITTED: {
            Cue.WORK: RunState.RUNNING,
            Cue.PARK: RunState.WAITING,
            Cue.STOP: RunState.STOPPING,
            **_ENDINGS,
        },
        RunState.RUNNING: {
            Cue.WORK: RunState.RUNNING,
            Cue.PARK: RunState.WAITING,
            Cue.STOP: RunState.STOPPING,
            **_ENDINGS,
        },
        RunState.WAITING: {
            Cue.WAKE: RunState.RUNNING,
            Cue.STOP: RunState.STOPPING,
            Cue.FALL_SHORT: RunState.PARTIAL,
            Cue.FAIL: RunState.FAILED,
            Cue.INTERRUPT: RunState.INTERRUPTED,
        },
        RunState.STOPPING: {
            Cue.QUIESCE: RunState.STOPPED,
        },
        RunState.COMPLETED: {},
        RunState.PARTIAL: {},
        RunState.FAILED: {},
        RunState.STOPPED: {},
        RunState.INTERRUPTED: {},
    }
)

FINAL: Final = frozenset(state for state, moves in TRANSITIONS.items() if not moves)


class IllegalMove(Exception):
    """A cue that the table does not have for this state: a fault of ours, not the host's."""


class OwnerLost(Exception):
    """This process no longer owns the run: another has settled or adopted it.

    Nothing was written. The run's task here is cancelled; what it committed before stands.
    """


def step(state: RunState, cue: Cue) -> RunState:
    """Return the state that follows.

    Raises:
      IllegalMove: if the table has no such move.
    """
    try:
        return TRANSITIONS[state][cue]
    except KeyError:
        raise IllegalMove(f"A run that is {state} can't {cue}.") from None


def find(txn: ReadTxn, run_id: RunId) -> Run | None:
    """Return a run by its id, whatever its scope, or None."""
    # Longer ids that begin like a run's are the keys of what is the run's own.
    if not run_id.startswith("r") or len(run_id) != ID_LENGTH:
        return None
    data = txn.get(keys.run(run_id))
    return None if data is None else decode(Run, data)


def of_scope(txn: ReadTxn, scope: ScopeId, run_id: RunId) -> Run:
    """Return a run of this scope.

    Raises:
      Refused: `not_found`, also for a run of another scope (D21).
    """
    run = find(txn, run_id)
    if run is None or run.scope != scope:
        raise not_found("run", run_id)
    return run


def owned(txn: ReadTxn, run_id: RunId, owner: OwnerId) -> Run:
    """Return a run that `owner` executes and that has not ended.

    Raises:
      OwnerLost: if it has another owner by now, or was ended by one.
    """
    run = find(txn, run_id)
    if run is None or run.owner != owner or run.state in FINAL:
        raise OwnerLost(f"Run {run_id} is no longer executed by this process.")
    return run


def head(txn: ReadTxn, run: Run) -> Conversation:
    """Return the head of the run's conversation.

    Raises:
      Damaged: if it does not exist.
    """
    found = find_head(txn, run.scope, run.conversation)
    if found is None:
        raise Damaged(f"Run {run.run} names conversation {run.conversation}, which is gone.")
    return found


def log(txn: Txn, run: Run, now_ms: int) -> Log:
    """Return the log of the run's conversation."""
    return Log(txn, head(txn, run), now_ms)


def put(txn: Txn, run: Run) -> None:
    """Store the run's record."""
    txn.put(keys.run(run.run), encode(run))


def live(txn: ReadTxn, conversation: ConversationId) -> list[tuple[RunId, str]]:
    """Return the conversation's runs that have not ended, with their class, oldest first."""
    prefix = keys.live_runs(conversation)
    return [
        (RunId(key[len(prefix) :].decode()), value.decode())
        for key, value in txn.scan(prefix, keys.after(prefix))
    ]


def all_live(txn: ReadTxn) -> Iterator[RunId]:
    """Yield every run of the store that has not ended."""
    for key, _ in txn.scan(keys.LIVE, keys.after(keys.LIVE)):
        yield RunId(key.rpartition(b"\0")[2].decode())


def must_be_open(run: Run) -> None:
    """Check that the run may still take something in from a person.

    Raises:
      Refused: `run_ended` (never "busy", C18) or `run_stopping`.
    """
    if run.state in FINAL:
        raise Refused(
            Code.RUN_ENDED,
            f"Run {run.run} has ended ({run.state}); this could not be applied to it.",
            run=run.run,
            state=str(run.state),
            reason=None if run.reason is None else str(run.reason),
        )
    if run.state is RunState.STOPPING:
        raise Refused(
            Code.RUN_STOPPING,
            f"Run {run.run} is being stopped; this could not be applied to it.",
            run=run.run,
        )


def save_checkpoint(txn: Txn, run_id: RunId, owner: OwnerId, state: bytes, now_ms: int) -> int:
    """Replace the run's checkpoint; return its number.

    Raises:
      OwnerLost: if the run is not `owner`'s.
    """
    run = owned(txn, run_id, owner)
    number = run.checkpoints + 1
    checkpoint = Checkpoint(run=run_id, number=number, at_ms=now_ms, state=state)
    txn.put(keys.checkpoint(run_id), encode(checkpoint))
    # What is under way has given the agent no result yet, so the checkpoint can't cover it.
    saved = min(run.open_effects, default=run.effects + 1) - 1
    put(txn, replace(run, checkpoints=number, effects_saved=saved))
    return number


def checkpoint(txn: ReadTxn, run_id: RunId) -> bytes | None:
    """Return the state of the run's last checkpoint, or None."""
    data = txn.get(keys.checkpoint(run_id))
    return None if data is None else decode(Checkpoint, data).state


def note_progress(txn: Txn, run_id: RunId, owner: OwnerId, text: str, now_ms: int) -> int:
    """Record what a run is doing, in words for a person; return the event's number.

    Raises:
      OwnerLost: if the run is not `owner`'s.
    """
    run = owned(txn, run_id, owner)
    events = log(txn, run, now_ms)
    number = events.append(EventKind.PROGRESS, run=run_id, client_id=run.client_id, text=text)
    events.close()
    return number


def promote(
    txn: Txn, limits: Limits, run_id: RunId, owner: OwnerId, now_ms: int
) -> list[RunId] | None:
    """Move a short run into the background in one transaction (B48, B49, D10).

    The background slot is taken before the short one is given back, on one and the same
    run. Return None if that happened, or the runs that hold the slots if it is full: the
    run then stays short, and an event says so.

    Raises:
      OwnerLost: if the run is not `owner`'s.
      Refused: `run_stopping`.
    """
    run = owned(txn, run_id, owner)
    must_be_open(run)
    if run.run_class == BACKGROUND:
        return None
    events = log(txn, run, now_ms)
    try:
        capacity.take(txn, limits, run.scope, BACKGROUND, run_id)
    except Refused as refused:
        events.append(
            EventKind.PROMOTION_REFUSED, run=run_id, client_id=run.client_id, **refused.facts
        )
        events.close()
        holders: list[RunId] = refused.facts["holders"]
        return holders
    capacity.release(txn, run.scope, run.run_class, run_id)
    txn.put(keys.live_run(run.conversation, run_id), BACKGROUND.encode())
    put(txn, replace(run, run_class=BACKGROUND))
    events.append(
        EventKind.RUN_PROMOTED,
        run=run_id,
        client_id=run.client_id,
        before=run.run_class,
        run_class=BACKGROUND,
    )
    events.close()
    return None
