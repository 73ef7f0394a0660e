"""The command `counterpoint`: what it prints, and what it exits with.

0: all is done. 1: something failed on the way, or a store is not as it must be. 2: the command
line, the folder or the store can't be used; one sentence says why, and nothing was changed.
130, 143: left by Ctrl-C or SIGTERM. 141: whoever read the output is gone.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ..store.write_lock import sync_folder
from .commands import arguments
from .commands.arguments import Settings, StoreSettings
from .commands.chat import Ways, chat
from .commands.control import control
from .commands.labels import Labels
from .commands.leaving import EXIT_BAD_INPUT, EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, Leaving
from .commands.pipes import PipeWays
from .commands.printed import Printer, printable
from .commands.reports import Report, in_lines
from .commands.typed_lines import IntentIds
from .desk import FileRefused, make_desk

if TYPE_CHECKING:
    from .gateways.openai import OpenAICompatible


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line, without the program's name, and return the exit code."""
    _keep_standard_files_open()
    try:
        return _main(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python flushes once more at its end: let that find a place.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_BROKEN_PIPE


def _main(argv: Sequence[str]) -> int:
    try:
        settings = arguments.read(argv, dict(os.environ))
    except arguments.Answered as answered:
        sys.stdout.write(str(answered))
        sys.stdout.flush()
        return 0
    except arguments.Wrong as wrong:
        _say(str(wrong))
        return EXIT_BAD_INPUT
    if isinstance(settings, StoreSettings):
        return _control(settings)
    return _chat(settings)


def _control(settings: StoreSettings) -> int:
    def show(report: Report) -> None:
        text = f"{msgspec.json.encode(report).decode()}\n" if settings.json else in_lines(report)
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()

    return trio.run(control, settings, show, _say)


def _chat(settings: Settings) -> int:
    try:
        _make_folder(settings.store)
        gateway = _gateway(settings)
        desk = make_desk(settings.folder, settings.store / "desk", settings.pace_s, gateway)
    except (FileRefused, ValueError, ImportError) as refused:
        _say(str(refused))
        return EXIT_BAD_INPUT
    except OSError as error:
        _say(f"The store can't be kept in {settings.store}: {error.strerror}. Use --store.")
        return EXIT_BAD_INPUT
    leaving = Leaving(_say)
    labels = Labels()
    ways = _ways(settings, labels, leaving)
    reports = _OneLine(leaving)
    logging.getLogger().addHandler(reports)

    async def talk() -> int:
        async with gateway or nullcontext():
            return await chat(settings, desk.agents(), labels, ways, leaving)

    try:
        return trio.run(talk)
    finally:
        logging.getLogger().removeHandler(reports)


def _gateway(settings: Settings) -> OpenAICompatible | None:
    """Return the gateway to the model that was asked for, if one was.

    Raises:
      ValueError: the address can't be used.
      ImportError: what the gateway needs is not installed.
    """
    if settings.base_url is None or settings.model is None:
        return None
    from .gateways.openai import OpenAICompatible  # an extra: imported where it is asked for

    key = os.environ.get(arguments.KEY_VARIABLE) or None
    return OpenAICompatible(settings.base_url, settings.model, api_key=key)


def _make_folder(store: Path) -> None:
    """Make the store's folder, durably, before the desk makes its own inside it."""
    missing = [path for path in (store, *store.parents) if not path.exists()]
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def _ways(settings: Settings, labels: Labels, leaving: Leaving) -> Ways:
    if settings.json or not (os.isatty(0) and os.isatty(1)):
        return PipeWays(0, 1, leaving)
    from .commands.terminal import TerminalWays  # takes a while to import; pipes need none of it

    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    ids = IntentIds(time.time_ns() // 1_000_000, secrets.token_hex(4))
    printer = Printer(labels, colour=colour, mine=ids.prefix)
    ways = TerminalWays(printer, ids.new, leaving)

    def say(sentence: str) -> None:
        ways.say(_line(sentence))

    leaving.say = say
    return ways


def _line(sentence: str) -> str:
    return f"counterpoint: {printable(' '.join(sentence.split()))}"


def _say(sentence: str) -> None:
    """Say a sentence to the person, beside what the command was asked to print."""
    sys.stderr.write(f"{_line(sentence)}\n")
    sys.stderr.flush()


class _OneLine(logging.Handler):
    """Reports of the runtime and of libraries in a line each; tracebacks are for hosts."""

    def __init__(self, leaving: Leaving) -> None:
        super().__init__()
        self._leaving = leaving
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it where it does not disturb what is being typed."""
        error = record.exc_info[1] if record.exc_info else None
        why = "" if error is None else f": {type(error).__name__}: {error}"
        report = f"{record.getMessage()}{why}"
        if report != self._last:  # what is tried again and again is said once
            self._leaving.say(report)
        self._last = report


def _keep_standard_files_open() -> None:
    """Let no file that is opened later become standard input or output by accident."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one


if __name__ == "__main__":
    sys.exit(main())
