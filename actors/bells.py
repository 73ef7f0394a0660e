"""Bells: how a process tells others on the same store that it has committed something.

Each process has a datagram socket beside the store. After a batch it rings the others'
sockets, and they read on from where they were (`tail.py`). A bell carries no facts and may
be lost: the slow poll finds what a bell did not announce. So every error in ringing is
passed over, and a process that can't have a bell (a path too long for a socket's name, a
file system without sockets) still works, only less promptly.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from ..store.ids import OwnerId
from .environment import logger

SUFFIX: Final = ".bell"
REFRESH_S: Final = 1.0
"""How old the list of other bells may be; a new process also rings everybody at its start."""


class Bells:
    """The bell of one process, and those of the others. Used in the runtime's loop."""

    def __init__(self, folder: Path, owner: OwnerId) -> None:
        self._folder = folder
        self._mine = f"{owner}{SUFFIX}"
        self._others: list[str] = []
        self._listed_at = -REFRESH_S
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._out.setblocking(False)

    async def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard()` after bells of others, until cancelled."""
        path = self._folder / self._mine
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bell.bind(os.fspath(path))
        except OSError as error:
            bell.close()
            logger.info("no bell at %s (%s): other processes are polled instead", path, error)
            return
        mine = trio.socket.from_stdlib_socket(bell)
        try:
            self.ring()
            while True:
                await mine.recv(1)
                self._listed_at = -REFRESH_S  # it may be the first bell of a new process
                heard()
        finally:
            mine.close()
            path.unlink(missing_ok=True)

    def ring(self) -> None:
        """Tell every other process to read on."""
        now = time.monotonic()
        if now - self._listed_at >= REFRESH_S:
            self._listed_at = now
            self._others = [
                os.fspath(self._folder / name)
                for name in os.listdir(self._folder)
                if name.endswith(SUFFIX) and name != self._mine
            ]
        for path in self._others:
            try:
                self._out.sendto(b"\0", path)
            except OSError:
                continue  # gone, or deaf because it has enough to read already

    def close(self) -> None:
        """Let go of the socket that rings."""
        self._out.close()
