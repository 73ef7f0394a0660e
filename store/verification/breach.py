"""A breach of what always holds, and how it and the keys that show it are spelled."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

import msgspec

from ..ids import ID_LENGTH

T = TypeVar("T")

LINE_CHARS_MAX: Final = 1_000
"""A damaged record may hold an id of any length; a line about it stays one line."""

_PARTS: Final = {b"q": "request", b"i": "input", b"x": "effect", b"v": "revision"}
"""What is a run's own, by the letter in its key."""


class Breach(msgspec.Struct, frozen=True):
    """One thing in a store that must never be. The sentence quotes nobody's words."""

    row: str
    """The row of the contract that does not hold."""
    sentence: str
    keys: tuple[bytes | str, ...]
    """Where the records stand that show it, or should stand."""

    def __str__(self) -> str:
        where = ", ".join(spell(key) for key in self.keys)
        return _on_one_line(f"{self.row}: {self.sentence} [{where}]")


Findings: TypeAlias = Generator[Breach, None, T]
"""Breaches on the way, and then a value."""


def spell(key: bytes | str) -> str:
    """Return a key as a person can read it: numbers in figures, separators as spaces."""
    if isinstance(key, str):
        return _on_one_line(key)
    if key[:1] == b"e" and len(key) == 9:
        return f"event {int.from_bytes(key[1:])} of the store"
    run, letter, number = key[:ID_LENGTH], key[ID_LENGTH:][:1], key[ID_LENGTH + 1 :]
    if key[:1] == b"r" and letter == b"k" and not number:
        return f"{_text(run)} checkpoint"
    if key[:1] == b"r" and letter in _PARTS and len(number) == 4:
        return f"{_text(run)} {_PARTS[letter]} {int.from_bytes(number)}"
    return _on_one_line(_text(key))


def _text(data: bytes) -> str:
    return data.replace(b"\0", b" ").decode(errors="backslashreplace")


def _on_one_line(text: str) -> str:
    if len(text) > LINE_CHARS_MAX:
        text = text[:LINE_CHARS_MAX] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
