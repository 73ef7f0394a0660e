"""The desk's two agents: a short answer and background research over one folder.

Both take the same turns: a request to a gateway, its calls carried out as effects that only
read, a checkpoint, and a last request that answers. Offline the gateways are the desk's own
(`OfflineAnswerer`, `OfflinePlanner`); with a model it is the model's. What a steering says
reaches either as a user's message in the next request, in its own words.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec
import trio

from ...store.revisions import Words as Revision
from ..agent import AgentFunction, Build
from ..effect import EffectResult
from ..gateways.protocol import Call, Gateway, GatewayFailed, ModelInput, Reply
from .answer import OfflineAnswerer
from .folder import Folder
from .index import FolderIndex
from .notes import OFFERED, Exchange, Notes, model_input
from .planner import OfflinePlanner, ToolOutcome
from .question import Language, language_of
from .tools import Tools
from .wording import listed, say

GATEWAY_FAULTS_MAX = 3
"""A provider that fails so many times in a row fails the run."""

_FIRST_RETRY_SECONDS = 1.0

S = TypeVar("S")


class DeskTurn(Protocol):
    """What the desk needs of a turn: `counterpoint.runtime.agent.Turn`, or a test's own."""

    @property
    def revisions(self) -> tuple[Revision, ...]: ...

    async def request(self, gateway: Gateway, build: Build) -> Reply: ...

    async def effect(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[[dict[str, Any]], Awaitable[Any]],
        repeat: Literal["read"] = "read",
    ) -> EffectResult: ...


class DeskRun(Protocol):
    """What the desk needs of a run: `counterpoint.runtime.agent.RunContext`, or a test's own."""

    @property
    def request(self) -> str: ...

    @property
    def depth(self) -> str: ...

    def restore(self, kind: type[S]) -> S | None: ...

    def turns(self) -> AsyncIterator[DeskTurn]: ...

    async def progress(self, text: str) -> None: ...

    async def save(self, state: Any) -> None: ...

    async def complete(self, text: str) -> bool: ...


class Desk:
    """Research over one folder. Make it with `make_desk`; it holds no open files."""

    def __init__(self, tools: Tools, folder_name: str, pace_s: float, gateway: Gateway | None):
        self._tools = tools
        self._pace_s = pace_s
        self._answerer: Gateway = gateway or OfflineAnswerer(folder_name)
        self._planner: Gateway = gateway or OfflinePlanner()
        self._deep_planner: Gateway = gateway or OfflinePlanner(deep=True)

    def agents(self) -> dict[str, AgentFunction]:
        """Return the agent of each class of run, for `open_runtime`."""
        return {"short": self.answer, "background": self.research}

    async def answer(self, run: DeskRun) -> None:
        """Answer a question from the files, without a pause between the turns."""
        await self._work(run, self._answerer, "answer", pace_s=0.0)

    async def research(self, run: DeskRun) -> None:
        """Research a question turn by turn and complete with a report."""
        planner = self._deep_planner if run.depth == "deep" else self._planner
        await self._work(run, planner, "research", pace_s=self._pace_s)

    async def _work(
        self, run: DeskRun, gateway: Gateway, task: Literal["answer", "research"], *, pace_s: float
    ) -> None:
        notes = run.restore(Notes) or Notes()
        turns = run.turns()
        try:
            async for turn in turns:
                if pace_s and notes.exchanges:
                    await trio.sleep(pace_s)
                notes = await self._take(turn, run, gateway, task, notes)
        finally:
            if isinstance(turns, AsyncGenerator):  # trio wants it closed where it was begun
                await turns.aclose()

    async def _take(
        self,
        turn: DeskTurn,
        run: DeskRun,
        gateway: Gateway,
        task: Literal["answer", "research"],
        notes: Notes,
    ) -> Notes:
        """Take one turn and return what is known after it; complete the run if it was the last."""

        def build(revisions: tuple[Revision, ...]) -> ModelInput:
            return model_input(task, run.request, notes, revisions, OFFERED)

        language = language_of(run.request)
        try:
            reply = await turn.request(gateway, build)
        except GatewayFailed:
            if notes.faults + 1 == GATEWAY_FAULTS_MAX:
                raise
            await trio.sleep(_FIRST_RETRY_SECONDS * 2**notes.faults)
            return msgspec.structs.replace(notes, faults=notes.faults + 1)
        carried = turn.revisions[-1].number if turn.revisions else 0
        for revision in turn.revisions:
            if revision.number > notes.revision:
                values = {"number": revision.number, "text": revision.text}
                await run.progress(say(language, "progress_revised", **values))
        results = [await self._carry_out(run, turn, call, language) for call in reply.calls]
        exchange = Exchange(reply.text, reply.calls, tuple(results), carried)
        notes = notes.with_exchange(exchange)
        if reply.final:
            await run.complete(reply.text)  # if a steering came in, one more turn follows
        else:
            await run.save(notes)
        return notes

    async def _carry_out(self, run: DeskRun, turn: DeskTurn, call: Call, language: Language) -> str:
        """Carry one call out as an effect and return its outcome as the model will read it."""
        tool = self._tools.by_name.get(call.name)
        if tool is None:
            names = ", ".join(self._tools.by_name)
            outcome = ToolOutcome("failed", reason=f"There is no tool {call.name}: {names}.")
        else:
            await run.progress(describe(call, language))
            result = await turn.effect(call.name, call.arguments, do=tool)
            outcome = ToolOutcome(result.status, result.value, result.reason)
        return msgspec.json.encode(outcome).decode()


def make_desk(
    folder: Path, index_folder: Path, pace_seconds: float = 0.0, gateway: Gateway | None = None
) -> Desk:
    """Return a desk over the files of `folder`, with its index kept in `index_folder`.

    `pace_seconds` is waited between the turns of a background run. Without a `gateway` the
    desk works offline.

    Raises:
      FileRefused: `folder` is not a folder.
      OSError: `index_folder` cannot be made.
    """
    opened = Folder(folder)
    tools = Tools(opened, FolderIndex(opened, index_folder))
    return Desk(tools, opened.root.name or str(opened.root), pace_seconds, gateway)


def sample_folder() -> Path:
    """Return the folder of the sample data that is shipped: prices and a glossary."""
    return Path(__file__).with_name("sample")


def describe(call: Call, language: Language) -> str:
    """Return what a call does, in words for the person who waits."""
    arguments = call.arguments
    match call.name:
        case "search":
            terms = listed(language, [str(term) for term in arguments.get("terms", ())])
            return say(language, "progress_search", terms=terms)
        case "read":
            return say(
                language,
                "progress_read",
                path=arguments.get("path"),
                first=arguments.get("first_line", 1),
                last=arguments.get("last_line", "…"),
            )
        case "tabulate":
            columns = ", ".join(str(column) for column in arguments.get("columns", ()))
            return say(
                language,
                "progress_tabulate",
                columns=columns if ":" in columns else f"{columns} ({arguments.get('path')})",
                first=arguments.get("first_date") or "…",
                last=arguments.get("last_date") or "…",
            )
        case "prepare":
            return say(language, "progress_prepare", step=arguments.get("step", 1))
        case "tables":
            return say(language, "progress_tables")
        case _:
            return say(language, "progress_other", name=call.name)
