"""Many processes, each with many tasks, submit the same ids at once; and some of them die.

Whoever comes first, each id is one message and one run, and everybody who submitted it has
the same receipt. A process that is killed says nothing more; what it had been told before
stands, and what it was about to submit is submitted again by the next one.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio

from .conftest import Race
from .stage import HostProcess, contents, host, new_store

pytestmark = pytest.mark.slow


def receipts_by_id(receipts: Iterable[dict[str, Any]]) -> dict[str, set[bytes]]:
    found: defaultdict[str, set[bytes]] = defaultdict(set)
    for receipt in receipts:
        found[receipt["client_id"]].add(msgspec.json.encode(receipt))
    return found


async def check(folder: Path, race: Race, receipts: list[dict[str, Any]]) -> None:
    by_id = receipts_by_id(receipts)
    assert sorted(by_id) == race.ids
    differing = {client_id: len(found) for client_id, found in by_id.items() if len(found) > 1}
    assert differing == {}, "an id with two receipts"
    runs = {msgspec.json.decode(receipt)["run"] for [receipt] in by_id.values()}
    assert len(runs) == len(race.ids)
    found = await contents(folder)
    assert (found.messages, found.runs, found.live) == (len(race.ids), len(race.ids), 0)
    assert found.breaches == []


@asynccontextmanager
async def hosts(folder: Path, count: int) -> AsyncGenerator[list[HostProcess]]:
    async with AsyncExitStack() as stack:
        found: dict[int, HostProcess] = {}

        async def start(number: int, *, task_status: trio.TaskStatus[None]) -> None:
            async with host(folder) as process:
                found[number] = process
                task_status.started()
                await trio.sleep_forever()

        nursery = await stack.enter_async_context(trio.open_nursery())
        async with trio.open_nursery() as starting:
            for number in range(count):
                starting.start_soon(nursery.start, start, number)
        yield list(found.values())
        nursery.cancel_scope.cancel()


@pytest.mark.contract("C6", "A16", "E2", "E9", "E12", "P16", "P17")
async def test_the_same_ids_from_many_processes_are_one_message_and_one_run_each(
    folder: Path, race: Race
) -> None:
    conversation = await new_store(folder)
    receipts: list[dict[str, Any]] = []
    async with hosts(folder, race.processes) as processes:
        tags = [
            await process.told(
                do="race", conversation=conversation, ids=race.ids, tasks=race.tasks, seed=number
            )
            for number, process in enumerate(processes)
        ]
        for process, tag in zip(processes, tags, strict=True):
            receipts += await process.done(tag)
        for process in processes:
            await process.leave()
    assert len(receipts) == race.processes * race.tasks * len(race.ids)
    await check(folder, race, receipts)


KILLS = 3


@pytest.mark.contract("C6", "C32", "E1", "E2", "E5", "E6", "E10", "A19", "P2")
async def test_processes_killed_in_the_middle_and_started_again_give_the_same_result(
    folder: Path, race: Race, fault_seed: int
) -> None:
    conversation = await new_store(folder)
    receipts: list[dict[str, Any]] = []

    async def racer(number: int) -> None:
        """Race to the end; be killed and started again before, as the seed has it."""
        rng = Random(f"{fault_seed} {number}")
        most = race.tasks * len(race.ids)
        ends = [rng.randrange(1, most) for _ in range(rng.randrange(KILLS))]
        for end in [*ends, None]:
            async with host(folder) as process:
                tag = await process.told(
                    do="race",
                    conversation=conversation,
                    ids=race.ids,
                    tasks=race.tasks,
                    seed=rng.randrange(1 << 30),
                )
                if end is None:
                    receipts.extend(await process.done(tag))
                    await process.leave()
                else:
                    await process.has_said(end)
                    await process.kill()
                    receipts.extend(item for item in process.answers(tag) if item != "done")

    async with trio.open_nursery() as nursery:
        for number in range(race.processes):
            nursery.start_soon(racer, number)
    await check(folder, race, receipts)
