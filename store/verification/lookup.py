"""Reading a store that may be damaged: nothing here raises for what it finds.

A record that does not decode is named once, where it stands itself. Whoever refers to it
finds nothing to compare with, and says nothing; a record that is not there at all is
named by everything that refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from .. import keys
from ..engine import KEY_BYTES_MAX, KEY_FIRST, ReadTxn
from ..ids import ClientId, ConversationId, ScopeId
from ..records import (
    Accepted,
    Conversation,
    Damaged,
    Message,
    Owner,
    Publication,
    Record,
    Run,
    decode,
)
from .breach import Breach, Findings, spell

R = TypeVar("R", bound=Record)


class Placed(Protocol):
    """A record that says whose it is and where it belongs."""

    @property
    def scope(self) -> ScopeId: ...

    @property
    def conversation(self) -> ConversationId: ...


NUMBER_MAX: Final = 2**32 - 1
"""What fits into the key of what is a run's own."""

_LETTERS: Final[dict[type[Record], str]] = {
    Conversation: "c",
    Message: "m",
    Publication: "p",
    Run: "r",
    Owner: "w",
}
_ID: Final = re.compile(r"[cmprw][0-9a-f]{24}")


def is_id(kind: type[Record], identifier: str) -> bool:
    """Return whether `identifier` can be one of `kind`, which has ids of the runtime's own."""
    return _ID.fullmatch(identifier) is not None and identifier[0] == _LETTERS[kind]


def text(key: bytes) -> str | None:
    """Return part of a key as text, or None if it is none."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


class Lookup:
    """One snapshot of a store, read without trust."""

    def __init__(self, txn: ReadTxn) -> None:
        self._txn = txn

    def get(self, key: bytes) -> bytes | None:
        """Return the value at `key`; None also for what can't be a key."""
        if key < KEY_FIRST or len(key) > KEY_BYTES_MAX:
            return None
        return self._txn.get(key)

    def has(self, key: bytes) -> bool:
        """Return whether there is a record at `key`, readable or not."""
        return self.get(key) is not None

    def family(self, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key that begins with `first`, and its value."""
        return self._txn.scan(first, keys.after(first))

    def between(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key from `start` up to `stop`, and its value."""
        return self._txn.scan(start, stop)

    def find(self, kind: type[R], key: bytes) -> R | None:
        """Return the record at `key`, or None if there is no readable one."""
        return _decoded(kind, self.get(key))

    def standing(
        self,
        kind: type[R],
        key: bytes,
        data: bytes,
        name: Callable[[R], object],
        expected: object,
    ) -> Findings[R | None]:
        """Return the record that stands at `key`, or None after saying why it can't.

        `name` returns what the record calls itself, which is `expected` of it there.
        """
        try:
            record = decode(kind, data)
        except Damaged:
            yield Breach("E12", f"The {kind.__name__} at {spell(key)} does not decode.", (key,))
            return None
        if name(record) != expected:
            yield Breach(
                "E12", f"The {kind.__name__} at {spell(key)} names itself otherwise.", (key,)
            )
            return None
        return record

    def named(
        self, kind: type[R], identifier: str, by: bytes, *, row: str = "E12"
    ) -> Findings[R | None]:
        """Return the record that `by` names by its id."""
        if not is_id(kind, identifier):
            yield Breach(
                "E12",
                f"{spell(by)} names {identifier!r}, which is not an id of a {kind.__name__}.",
                (by,),
            )
            return None
        return (yield from self.referred(kind, identifier.encode(), by, row=row))

    def referred(
        self, kind: type[R], key: bytes, by: bytes, *, row: str = "E12"
    ) -> Findings[R | None]:
        """Return the record at a key that `by` names."""
        data = self.get(key)
        if data is None:
            yield Breach(
                row,
                f"{spell(by)} names the {kind.__name__} {spell(key)}, which does not exist.",
                (by, key),
            )
        return _decoded(kind, data)

    def numbered(
        self,
        kind: type[R],
        key: Callable[[int], bytes],
        number: object,
        by: bytes,
        *,
        row: str = "E12",
    ) -> Findings[R | None]:
        """Return what is a run's own and `by` names by number, which may be anything."""
        if not isinstance(number, int) or not 1 <= number <= NUMBER_MAX:
            yield Breach(row, f"{spell(by)} names {kind.__name__} {number!r}.", (by,))
            return None
        return (yield from self.referred(kind, key(number), by, row=row))

    def entry(self, identifier: str, by: bytes) -> Findings[Message | Publication | None]:
        """Return the message or the publication that `by` names."""
        if identifier.startswith("p"):
            return (yield from self.named(Publication, identifier, by))
        return (yield from self.named(Message, identifier, by))

    def find_entry(self, key: bytes) -> Message | Publication | None:
        """As `find`, for a message or a publication."""
        if key[:1] == b"p":
            return self.find(Publication, key)
        return self.find(Message, key)

    def receipt(self, scope: ScopeId, client_id: ClientId, by: bytes) -> Findings[Accepted | None]:
        """Return what was accepted under the client id that `by` names."""
        key = keys.identity(scope, client_id)
        data = self.get(key)
        if data is None:
            yield Breach(
                "E10",
                f"{spell(by)} came with client id {client_id!r}, of which there is no receipt.",
                (by, key),
            )
        return _decoded(Accepted, data)


def _decoded(kind: type[R], data: bytes | None) -> R | None:
    if data is None:
        return None
    try:
        return decode(kind, data)
    except Damaged:
        return None


def same_place(
    record: Placed, key: bytes, other: Placed | None, other_key: bytes
) -> Findings[bool]:
    """Return whether what `record` names is of its scope and conversation, or was not found."""
    if other is None:
        return True
    if other.scope != record.scope:
        yield Breach(
            "E11",
            f"{spell(key)} is of scope {record.scope!r} and names {spell(other_key)} "
            f"of scope {other.scope!r}.",
            (key, other_key),
        )
        return False
    if other.conversation != record.conversation:
        yield Breach(
            "E12",
            f"{spell(key)} names {spell(other_key)}, which is of another conversation.",
            (key, other_key),
        )
        return False
    return True
