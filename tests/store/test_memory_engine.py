"""The memory engine's own: its sorted image, and dying at named points.

The image is compared with a dict under random changes. For the crashes a workload runs
once to list its points, and then once for each, dying there; what the next engine finds
must be what had been acknowledged, and at most the batch in which it died besides.
"""

import contextlib
import itertools
import random
from functools import partial
from math import inf

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.store.engine import OutcomeInDoubt, StoreFull, Txn
from counterpoint.store.memory_engine import CHUNK_KEYS, Crash, Image, MemoryEngine, Point

Writes = dict[bytes, bytes | None]


def changed(image: Image, writes: Writes) -> Image:
    return image.changed(sorted(writes.items()))


def content(image: Image) -> list[tuple[bytes, bytes]]:
    return list(image.scan(b"", b"\xff" * 9))


KEYS = st.integers(0, 40).map(b"%02d".__mod__)
CHANGES = st.lists(st.dictionaries(KEYS, st.one_of(st.none(), st.binary(max_size=1))), max_size=8)


@pytest.mark.slow
@given(CHANGES, KEYS, KEYS)
def test_an_image_reads_as_a_dict_and_older_ones_stay_as_they_were(
    changes: list[Writes], start: bytes, stop: bytes
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterpoint.store.memory_engine.CHUNK_KEYS", 4)
        image, model = Image(), dict[bytes, bytes]()
        history = [(image, dict(model))]
        for writes in changes:
            image = changed(image, writes)
            for key, value in writes.items():
                model.pop(key, None)
                if value is not None:
                    model[key] = value
            history.append((image, dict(model)))
        for old, expected in history:
            assert content(old) == sorted(expected.items())
            part = [(key, expected[key]) for key in sorted(expected) if start <= key < stop]
            assert list(old.scan(start, stop)) == part
            assert list(old.scan(start, stop, reverse=True)) == part[::-1]
            assert all(old.get(key) == expected.get(key) for key in (start, stop))


@pytest.mark.slow
def test_a_change_of_a_large_image_copies_little_of_it() -> None:
    image = changed(Image(), {b"%06d" % number: b"" for number in range(100_000)})
    after = changed(image, {b"050000": b"new", b"0500001": b"one more", b"070000": None})
    shared = {id(keys) for keys, _ in image.chunks} & {id(keys) for keys, _ in after.chunks}
    assert len(image.chunks) - len(shared) <= 2
    assert max(len(keys) for keys, _ in after.chunks) <= CHUNK_KEYS
    assert len(content(after)) == 100_000


class DiesAt:
    """Counts the points that are reached, and dies at one of them."""

    def __init__(self, at: int | None) -> None:
        self.reached: list[Point] = []
        self._at = at

    def __call__(self, point: Point) -> None:
        self.reached.append(point)
        if self._at == len(self.reached):
            raise Crash(point)


def append(txn: Txn, number: int) -> None:
    if number % 5 == 4:
        txn.delete(b"%03d" % (number - 2))
    txn.put(b"%03d" % number, b"")
    txn.put(b"last", b"%03d" % number)


async def workload(faults: DiesAt, acknowledged: list[int]) -> Image:
    """Append numbers one after the other; return what is left if it dies, or in the end."""
    engine = MemoryEngine(faults=faults)
    try:
        for number in range(12):
            await engine.write(partial(append, number=number), deadline=inf)
            acknowledged.append(number)
    except Crash:
        with pytest.raises(Crash):
            await engine.write(lambda txn: None, deadline=inf)
        with pytest.raises(Crash), engine.read():
            pass
    image = engine.crash_image()
    await engine.aclose()
    return image


def expected_after(numbers: list[int]) -> list[tuple[bytes, bytes]]:
    model: dict[bytes, bytes] = {}
    for number in numbers:
        if number % 5 == 4:
            model.pop(b"%03d" % (number - 2), None)
        model |= {b"%03d" % number: b"", b"last": b"%03d" % number}
    return sorted(model.items())


async def test_a_crash_at_any_point_keeps_what_was_acknowledged_and_no_half_batch() -> None:
    probe = DiesAt(None)
    await workload(probe, [])
    points = probe.reached
    assert set(points) == {"batch.begin", "put", "delete", "commit.before", "commit.after"}
    for at, point in enumerate(points, start=1):
        acknowledged: list[int] = []
        image = await workload(DiesAt(at), acknowledged)
        in_doubt = [len(acknowledged)] if point == "commit.after" else []
        assert content(image) == expected_after(acknowledged + in_doubt), point


@pytest.mark.parametrize("seed", range(10), ids="seed-{}".format)
async def test_many_writers_and_lives_lose_nothing(seed: int) -> None:
    rng = random.Random(seed)
    image = Image()
    acknowledged: set[bytes] = set()
    for life in range(5):
        engine = MemoryEngine(image, faults=DiesAt(rng.randrange(1, 60)))
        async with trio.open_nursery() as nursery:
            for writer in range(4):
                nursery.start_soon(write_until_dead, engine, acknowledged, life, writer)
        image = engine.crash_image()
        await engine.aclose()
        found = {key for key, _ in content(image)}
        assert found >= acknowledged


async def write_until_dead(
    engine: MemoryEngine, acknowledged: set[bytes], life: int, writer: int
) -> None:
    def put(txn: Txn, key: bytes) -> None:
        txn.put(key, b"")

    with contextlib.suppress(Crash):
        for number in itertools.count():
            key = b"%d-%d-%03d" % (life, writer, number)
            await engine.write(partial(put, key=key), deadline=inf)
            acknowledged.add(key)


@pytest.mark.parametrize("point", ["commit.before", "commit.after"])
async def test_a_point_can_fail_the_batch_instead_of_the_process(point: Point) -> None:
    failures = [StoreFull("for the test") if point == "commit.before" else OutcomeInDoubt("…")]

    def fails_once(reached: Point) -> None:
        if reached == point and failures:
            raise failures.pop()

    engine = MemoryEngine(faults=fails_once)
    with pytest.raises(StoreFull if point == "commit.before" else OutcomeInDoubt):
        await engine.write(lambda txn: txn.put(b"k", b""), deadline=inf)
    with engine.read() as txn:
        assert (txn.get(b"k") is not None) == (point == "commit.after")
    await engine.write(lambda txn: txn.put(b"l", b""), deadline=inf)
    await engine.aclose()
