"""The flag that an actor has stopped, which every ref reads and hardly any thread waits for."""

from __future__ import annotations

import threading


class StopFlag(threading.Event):
    """A `threading.Event` that makes its lock only when a thread waits.

    A real one takes a kilobyte and more time than the rest of an actor's construction.
    """

    def __init__(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        """Return whether the actor has stopped."""
        return self._flag

    def set(self) -> None:
        """Raise the flag, and wake the threads that wait for it."""
        # Raised first and looked second, while `wait` shows its event first and looks second.
        self._flag = True
        event: threading.Event | None = self.__dict__.get("_event")
        if event is not None:
            event.set()

    def clear(self) -> None:
        """Refuse: an actor that has stopped does not start again."""
        raise RuntimeError("an actor that has stopped cannot be started again")

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until the flag is raised; false after `timeout` seconds."""
        # `setdefault` is one step to the interpreter, so all waiters share one event.
        event: threading.Event = self.__dict__.setdefault("_event", threading.Event())
        return self._flag or event.wait(timeout)
