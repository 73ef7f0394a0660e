"""Carrying out one effect: the intent is durable before, the result before anyone sees it.

How an effect may be repeated is declared with it (C26):

- `read`: it changes nothing outside; it is cut with its run, and done again freely;
- `idempotent`: done again under the same operation id it has the same outcome;
- `reconcilable`: whether it happened can be asked outside, by its operation id;
- `once`: it is never done a second time by itself.

An effect that is not a read is not torn by a stop: it is waited for, up to its time limit,
and its result is recorded. One that takes longer is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
import trio

from ..actors.causes import in_words
from ..actors.run import RunActor
from ..store import effects
from ..store.limits import Limits
from ..store.records import Effect, EffectState, Repeat
from ..store.refusal import OutcomeUnknown, Refused
from . import validation

RepeatClass = Literal["read", "idempotent", "reconcilable", "once"]


class EffectResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an effect, for the agent to tell the model."""

    status: Literal["done", "skipped", "failed", "unknown"]
    operation_id: str
    value: Any = None
    reason: str = ""
    """For `skipped`: which revision came in; for `failed`: the error; for `unknown`: why
    nobody knows whether it happened."""


class Happened(msgspec.Struct, frozen=True):
    """The outside says that the operation took effect, with this result."""

    value: Any = None


class DidNotHappen(msgspec.Struct, frozen=True):
    """The outside says that the operation did not take effect, and will not any more."""


Reconcile = Callable[[str], Awaitable[Happened | DidNotHappen | None]]
"""Asks the outside about an operation id; None means that it can't tell."""


class Undertaking(msgspec.Struct, frozen=True, kw_only=True):
    """An effect as an agent asks for it."""

    name: str
    arguments: dict[str, Any]
    repeat: Repeat
    do: Callable[[str], Awaitable[Any]]
    """Does it, given the operation id."""
    reconcile: Reconcile | None
    time_limit_s: float


async def carry_out(
    actor: RunActor, limits: Limits, undertaking: Undertaking, revision: int
) -> EffectResult:
    """Carry an effect out, or read back what became of it before (C27, C28).

    Raises:
      GateClosed, BudgetSpent, OwnerLost: it was not started.
    """
    effect = await actor.begin_effect(
        undertaking.name,
        validation.as_json("arguments", undertaking.arguments),
        undertaking.repeat,
        revision,
    )
    if effect.state is EffectState.UNKNOWN and undertaking.reconcile is not None:
        effect = await _ask_outside(actor, limits, undertaking.reconcile, effect)
    if effect.state is EffectState.OPEN:
        return await _do(actor, limits, undertaking, effect)
    return _read_back(effect)


def _read_back(effect: Effect) -> EffectResult:
    status: dict[EffectState, Literal["done", "skipped", "failed", "unknown"]] = {
        EffectState.DONE: "done",
        EffectState.SKIPPED: "skipped",
        EffectState.FAILED: "failed",
        EffectState.UNKNOWN: "unknown",
    }
    return EffectResult(
        status=status[effect.state],
        operation_id=effect.operation_id,
        value=None if effect.result is None else msgspec.json.decode(effect.result),
        reason=effect.reason,
    )


async def _ask_outside(
    actor: RunActor, limits: Limits, reconcile: Reconcile, effect: Effect
) -> Effect:
    found = await reconcile(effect.operation_id)
    if found is None:
        return effect
    if isinstance(found, DidNotHappen):
        return await actor.start_effect_again(effect.number)
    result = _result_of(found.value, limits)
    await actor.end_effect(effect.number, result)
    return msgspec.structs.replace(
        effect, state=result.state, result=result.value, reason=result.reason
    )


async def _do(
    actor: RunActor, limits: Limits, undertaking: Undertaking, effect: Effect
) -> EffectResult:
    whole = undertaking.repeat is not Repeat.READ
    result = effects.Result(
        state=EffectState.UNKNOWN if whole else EffectState.FAILED,
        reason=f"it took longer than {undertaking.time_limit_s:g} s",
    )
    with trio.CancelScope(shield=whole):
        with trio.move_on_after(undertaking.time_limit_s):
            result = await _done(undertaking, effect.operation_id, limits)
        await actor.end_effect(effect.number, result)
    return _read_back(
        msgspec.structs.replace(
            effect, state=result.state, result=result.value, reason=result.reason
        )
    )


async def _done(undertaking: Undertaking, operation_id: str, limits: Limits) -> effects.Result:
    """Do it; whatever the host's code raises is a result, and never the end of the run."""
    try:
        value = await undertaking.do(operation_id)
    except OutcomeUnknown as unknown:
        return effects.Result(state=EffectState.UNKNOWN, reason=unknown.sentence)
    except Exception as error:  # noqa: BLE001 — a tool is the host's code: it may raise anything
        reason = in_words(error)
        return effects.Result(state=EffectState.FAILED, reason=reason)
    result = _result_of(value, limits)
    if result.state is EffectState.FAILED and undertaking.repeat is not Repeat.READ:
        # it has happened, so it must not look as if it had not
        return effects.Result(state=EffectState.DONE, reason=f"not kept: {result.reason}")
    return result


def _result_of(value: Any, limits: Limits) -> effects.Result:
    try:
        data = validation.as_json("result", value)
        validation.fits("result", len(data), limits.result_bytes_max)
    except Refused as refused:
        return effects.Result(state=EffectState.FAILED, reason=refused.sentence)
    return effects.Result(state=EffectState.DONE, value=data)
