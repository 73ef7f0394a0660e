"""Receipts: what each client id was accepted for, and that it is there (E2, E10)."""

from __future__ import annotations

from typing import Final

from .. import keys
from ..identity import text_hash
from ..records import Accepted, Conversation, Message, Revision, Run, Verb
from .breach import Breach, Findings
from .conversations import ADMITTING
from .lookup import same_place
from .survey import Survey

_SAID: Final = ADMITTING | {Verb.STEER, Verb.ANSWER}
"""The verbs that come with a message."""

_TARGETED: Final = frozenset({Verb.STEER, Verb.STOP, Verb.WITHDRAW, Verb.RESOLVE})
"""The verbs whose target is the run that the receipt names."""


def check_receipts(survey: Survey) -> Findings[None]:
    """Every receipt stands under its own id, and what it names is there and agrees."""
    for key, data in survey.look.family(b"i"):
        receipt = yield from survey.look.standing(
            Accepted,
            key,
            data,
            lambda found: keys.identity(found.scope, found.client_id),
            key,
        )
        if receipt is None:
            continue
        survey.threads[receipt.conversation].receipts += 1
        yield from _check_conversation(survey, key, receipt)
        message = yield from _message(survey, key, receipt)
        run = yield from _run(survey, key, receipt)
        yield from _check_shape(key, receipt)
        yield from _check_meaning(key, receipt, message, run)


def _check_conversation(survey: Survey, key: bytes, receipt: Accepted) -> Findings[None]:
    head = yield from survey.look.named(Conversation, receipt.conversation, key)
    yield from same_place(receipt, key, head, receipt.conversation.encode())
    if head is None:
        return
    if not 1 <= receipt.version <= head.events:
        yield Breach(
            "E10",
            f"The receipt names event {receipt.version}, "
            f"and {receipt.conversation} has {head.events}.",
            (key, receipt.conversation.encode()),
        )
    meaning = receipt.meaning
    if meaning.verb is Verb.OPEN and meaning.text_sha256 != text_hash(head.title):
        yield Breach(
            "E12",
            f"The title of {receipt.conversation} is not the one that was accepted.",
            (key, receipt.conversation.encode()),
        )


def _message(survey: Survey, key: bytes, receipt: Accepted) -> Findings[Message | None]:
    if receipt.message is None:
        return None
    message = yield from survey.look.named(Message, receipt.message, key, row="E10")
    yield from same_place(receipt, key, message, receipt.message.encode())
    if message is None:
        return None
    told = message.client_id, message.run, message.revision
    if told != (receipt.client_id, receipt.run, receipt.revision):
        yield Breach(
            "E2",
            f"The receipt and {receipt.message} do not agree.",
            (key, receipt.message.encode()),
        )
    return message


def _run(survey: Survey, key: bytes, receipt: Accepted) -> Findings[Run | None]:
    run_id, look = receipt.run, survey.look
    if run_id is None:
        return None
    run = yield from look.named(Run, run_id, key, row="E10")
    yield from same_place(receipt, key, run, run_id.encode())
    if receipt.revision is not None:
        revision = yield from look.numbered(
            Revision,
            lambda number: keys.revision(run_id, number),
            receipt.revision,
            key,
            row="E10",
        )
        steered = receipt.meaning.verb is Verb.STEER
        if steered and revision is not None and revision.client_id != receipt.client_id:
            yield Breach(
                "E2",
                f"Revision {receipt.revision} of {run_id} came with another client id.",
                (key, keys.revision(run_id, revision.number)),
            )
    return run


def _check_shape(key: bytes, receipt: Accepted) -> Findings[None]:
    """A receipt names exactly what its verb makes."""
    verb = receipt.meaning.verb
    named = receipt.message is not None, receipt.run is not None, receipt.revision is not None
    if named != (verb in _SAID, verb is not Verb.OPEN, verb in (Verb.STEER, Verb.WITHDRAW)):
        yield Breach("E2", f"The receipt of a {verb} does not name what a {verb} makes.", (key,))


def _check_meaning(
    key: bytes, receipt: Accepted, message: Message | None, run: Run | None
) -> Findings[None]:
    """What an id stands for decides what a retry gets, so it must be what was stored (A14)."""
    meaning = receipt.meaning
    opened = meaning.verb is Verb.OPEN
    wrong = list[str]()
    if meaning.conversation != (None if opened else receipt.conversation):
        wrong.append("conversation")
    target = receipt.run if meaning.verb in _TARGETED else None
    if meaning.target != target and meaning.verb is not Verb.ANSWER:
        wrong.append("target")
    if message is not None and (meaning.verb, meaning.text_sha256) != (
        message.verb,
        message.text_sha256,
    ):
        wrong.append("text or entry")
    if meaning.expected_revision not in (None, (receipt.revision or 0) - 1):
        wrong.append("expected revision")
    if meaning.verb is Verb.WITHDRAW and meaning.item != receipt.revision:
        wrong.append("revision")
    if run is not None and meaning.depth not in (None, run.depth):
        wrong.append("depth")
    if run is not None and meaning.verb in ADMITTING and run.client_id != receipt.client_id:
        wrong.append("run")
    if run is not None and meaning.verb is Verb.STOP and run.stop_at_ms is None:
        yield Breach("E10", f"The stop of {run.run} was accepted and is not there.", (key,))
    if wrong:
        yield Breach("E2", f"The receipt means another {', '.join(wrong)} than was stored.", (key,))
