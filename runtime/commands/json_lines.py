"""The JSON protocol of `counterpoint chat`: one object a line, in and out, in UTF-8.

In (`id` is yours: one for each intent, kept over every retry):

    {"id": "1", "text": "…"}                        a message; its entry is "plain"
    {"entry": "background", "id": "2", "text": "…"} research; "depth" is "normal" or "deep"
    {"entry": "deep", "id": "3", "text": "…"}       the same with depth "deep"
    {"entry": "steer", "id": "4", "run": "r1", "text": "…"}     also "expected_revision": 0
    {"entry": "stop", "id": "5", "run": "r1"}
    {"entry": "inspect", "run": "r1"}               read only, like all that follow
    {"entry": "export", "run": "r1", "ordinal": 2}  the exact input of a request
    {"entry": "runs"}
    {"entry": "view"}                               also "before": the number of an entry
    {"entry": "lookup", "id": "1"}                  what became of an id
    {"entry": "quit"}                               leave now; the end of input waits for runs

A `run` is an id, or a label: r1, r2… count the conversation's runs in order of admission.
Blank lines are skipped. A line has at most 1 MiB.

Out, told apart by "type":

    ready       first of all: conversation, version, after, scope, store, folder, runs so far
    event       number (the cursor for --after), kind, run, label, message, client_id, at_ms,
                facts; and text, the person's words, with message_admitted and revision_saved
    answer      right behind the event run_ended, if something was published: run, label,
                client_id, text
    text        a piece of an answer in progress, not durable
    receipt     accepted and durable: id, verb, run, label, message, revision, version
    refused     nothing was stored: id, code, sentence, retry_same_id, facts, and your text back
    unknown     look the id up, or send the very same line again
    inspection, export, runs, view, lookup       what was asked for, with your id if you gave one
    waiting     the input has ended, these runs have not
    leaving     nothing more is taken in; these runs have drain_s to end

What is refused changes nothing, and the next line is taken as if it had not been there. A
receipt and the events that tell of it may come in either order: the ids tie them.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from ...store.refusal import Code, Refused
from .command import (
    Background,
    Deep,
    Export,
    Inspect,
    ListRuns,
    Lookup,
    Mistake,
    Plain,
    Quit,
    Steer,
    Stop,
    View,
)
from .shown import AnyShown

JsonCommand = (
    Plain | Background | Deep | Steer | Stop | Inspect | Export | View | Lookup | ListRuns | Quit
)

LINE_BYTES_MAX: Final = 1 << 20


class LongLine(msgspec.Struct, frozen=True):
    """Stands for a line of which no more than the limit was read."""

    bytes_len: int


def parse(line: bytes | LongLine) -> JsonCommand | Mistake | None:
    """Return what a line asks for, the mistake in it, or None for a blank one."""
    if isinstance(line, LongLine):
        return Mistake(
            Refused(
                Code.TOO_LARGE,
                f"A line has {line.bytes_len} bytes; at most {LINE_BYTES_MAX} are allowed.",
                field="line",
                limit=LINE_BYTES_MAX,
                actual=line.bytes_len,
            )
        )
    if not line.strip():
        return None
    try:
        value: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        why = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        return Mistake(_invalid(f"A line is not JSON: {why}.", field="line"))
    if not isinstance(value, dict):
        return Mistake(_invalid("A line must be a JSON object.", field="line"))
    fields = cast("dict[str, Any]", value)
    fields.setdefault("entry", "plain")
    try:
        asked: JsonCommand = msgspec.convert(fields, JsonCommand)
    except msgspec.ValidationError as error:
        refused = _invalid(_sentence(error, fields), field="line")
        refused.text = _text_or_none(fields, "text")
        return Mistake(refused, _text_or_none(fields, "id"), _text_or_none(fields, "entry"))
    return asked


def encode(shown: AnyShown) -> bytes:
    """Return what is shown as a line."""
    return msgspec.json.encode(shown) + b"\n"


def _sentence(error: msgspec.ValidationError, fields: dict[str, Any]) -> str:
    what = str(error).replace(" - at `$.", " in `")
    if "`entry`" in what:
        entries = ", ".join(sorted(_ENTRIES))
        return f"{fields['entry']!r} is no entry; there are {entries}."
    return f"{what}."


_ENTRIES: Final = (
    "plain",
    "background",
    "deep",
    "steer",
    "stop",
    "inspect",
    "export",
    "view",
    "lookup",
    "runs",
    "quit",
)


def _invalid(sentence: str, *, field: str) -> Refused:
    return Refused(Code.INVALID, sentence, field=field)


def _text_or_none(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None
