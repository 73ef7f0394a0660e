"""What is a run's own, record by record: inputs, checkpoint, requests, revisions, effects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from .. import keys
from ..ids import ID_LENGTH, RunId
from ..records import Checkpoint, Effect, EffectState, Message, Request, Revision, Verb
from .breach import Breach, Findings, spell
from .survey import Survey

_WITHOUT_RESULT: Final = frozenset({EffectState.OPEN, EffectState.SKIPPED, EffectState.UNKNOWN})


class Belongings:
    """What was found of one run, as far as it is compared with the rest."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.inputs: dict[int, bytes] = {}
        """The hash of each input that was kept."""
        self.requests: dict[int, Request] = {}
        self.revisions: dict[int, Revision] = {}
        self.effects: dict[int, EffectState] = {}
        self.numbers: dict[bytes, list[int]] = {b"q": [], b"v": [], b"x": []}
        """Every number that is there, readable or not."""
        self.checkpoint: int | None = None
        """Its number; 0 if it is not readable."""


def check_part(survey: Survey, own: Belongings, key: bytes, data: bytes) -> Findings[None]:
    """E12: a record of the run decodes, and is the one that its key says."""
    letter, number = key[ID_LENGTH : ID_LENGTH + 1], key[ID_LENGTH + 1 :]
    if letter == b"k" and not number:
        yield from _checkpoint(survey, own, key, data)
    elif letter in _PARTS and len(number) == 4:
        if letter in own.numbers:
            own.numbers[letter].append(int.from_bytes(number))
        yield from _PARTS[letter](survey, own, key, int.from_bytes(number), data)
    else:
        yield Breach("E12", f"{spell(key)} is no record of a run.", (key,))


def _checkpoint(survey: Survey, own: Belongings, key: bytes, data: bytes) -> Findings[None]:
    found = yield from survey.look.standing(
        Checkpoint, key, data, lambda checkpoint: checkpoint.run, own.run
    )
    own.checkpoint = 0 if found is None else found.number


def _input(survey: Survey, own: Belongings, key: bytes, number: int, data: bytes) -> Findings[None]:
    own.inputs[number] = hashlib.sha256(data).digest()
    if not survey.look.has(keys.request(own.run, number)):
        yield Breach(
            "E12",
            f"There is an input of request {number} of {own.run}, and no such request.",
            (key, keys.request(own.run, number)),
        )


def _request(
    survey: Survey, own: Belongings, key: bytes, number: int, data: bytes
) -> Findings[None]:
    request = yield from survey.look.standing(
        Request, key, data, lambda found: (found.run, found.ordinal), (own.run, number)
    )
    if request is None:
        return
    own.requests[number] = request
    place = keys.request_input(own.run, number)
    if own.inputs.get(number, request.input_sha256) != request.input_sha256:
        yield Breach(
            "E12",
            f"The input of request {number} of {own.run} is not that of its hash.",
            (key, place),
        )


def _revision(
    survey: Survey, own: Belongings, key: bytes, number: int, data: bytes
) -> Findings[None]:
    look = survey.look
    revision = yield from look.standing(
        Revision, key, data, lambda found: (found.run, found.number), (own.run, number)
    )
    if revision is None:
        return
    own.revisions[number] = revision
    message = yield from look.named(Message, revision.message, key)
    if message is None:
        return
    if (message.verb, message.run, message.revision) != (Verb.STEER, own.run, number):
        yield Breach(
            "E1",
            f"Revision {number} of {own.run} is {revision.message}, which is something else.",
            (key, revision.message.encode()),
        )
    if message.client_id != revision.client_id:
        yield Breach(
            "E2",
            f"Revision {number} of {own.run} and its message have two client ids.",
            (key, revision.message.encode()),
        )


def _effect(
    survey: Survey, own: Belongings, key: bytes, number: int, data: bytes
) -> Findings[None]:
    effect = yield from survey.look.standing(
        Effect, key, data, lambda found: (found.run, found.number), (own.run, number)
    )
    if effect is None:
        return
    own.effects[number] = effect.state
    if effect.operation_id != f"{own.run}.{number}":
        yield Breach("E7", f"Effect {number} of {own.run} has another operation id.", (key,))
    if effect.result is not None and effect.state in _WITHOUT_RESULT:
        yield Breach(
            "E7", f"Effect {number} of {own.run} is {effect.state}, and has a result.", (key,)
        )
    if (effect.ended_at_ms is None) is not (effect.state is EffectState.OPEN):
        yield Breach("E7", f"Effect {number} of {own.run} has ended by half.", (key,))
    for what, json in (("arguments", effect.arguments), ("result", effect.result)):
        if json is not None and not _is_json(json):
            yield Breach("E12", f"The {what} of effect {number} of {own.run} is no JSON.", (key,))


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


_PARTS: Final[Mapping[bytes, Callable[[Survey, Belongings, bytes, int, bytes], Findings[None]]]] = {
    b"i": _input,
    b"q": _request,
    b"v": _revision,
    b"x": _effect,
}
