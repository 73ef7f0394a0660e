"""The effect ledger of a run.

An effect's intent is stored before it starts and its result before anyone sees it, so a
process that dies in between leaves an effect that is known to be unknown (C27, E7). An
effect that was decided under an older revision than the run's newest is recorded as
skipped and never starts (C13). Its operation id is made here, not from a model's words
(C26).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from . import keys, runs
from .engine import ReadTxn, Txn
from .events import Log
from .ids import OwnerId, RunId
from .records import (
    Damaged,
    Effect,
    EffectState,
    EventKind,
    Record,
    Repeat,
    Run,
    RunState,
    decode,
    encode,
)
from .requests import BudgetSpent, GateClosed


class Intent(Record, frozen=True, kw_only=True):
    """An effect that an agent wants to start."""

    run: RunId
    owner: OwnerId
    name: str
    arguments: bytes
    repeat: Repeat
    revision: int
    """The revision that the agent had seen when it decided."""
    now_ms: int


def begin(txn: Txn, intent: Intent) -> Effect:
    """Let an effect start, or record that it is skipped: its state says which.

    Raises:
      OwnerLost: if the run is not `intent.owner`'s.
      GateClosed: if a stop was accepted.
      BudgetSpent: if no effect is left.
    """
    run = runs.owned(txn, intent.run, intent.owner)
    if run.state is RunState.STOPPING:
        raise GateClosed
    if run.effects >= run.budget.effects_max:
        raise BudgetSpent("effects")
    number = run.effects + 1
    stale = intent.revision != run.revisions
    effect = Effect(
        run=run.run,
        number=number,
        operation_id=f"{run.run}.{number}",
        name=intent.name,
        arguments=intent.arguments,
        repeat=intent.repeat,
        revision=intent.revision,
        begun_at_ms=intent.now_ms,
        state=EffectState.SKIPPED if stale else EffectState.OPEN,
        ended_at_ms=intent.now_ms if stale else None,
        reason=f"superseded by revision {run.revisions}" if stale else "",
    )
    put(txn, effect)
    opened = run.open_effects if stale else (*run.open_effects, number)
    runs.put(
        txn,
        replace(
            run,
            state=runs.step(run.state, runs.Cue.WORK),
            effects=number,
            open_effects=opened,
            begun_at_ms=run.begun_at_ms or intent.now_ms,
        ),
    )
    log = runs.log(txn, run, intent.now_ms)
    log.append(
        EventKind.EFFECT_ENDED if stale else EventKind.EFFECT_STARTED,
        run=run.run,
        client_id=run.client_id,
        effect=number,
        name=intent.name,
        state=str(effect.state),
        reason=effect.reason,
    )
    log.close()
    return effect


class Result(Record, frozen=True, kw_only=True):
    """What became of an effect."""

    state: EffectState
    value: bytes | None = None
    reason: str = ""


def end(txn: Txn, run_id: RunId, owner: OwnerId, number: int, result: Result, now_ms: int) -> None:
    """Record what became of an effect. A second result for it changes nothing.

    Raises:
      OwnerLost: if the run is not `owner`'s.
    """
    run = runs.owned(txn, run_id, owner)
    if number not in run.open_effects:
        return
    log = runs.log(txn, run, now_ms)
    _close(txn, log, run, number, result)
    runs.put(txn, replace(run, open_effects=tuple(n for n in run.open_effects if n != number)))
    log.close()


def _close(txn: Txn, log: Log, run: Run, number: int, result: Result) -> None:
    effect = replace(
        get(txn, run.run, number),
        state=result.state,
        ended_at_ms=log.now_ms,
        result=result.value,
        reason=result.reason,
    )
    put(txn, effect)
    log.append(
        EventKind.EFFECT_ENDED,
        run=run.run,
        client_id=run.client_id,
        effect=number,
        name=effect.name,
        state=str(result.state),
        reason=result.reason,
    )


def settle(txn: Txn, log: Log, run: Run, reason: str) -> list[int]:
    """Make what an ending run has under way unknown; return the numbers (C17, C27)."""
    for number in run.open_effects:
        _close(txn, log, run, number, Result(state=EffectState.UNKNOWN, reason=reason))
    return list(run.open_effects)


def put(txn: Txn, effect: Effect) -> None:
    """Store an effect's record."""
    txn.put(keys.effect(effect.run, effect.number), encode(effect))


def get(txn: ReadTxn, run: RunId, number: int) -> Effect:
    """Return one effect.

    Raises:
      Damaged: if it does not exist, although its run counts it.
    """
    data = txn.get(keys.effect(run, number))
    if data is None:
        raise Damaged(f"Run {run} counts effect {number}, which does not exist.")
    return decode(Effect, data)


def of_run(txn: ReadTxn, run: RunId) -> Iterator[Effect]:
    """Yield the run's effects in order."""
    prefix = keys.effects(run)
    for _, data in txn.scan(prefix, keys.after(prefix)):
        yield decode(Effect, data)
