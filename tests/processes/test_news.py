"""What one process commits, another shows at once: by its bell, or without one by its poll.

Method: where a bell is to do it, nobody polls for an hour, so that a test which ends has
heard a bell. Nothing here waits for time to pass.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from .host import Options
from .stage import HostProcess, contents, host, new_store

pytestmark = pytest.mark.slow

BY_BELL = Options(bells=True, poll_s=3_600)
BY_POLL = Options(bells=False, poll_s=0.02)

either_way = pytest.mark.parametrize("options", [BY_BELL, BY_POLL], ids=["bell", "poll"])


@asynccontextmanager
async def two(
    folder: Path, options: Options
) -> AsyncGenerator[tuple[HostProcess, HostProcess, str]]:
    """Two processes that have heard of each other, and Ann's conversation."""
    conversation = await new_store(folder)
    async with host(folder, options) as here, host(folder, options) as there:
        first = await there.does(do="say", conversation=conversation, text="Hello")
        ended = await here.answer(await here.told(do="wait", run=first["run"]), 2)
        assert ended["state"] == "completed"
        yield here, there, conversation
        await here.leave()
        await there.leave()
    assert (await contents(folder)).breaches == []


@pytest.mark.contract("C42", "B11", "B6")
@either_way
async def test_waiting_for_a_run_of_another_process_ends_with_it(
    folder: Path, options: Options
) -> None:
    async with two(folder, options) as (here, there, conversation):
        run = (await here.does(do="say", conversation=conversation, text="Wait"))["run"]
        waits = await there.told(do="wait", run=run)
        assert await there.answer(waits) == "waits"
        await here.told(do="release")
        ended = await there.answer(waits, 2)
    assert (ended["run"], ended["state"]) == (run, "completed")
    assert ended["answer"] == "You said: Wait"


@pytest.mark.contract("C41", "C42", "C43", "E9")
@either_way
async def test_events_of_another_process_come_in_order_and_each_once(
    folder: Path, options: Options
) -> None:
    async with two(folder, options) as (here, there, conversation):
        listens = await there.told(do="listen", conversation=conversation)
        for number in range(5):
            said = await here.does(do="say", conversation=conversation, text=f"{number}")
            heard = await there.answer(listens, said["version"])
            assert (heard["kind"], heard["run"]) == ("message_admitted", said["run"])
            await here.answer(await here.told(do="wait", run=said["run"]), 2)
        version = (await here.does(do="view", conversation=conversation))["version"]
        await there.answer(listens, version)
        numbers = [event["number"] for event in there.answers(listens)]
        view = await there.does(do="view", conversation=conversation)
    assert numbers == list(range(1, version + 1))
    assert view["version"] == version


@pytest.mark.contract("C19", "B8", "E4")
@either_way
async def test_a_stop_in_one_process_ends_the_run_of_another(
    folder: Path, options: Options
) -> None:
    async with two(folder, options) as (here, there, conversation):
        run = (await here.does(do="say", conversation=conversation, text="Wait"))["run"]
        waits = await here.told(do="wait", run=run)
        assert await here.answer(waits) == "waits"
        stopped = await there.does(do="stop", run=run)
        ended = await here.answer(waits, 2)
        there_too = await there.answer(await there.told(do="wait", run=run), 2)
    assert stopped["run"] == run
    assert (ended["state"], ended["reason"]) == ("stopped", "user_stop")
    assert there_too == ended


@pytest.mark.contract("B26", "C15", "B33")
@either_way
async def test_steerings_through_two_processes_stand_in_the_order_of_their_receipts(
    folder: Path, options: Options
) -> None:
    async with two(folder, options) as (here, there, conversation):
        run = (await here.does(do="say", conversation=conversation, text="Wait"))["run"]
        numbers = [
            (await process.does(do="steer", run=run, text=f"{number}"))["revision"]
            for number, process in enumerate((here, there, there, here))
        ]
        view = await there.does(do="view", conversation=conversation)
        await here.does(do="stop", run=run)
        await there.answer(await there.told(do="wait", run=run), 2)
    assert numbers == [1, 2, 3, 4]
    assert [item["text"] for item in view["runs"][run]["revisions"]] == ["0", "1", "2", "3"]


@pytest.mark.contract("C23", "C30", "C32")
@either_way
async def test_the_run_of_a_process_that_was_killed_is_taken_over_by_the_other(
    folder: Path, options: Options
) -> None:
    """It had sent nothing, so it is started again (D13); its client waits in the other one."""
    conversation = await new_store(folder)
    async with host(folder, options) as here:
        async with host(folder, options) as doomed:
            run = (await doomed.does(do="say", conversation=conversation, text="Wait"))["run"]
            waits = await here.told(do="wait", run=run)
            assert await here.answer(waits) == "waits"
            await doomed.kill()
        await here.told(do="release")
        ended = await here.answer(waits, 2)
        await here.leave()
    assert (ended["run"], ended["answer"]) == (run, "You said: Wait")
    assert (await contents(folder)).breaches == []
