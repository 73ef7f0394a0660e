"""Slots, the index of live runs, and the owners: E6, seen from each index entry."""

from __future__ import annotations

from itertools import groupby

from .. import keys
from ..ids import ScopeId
from ..records import Owner, Run, RunState
from ..runs import FINAL
from .breach import Breach, Findings, spell
from .lookup import is_id, text
from .survey import Survey


def check_slots(survey: Survey) -> Findings[None]:
    """E6: only live runs of the scope and class hold slots, and never more than the limit."""
    records = survey.look.family(keys.SLOTS)
    for prefix, group in groupby(records, key=lambda record: record[0].rpartition(b"\0")[0]):
        scope, _, run_class = (text(prefix[1:]) or "").partition("\0")
        holders = list[bytes]()
        for key, data in group:
            run_id = text(key[len(prefix) + 1 :]) or ""
            if not run_class or not is_id(Run, run_id) or data:
                yield Breach("E12", f"{spell(key)} is no slot.", (key,))
                continue
            holders.append(key)
            run = yield from survey.look.named(Run, run_id, key)
            if run is not None:
                yield from _check_holder(key, run, scope, run_class)
        if survey.limits is None:
            continue
        limit = survey.limits.slots(ScopeId(scope), run_class)
        if len(holders) > limit:
            yield Breach(
                "E6",
                f"Scope {scope!r} holds {len(holders)} {run_class} slots, and has {limit}.",
                tuple(holders),
            )


def _check_holder(key: bytes, run: Run, scope: str, run_class: str) -> Findings[None]:
    record = keys.run(run.run)
    if run.scope != scope:
        yield Breach("E11", f"Run {run.run} holds a slot of scope {scope!r}.", (key, record))
    if run.run_class != run_class:
        yield Breach(
            "E6", f"Run {run.run} is {run.run_class}, and holds a {run_class} slot.", (key, record)
        )
    if run.state in FINAL or run.state is RunState.WAITING:
        yield Breach("E6", f"Run {run.run} is {run.state}, and holds a slot.", (key, record))


def check_live(survey: Survey) -> Findings[None]:
    """E6: the index of the living names runs that have not ended."""
    for key, data in survey.look.family(keys.LIVE):
        conversation, _, run_id = (text(key[1:]) or "").partition("\0")
        if not is_id(Run, run_id):
            yield Breach("E12", f"{spell(key)} is no entry of the live runs.", (key,))
            continue
        run = yield from survey.look.named(Run, run_id, key)
        if run is None:
            continue
        record = keys.run(run.run)
        if run.conversation != conversation:
            yield Breach("E12", f"Run {run_id} is of another conversation.", (key, record))
        if run.run_class.encode() != data:
            yield Breach("E6", f"Run {run_id} is {run.run_class}, and not so here.", (key, record))
        if run.state in FINAL:
            yield Breach("E6", f"Run {run_id} is {run.state}, and among the live.", (key, record))


def check_owners(survey: Survey) -> Findings[None]:
    """E12: every owner decodes."""
    for key, data in survey.look.family(keys.OWNERS):
        yield from survey.look.standing(Owner, key, data, lambda owner: owner.owner.encode(), key)
