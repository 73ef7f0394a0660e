"""A run's counters, held against its requests, revisions and effects (E3, E7, E9, C17)."""

from __future__ import annotations

from typing import Final

from .. import keys
from ..records import EffectState, Request, RequestState, Revision, RevisionState, Run
from ..runs import FINAL
from .belongings import Belongings
from .breach import Breach, Findings


def check_ledger(key: bytes, run: Run, own: Belongings) -> Findings[None]:
    """Everything that a run says of its own is so."""
    for what, letter, counted in (
        ("request", b"q", run.requests),
        ("revision", b"v", run.revisions),
        ("effect", b"x", run.effects),
    ):
        yield from _check_numbers(key, what, letter, own.numbers[letter], counted)
    for ordinal, request in own.requests.items():
        yield from _check_request(run, ordinal, request)
    for number, revision in own.revisions.items():
        yield from _check_revision(run, own, number, revision)
    yield from _check_through(key, run, own)
    yield from _check_use(key, run, own)
    yield from _check_open(key, run, own)
    withdrawn = sum(r.state is RevisionState.WITHDRAWN for r in own.revisions.values())
    if run.withdrawn != withdrawn and len(own.revisions) == len(own.numbers[b"v"]):
        yield Breach(
            "E9",
            f"Run {run.run} counts {run.withdrawn} withdrawn revisions, and {withdrawn} are.",
            (key,),
        )
    if own.checkpoint != 0 and (own.checkpoint or 0) != run.checkpoints:
        yield Breach(
            "E9",
            f"Run {run.run} counts {run.checkpoints} checkpoints, "
            f"and the stored one is {own.checkpoint}.",
            (key, keys.checkpoint(run.run)),
        )


def _check_numbers(
    key: bytes, what: str, letter: bytes, numbers: list[int], counted: int
) -> Findings[None]:
    """E9: they count from 1 without a gap, up to what the run says."""
    expected = 1
    for number in numbers:
        if number != expected:
            missing = key + letter + expected.to_bytes(4)
            yield Breach(
                "E9",
                f"Of this run's {what}s, {expected} to {number - 1} are not there.",
                (key, missing),
            )
        expected = number + 1
    if expected - 1 != counted:
        yield Breach(
            "E9", f"The run counts {counted} {what}s, and {expected - 1} are stored.", (key,)
        )


def _check_request(run: Run, ordinal: int, request: Request) -> Findings[None]:
    key = keys.request(run.run, ordinal)
    if (request.ended_at_ms is None) is not (request.state is RequestState.OPEN):
        yield Breach("C17", f"Request {ordinal} of {run.run} has ended by half.", (key,))
    if request.revision > run.revisions:
        yield Breach(
            "E3",
            f"Request {ordinal} of {run.run} has revision {request.revision}, "
            f"and there are {run.revisions}.",
            (key,),
        )
    ordered = all(a < b for a, b in zip(request.carries, request.carries[1:], strict=False))
    if not ordered or any(not 1 <= n <= request.revision for n in request.carries):
        yield Breach(
            "E3",
            f"Request {ordinal} of {run.run} was built under revision {request.revision} "
            f"and carries {request.carries}.",
            (key,),
        )


_BY_STAGE: Final = {
    "delivered": (RevisionState.DELIVERED, RevisionState.DELIVERED),
    "carried": (RevisionState.CARRIED, RevisionState.DELIVERY_UNKNOWN),
    "saved": (RevisionState.SAVED, RevisionState.NOT_APPLIED),
}
"""What a revision is in a run that lives, and in one that has ended."""


UNSETTLED: Final = frozenset({RevisionState.SAVED, RevisionState.CARRIED})

_NOT_CARRIED: Final = frozenset(
    {RevisionState.SAVED, RevisionState.NOT_APPLIED, RevisionState.WITHDRAWN}
)


def _check_revision(run: Run, own: Belongings, number: int, revision: Revision) -> Findings[None]:
    key = keys.revision(run.run, number)
    stage = (
        "delivered"
        if number <= run.delivered_through
        else "carried"
        if number <= run.carried_through
        else "saved"
    )
    final = run.state in FINAL
    if final and revision.state in UNSETTLED:
        yield Breach(
            "C17",
            f"Run {run.run} has ended, and its revision {number} is {revision.state}.",
            (key,),
        )
    elif revision.state not in (_BY_STAGE[stage][final], RevisionState.WITHDRAWN):
        yield Breach(
            "E3",
            f"Revision {number} of {run.run} is {revision.state}; by its run it was {stage}.",
            (key, keys.run(run.run)),
        )
    yield from _check_carrier(key, run, own, revision)


def _check_carrier(key: bytes, run: Run, own: Belongings, revision: Revision) -> Findings[None]:
    """E3: a revision that was carried names a request that lists it."""
    number, ordinal = revision.number, revision.request
    carried = revision.state not in _NOT_CARRIED
    if (ordinal is not None, bool(revision.input_sha256)) != (carried, carried):
        yield Breach("E3", f"Revision {number} of {run.run} is carried by half.", (key,))
    if ordinal is None:
        return
    request = own.requests.get(ordinal)
    if request is None:
        if ordinal not in own.numbers[b"q"]:
            yield Breach(
                "E3",
                f"Revision {number} of {run.run} names request {ordinal}, which does not exist.",
                (key,),
            )
        return
    place = keys.request(run.run, ordinal)
    if number not in request.carries:
        yield Breach(
            "E3",
            f"Revision {number} of {run.run} names request {ordinal}, which does not list it.",
            (key, place),
        )
    if request.input_sha256 != revision.input_sha256:
        yield Breach(
            "E12",
            f"Revision {number} of {run.run} and request {ordinal} have two hashes of one input.",
            (key, place),
        )
    delivered = revision.state is RevisionState.DELIVERED
    if (request.state is RequestState.COMPLETED) is not delivered:
        yield Breach(
            "E3",
            f"Revision {number} of {run.run} is {revision.state} by request {ordinal}, "
            f"which is {request.state}.",
            (key, place),
        )


def _check_through(key: bytes, run: Run, own: Belongings) -> Findings[None]:
    """E3: how far the run's revisions have come is what its requests say."""
    if len(own.requests) != len(own.numbers[b"q"]):
        return  # one that is not readable is named already
    carried = max((r.revision for r in own.requests.values()), default=0)
    delivered = max(
        (r.revision for r in own.requests.values() if r.state is RequestState.COMPLETED),
        default=0,
    )
    if (run.carried_through, run.delivered_through) != (carried, delivered):
        yield Breach(
            "E3",
            f"Run {run.run} has revisions carried through {run.carried_through} and delivered "
            f"through {run.delivered_through}; by its requests it is {carried} and {delivered}.",
            (key,),
        )


def _check_use(key: bytes, run: Run, own: Belongings) -> Findings[None]:
    """B44, C33: what the run has used, and what nobody has said of it."""
    if len(own.requests) != len(own.numbers[b"q"]):
        return
    tokens = unobserved = 0
    for request in own.requests.values():
        if request.state is RequestState.OPEN:
            continue
        if request.input_tokens is None or request.output_tokens is None:
            unobserved += 1
        else:
            tokens += request.input_tokens + request.output_tokens
    if (run.tokens, run.unobserved) != (tokens, unobserved):
        yield Breach(
            "C33",
            f"Run {run.run} counts {run.tokens} tokens and {run.unobserved} requests whose use "
            f"is not known; by its requests it is {tokens} and {unobserved}.",
            (key,),
        )


def _check_open(key: bytes, run: Run, own: Belongings) -> Findings[None]:
    """E7, C17: what is under way is what the run says, and nothing in one that has ended."""
    requests = tuple(n for n, r in own.requests.items() if r.state is RequestState.OPEN)
    if requests != tuple(sorted(run.open_requests)) and len(own.requests) == len(own.numbers[b"q"]):
        yield Breach(
            "C17",
            f"Run {run.run} says that requests {run.open_requests} are under way, "
            f"and {requests} are.",
            (key, *(keys.request(run.run, n) for n in requests)),
        )
    effects = tuple(n for n, state in own.effects.items() if state is EffectState.OPEN)
    if effects != tuple(sorted(run.open_effects)) and len(own.effects) == len(own.numbers[b"x"]):
        yield Breach(
            "E7",
            f"Run {run.run} says that effects {run.open_effects} are under way, and {effects} are.",
            (key, *(keys.effect(run.run, n) for n in effects)),
        )
