"""An actor that does what it is told, for tests of what actors do."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias

import pykka
import trio

from counterpoint.actors.kernel import LaterReply, TrioActor

ASK_SECONDS = 5.0


DIARIES: dict[str, list[str]] = {}
"""What each actor wrote, by its urn. A ref does not keep its actor alive, so this does."""


class Stage(TrioActor):
    """Does what each message says: calls it with the actor, and replies what that returns."""

    def __init__(self) -> None:
        super().__init__()
        self._diary = DIARIES.setdefault(self.actor_urn, [])
        self._handles: list[LaterReply] = []

    def on_receive(self, message: Any) -> Any:
        return message(self)

    def on_stop(self) -> None:
        self._diary.append("stopped")

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._diary.append(f"failed by {exception_value!r}")

    def write(self, line: str) -> None:
        self._diary.append(line)

    def read(self) -> list[str]:
        return list(self._diary)

    def put_off(self) -> LaterReply:
        handle = self.reply_later()
        self._handles.append(handle)
        return handle

    def handles(self) -> list[LaterReply]:
        return self._handles


Act: TypeAlias = Callable[[Stage], Any]


def reply(value: Any) -> Act:
    """A handler that replies `value`."""
    return lambda _stage: value


def writing(line: str) -> Act:
    """A handler that writes `line` down."""
    return lambda stage: stage.write(line)


def busy(gate: trio.Event) -> Act:
    """A handler that waits for `gate`, so that the actor serves nothing else meanwhile."""

    async def wait(stage: Stage) -> str:
        stage.write("busy")
        await gate.wait()
        stage.write("free")
        return "done"

    return wait


def raising(error: BaseException) -> Act:
    """A handler that raises at once."""

    def handler(_stage: Stage) -> None:
        raise error

    return handler


def raising_in_its_task(error: BaseException) -> Act:
    """An `async` handler that raises after it has waited."""

    async def handler(_stage: Stage) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    return handler


def diary_of(ref: pykka.ActorRef[Any]) -> list[str]:
    """Return what the actor wrote, also when it has ended."""
    return list(DIARIES[ref.actor_urn])
