"""What a person types, as commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...store.refusal import Code, Refused
from .command import (
    AnyCommand,
    Background,
    Deep,
    Help,
    Inspect,
    ListRuns,
    Mistake,
    Plain,
    Quit,
    Steer,
    Stop,
)

HELP: Final = """\
TEXT                a message; it is answered while everything else goes on
/research TEXT      research in the background
/deep TEXT          the same, more thoroughly
/steer RUN TEXT     add a requirement to a run that works: /steer r1 only the last year
/stop RUN           stop that run, and nothing else
/runs               the runs of this conversation
/inspect RUN        all that is recorded of a run, and its answer
/quit               leave now; runs get a moment to end. Ctrl-D waits for them
/help               this
//TEXT              a message that begins with a slash
RUN is the label at the beginning of a line, such as r1, or the run's full id."""


def parse(line: str, new_id: Callable[[], str]) -> AnyCommand | Mistake | None:
    """Return what a line asks for, the mistake in it, or None for a blank one.

    `new_id` makes the client id of a new intent.
    """
    text = line.strip()
    if not text:
        return None
    if text.startswith("//"):
        return Plain(id=new_id(), text=text[1:])
    if not text.startswith("/"):
        return Plain(id=new_id(), text=text)
    name, rest = _halves(text)
    match name:
        case "/research" | "/deep":
            return _research(name, rest, new_id)
        case "/steer":
            run, words = _halves(rest)
            if not words:
                return _mistake("Say which run and what to add: /steer r1 only the last year.")
            return Steer(id=new_id(), run=run, text=words)
        case "/stop" | "/inspect":
            return _about_run(name, rest, new_id)
        case "/runs" | "/help" | "/quit":
            return _alone(name, rest)
        case _:
            return _mistake(
                f"There is no command {name}. /help lists them; begin with // to send a text "
                "that starts with a slash."
            )


def _halves(text: str) -> tuple[str, str]:
    """Return the first word and the rest, whatever space is between (a paste may have lines)."""
    first, *rest = text.split(maxsplit=1) or [""]
    return first, "".join(rest).strip()


def _research(name: str, text: str, new_id: Callable[[], str]) -> Background | Deep | Mistake:
    if not text:
        return _mistake(f"Say what to research: {name} compare MSFT and IBM.")
    if name == "/deep":
        return Deep(id=new_id(), text=text)
    return Background(id=new_id(), text=text)


def _about_run(name: str, rest: str, new_id: Callable[[], str]) -> Stop | Inspect | Mistake:
    if len(rest.split()) != 1:
        return _mistake(f"Say which run, and nothing else: {name} r1.")
    return Stop(id=new_id(), run=rest) if name == "/stop" else Inspect(run=rest)


def _alone(name: str, rest: str) -> ListRuns | Help | Quit | Mistake:
    if rest:
        return _mistake(f"{name} stands alone on its line.")
    if name == "/runs":
        return ListRuns()
    return Help() if name == "/help" else Quit()


def _mistake(sentence: str) -> Mistake:
    return Mistake(Refused(Code.INVALID, sentence))


class IntentIds:
    """Makes the client ids of what is typed in one chat: in order of time, and its own."""

    def __init__(self, now_ms: int, secret: str) -> None:
        self.prefix = f"typed-{now_ms:012x}-{secret}-"
        self._count = 0

    def new(self) -> str:
        """Return the id of a new intent."""
        self._count += 1
        return f"{self.prefix}{self._count:06d}"
