"""The lock file between processes, and who in this process has which store open.

LMDB's own write lock can't be awaited up to a deadline, so every writer takes this lock
first: `flock` on a file beside the store. LMDB's lock is then never contended. The
kernel gives the lock back when its holder dies, however it dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Final

from .engine import StoreUnusable

FILE_NAME: Final = "write.lock"

# By device and inode of the lock file, so that two paths to one folder are one store.
_open_here: dict[tuple[int, int], WriteLock] = {}
_open_here_mutex = threading.Lock()


class WriteLock:
    """An open lock file. Held by at most one process; released by any end of it."""

    def __init__(self, folder: Path) -> None:
        """Open the lock file in `folder`, creating it.

        Raises:
          StoreUnusable: if this process has the store open already.
          OSError: if the file can't be opened for writing.
        """
        self._fd = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        status = os.fstat(self._fd)
        self._key = (status.st_dev, status.st_ino)
        with _open_here_mutex:
            if self._key in _open_here:
                os.close(self._fd)
                raise StoreUnusable(
                    f"{folder} is open in this process already: use that engine, or close it "
                    "first (LMDB forbids a second one)"
                )
            _open_here[self._key] = self

    def try_lock(self) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True

    def lock(self) -> None:
        """Take the lock, however long its holder keeps it."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def unlock(self) -> None:
        """Give the lock back."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def forget(self) -> None:
        """Let this process open the store again. The file stays open until `close`."""
        with _open_here_mutex:
            _open_here.pop(self._key, None)

    def close(self) -> None:
        """Close the file, which gives the lock back."""
        os.close(self._fd)


def open_lock(folder: Path) -> WriteLock:
    """Make `folder` if it is not there, and open the lock file in it.

    Raises:
      StoreUnusable: if the folder can't be one, can't be written to, or is open already.
    """
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
        return WriteLock(folder)
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreUnusable(
            f"{folder} can't be a store: {error.filename} is a file, and a store is a folder"
        ) from error
    except OSError as error:
        raise StoreUnusable(f"{folder} can't be written to: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: flushing a file does not flush its name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _after_fork_in_child() -> None:
    global _open_here_mutex
    _open_here_mutex = threading.Lock()  # another thread may have held it at the fork
    # A lock of `flock` belongs to the open file, which parent and child share now: held
    # here it would outlive the parent.
    for lock in _open_here.values():
        lock.close()
    _open_here.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
