"""The chat's ways in and out at a terminal: a line to type on, and output above it.

The line is prompt_toolkit's: it knows the width of every character (typing Chinese is
typing, too), takes what is pasted as one message, keeps a history, and gives the terminal
back as it was. It has an asyncio loop of its own in a worker thread. Only this module
crosses between the two: `Line.write` and `Line.close` are called from the trio thread, and
what is typed comes back through the trio token.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from . import typed_lines
from .command import AnyCommand, Mistake
from .leaving import EXIT_INTERRUPTED, Leaving
from .printed import Printer
from .shown import AnyShown

_TYPED_MAX: Final = 256
_CLOSE_WAIT_S: Final = 5.0
_WATCH_EVERY_S: Final = 1.0
_PROMPT: Final = "> "


class Line:
    """The line that is typed on."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = asyncio.Event()
        self._shown = False
        self._waiting: deque[tuple[TextIO, str]] = deque()
        self._scheduled = False
        # Not asking where the cursor is: no terminal has to answer, and none is blamed for it.
        os.environ["PROMPT_TOOLKIT_NO_CPR"] = "1"
        self._session: PromptSession[str] = PromptSession(_PROMPT, key_bindings=_keys())

    def write(self, text: str, *, to: TextIO | None = None) -> None:
        """Write whole lines above the line, or plainly where it is not shown."""
        self._waiting.append((to or sys.stdout, text))
        if self._loop is None:
            self._write_waiting()
        elif self._shown and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._write_above)

    async def close(self, gone: trio.Event) -> None:
        """Take the line away, and wait until the terminal is as it was."""
        if self._loop is None:
            return
        self._shown = False  # nothing is handed over any more; it is written below
        self._loop.call_soon_threadsafe(self._closing.set)
        with trio.move_on_after(_CLOSE_WAIT_S, shield=True):
            await gone.wait()
        self._loop = None
        self._write_waiting()

    def run(
        self,
        shown: Callable[[], None],
        typed: Callable[[str], None],
        ended: Callable[[bool], None],
    ) -> None:
        """Show the line until `close`. Blocks its thread, and calls all three from there.

        `ended` is called once no more is typed: with True for Ctrl-C, False for Ctrl-D.
        """
        asyncio.run(self._run(shown, typed, ended))

    async def _run(
        self,
        shown: Callable[[], None],
        typed: Callable[[str], None],
        ended: Callable[[bool], None],
    ) -> None:
        self._loop, self._shown = asyncio.get_running_loop(), True
        prompting = asyncio.create_task(self._prompt(typed, ended))
        shown()
        try:
            await self._closing.wait()
        finally:
            prompting.cancel()
            await asyncio.gather(prompting, return_exceptions=True)

    def _write_above(self) -> None:
        """In the line's thread: take the line away, write, and have it drawn again.

        `run_in_terminal` would do so too, but gives the terminal its usual mode meanwhile, in
        which a Ctrl-D that is typed just then is lost.
        """
        app = self._session.app
        if not app.is_running:
            self._write_waiting()
        elif app.is_done:  # it is just about to draw the line for the last time
            asyncio.get_running_loop().call_soon(self._write_above)
        else:
            app.renderer.erase()
            self._write_waiting()
            app.invalidate()

    def _write_waiting(self) -> None:
        self._scheduled = False  # what comes from here on has to be scheduled anew
        try:
            while self._waiting:
                stream, text = self._waiting.popleft()
                stream.write(text)
                stream.flush()
        except OSError:
            self._waiting.clear()  # the terminal is gone; a signal says so, too

    async def _prompt(self, typed: Callable[[str], None], ended: Callable[[bool], None]) -> None:
        interrupted = False
        try:
            while True:
                typed(await self._session.prompt_async(handle_sigint=False))
        except EOFError:
            pass
        except KeyboardInterrupt:
            interrupted = True
        ended(interrupted)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    def clear_or_leave(event: KeyPressEvent) -> None:
        buffer = event.app.current_buffer
        if buffer.text:
            buffer.reset()  # as in a shell
        else:
            event.app.exit(exception=KeyboardInterrupt())

    keys.add("c-c")(clear_or_leave)
    return keys


class TerminalWays:
    """Both ways of a chat at a terminal. It is its own screen, and iterates what is asked."""

    reconciles = True

    def __init__(self, printer: Printer, new_id: Callable[[], str], leaving: Leaving) -> None:
        self._printer = printer
        self._new_id = new_id
        self._leaving = leaving
        self._send, self._typed = trio.open_memory_channel[str](_TYPED_MAX)
        self._line = Line()
        self._gone = trio.Event()

    @property
    def screen(self) -> TerminalWays:
        """See `Screen`."""
        return self

    @property
    def commands(self) -> TerminalWays:
        """What is asked: iterate until the end of input."""
        return self

    def __aiter__(self) -> TerminalWays:
        return self

    async def __anext__(self) -> AnyCommand | Mistake:
        """Return the next command or mistake; blank lines are skipped."""
        while True:
            try:
                line = await self._typed.receive()
            except trio.EndOfChannel:
                raise StopAsyncIteration from None
            asked = typed_lines.parse(line, self._new_id)
            if asked is not None:
                return asked

    async def start(self, nursery: trio.Nursery) -> None:
        """Show the line."""
        await nursery.start(self._edit)
        nursery.start_soon(self._watch)

    async def _watch(self) -> None:
        """Leave when the terminal is gone: not everybody gets a signal for it, and a chat
        that nobody can reach would hold its slots for ever."""
        poll = select.poll()
        poll.register(sys.stdin.fileno(), 0)  # a hang-up is told always
        while not poll.poll(0):  # noqa: ASYNC110 — nobody sets an event for it
            await trio.sleep(_WATCH_EVERY_S)
        self._leaving.leave(128 + signal.SIGHUP)

    async def _edit(self, *, task_status: trio.TaskStatus[None]) -> None:
        token = trio.lowlevel.current_trio_token()

        def in_trio(call: Callable[..., object], *arguments: object) -> None:
            with suppress(trio.RunFinishedError):  # the chat is over
                token.run_sync_soon(call, *arguments)

        def run() -> None:
            self._line.run(
                lambda: in_trio(task_status.started),
                lambda line: in_trio(self._take, line),
                lambda interrupted: in_trio(self._end, interrupted),
            )

        try:
            await trio.to_thread.run_sync(run, abandon_on_cancel=True)
        finally:
            self._gone.set()

    def _take(self, line: str) -> None:
        try:
            self._send.send_nowait(line)
        except trio.WouldBlock:
            sentence = f"Too many lines at once; this one was not taken: {line}"
            self._line.write(f"{sentence}\n")
        except trio.ClosedResourceError:
            pass  # the end was typed before it

    def _end(self, interrupted: bool) -> None:
        if interrupted:
            self._leaving.leave(EXIT_INTERRUPTED)
        self._send.close()

    async def end_input(self) -> None:
        """Take the line away; output goes on."""
        await self._line.close(self._gone)

    async def flush(self) -> None:
        """Wait until everything is written: here it always is."""

    def show(self, what: AnyShown) -> None:
        """Print it above the line."""
        lines = self._printer.lines(what)
        if lines:
            self._line.write("".join(f"{line}\n" for line in lines))

    async def room(self) -> None:
        """A terminal always has room."""

    def say(self, sentence: str) -> None:
        """Say a sentence on standard error, above the line."""
        self._line.write(f"{sentence}\n", to=sys.stderr)
