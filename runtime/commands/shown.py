"""What a chat shows. In the JSON protocol each is one object, with its tag as the `type`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...store.views import ConversationView, Inspection, RunView

REQUEST_LEN: Final = 200


class Shown(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """The base of all of them."""


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a line."""

    label: str | None
    run: str
    client_id: str
    request: str
    """The beginning of the words that it was started with."""
    run_class: str
    state: str
    reason: str | None
    requests: int
    revisions: int
    admitted_at_ms: int
    ended_at_ms: int | None


class Ready(Shown, frozen=True, kw_only=True, tag="ready"):
    """The first of all: the conversation is open, and this is what it is like."""

    conversation: str
    version: int
    """The number of its last event so far."""
    after: int
    """The events that are shown begin behind this one."""
    reopened: bool
    scope: str
    store: str
    folder: str
    runs: tuple[RunLine, ...]


class Happened(Shown, frozen=True, kw_only=True, tag="event"):
    """One event of the conversation. Its number is the cursor for `--after`."""

    number: int
    kind: str
    at_ms: int
    conversation: str
    run: str | None
    label: str | None
    message: str | None
    client_id: str | None
    facts: dict[str, Any]
    text: str | None = None
    """The person's words, of a message or a steering."""


class Answered(Shown, frozen=True, kw_only=True, tag="answer"):
    """A published answer, whole. Stands right behind the event of its run's end."""

    number: int
    """That event's number."""
    run: str
    label: str | None
    client_id: str
    """Of the message that started the run."""
    publication: str | None
    state: str
    text: str


class Streamed(Shown, frozen=True, kw_only=True, tag="text"):
    """A piece of an answer in progress: not durable; the answer replaces it."""

    run: str
    label: str | None
    text: str


class Received(Shown, frozen=True, kw_only=True, tag="receipt"):
    """A message, steering or stop is accepted, and durable."""

    id: str
    verb: str
    conversation: str
    version: int
    at_ms: int
    message: str | None
    run: str | None
    label: str | None
    revision: int | None


class Declined(Shown, frozen=True, kw_only=True, tag="refused"):
    """Nothing was stored, and why."""

    id: str | None
    entry: str | None
    code: str
    sentence: str
    retry_same_id: bool
    facts: dict[str, Any]
    text: str | None


class Unknown(Shown, frozen=True, kw_only=True, tag="unknown"):
    """It may or may not be stored: look the id up, or say the same again."""

    id: str | None
    entry: str | None
    sentence: str


class Inspected(Shown, frozen=True, kw_only=True, tag="inspection"):
    """All that is recorded of a run."""

    id: str | None
    run: str
    label: str | None
    inspection: Inspection


class Exported(Shown, frozen=True, kw_only=True, tag="export"):
    """The exact input of one request, as it was recorded before it was sent."""

    id: str | None
    run: str
    label: str | None
    ordinal: int
    input: msgspec.Raw


class Viewed(Shown, frozen=True, kw_only=True, tag="view"):
    """A page of the conversation, with the label of each run in it."""

    id: str | None
    labels: dict[str, str | None]
    view: ConversationView


class Listed(Shown, frozen=True, kw_only=True, tag="runs"):
    """The runs of the newest page of the conversation, and every one that lives."""

    id: str | None
    runs: tuple[RunLine, ...]


class Found(Shown, frozen=True, kw_only=True, tag="lookup"):
    """The receipt of a client id, or that nothing was accepted under it."""

    id: str
    receipt: Received | None


class Waiting(Shown, frozen=True, kw_only=True, tag="waiting"):
    """The input has ended; the runs have not."""

    runs: tuple[str, ...]
    """Their labels."""


class Leaving(Shown, frozen=True, kw_only=True, tag="leaving"):
    """Nothing more is taken in; the runs have this long to end."""

    drain_s: float
    runs: tuple[str, ...]


class Helped(Shown, frozen=True, kw_only=True, tag="help"):
    """What can be typed."""

    text: str


AnyShown = (
    Ready
    | Happened
    | Answered
    | Streamed
    | Received
    | Declined
    | Unknown
    | Inspected
    | Exported
    | Viewed
    | Listed
    | Found
    | Waiting
    | Leaving
    | Helped
)


def run_line(view: RunView, label: str | None) -> RunLine:
    """Return a run in a line."""
    return RunLine(
        label=label,
        run=view.run,
        client_id=view.client_id,
        request=_beginning(view.request),
        run_class=view.run_class,
        state=str(view.state),
        reason=None if view.reason is None else str(view.reason),
        requests=view.requests,
        revisions=len(view.revisions),
        admitted_at_ms=view.admitted_at_ms,
        ended_at_ms=view.ended_at_ms,
    )


def _beginning(text: str) -> str:
    return text if len(text) <= REQUEST_LEN else f"{text[: REQUEST_LEN - 1]}…"
