"""The format version of a store: what is written of it, and what may be opened.

The record stands at a key of the engine's own, so that no rule ever sees it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from .engine import StoreUnusable, Txn
from .write_lock import WriteLock, sync_folder

Migration = Callable[[Txn], None]
"""Turns a store of one format version into one of the next. A transaction like any other."""

FORMAT_KEY: Final = b"\0format"
MAGIC: Final = b"counterpoint\0"


LOCK_WAIT_S: Final = 5.0
"""How long opening waits for the write lock, if it has a format to write."""


class Formatted(Protocol):
    """A store with a format record."""

    folder: Path

    def record(self) -> tuple[bytes | None, bool]:
        """Return the record, and whether the store has nothing in it."""
        ...

    def rewrite(self, record: bytes, steps: list[Migration]) -> None:
        """Run `steps` and write the new record, in one transaction."""
        ...


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


def bring_to_format(
    store: Formatted, lock: WriteLock | None, wanted: int, migrations: Mapping[int, Migration]
) -> None:
    """Accept, create, migrate or refuse what is in `store`. Without `lock` only accept.

    Blocks up to `LOCK_WAIT_S` if there is something to write.

    Raises:
      StoreUnusable: see `decode_format` and `steps_to_format`; or another process holds
        the lock all the time.
    """
    record, empty = store.record()
    found = decode_format(record, empty=empty, folder=store.folder)
    if found == wanted:
        return
    if lock is None:
        raise StoreUnusable(
            f"{store.folder} has format {found}, and read only none but {wanted} can be opened"
        )
    until = time.monotonic() + LOCK_WAIT_S
    while not lock.try_lock():
        if time.monotonic() > until:
            raise StoreUnusable(
                f"{store.folder} has to be written to before it can be used, but another "
                f"process has held its write lock for {LOCK_WAIT_S:g} s"
            )
        time.sleep(0.01)
    try:
        record, empty = store.record()  # again: another process may have been quicker
        found = decode_format(record, empty=empty, folder=store.folder)
        steps = steps_to_format(found, wanted, migrations, folder=store.folder)
        if found != wanted:
            store.rewrite(encode_format(wanted), steps)
        if found is None:
            sync_folder(store.folder)
    finally:
        lock.unlock()
