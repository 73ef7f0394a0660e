"""The format version of a store: what is written of it, and what may be opened.

The record stands at a key of the engine's own, so that no rule ever sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .engine import StoreUnusable, Txn

Migration = Callable[[Txn], None]
"""Turns a store of one format version into one of the next. A transaction like any other."""

FORMAT_KEY: Final = b"\0format"
MAGIC: Final = b"counterpoint\0"


def encode_format(version: int) -> bytes:
    """Return the record that says `version`."""
    return MAGIC + version.to_bytes(4)


def decode_format(record: bytes | None, *, empty: bool, folder: Path) -> int | None:
    """Return the version that `record` says, or None if the store has nothing in it yet.

    Raises:
      StoreUnusable: if something else than a store is in the folder.
    """
    if record is None and empty:
        return None
    if record is None or not record.startswith(MAGIC):
        raise StoreUnusable(f"{folder} holds an LMDB file of something else: use another folder")
    return int.from_bytes(record[len(MAGIC) :])


def steps_to_format(
    found: int | None, wanted: int, migrations: Mapping[int, Migration], *, folder: Path
) -> list[Migration]:
    """Return what leads from format `found` to `wanted`; an empty store needs nothing.

    Raises:
      StoreUnusable: if `found` is newer than `wanted`, or a migration is missing.
    """
    if found is None:
        return []
    if found > wanted:
        raise StoreUnusable(
            f"{folder} was written by a newer version: it has format {found}, and this version "
            f"knows formats up to {wanted}. Open it with the newer version"
        )
    missing = [step for step in range(found, wanted) if step not in migrations]
    if missing:
        raise StoreUnusable(
            f"{folder} has format {found}, which this version can't bring to format {wanted}. "
            f"Open it once with a version that can bring format {missing[0]} further"
        )
    return [migrations[step] for step in range(found, wanted)]
