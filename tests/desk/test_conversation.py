"""A person keeps talking over the sample while research runs, through the real runtime.

Method: a real store in a temporary folder. The research's third request is held until the
test lets it go, so that what happens meanwhile does happen meanwhile, without any waiting
for time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from counterpoint.runtime import Runtime, open_runtime
from counterpoint.runtime.desk import OfflinePlanner, make_desk, sample_folder
from counterpoint.runtime.gateways.protocol import ModelInput, Reply, ReplyStream
from counterpoint.store.views import EventView

SCOPE = "ann"


class HeldPlanner:
    """The desk's planner, whose third request waits for the test."""

    name = "held-planner"

    def __init__(self) -> None:
        self.held = trio.Event()
        self.release = trio.Event()
        self._planner = OfflinePlanner()
        self._requests = 0

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        self._requests += 1
        if self._requests == 3:
            self.held.set()
            await self.release.wait()
        return await self._planner.complete(model_input, emit)


@asynccontextmanager
async def opened(tmp_path: Path, planner: HeldPlanner) -> AsyncGenerator[tuple[Runtime, str]]:
    store = tmp_path / "store"
    short = make_desk(sample_folder(), tmp_path / "index")
    long = make_desk(sample_folder(), tmp_path / "index", gateway=planner)
    agents = {"short": short.answer, "background": long.research}
    async with open_runtime(store, agents=agents) as runtime:
        receipt = await runtime.open_conversation(scope=SCOPE, client_id="c")
        yield runtime, receipt.conversation


async def start(runtime: Runtime, conversation: str, text: str, entry: str) -> str:
    receipt = await runtime.submit(
        scope=SCOPE, conversation=conversation, client_id=text, text=text, entry=entry
    )
    assert receipt.run is not None
    return receipt.run


@pytest.mark.slow
async def test_a_question_is_answered_and_a_steering_followed_while_research_runs(
    tmp_path: Path,
) -> None:
    planner = HeldPlanner()
    async with opened(tmp_path, planner) as (runtime, conversation):
        request = "Compare MSFT and IBM over the past three years, with drawdown"
        research = await start(runtime, conversation, request, "background")
        await planner.held.wait()

        question = await start(runtime, conversation, "What is the Sharpe ratio?", "plain")
        answered = await runtime.wait(scope=SCOPE, run=question)
        assert answered.answer is not None
        assert "[glossary.md:" in answered.answer
        assert (await runtime.view_run(scope=SCOPE, run=research)).answer is None

        steering = "only the last year, please"
        await runtime.steer(scope=SCOPE, run=research, client_id="s", text=steering)
        planner.release.set()
        ended = await runtime.wait(scope=SCOPE, run=research)
        assert ended.answer is not None
        assert "Window: 2009-03-01 to 2010-03-01" in ended.answer
        assert "2007" not in ended.answer

        kinds = [
            event.kind
            async for event in runtime.events(scope=SCOPE, conversation=conversation, follow=False)
            if isinstance(event, EventView)
        ]
        assert kinds.index("revision_saved") < kinds.index("revision_delivered")


async def test_research_that_is_stopped_ends_without_a_report(tmp_path: Path) -> None:
    planner = HeldPlanner()
    async with opened(tmp_path, planner) as (runtime, conversation):
        research = await start(runtime, conversation, "比较 MSFT 和 IBM 近三年的表现", "background")
        await planner.held.wait()
        await runtime.stop(scope=SCOPE, run=research, client_id="stop")
        ended = await runtime.wait(scope=SCOPE, run=research)
        assert ended.answer is None
        question = await start(runtime, conversation, "什么是最大回撤？", "plain")
        answered = await runtime.wait(scope=SCOPE, run=question)
        assert answered.answer is not None
        assert "最低价格" in answered.answer
