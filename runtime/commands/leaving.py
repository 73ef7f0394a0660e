"""How a chat is left: by the end of its input, `/quit`, a signal, or a reader that is gone."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

import trio

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_FAILED: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 128 + signal.SIGINT
EXIT_BROKEN_PIPE: Final = 128 + signal.SIGPIPE


class Leaving:
    """Whether the chat is being left, and with which exit code. The first reason counts."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        """Tells a person a sentence outside of what the chat shows."""
        self.code = 0
        self.scope = trio.CancelScope()
        """Around all that waits for input; leaving cancels it."""
        self.begun = False

    def leave(self, code: int) -> None:
        """Take no more input. Runs still get their time to end."""
        if not self.begun:
            self.begun = True
            self.code = code
            self.scope.cancel()

    def fail(self, sentence: str, code: int) -> None:
        """Leave because something is wrong, and say what."""
        self.say(sentence)
        self.leave(code)

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Leave on the first signal; from then on a second one ends the process at once."""
        with trio.open_signal_receiver(*SIGNALS) as received:
            task_status.started()
            async for number in received:
                for known in SIGNALS:
                    signal.signal(known, signal.SIG_DFL)
                name = signal.Signals(number).name
                self.say(f"Leaving on {name}; a second signal ends it at once.")
                self.leave(128 + number)
