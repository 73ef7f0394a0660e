"""What must come of a life, whatever met it where: the stated outcome, and what always holds.

Everything is taken from what was committed and exported, in the order of the events; nothing
from what the run's own actor believes.
"""

import hashlib
from collections.abc import Iterator

from counterpoint.store.records import (
    EventKind,
    Request,
    RequestState,
    RevisionState,
)
from counterpoint.store.refusal import Code
from counterpoint.store.requests import affordable
from counterpoint.store.runs import FINAL

from .stage import ANSWER, DRAFT, Came, Met

# fmt: off
STRONGEST_FIRST = [  # D17. What came in time: how the run ends, and with which text
    ("stop",     ("stopped",     "user_stop",     None)),
    ("deadline", ("partial",     "deadline",      DRAFT)),
    ("budget",   ("partial",     "budget",        DRAFT)),
    ("shutdown", ("interrupted", "host_shutdown", DRAFT)),
    ("nothing",  ("completed",   "answered",      ANSWER)),  # a steering ends nothing
]
# fmt: on


def stated(met: Met) -> tuple[str, str, str | None]:
    """Return the state, the reason and the published text that a life must have come to."""
    came = {one.what for one in met.came if one.in_time} | {"nothing"}
    if met.ran_out:
        came.add("budget")
    return next(outcome for what, outcome in STRONGEST_FIRST if what in came)


def wrong(met: Met) -> list[str]:
    """Return everything that is not as it must be."""
    found = [*met.breaches]
    actual = (str(met.run.state), str(met.run.reason), met.answer)
    if actual != stated(met):
        found.append(f"it came to {actual}, not to {stated(met)}")
    known = {None, Code.RUN_ENDED, Code.RUN_STOPPING, Code.SHUTTING_DOWN}
    found += [
        f"{one.what} was refused as {one.refused}" for one in met.came if one.refused not in known
    ]
    checks = (_ended_once, _nothing_after_a_stop, _sent, _steerings, _effects, _well_formed)
    return [*found, *(sentence for check in checks for sentence in check(met))]


def _ended_once(met: Met) -> Iterator[str]:
    kinds = [event.kind for event in met.events]
    if kinds.count(EventKind.RUN_ENDED) != 1 or kinds[-1] is not EventKind.RUN_ENDED:
        yield f"its end is not the one last event: {kinds}"
    if met.run.state not in FINAL or met.run.open_requests or met.run.open_effects:
        yield "something of it is open still"


def _nothing_after_a_stop(met: Met) -> Iterator[str]:
    kinds = [event.kind for event in met.events]
    if EventKind.STOP_ACCEPTED in kinds:
        after = kinds[kinds.index(EventKind.STOP_ACCEPTED) :]
        for kind in (EventKind.REQUEST_STARTED, EventKind.EFFECT_STARTED):
            if kind in after:
                yield f"{kind} after the stop was accepted"


def _sent(met: Met) -> Iterator[str]:
    """What was sent is what had been recorded, in that order, and nothing else."""
    recorded = [item.input_sha256 for item in met.requests]
    left = iter(recorded)
    for data in met.sent:
        if hashlib.sha256(data).digest() not in left:
            yield "an input was sent that was not recorded, or out of order"


def _steerings(met: Met) -> Iterator[str]:
    """Each accepted one stands, byte for byte, in every input from the next request on, and
    in none before; which of them delivered it is what its receipt says (C11, C12)."""
    accepted = [one for one in met.came if one.what == "steer" and one.in_time]
    if len(accepted) != len(met.revisions):
        yield f"{len(met.revisions)} revisions of {len(accepted)} accepted steerings"
    saved = [event for event in met.events if event.kind is EventKind.REVISION_SAVED]
    for event in saved:
        number = event.facts["revision"]
        before = sum(
            other.kind is EventKind.REQUEST_STARTED and other.number < event.number
            for other in met.events
        )
        yield from _steering(met, number, before, _text_of(accepted, number))


def _text_of(accepted: list[Came], number: int) -> str:
    """Accepted one after the other, so in the order of their numbers."""
    return accepted[number - 1].text


def _steering(met: Met, number: int, before: int, text: str) -> Iterator[str]:
    revision = met.revisions[number - 1]
    for asked, model_input in zip(met.requests, met.inputs, strict=True):
        said = [message.text for message in model_input.messages if message.role == "user"]
        if (text in said) != (asked.ordinal > before):
            yield f"revision {number} is not where it belongs in the input {asked.ordinal}"
    after = met.requests[before:]
    if after and number not in after[0].carries:
        yield f"revision {number} is not carried by the request after it"
    request: Request | None
    by = next((one for one in after if one.state is RequestState.COMPLETED), None)
    if by is not None:
        state, request = RevisionState.DELIVERED, by
    elif after:
        state, request = RevisionState.DELIVERY_UNKNOWN, after[-1]
    else:
        state, request = RevisionState.NOT_APPLIED, None
    if revision.state is not state:
        yield f"revision {number} is {revision.state}, not {state}"
    if request is not None and (revision.request, revision.input_sha256) != (
        request.ordinal,
        request.input_sha256,
    ):
        yield f"revision {number} names another request than {request.ordinal}"
    if str(met.run.reason) == "answered" and state is not RevisionState.DELIVERED:
        if affordable(met.run):
            yield f"revision {number} is {state}, and the run had means to take it (C10)"
        elif revision.reason != "budget":
            yield f"revision {number} is {state} for {revision.reason!r}, not for the budget"


def _effects(met: Met) -> Iterator[str]:
    """None decided under an older revision starts; what happened outside is on record."""
    newest = 0
    for event in met.events:
        if event.kind is EventKind.REVISION_SAVED:
            newest = event.facts["revision"]
        elif event.kind is EventKind.EFFECT_STARTED:
            number: int = event.facts["effect"]
            if met.effects[number - 1].revision < newest:
                yield f"effect {number} began at revision {newest}, and is older (C13)"
    if len(set(met.outside)) != len(met.outside):
        yield f"an operation was done twice: {met.outside}"
    by_operation = {effect.operation_id: effect for effect in met.effects}
    for operation in met.outside:
        if by_operation[operation].state not in ("done", "unknown"):
            yield f"{operation} happened and is on record as {by_operation[operation].state}"
    for effect in met.effects:
        whole = effect.repeat != "read"
        if whole and effect.state == "unknown":
            yield f"{effect.name} was torn, although it would have ended in time (C19)"
        if whole and effect.state == "done" and effect.operation_id not in met.outside:
            yield f"{effect.name} is on record as done and never happened"


def _well_formed(met: Met) -> Iterator[str]:
    for ordinal, model_input in enumerate(met.inputs, 1):
        called = [call.call_id for message in model_input.messages for call in message.calls]
        results = [m.call_id for m in model_input.messages if m.role == "tool"]
        if called != results:
            yield f"input {ordinal} has calls {called} and results {results} (C34)"
