"""Server-sent events, as far as a stream of replies needs them: their data, in order.

Bytes in, the data of whole events out; nothing here reads or waits. Lines end with a line
feed, a carriage return or both, wherever the network cut them; an event ends with an empty
line; its `data` lines are joined by line feeds; comments and other fields are left out.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class EventTooLong(Exception):
    """An event has more bytes than it may. The rest of the stream is of no use."""


class EventParser:
    """The events of one stream, each of at most `event_bytes_max` bytes."""

    def __init__(self, event_bytes_max: int) -> None:
        self._event_bytes_max = event_bytes_max
        self._line = bytearray()  # what has come of the line that is under way
        self._data: list[bytes] = []  # the data lines of the event that is under way
        self._data_bytes = 0
        self._after_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take what has come, and return the data of the events that it makes whole.

        Raises:
          EventTooLong: the event under way has more bytes than it may.
        """
        if not chunk:
            return []
        second_half = self._after_return and chunk.startswith(b"\n")
        self._after_return = chunk.endswith(b"\r")
        if second_half:  # of a line end that was cut in two
            chunk = chunk[1:]
        events: list[bytes] = []
        *whole, rest = _LINE_END.split(chunk)
        for end in whole:
            self._line += end
            self._bound()
            events += self._take(bytes(self._line))
            self._line.clear()
        self._line += rest
        self._bound()
        return events

    def end(self) -> list[bytes]:
        """Return what stands there when the stream ends: some servers spare the last lines."""
        return [*self._take(bytes(self._line)), *self._take(b"")]

    def _take(self, line: bytes) -> list[bytes]:
        if not line:
            event, self._data, self._data_bytes = self._data, [], 0
            return [b"\n".join(event)] if event else []
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value) + 1
        return []

    def _bound(self) -> None:
        if len(self._line) + self._data_bytes > self._event_bytes_max:
            raise EventTooLong
