"""What the tests of a gateway share: an input, and somebody who hears how a reply comes in."""

from __future__ import annotations

import trio

from counterpoint.runtime import ModelInput, ModelMessage

PATIENCE_S = 20.0
"""How long a test waits for what happens at once, or never."""

KEY = "sk-never-to-be-shown-4711"


def asked(text: str = "Where does tea grow?") -> ModelInput:
    return ModelInput(messages=(ModelMessage(role="user", text=text),))


class Told:
    """What a gateway told of a reply: pieces of text, and `<call>` where one began."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._news = trio.Event()

    def __call__(self, text: str, /) -> None:
        self.pieces.append(text)
        self._news.set()
        self._news = trio.Event()

    def calling(self) -> None:
        self("<call>")

    async def hears(self, *pieces: str) -> None:
        """Wait until so many pieces were told, and check that they are these."""
        with trio.fail_after(PATIENCE_S):
            while len(self.pieces) < len(pieces):
                await self._news.wait()
        assert self.pieces == list(pieces)
