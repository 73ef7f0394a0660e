"""Whether the disk has room, asked of the file system itself.

LMDB reports a write that was cut short, which is how a full disk usually shows first, as
a general I/O error. So after one the room is tried out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = 4_096
PAGES_A_WRITE: Final = 2  # a leaf and a branch above it, both copied on write
PAGES_A_BATCH: Final = 16


def bytes_wanted(writes: Iterable[tuple[bytes, bytes | None]]) -> int:
    """Return about how much a batch of `writes` makes the file grow at most."""
    pages = PAGES_A_BATCH
    content = 0
    for key, value in writes:
        pages += PAGES_A_WRITE
        content += len(key) + len(value or b"")
    return content + pages * PAGE_BYTES


def lack_of_room(data: Path, more_bytes: int) -> OSError | None:
    """Return why the file `data` can't grow by `more_bytes`, or None if it can.

    Tried on a nameless file beside it, at the same offset, so that free space, quotas and
    limits on the size of a file all count.
    """
    try:
        size = data.stat().st_size
        with tempfile.TemporaryFile(dir=data.parent) as probe:
            os.posix_fallocate(probe.fileno(), size, more_bytes)
    except OSError as error:
        return error
    return None
