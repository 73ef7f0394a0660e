"""A run and all that is its own, which stand together in the store.

One run at a time: its record, then its inputs, checkpoint, requests, revisions and
effects. Of those only what the others are compared with is kept until its end.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from .. import keys
from ..ids import ID_LENGTH, RunId
from ..records import (
    Conversation,
    EffectState,
    Message,
    Owner,
    Publication,
    Reason,
    Run,
    RunState,
    Verb,
)
from ..runs import FINAL
from .belongings import Belongings, check_part
from .breach import Breach, Findings, spell
from .ledger import UNSETTLED, check_ledger
from .lookup import is_id, same_place, text
from .survey import Survey, Trace

_STOPPED: Final = frozenset({RunState.STOPPING, RunState.STOPPED})


def check_runs(survey: Survey) -> Findings[None]:
    """Every run, with its requests, revisions and effects."""
    records = survey.look.family(b"r")
    for prefix, group in groupby(records, key=lambda record: record[0][:ID_LENGTH]):
        name = text(prefix)
        if name is None or not is_id(Run, name):
            for key, _ in group:
                yield Breach("E12", f"{spell(key)} does not begin with the id of a run.", (key,))
            continue
        run_id = RunId(name)
        run: Run | None = None
        there = False
        own = Belongings(run_id)
        for key, data in group:
            if key == prefix:
                there = True
                run = yield from survey.look.standing(Run, key, data, lambda run: run.run, run_id)
            else:
                yield from check_part(survey, own, key, data)
        if run is not None:
            yield from _check_run(survey, prefix, run)
            yield from check_ledger(prefix, run, own)
            yield from _check_settled(survey, prefix, run, own)
        elif not there:
            yield Breach("E12", f"Run {run_id} does not exist, but has records.", (prefix,))


def _check_run(survey: Survey, key: bytes, run: Run) -> Findings[None]:
    yield from _check_origin(survey, key, run)
    yield from _check_view(survey, key, run)
    yield from _check_state(key, run)
    if run.publication is not None:
        answer = yield from survey.look.named(Publication, run.publication, key, row="E5")
        yield from same_place(run, key, answer, run.publication.encode())
    yield from _check_stop(survey, key, run)
    yield from _check_occupancy(survey, key, run)
    trace = survey.traces.get(run.run)
    if trace is None:
        yield Breach("E9", f"No event tells of {run.run}.", (key,))
    else:
        yield from _check_trace(key, run, trace)


def _check_origin(survey: Survey, key: bytes, run: Run) -> Findings[None]:
    """E2: the run is the only one of its client id, and of its message."""
    look = survey.look
    head = yield from look.named(Conversation, run.conversation, key)
    yield from same_place(run, key, head, run.conversation.encode())
    message = yield from look.named(Message, run.message, key)
    if message is not None and (message.run, message.client_id) != (run.run, run.client_id):
        yield Breach(
            "E1",
            f"Run {run.run} says that {run.message} started it, which says otherwise.",
            (key, run.message.encode()),
        )
    yield from same_place(run, key, message, run.message.encode())
    receipt = yield from look.receipt(run.scope, run.client_id, key)
    if receipt is not None and receipt.run != run.run:
        yield Breach(
            "E2",
            f"Client id {run.client_id!r} was accepted for {receipt.run}, and {run.run} has it.",
            (key, keys.identity(run.scope, run.client_id)),
        )
    if message is not None and message.entry != run.history_entries + 1:
        yield Breach(
            "E9",
            f"Run {run.run} sees {run.history_entries} entries, "
            f"and its own message is number {message.entry}.",
            (key, run.message.encode()),
        )


def _check_view(survey: Survey, key: bytes, run: Run) -> Findings[None]:
    """E11: what the run may see is of its own conversation."""
    look = survey.look
    if (run.history_head is None) is not (run.history_entries == 0):
        yield Breach("E9", f"Run {run.run} sees {run.history_entries} entries by half.", (key,))
    if run.history_head is not None:
        entry = yield from look.entry(run.history_head, key)
        yield from same_place(run, key, entry, run.history_head.encode())
        if entry is not None and entry.entry != run.history_entries:
            yield Breach(
                "E9",
                f"Run {run.run} sees {run.history_entries} entries up to number {entry.entry}.",
                (key, run.history_head.encode()),
            )
    if run.origin is not None:
        origin = yield from look.named(Message, run.origin, key)
        yield from same_place(run, key, origin, run.origin.encode())
        if origin is not None and origin.text_sha256 != run.origin_sha256:
            yield Breach(
                "E12",
                f"The request at the root of {run.run} is not that of its hash.",
                (key, run.origin.encode()),
            )
    for other in (*run.overview, *(() if run.parent is None else (run.parent,))):
        seen = yield from look.named(Run, other, key)
        yield from same_place(run, key, seen, other.encode())


def _check_state(key: bytes, run: Run) -> Findings[None]:
    """E5: a final state has all that belongs to an end, and no other state has any of it."""
    final = run.state in FINAL
    if (run.reason is not None, run.ended_at_ms is not None) != (final, final):
        yield Breach("E5", f"Run {run.run} is {run.state}, and has ended by half.", (key,))
    if run.publication is not None and not final:
        yield Breach("E5", f"Run {run.run} is {run.state}, and has published.", (key,))
    if (run.state is RunState.STOPPED) is not (run.reason is Reason.USER_STOP):
        yield Breach("E5", f"Run {run.run} is {run.state} because of {run.reason}.", (key,))
    if run.state is RunState.ADMITTED and (run.requests or run.effects):
        yield Breach("E5", f"Run {run.run} has begun, and is only {run.state}.", (key,))
    if final and run.open_requests:
        yield Breach("C17", f"Run {run.run} has ended with requests under way.", (key,))
    if final and run.open_effects:
        yield Breach("E7", f"Run {run.run} has ended with effects under way.", (key,))


def _check_stop(survey: Survey, key: bytes, run: Run) -> Findings[None]:
    stopped = run.state in _STOPPED
    if (run.stop_at_ms is not None, run.stop_client_id is not None) != (stopped, stopped):
        yield Breach("E4", f"Run {run.run} is {run.state}, and is stopped by half.", (key,))
    if run.stop_client_id is None:
        return
    receipt = yield from survey.look.receipt(run.scope, run.stop_client_id, key)
    if receipt is not None and (receipt.meaning.verb, receipt.run) != (Verb.STOP, run.run):
        yield Breach(
            "E2",
            f"Client id {run.stop_client_id!r} was not accepted for the stop of {run.run}.",
            (key, keys.identity(run.scope, run.stop_client_id)),
        )


def _check_occupancy(survey: Survey, key: bytes, run: Run) -> Findings[None]:
    """E6: a run that lives is in the index of the living, holds its slot and has an owner.

    That nothing else is in the index or holds a slot is seen from there.
    """
    look = survey.look
    if run.state in FINAL:
        return
    live = keys.live_run(run.conversation, run.run)
    if not look.has(live):
        yield Breach("E6", f"Run {run.run} lives, and is not in the index.", (key, live))
    slot = keys.slot(run.scope, run.run_class, run.run)
    if run.state is not RunState.WAITING and not look.has(slot):
        yield Breach("E6", f"Run {run.run} lives, and holds no {run.run_class} slot.", (key, slot))
    yield from look.named(Owner, run.owner, key)


def _check_settled(survey: Survey, key: bytes, run: Run, own: Belongings) -> Findings[None]:
    """E1, E7: what is settled is what events told of, revision by revision and effect by effect."""
    trace = survey.traces.get(run.run)
    if trace is None:
        return
    unknown = {n for n, state in own.effects.items() if state is EffectState.UNKNOWN}
    for number in sorted(unknown ^ set(trace.unknown_effects)):
        yield Breach(
            "E7",
            f"Effect {number} of {run.run} is {'' if number in unknown else 'not '}unknown, "
            "and its events tell otherwise.",
            (key, keys.effect(run.run, number)),
        )
    waiting = {n for n, found in own.revisions.items() if found.state in UNSETTLED}
    for number in sorted(waiting ^ set(trace.standing)):
        yield Breach(
            "E1",
            f"Revision {number} of {run.run} is {'not ' if number in waiting else ''}settled, "
            "and its events tell otherwise.",
            (key, keys.revision(run.run, number)),
        )


def _check_trace(key: bytes, run: Run, trace: Trace) -> Findings[None]:
    """E9: what a run counts is what its events told."""
    if trace.ended is not (run.state in FINAL):
        yield Breach(
            "E5",
            f"Run {run.run} is {run.state}, and {'an' if trace.ended else 'no'} "
            "event tells of its end.",
            (key,),
        )
    if trace.stopped is not (run.stop_at_ms is not None):
        yield Breach("E4", f"Run {run.run} and its events disagree on a stop.", (key,))
    if trace.run_class != run.run_class:
        yield Breach(
            "E6", f"Run {run.run} is {run.run_class}, and {trace.run_class} by its events.", (key,)
        )
    for what in ("requests", "revisions", "effects", "open_requests", "open_effects"):
        told, counted = getattr(trace, what), getattr(run, what)
        if told != counted:
            yield Breach(
                "E9",
                f"Run {run.run} counts {counted} {what.replace('_', ' ')}, "
                f"and its events told of {told}.",
                (key,),
            )
