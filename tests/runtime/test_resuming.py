"""An agent that is entered again goes on from its checkpoint, a bounded number of times (D13).

Method: an agent is held at a gate, what is committed at that instant is what a new process
finds, and that one opens its runtime on it.
"""

import msgspec
import pytest

from counterpoint.runtime import Agent, Config, Limits, RunContext
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.ids import RunId

from .stage import Agents, InMemory, Person, answers, as_input, person, user_words


class Page(msgspec.Struct):
    number: int


class Reader:
    """Reads page after page, one request each, and saves after each."""

    def __init__(self, *, pages: int, hold_at: int | None = None) -> None:
        self.pages, self.hold_at = pages, hold_at
        self.restored: list[int | None] = []
        self.gate = Gate()
        self.gateway = ScriptedGateway(say("Read.", lasting=True))

    async def __call__(self, run: RunContext) -> None:
        found = run.restore(Page)
        self.restored.append(None if found is None else found.number)
        page = found or Page(0)
        async for turn in run.turns():
            if page.number == self.hold_at:
                await self.gate.passed()
            await turn.request(self.gateway, lambda added: as_input(run, added))
            page = Page(page.number + 1)
            await run.save(page)
            if page.number >= self.pages:
                await run.complete(f"Read {page.number} pages.")


def agents(reader: Reader) -> Agents:
    return {"short": answers, "background": Agent(reader, on_owner_loss="resume")}


async def die(
    place: InMemory, reader: Reader, text: str = "Read"
) -> tuple[InMemory, Person, RunId]:
    """Let a run come to where its agent is held, and return what is there if all die now."""
    async with place.open(agents(reader)) as runtime:
        ann = await person(runtime)
        run = await ann.researches(text)
        await reader.gate.reached()
        await ann.steers(run, "Slowly, please.")
        found = place.after_a_crash()
        await ann.stops(run)
    return found, ann, run


@pytest.mark.contract("D13", "C32", "B44", "E10", "P21")
async def test_it_goes_on_from_its_checkpoint_with_what_was_added_and_what_is_left() -> None:
    found, ann, run = await die(InMemory(), Reader(pages=4, hold_at=2))
    reader = Reader(pages=4)
    async with found.open(agents(reader)) as runtime:
        ann = ann.in_runtime(runtime)
        ended = await ann.end_of(run)
        resumed = await ann.events("run_resumed")

    assert reader.restored == [2]
    assert (ended.state, ended.answer, ended.requests) == ("completed", "Read 4 pages.", 4)
    assert [event.facts["checkpoint"] for event in resumed] == [2]
    assert [item.request for item in ended.revisions] == [3]
    assert user_words(reader.gateway.received[0].model_input) == ["Read", "Slowly, please."]


@pytest.mark.contract("D13", "C50", "C32", "P31")
async def test_a_run_that_takes_its_process_down_each_time_is_interrupted_in_the_end() -> None:
    config = Config(limits=Limits(entries_of_run_max=3))
    found, ann, run = await die(InMemory(), Reader(pages=4, hold_at=2))
    for _ in range(2):
        reader = Reader(pages=4, hold_at=2)
        async with found.open(agents(reader), config):
            await reader.gate.reached()
            assert reader.restored == [2]
            again = found.after_a_crash()
            reader.gate.release()
        found = again
    async with found.open(agents(Reader(pages=4)), config) as runtime:
        ended = await ann.in_runtime(runtime).run(run)

    assert (ended.state, ended.reason) == ("interrupted", "owner_lost")
    assert [item.state for item in ended.revisions] == ["not_applied"]


@pytest.mark.contract("D13", "C32", "C35")
async def test_a_process_without_its_agent_interrupts_it_and_says_so() -> None:
    found, ann, run = await die(InMemory(), Reader(pages=4, hold_at=2))
    async with found.open({"short": answers}) as runtime:
        ended = await ann.in_runtime(runtime).run(run)
        assert not (await runtime.inspect(scope="ann", run=run)).holds_slot

    assert (ended.state, ended.reason) == ("interrupted", "owner_lost")
    assert "No agent named 'background' is registered" in ended.detail


@pytest.mark.contract("B44", "D13")
async def test_what_it_used_before_is_used() -> None:
    """Two requests before the loss and 62 after it are all that a run has."""
    found, ann, run = await die(InMemory(), Reader(pages=4, hold_at=2))
    async with found.open(agents(Reader(pages=100)), Config()) as runtime:
        ended = await ann.in_runtime(runtime).end_of(run)
    assert (ended.state, ended.reason, ended.requests) == ("partial", "budget", 64)
