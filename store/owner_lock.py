"""Who is alive: one locked file for each host process that has a store open.

The kernel drops the lock when the process dies, however it dies, so a dead owner is known
at once; a process that is stopped or slow still holds its lock and is not taken for dead
(C30). POSIX record locks are used because a forked child does not inherit them: a child
that outlives its parent does not keep the parent alive. They have one trap, which this
module avoids: closing *any* descriptor of a file drops the process's locks on it, so a
process never opens its own lock file a second time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from .ids import OwnerId


class Liveness(Protocol):
    """Tells which owners are gone."""

    def claim(self, owner: OwnerId) -> None:
        """Make `owner` alive until `release`, or until this process dies."""
        ...

    def gone(self, owners: Iterable[OwnerId]) -> frozenset[OwnerId]:
        """Return those of `owners` whose process is gone."""
        ...

    def forget(self, owner: OwnerId) -> None:
        """Remove what is left of an owner that is gone."""
        ...

    def release(self) -> None:
        """Stop being alive."""
        ...


class OwnerLocks:
    """`Liveness` by locked files in one folder of the store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mine: tuple[OwnerId, int] | None = None

    def _path(self, owner: OwnerId) -> Path:
        return self._folder / f"{owner}.lock"

    def claim(self, owner: OwnerId) -> None:
        """Create and lock the file of `owner`. Do this before the owner is registered."""
        assert self._mine is None
        self._folder.mkdir(exist_ok=True)
        descriptor = os.open(self._path(owner), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._mine = owner, descriptor

    def gone(self, owners: Iterable[OwnerId]) -> frozenset[OwnerId]:
        """Return those of `owners` whose lock is free. This process's own never is."""
        mine = None if self._mine is None else self._mine[0]
        return frozenset(owner for owner in owners if owner != mine and self._is_free(owner))

    def _is_free(self, owner: OwnerId) -> bool:
        try:
            descriptor = os.open(self._path(owner), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        finally:
            os.close(descriptor)
        return True

    def forget(self, owner: OwnerId) -> None:
        """Remove the files of an owner that is gone: its lock, and its bell."""
        for path in self._folder.glob(f"{owner}.*"):
            path.unlink(missing_ok=True)

    def release(self) -> None:
        """Let the lock go and remove the file."""
        if self._mine is not None:
            owner, descriptor = self._mine
            self._mine = None
            self._path(owner).unlink(missing_ok=True)
            os.close(descriptor)


class OwnersInMemory:
    """`Liveness` for the memory engine: one shared set of who is alive.

    Several runtimes of one process that share a memory engine each take `of(…)`.
    """

    def __init__(self, alive: set[OwnerId]) -> None:
        self._alive = alive
        self._mine: OwnerId | None = None

    def claim(self, owner: OwnerId) -> None:
        """Add `owner` to those alive."""
        self._mine = owner
        self._alive.add(owner)

    def gone(self, owners: Iterable[OwnerId]) -> frozenset[OwnerId]:
        """Return those that are not in the set. This process's own never is."""
        return frozenset(
            owner for owner in owners if owner != self._mine and owner not in self._alive
        )

    def forget(self, owner: OwnerId) -> None:
        """Nothing is left of an owner in memory."""

    def release(self) -> None:
        """Remove this owner from those alive."""
        if self._mine is not None:
            self._alive.discard(self._mine)
            self._mine = None
