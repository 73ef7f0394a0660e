"""What an argument must be: every check of form, in one place, before anything happens.

Each raises `Refused` with the field's name, so nothing is half-written (C50).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TypeVar

import msgspec

from ..store.keys import ID_BYTES_MAX
from ..store.refusal import Code, Refused

E = TypeVar("E", bound=StrEnum)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""The characters of Unicode's category Cc."""

_json = msgspec.json.Encoder(order="deterministic")


def _utf8(field: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise Refused(
            Code.INVALID, f"{field} must be text, not {type(value).__name__}.", field=field
        )
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            Code.INVALID,
            f"{field} has a lone surrogate at character {error.start}; it is not valid Unicode.",
            field=field,
            at=error.start,
        ) from error


def fits(field: str, size_bytes: int, bytes_max: int) -> None:
    """Check a size.

    Raises:
      Refused: `too_large`, with both numbers.
    """
    if size_bytes > bytes_max:
        raise Refused(
            Code.TOO_LARGE,
            f"{field} has {size_bytes} bytes; at most {bytes_max} are allowed.",
            field=field,
            limit=bytes_max,
            actual=size_bytes,
        )


def identifier(field: str, value: object) -> str:
    """Return an id: 1 to 128 bytes of UTF-8 without control characters.

    Raises:
      Refused: `invalid` or `too_large`.
    """
    data = _utf8(field, value)
    assert isinstance(value, str)
    if not data:
        raise Refused(Code.INVALID, f"{field} must not be empty.", field=field)
    fits(field, len(data), ID_BYTES_MAX)
    if _CONTROL.search(value) is not None:
        raise Refused(Code.INVALID, f"{field} must not contain control characters.", field=field)
    return value


def text(field: str, value: object, *, bytes_max: int, empty: bool = False) -> str:
    """Return a text of at most `bytes_max` bytes of UTF-8.

    Raises:
      Refused: `invalid` or `too_large`.
    """
    data = _utf8(field, value)
    assert isinstance(value, str)
    if not data and not empty:
        raise Refused(Code.INVALID, f"{field} must not be empty.", field=field)
    fits(field, len(data), bytes_max)
    return value


def choice(field: str, value: object, allowed: type[E], *, among: frozenset[E] | None = None) -> E:
    """Return one of an enumeration's values, given as itself or as its text.

    Raises:
      Refused: `invalid`, naming what is allowed.
    """
    if isinstance(value, str):
        try:
            chosen = allowed(value)
        except ValueError:
            pass
        else:
            if among is None or chosen in among:
                return chosen
    permitted = sorted(str(item) for item in (among or allowed))
    raise Refused(
        Code.INVALID,
        f"{field} must be one of {', '.join(permitted)}, not {value!r}.",
        field=field,
        allowed=permitted,
    )


def as_json(field: str, value: object) -> bytes:
    """Return a value as JSON; equal values give equal bytes.

    Raises:
      Refused: `invalid`, if it is not of the kinds that JSON has.
    """
    try:
        return _json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(
            Code.INVALID, f"{field} can't be written as JSON: {error}", field=field
        ) from error


def yes_or_no(field: str, value: object) -> bool:
    """Return True or False; nothing else stands for them.

    Raises:
      Refused: `invalid`.
    """
    if not isinstance(value, bool):
        raise Refused(
            Code.INVALID,
            f"{field} must be true or false, not {type(value).__name__}.",
            field=field,
        )
    return value


def whole_number(field: str, value: object, *, least: int) -> int:
    """Return a whole number of at least `least`, and below 2**63.

    Raises:
      Refused: `invalid`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 63:
        raise Refused(
            Code.INVALID, f"{field} must be a whole number of at least {least}.", field=field
        )
    return value
