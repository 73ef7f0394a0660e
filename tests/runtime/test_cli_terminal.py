"""The chat at a terminal: typing goes on while things happen, and nothing is garbled.

Method: the command runs on a pseudo-terminal; the test types when it has read what it waits
for, and every wait is bounded.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from counterpoint.store.ids import ScopeId
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.views import ConversationView
from counterpoint.store.views import conversation as view_of
from counterpoint.store.views import conversations as conversations_of

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0


class Terminal:
    """A terminal with the chat in it."""

    def __init__(self, *options: str, **environ: str) -> None:
        self._fd, self._of_child = pty.openpty()
        fcntl.ioctl(self._of_child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.at_first = self.attributes()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "counterpoint.runtime.cli", "chat", *options],
            stdin=self._of_child,
            stdout=self._of_child,
            stderr=self._of_child,
            env={**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1", **environ},
            start_new_session=True,
        )
        self.text = ""
        self._read_to = 0

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._of_child)

    def types(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, what: str) -> None:
        """Read on until `what` is written, behind whatever was waited for before."""
        end = time.monotonic() + PATIENCE_S
        while (at := self.text.find(what, self._read_to)) < 0:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{what!r} was not written: {self.text[-2000:]}"
            self._read()
        self._read_to = at + len(what)

    def _read(self) -> None:
        self.text += os.read(self._fd, 65_536).decode(errors="replace")

    def ended(self) -> int:
        code = self.child.wait(PATIENCE_S)
        while select.select([self._fd], [], [], 0)[0]:
            self._read()
        return code

    def goes(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        for fd in (self._fd, self._of_child):
            if fd >= 0:
                os.close(fd)


@contextmanager
def terminal(*options: str, **environ: str) -> Generator[Terminal]:
    opened = Terminal(*options, **environ)
    try:
        yield opened
    finally:
        opened.close()


async def stored(store: Path) -> ConversationView:
    async with open_lmdb_engine(store, format_version=1, read_only=True) as engine:
        with engine.read() as txn:
            (only,) = conversations_of(txn, ScopeId("me"))
            return view_of(txn, ScopeId("me"), only.conversation)


@pytest.mark.contract("B2", "B33")
async def test_typing_goes_on_while_research_runs(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with terminal("--store", str(store), "--pace", "1") as screen:
        screen.until("/help")
        screen.types("/research Compare MSFT and IBM over the past three years\r")
        screen.until("r1 │ research started: “Compare MSFT and IBM")
        screen.types("/steer r1 只看最近")
        screen.until("r1 │ ")  # something happens in the middle of the line
        screen.until("/steer r1 只看最近")  # drawn again, whole
        screen.types("一年\r")
        screen.until("r1 │ saved as revision 1: “只看最近一年”")
        screen.until("r1 │ revision 1 delivered in request")
        screen.types("/runs\r")
        screen.until("r1 │ background  running")
        screen.types("/research again\r")
        screen.until("not accepted")
        screen.until("held by r1")
        screen.types("\x04")
        screen.until("waiting for r1")
        screen.until("r1 │ completed")
        screen.until("2009-03-01")
        assert screen.ended() == 0
        assert screen.attributes() == screen.at_first
        assert "Traceback" not in screen.text
    view = await stored(store)
    assert [entry.text for entry in view.entries if entry.verb == "steer"] == ["只看最近一年"]


@pytest.mark.contract("D20")
def test_ctrl_c_clears_the_line_and_then_leaves(tmp_path: Path) -> None:
    with terminal("--store", str(tmp_path), "--pace", "60", "--drain", "0.1") as screen:
        screen.until("/help")
        screen.types("/research Compare MSFT and IBM\r")
        screen.until("r1 │ Looking")
        screen.types("half a line")
        screen.until("half a line")
        screen.types("\x03")
        screen.types("/runs\r")
        screen.until("r1 │ background  running")
        screen.types("\x03")
        screen.until("leaving; up to 0.1 s for r1 to end")
        screen.until("r1 │ interrupted (host shutdown)")
        assert screen.ended() == 130
        assert screen.attributes() == screen.at_first
        assert "Traceback" not in screen.text

    with terminal("--store", str(tmp_path), NO_COLOR="") as screen:
        screen.until("\x1b[36mr1 \x1b[0m│ background  interrupted (host shutdown)")
        screen.types("/quit\r")
        screen.until("leaving")
        assert screen.ended() == 0


def test_a_signal_that_the_terminal_goes_ends_the_chat(tmp_path: Path) -> None:
    with terminal("--store", str(tmp_path), "--drain", "0.1") as screen:
        screen.until("/help")
        screen.child.send_signal(signal.SIGHUP)
        assert screen.ended() == 129
        assert "Traceback" not in screen.text


def test_a_terminal_that_goes_without_a_signal_ends_the_chat(tmp_path: Path) -> None:
    with terminal("--store", str(tmp_path), "--drain", "0.1") as screen:
        screen.until("/help")
        screen.goes()
        assert screen.child.wait(PATIENCE_S) == 129
