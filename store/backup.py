"""A consistent copy of a store that goes on being written to.

What is copied is one snapshot, whatever is committed meanwhile. The copy is a store of its
own: open it where it lies, or put it in the place of the one that was lost. The processes
that had the store open are not part of it, so whoever opens the copy looks after the runs
that were live at that moment, as after a crash (D13).

A destination that holds a data file is whole and flushed; one that a crash left behind
holds none, and can't be opened as a store.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, Protocol

from .write_lock import sync_folder

DATA_FILE: Final = "data.mdb"
_PARTIAL: Final = "partial"


class Copied(Protocol):
    """A store that can be copied while it is open."""

    def copy_to(self, folder: Path) -> None:
        """Write what is committed, as of one moment, into a data file in `folder`.

        From any thread, which it blocks. Writers go on meanwhile; but as with any snapshot,
        the map of this process can't grow until it is done. The copy has no free pages, and
        is not flushed.

        Raises:
          StoreFull: the disk that is copied to is full.
          StoreError: the store can't be read, or the copy not be written.
        """
        ...


def back_up(engine: Copied, destination: Path) -> int:
    """Make the folder `destination` a copy of the store, durably; return its size in bytes.

    Blocks its thread. On any error there is no destination.

    Raises:
      FileExistsError: `destination` is there already; it is as it was.
      OSError, StoreError: the copy could not be made.
    """
    destination.mkdir(mode=0o700)
    try:
        partial = destination / _PARTIAL
        partial.mkdir(mode=0o700)
        engine.copy_to(partial)
        data = partial / DATA_FILE
        data.chmod(0o600)
        _sync_file(data)
        data.rename(destination / DATA_FILE)
        partial.rmdir()
        sync_folder(destination)
        sync_folder(destination.parent)
    except BaseException:
        shutil.rmtree(destination, ignore_errors=True)
        raise
    return (destination / DATA_FILE).stat().st_size


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
