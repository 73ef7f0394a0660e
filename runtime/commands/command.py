"""What can be asked of a chat: the same values from a typed line and from a line of JSON."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ..errors import Refused


class Command(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="entry", forbid_unknown_fields=True
):
    """The base of all of them. The tag is the `entry` of the JSON protocol."""


class Plain(Command, frozen=True, kw_only=True, tag="plain"):
    """A message typed in the conversation."""

    id: str
    text: str


class Background(Command, frozen=True, kw_only=True, tag="background"):
    """A message that its person put in the background."""

    id: str
    text: str
    depth: str = "normal"


class Deep(Command, frozen=True, kw_only=True, tag="deep"):
    """A message that its person put in the background, to be done deeply."""

    id: str
    text: str


class Steer(Command, frozen=True, kw_only=True, tag="steer"):
    """A requirement added to a run. `run` is a label or an id, here and below."""

    id: str
    run: str
    text: str
    expected_revision: int | None = None


class Stop(Command, frozen=True, kw_only=True, tag="stop"):
    """A run is to be stopped."""

    id: str
    run: str


class Inspect(Command, frozen=True, kw_only=True, tag="inspect"):
    """All that is recorded of a run is wanted."""

    run: str
    id: str | None = None


class Export(Command, frozen=True, kw_only=True, tag="export"):
    """The exact input of one request of a run is wanted."""

    run: str
    ordinal: int
    id: str | None = None


class View(Command, frozen=True, kw_only=True, tag="view"):
    """The conversation as it is now is wanted: its newest entries, or those before `before`."""

    before: int | None = None
    id: str | None = None


class Lookup(Command, frozen=True, kw_only=True, tag="lookup"):
    """What became of a client id is wanted."""

    id: str


class ListRuns(Command, frozen=True, kw_only=True, tag="runs"):
    """The runs of the conversation are wanted."""

    id: str | None = None


class Quit(Command, frozen=True, kw_only=True, tag="quit"):
    """The chat is to be left now."""

    id: str | None = None


class Help(Command, frozen=True, kw_only=True, tag="help"):
    """What can be typed is wanted."""

    id: str | None = None


AnyCommand = (
    Plain
    | Background
    | Deep
    | Steer
    | Stop
    | Inspect
    | Export
    | View
    | Lookup
    | ListRuns
    | Quit
    | Help
)


class Mistake(NamedTuple):
    """A line that is no command: nothing happens but that it is refused."""

    refused: Refused
    id: str | None = None
    entry: str | None = None
