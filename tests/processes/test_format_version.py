"""A store says which format it has; a runtime opens its own, brings older ones up, and refuses
newer ones with a sentence that says what to do. Nothing that is refused is touched.

Method: the format record of a real store is set by hand, as another version would have.
"""

from pathlib import Path

import lmdb
import pytest

from counterpoint.runtime import StoreUnusable, open_runtime, opening
from counterpoint.store.engine import Txn
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.store_format import FORMAT_KEY, MAGIC, Migration, encode_format

from ..runtime.stage import answers, person, run_of
from .stage import contents

AGENTS = {"short": answers}


async def talked(folder: Path) -> None:
    async with open_runtime(folder, agents=AGENTS) as runtime:
        ann = await person(runtime)
        await ann.end_of(run_of(await ann.says("Hello", client_id="m-1")))


def record(folder: Path, record: bytes | None = None) -> bytes | None:
    """Return the format record, and replace it if another one is given."""
    env = lmdb.Environment(str(folder))
    with env.begin(write=record is not None) as txn:
        found = txn.get(FORMAT_KEY)
        if record is not None:
            txn.put(FORMAT_KEY, record)
    env.close()
    return found


async def test_a_new_store_says_its_format(folder: Path) -> None:
    await talked(folder)
    assert record(folder) == MAGIC + opening.FORMAT_VERSION.to_bytes(4)


async def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(folder: Path) -> None:
    await talked(folder)
    newer = opening.FORMAT_VERSION + 1
    record(folder, encode_format(newer))
    before = (folder / "data.mdb").read_bytes()
    with pytest.raises(StoreUnusable) as caught:
        await open_runtime(folder, agents=AGENTS).__aenter__()
    sentence = str(caught.value)
    assert str(folder) in sentence
    assert f"has format {newer}" in sentence
    assert "Open it with the newer version" in sentence
    assert (folder / "data.mdb").read_bytes() == before

    record(folder, encode_format(opening.FORMAT_VERSION))
    async with open_runtime(folder, agents=AGENTS) as runtime:
        assert await runtime.lookup(scope="ann", client_id="m-1") is not None


async def test_an_older_store_that_nothing_brings_further_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talked(folder)
    monkeypatch.setattr(opening, "FORMAT_VERSION", opening.FORMAT_VERSION + 1)
    with pytest.raises(StoreUnusable, match="Open it once with a version that can bring format"):
        await open_runtime(folder, agents=AGENTS).__aenter__()


async def test_an_older_store_is_brought_up_step_by_step_and_keeps_what_it_had(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of migrations is the engine's, and empty by now: this gives it two steps."""
    await talked(folder)
    steps: list[int] = []

    def step(number: int) -> Migration:
        def migrate(txn: Txn) -> None:
            steps.append(number)
            assert txn.get(b"!sequence") is not None

        return migrate

    first = opening.FORMAT_VERSION
    table = {first: step(first), first + 1: step(first + 1)}
    async with open_lmdb_engine(folder, format_version=first + 2, migrations=table):
        pass
    assert steps == [first, first + 1]
    assert record(folder) == encode_format(first + 2)

    monkeypatch.setattr(opening, "FORMAT_VERSION", first + 2)
    async with open_runtime(folder, agents=AGENTS) as runtime:
        assert await runtime.lookup(scope="ann", client_id="m-1") is not None
    monkeypatch.undo()
    record(folder, encode_format(first))
    assert (await contents(folder)).breaches == []


async def test_one_path_is_opened_once_in_a_process_whatever_it_is_called(folder: Path) -> None:
    async with open_runtime(folder, agents=AGENTS) as runtime:
        other_name = folder.parent / "other"
        other_name.symlink_to(folder)
        for path in (folder, other_name, folder / ".." / folder.name):
            with pytest.raises(StoreUnusable, match="is open in this process already"):
                await open_runtime(path, agents=AGENTS).__aenter__()
        ann = await person(runtime)
        await ann.end_of(run_of(await ann.says("Still here")))
    await talked(folder)


async def test_a_runtime_without_an_agent_for_plain_messages_is_refused_at_once(
    folder: Path,
) -> None:
    with pytest.raises(ValueError, match="short"):
        await open_runtime(folder, agents={"background": answers}).__aenter__()
    await talked(folder)
