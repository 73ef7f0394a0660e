"""The chat's ways in and out where there is no terminal: lines of JSON over file descriptors.

Reading and writing may block for ever, so both happen in worker threads that are abandoned
when the chat is left: they never keep the process, nor the runs, waiting.
"""

from __future__ import annotations

import errno
import os
import select
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from . import json_lines
from .command import AnyCommand, Mistake
from .json_lines import LINE_BYTES_MAX, LongLine
from .leaving import EXIT_BROKEN_PIPE, EXIT_FAILED, Leaving
from .shown import AnyShown

_READ_BYTES: Final = 64 * 1024
_GONE: Final = frozenset((errno.EPIPE, errno.ECONNRESET, errno.EIO))
_LINES_MAX: Final = 1_024
"""So many lines may wait for a slow reader; then the chat waits too."""


class LineSplitter:
    """Cuts bytes into lines, and holds no more than one line's limit of them."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._part = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """Return the lines that end in `data`, without their ends."""
        *ended, rest = data.split(b"\n")
        found: list[bytes | LongLine] = []
        for piece in ended:
            self._add(piece)
            found.append(self._take())
        self._add(rest)
        return found

    def end(self) -> list[bytes | LongLine]:
        """Return the last line, if it lacks its end."""
        return [self._take()] if self._part or self._dropped else []

    def _add(self, piece: bytes) -> None:
        if self._dropped or len(self._part) + len(piece) > self._bytes_max:
            self._dropped += len(self._part) + len(piece)
            self._part.clear()
        else:
            self._part += piece

    def _take(self) -> bytes | LongLine:
        line = LongLine(self._dropped) if self._dropped else bytes(self._part)
        self._part.clear()
        self._dropped = 0
        return line


class PipeCommands:
    """What is asked on a file descriptor: iterate until its end."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._splitter = LineSplitter()
        self._lines: deque[bytes | LongLine] = deque()
        self._ended = False

    def __aiter__(self) -> PipeCommands:
        return self

    async def __anext__(self) -> AnyCommand | Mistake:
        """Return the next command or mistake; blank lines are skipped."""
        while True:
            while self._lines:
                asked = json_lines.parse(self._lines.popleft())
                if asked is not None:
                    return asked
            if self._ended:
                raise StopAsyncIteration
            data = await trio.to_thread.run_sync(_read, self._fd, abandon_on_cancel=True)
            self._ended = not data
            self._lines += self._splitter.feed(data) if data else self._splitter.end()


class PipeScreen:
    """Shows on a file descriptor, in order; `pump` runs beside whoever shows."""

    def __init__(self, fd: int, leaving: Leaving) -> None:
        self._fd = fd
        self._leaving = leaving
        self._lines: deque[bytes] = deque()
        self._news = trio.Event()
        self._written = trio.Event()
        self._busy = False
        self._broken = False

    def show(self, what: AnyShown) -> None:
        """Take something to be shown. Never waits."""
        if not self._broken:
            self._lines.append(json_lines.encode(what))
            self._news.set()

    async def room(self) -> None:
        """Wait until not too much waits to be shown."""
        await self._until(lambda: len(self._lines) < _LINES_MAX)

    async def flush(self) -> None:
        """Wait until everything is written, or nobody reads any more."""
        await self._until(lambda: not self._lines and not self._busy)

    async def _until(self, done: Callable[[], bool]) -> None:
        while not self._broken and not done():
            await self._written.wait()

    async def pump(self) -> None:
        """Write what is shown, until cancelled or nobody reads any more."""
        while not self._broken:
            await self._news.wait()
            self._news = trio.Event()
            while self._lines and not self._broken:
                await self._write()

    async def _write(self) -> None:
        data = b"".join(self._lines)
        self._lines.clear()
        self._busy = True
        try:
            await trio.to_thread.run_sync(_write_all, self._fd, data, abandon_on_cancel=True)
        except OSError as error:
            self._broken = True
            self._lines.clear()
            if error.errno in _GONE:
                self._leaving.leave(EXIT_BROKEN_PIPE)
            else:
                self._leaving.fail(f"The output can't be written: {error.strerror}.", EXIT_FAILED)
        self._busy = False
        self._written.set()
        self._written = trio.Event()


class PipeWays:
    """Both ways of a chat without a terminal."""

    reconciles = False

    def __init__(self, fd_in: int, fd_out: int, leaving: Leaving) -> None:
        self.commands = PipeCommands(fd_in)
        self.screen = PipeScreen(fd_out, leaving)

    async def start(self, nursery: trio.Nursery) -> None:
        """Begin to write."""
        nursery.start_soon(self.screen.pump)

    async def end_input(self) -> None:
        """Nothing more is read."""

    async def flush(self) -> None:
        """Wait until everything is written."""
        await self.screen.flush()


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, _READ_BYTES)
        except BlockingIOError:  # whoever gave it to us has set it so
            select.select([fd], [], [])


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])
