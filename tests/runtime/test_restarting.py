"""What was acknowledged is there after a restart, and means the same."""

import pytest
import trio

from counterpoint.runtime import Code, Receipt, Refused
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

from .stage import OnDisk, Person, Place, answers, person, plays, run_of

ANSWERS = {"short": answers, "background": answers}


@pytest.mark.contract("A16", "A56", "C1", "C6", "E2", "E10", "P1")
async def test_the_same_submissions_after_a_restart_read_the_same_receipts(place: Place) -> None:
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Dug."), say("Dug deeper."))  # cut, if it is steered
    agents = {"short": answers, "background": plays(gateway)}
    async with place.open(agents) as runtime:
        ann = await person(runtime)
        before = await _everything(ann)
        gate.release()
        await ann.end_of(run_of(before[1]))

    async with place.open(agents) as runtime:
        again = Person(runtime, "ann", ann.conversation)
        view = await again.view()
        assert await _everything(again) == before
        assert await again.view() == view
        found = [await runtime.lookup(scope="ann", client_id=item.client_id) for item in before]
        assert found == before
    assert len(view.runs) == 2


async def _everything(ann: Person) -> list[Receipt]:
    """Say, start, steer and stop something, always under the same ids."""
    said = await ann.says("Hello", client_id="m-1")
    started = await ann.says("Dig", client_id="m-2", entry="background")
    steered = await ann.steers(run_of(started), "Deeper", client_id="m-3", expected=0)
    opened = await ann.runtime.open_conversation(scope="ann", client_id="c-2", title="More")
    return [said, started, steered, opened]


@pytest.mark.contract("A17", "D7", "E2")
async def test_a_conflict_is_one_after_a_restart_too(place: Place) -> None:
    async with place.open(ANSWERS) as runtime:
        ann = await person(runtime)
        first = await ann.says("Hello", client_id="m-1")
        await ann.end_of(run_of(first))

    async with place.open(ANSWERS) as runtime:
        with pytest.raises(Refused) as caught:
            await ann.in_runtime(runtime).says("Hullo", client_id="m-1")
        assert caught.value.code is Code.CONFLICT
        assert await runtime.lookup(scope="ann", client_id="m-1") == first


@pytest.mark.contract("C6", "P16")
async def test_a_hundred_at_once_are_one_on_either_store(place: Place) -> None:
    receipts: list[Receipt] = []
    async with place.open(ANSWERS) as runtime:
        ann = await person(runtime)

        async def submit() -> None:
            receipts.append(await ann.says("Hello", client_id="m-1"))

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(submit)
        await ann.end_of(run_of(receipts[0]))
        assert len(await ann.events("message_admitted", "run_ended")) == 2

    assert receipts == receipts[:1] * 100


@pytest.mark.contract("C42", "C43", "E5", "E9")
async def test_events_are_numbered_without_a_gap_across_a_restart(place: Place) -> None:
    async with place.open(ANSWERS) as runtime:
        ann = await person(runtime)
        await ann.end_of(await ann.starts("One"))
        before = await ann.events()

    async with place.open(ANSWERS) as runtime:
        ann = ann.in_runtime(runtime)
        await ann.end_of(await ann.starts("Two"))
        after = await ann.events()

    assert after[: len(before)] == before
    assert [event.number for event in after] == list(range(1, len(after) + 1))
    assert [event.kind for event in after].count("run_ended") == 2


async def test_a_store_on_disk_is_found_where_it_was_put(tmp_path: object) -> None:
    place = OnDisk(tmp_path / "deep" / "store")  # type: ignore[operator]
    async with place.open(ANSWERS) as runtime:
        assert await runtime.conversations(scope="ann") == []
    assert place.path.is_dir()
