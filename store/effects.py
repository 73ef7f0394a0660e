"""The effect ledger of a run.

An effect's intent is stored before it starts and its result before anyone sees it, so a
process that dies in between leaves an effect that is known to be unknown (C27, E7). An
effect that was decided under an older revision than the run's newest is recorded as
skipped and never starts (C13). Its operation id is made here, not from a model's words
(C26).

An agent that is entered again from its last checkpoint asks for the effects behind it once
more: same name, same arguments, in the same order. What had a result then is read back. What
was unknown is treated by its class: a read or an idempotent effect starts again under its
own operation id, a reconcilable one is asked about outside first, and one that may happen
once stays unknown until a person resolves it (C26-C28, A59).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from . import identity, keys, runs
from .engine import ReadTxn, Txn
from .events import Log
from .ids import ClientId, OwnerId, RunId, ScopeId
from .records import (
    Accepted,
    Damaged,
    Effect,
    EffectState,
    EventKind,
    Meaning,
    Record,
    Repeat,
    Run,
    RunState,
    Verb,
    decode,
    encode,
)
from .refusal import Code, Refused, not_found
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
    stale = intent.revision != run.revisions
    earlier = None if stale else _earlier(txn, run, intent)
    if earlier is not None:
        return _again(txn, run, earlier, intent.now_ms)
    if run.effects >= run.budget.effects_max:
        raise BudgetSpent("effects")
    number = run.effects + 1
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
        entry=run.entries,
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


def _earlier(txn: ReadTxn, run: Run, intent: Intent) -> Effect | None:
    """Return the effect that the agent asked for before it was entered again, if any."""
    if run.entries == 1:
        return None
    for number in range(run.effects_saved + 1, run.effects + 1):
        effect = get(txn, run.run, number)
        if (
            effect.entry < run.entries
            and effect.state is not EffectState.SKIPPED
            and (effect.name, effect.arguments) == (intent.name, intent.arguments)
        ):
            return effect
    return None


def _again(txn: Txn, run: Run, effect: Effect, now_ms: int) -> Effect:
    """Read an earlier effect back, or start it again if its class allows that."""
    free = effect.repeat in (Repeat.READ, Repeat.IDEMPOTENT)
    if effect.state is EffectState.UNKNOWN and free:
        return _start_again(txn, run, effect, now_ms)
    effect = replace(effect, entry=run.entries)
    put(txn, effect)
    return effect


def start_again(txn: Txn, run_id: RunId, owner: OwnerId, number: int, now_ms: int) -> Effect:
    """Start an unknown effect again that the outside says has not happened (C26).

    Raises:
      OwnerLost: if the run is not `owner`'s.
      GateClosed: if a stop was accepted.
    """
    run = runs.owned(txn, run_id, owner)
    if run.state is RunState.STOPPING:
        raise GateClosed
    effect = get(txn, run_id, number)
    assert effect.state is EffectState.UNKNOWN
    assert effect.repeat is Repeat.RECONCILABLE
    return _start_again(txn, run, effect, now_ms)


def _start_again(txn: Txn, run: Run, effect: Effect, now_ms: int) -> Effect:
    effect = replace(effect, state=EffectState.OPEN, entry=run.entries, ended_at_ms=None, reason="")
    put(txn, effect)
    run = replace(
        run,
        state=runs.step(run.state, runs.Cue.WORK),
        open_effects=(*run.open_effects, effect.number),
    )
    runs.put(txn, run)
    log = runs.log(txn, run, now_ms)
    log.append(
        EventKind.EFFECT_STARTED,
        run=run.run,
        client_id=run.client_id,
        effect=effect.number,
        name=effect.name,
        state=str(effect.state),
        reason="again, under the same operation id",
    )
    log.close()
    return effect


class Result(Record, frozen=True, kw_only=True):
    """What became of an effect."""

    state: EffectState
    value: bytes | None = None
    reason: str = ""


def end(txn: Txn, run_id: RunId, owner: OwnerId, number: int, result: Result, now_ms: int) -> None:
    """Record what became of an effect that was under way, or unknown until now. A second
    result for one that is settled changes nothing.

    Raises:
      OwnerLost: if the run is not `owner`'s.
    """
    run = runs.owned(txn, run_id, owner)
    if not 1 <= number <= run.effects:
        return
    if get(txn, run_id, number).state not in (EffectState.OPEN, EffectState.UNKNOWN):
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


class Resolution(Record, frozen=True, kw_only=True):
    """A person says what became of an unknown effect."""

    scope: ScopeId
    run: RunId
    effect: int
    client_id: ClientId
    happened: bool
    value: bytes | None
    """JSON, if it happened and gave something."""
    reason: str
    now_ms: int

    @property
    def meaning_sha256(self) -> bytes:
        """The hash of what is said, by which a retry is recognised."""
        said = msgspec.json.encode((self.happened, self.reason)) + (self.value or b"")
        return hashlib.sha256(said).digest()


def resolve(txn: Txn, resolution: Resolution) -> Accepted:
    """Settle an unknown effect by a person's word, also when its run has ended (C27).

    Raises:
      Refused: `not_found`, `conflict`, or `not_unknown`.
    """
    scope, client_id = resolution.scope, resolution.client_id
    run = identity.run_of(txn, scope, client_id, Verb.RESOLVE, resolution.run)
    meaning = Meaning(
        verb=Verb.RESOLVE,
        conversation=run.conversation,
        target=run.run,
        text_sha256=resolution.meaning_sha256,
        item=resolution.effect,
    )

    def act() -> Accepted:
        return _resolve(txn, run, resolution, meaning)

    return identity.once(txn, scope, client_id, meaning, act)


def _resolve(txn: Txn, run: Run, resolution: Resolution, meaning: Meaning) -> Accepted:
    number = resolution.effect
    if not 1 <= number <= run.effects:
        raise not_found("effect", f"{run.run} {number}")
    effect = get(txn, run.run, number)
    if effect.state is not EffectState.UNKNOWN:
        raise Refused(
            Code.NOT_UNKNOWN,
            f"Effect {number} of run {run.run} is {effect.state}; only an unknown one can be "
            "resolved.",
            run=run.run,
            effect=number,
            state=str(effect.state),
        )
    state = EffectState.DONE if resolution.happened else EffectState.FAILED
    effect = replace(
        effect,
        state=state,
        ended_at_ms=resolution.now_ms,
        result=resolution.value,
        reason=resolution.reason,
    )
    put(txn, effect)
    log = runs.log(txn, run, resolution.now_ms)
    version = log.append(
        EventKind.EFFECT_RESOLVED,
        run=run.run,
        client_id=resolution.client_id,
        effect=number,
        name=effect.name,
        state=str(state),
        reason=resolution.reason,
    )
    log.close()
    return identity.accepted(log, resolution.client_id, meaning, version, run=run.run)


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
