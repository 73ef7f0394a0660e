"""What the events of one run tell, held to its order (E4, E5, E9) and to its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from .. import keys
from ..ids import RunId
from ..records import (
    Effect,
    EffectState,
    Event,
    EventKind,
    Record,
    Repeat,
    Request,
    Revision,
    RevisionState,
    Run,
)
from .breach import Breach, Findings
from .lookup import NUMBER_MAX, same_place
from .survey import Survey, Trace

R = TypeVar("R", bound=Record)


class Told(NamedTuple):
    """One event of a run, and what the events before it told."""

    survey: Survey
    key: bytes
    event: Event
    trace: Trace
    run: RunId

    def number(self, name: str) -> int:
        """Return a number among its facts, or 0 if there is none that can be one."""
        number = self.event.facts.get(name)
        return number if isinstance(number, int) and 1 <= number <= NUMBER_MAX else 0

    def part(
        self, kind: type[R], place: Callable[[RunId, int], bytes], fact: str
    ) -> Findings[R | None]:
        """Return what is the run's own and a fact of the event names by its number."""
        return (
            yield from self.survey.look.numbered(
                kind,
                lambda number: place(self.run, number),
                self.event.facts.get(fact),
                self.key,
            )
        )

    def next(self, what: str, before: int) -> Findings[int]:
        """Return the newest number of its kind, after saying if one was passed over."""
        number = self.number(what)
        if number != before + 1:
            yield Breach(
                "E9", f"{what.title()} {number} of {self.run} follows {before}.", (self.key,)
            )
        return max(number, before)

    def settle_revision(self) -> Findings[None]:
        """Note what became of a revision: the next request does not have it any more."""
        number = self.number("revision")
        if number not in self.trace.standing:
            yield self.says(
                "E1", f"What became of revision {number} of {self.run} was told before."
            )
        self.trace.standing = _without(self.trace.standing, number)

    def says(self, row: str, sentence: str, *keys: bytes) -> Breach:
        """Return a breach that this event shows."""
        return Breach(row, sentence, (self.key, *keys))


def tell(survey: Survey, key: bytes, event: Event, run_id: RunId) -> Findings[None]:
    """Follow one event of a run."""
    trace = survey.traces.get(run_id)
    admitted = event.kind is EventKind.MESSAGE_ADMITTED
    if trace is None:
        run = yield from survey.look.named(Run, run_id, key)
        yield from same_place(event, key, run, run_id.encode())
        trace = survey.traces[run_id] = Trace(event.conversation)
        if not admitted:
            yield Breach("E9", f"No event before this one tells of {run_id}.", (key,))
    elif admitted:
        yield Breach("E2", f"Run {run_id} was admitted before.", (key,))
    if trace.conversation != event.conversation:
        yield Breach("E12", f"Run {run_id} is of {trace.conversation}.", (key,))
    if trace.ended and event.kind is not EventKind.EFFECT_RESOLVED:
        yield Breach("E5", f"Run {run_id} had ended before this.", (key, run_id.encode()))
    follow = _FOLLOW.get(event.kind)
    if follow is not None:
        yield from follow(Told(survey, key, event, trace, run_id))


def _admitted(told: Told) -> Findings[None]:
    told.trace.run_class = told.event.facts.get("run_class")
    yield from ()


def _promoted(told: Told) -> Findings[None]:
    if told.event.facts.get("before") != told.trace.run_class:
        yield told.says("E6", f"Run {told.run} is promoted out of a class that it was not in.")
    told.trace.run_class = told.event.facts.get("run_class")


def _revision_saved(told: Told) -> Findings[None]:
    told.trace.revisions = yield from told.next("revision", told.trace.revisions)
    told.trace.standing += (told.number("revision"),)
    revision = yield from told.part(Revision, keys.revision, "revision")
    if revision is not None and revision.message != told.event.message:
        yield told.says("E2", f"Revision {revision.number} of {told.run} is of another message.")


def _revision_withdrawn(told: Told) -> Findings[None]:
    yield from told.settle_revision()
    revision = yield from told.part(Revision, keys.revision, "revision")
    if revision is not None and revision.state is not RevisionState.WITHDRAWN:
        yield told.says(
            "E1",
            f"Revision {revision.number} of {told.run} was withdrawn by this event, "
            "and its record says otherwise.",
            keys.revision(told.run, revision.number),
        )


def _revision_delivered(told: Told) -> Findings[None]:
    yield from told.settle_revision()
    revision = yield from told.part(Revision, keys.revision, "revision")
    if revision is None:
        return
    now = revision.state, revision.request
    if now != (RevisionState.DELIVERED, told.event.facts.get("request")):
        yield told.says(
            "E3",
            f"Revision {revision.number} of {told.run} was delivered by this event, "
            "and its record says otherwise.",
            keys.revision(told.run, revision.number),
        )


def _revision_settled(told: Told) -> Findings[None]:
    yield from told.settle_revision()
    revision = yield from told.part(Revision, keys.revision, "revision")
    if revision is not None and revision.state != told.event.facts.get("state"):
        yield told.says(
            "E1",
            f"Revision {revision.number} of {told.run} was settled by this event, "
            "and its record says otherwise.",
            keys.revision(told.run, revision.number),
        )


def _request_started(told: Told) -> Findings[None]:
    trace = told.trace
    trace.requests = yield from told.next("request", trace.requests)
    trace.open_requests += (told.number("request"),)
    if trace.stopped:
        yield told.says("E4", f"Run {told.run} starts a request after its stop was accepted.")
    request = yield from told.part(Request, keys.request, "request")
    if request is None:
        return
    place = keys.request(told.run, request.ordinal)
    if told.event.facts.get("revisions") != list(request.carries):
        yield told.says(
            "E3", f"Request {request.ordinal} of {told.run} carries other revisions.", place
        )
    late = [number for number in request.carries if number > trace.revisions]
    if late or request.revision > trace.revisions:
        yield told.says(
            "E3",
            f"Request {request.ordinal} of {told.run} has revisions up to {request.revision}, "
            f"and only {trace.revisions} had been saved.",
            place,
        )
    elif (request.carries, request.revision) != (trace.standing, trace.revisions):
        yield told.says(
            "C12",
            f"Request {request.ordinal} of {told.run} carries {request.carries}, "
            f"and {trace.standing} stood when it began.",
            place,
        )


def _request_ended(told: Told) -> Findings[None]:
    number = told.number("request")
    if told.event.facts.get("late") is True:
        yield from _late_result(told, number)
        return
    if number not in told.trace.open_requests:
        yield told.says("E9", f"Request {number} of {told.run} was not under way.")
    told.trace.open_requests = _without(told.trace.open_requests, number)
    request = yield from told.part(Request, keys.request, "request")
    if request is not None and request.state != told.event.facts.get("state"):
        yield told.says(
            "E3",
            f"Request {number} of {told.run} ended by this event, and its record says otherwise.",
            keys.request(told.run, number),
        )


def _late_result(told: Told, number: int) -> Findings[None]:
    """A result that comes after its request was given up is noted, and changes nothing (C22)."""
    request = yield from told.part(Request, keys.request, "request")
    late = told.event.facts.get("state")
    if number in told.trace.open_requests or (request is not None and request.late != late):
        yield told.says(
            "E3",
            f"A late result of request {number} of {told.run} is told, and it has none.",
            keys.request(told.run, number),
        )


def _effect_started(told: Told) -> Findings[None]:
    trace, number = told.trace, told.number("effect")
    if trace.stopped:
        yield told.says("E4", f"Run {told.run} starts an effect after its stop was accepted.")
    effect = yield from told.part(Effect, keys.effect, "effect")
    if not 1 <= number <= trace.effects:
        trace.effects = yield from told.next("effect", trace.effects)
    elif number not in trace.unknown_effects or (
        effect is not None and effect.repeat is Repeat.ONCE
    ):
        yield told.says(
            "E7",
            f"Effect {number} of {told.run} starts again, which its class does not allow.",
            keys.effect(told.run, number),
        )
    trace.open_effects += (number,)
    trace.unknown_effects = _without(trace.unknown_effects, number)


def _effect_ended(told: Told) -> Findings[None]:
    trace, number, state = told.trace, told.number("effect"), told.event.facts.get("state")
    if state == EffectState.SKIPPED:  # never started, so this is its first event
        trace.effects = yield from told.next("effect", trace.effects)
    elif number not in (*trace.open_effects, *trace.unknown_effects):
        yield told.says("E9", f"Effect {number} of {told.run} was not under way.")
    yield from _effect_settled(told)


def _effect_settled(told: Told) -> Findings[None]:
    """Follow an effect into a state; that of an unknown one may change again."""
    trace, number, state = told.trace, told.number("effect"), told.event.facts.get("state")
    trace.open_effects = _without(trace.open_effects, number)
    trace.unknown_effects = _without(trace.unknown_effects, number)
    effect = yield from told.part(Effect, keys.effect, "effect")
    if state == EffectState.UNKNOWN:
        trace.unknown_effects += (number,)
    elif effect is not None and effect.state != state:
        yield told.says(
            "E7",
            f"Effect {number} of {told.run} ended by this event, and its record says otherwise.",
            keys.effect(told.run, number),
        )


def _effect_resolved(told: Told) -> Findings[None]:
    number = told.number("effect")
    if number not in told.trace.unknown_effects:
        yield told.says("E7", f"Effect {number} of {told.run} was resolved and not unknown.")
    yield from _effect_settled(told)


def _without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple(n for n in numbers if n != number)


def _stop_accepted(told: Told) -> Findings[None]:
    told.trace.stopped = True
    yield from ()


def _ended(told: Told) -> Findings[None]:
    trace, facts = told.trace, told.event.facts
    trace.ended = True
    if trace.open_requests or trace.open_effects:
        yield told.says("C17", f"Run {told.run} ends with something under way.")
    run = told.survey.look.find(Run, keys.run(told.run))
    if run is None:
        return
    now = run.state, run.reason, run.publication
    if now != (facts.get("state"), facts.get("reason"), facts.get("publication")):
        yield told.says(
            "E5",
            f"Run {told.run} ended by this event, and its record says otherwise.",
            keys.run(told.run),
        )


_FOLLOW: Final[Mapping[EventKind, Callable[[Told], Findings[None]]]] = {
    EventKind.MESSAGE_ADMITTED: _admitted,
    EventKind.RUN_PROMOTED: _promoted,
    EventKind.REVISION_SAVED: _revision_saved,
    EventKind.REVISION_DELIVERED: _revision_delivered,
    EventKind.REVISION_WITHDRAWN: _revision_withdrawn,
    EventKind.REVISION_SETTLED: _revision_settled,
    EventKind.REQUEST_STARTED: _request_started,
    EventKind.REQUEST_ENDED: _request_ended,
    EventKind.EFFECT_STARTED: _effect_started,
    EventKind.EFFECT_ENDED: _effect_ended,
    EventKind.EFFECT_RESOLVED: _effect_resolved,
    EventKind.STOP_ACCEPTED: _stop_accepted,
    EventKind.RUN_ENDED: _ended,
}
