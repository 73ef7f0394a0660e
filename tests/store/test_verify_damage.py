"""Whatever is done to a store, verifying it ends, and says what is wrong.

Method: damage without knowing what it means: every record in turn removed, made unreadable
or put under another's key; then, by seed, bits flipped in keys and values and records
swapped, doubled, cut and thrown away, many at once. Nothing may raise, and what can be
seen must be named.
"""

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf
from pathlib import Path

import pytest

from counterpoint.store import keys, runs
from counterpoint.store.engine import StoreFailed, Txn
from counterpoint.store.ids import ID_LENGTH, RunId
from counterpoint.store.limits import Limits
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.memory_engine import MemoryEngine
from counterpoint.store.records import Message, Owner, Run, RunState, encode
from counterpoint.store.verify import FAMILIES, Breach, verify

from .busy import LIMITS, Busy, Copy, busy_world
from .test_workload import Life

UNREADABLE = b"\xc1"  # the one byte that never begins a value


@pytest.fixture(scope="module")
def busy() -> Busy:
    return busy_world()


def found_in(copy: Copy, limits: Limits | None = LIMITS) -> list[Breach]:
    """Verify to the end; every breach has a row, and one line to be printed."""
    found = list(verify(copy, limits))
    for breach in found:
        assert breach.row[:1] in "BCDE"
        assert str(breach).isprintable()
    return found


def names(found: list[Breach], key: bytes) -> bool:
    return any(key in breach.keys for breach in found)


def is_input(key: bytes) -> bool:
    return key[:1] == b"r" and key[ID_LENGTH : ID_LENGTH + 1] == b"i"


def may_go(copy: Copy, key: bytes) -> bool:
    """Whether nothing else says that this record must be there: it may rightly be gone."""
    if key[:1] != keys.OWNERS:
        return is_input(key)
    live = {copy.record(Run, keys.run(run)).owner for run in runs.all_live(copy)}
    return key.decode() not in live


# One record at a time.


@pytest.mark.slow
@pytest.mark.contract("C49")
def test_no_record_can_be_missing_unseen(busy: Busy) -> None:
    for key in busy.world.base.values:
        copy = Copy(busy)
        copy.remove(key)
        assert bool(found_in(copy)) is not may_go(Copy(busy), key), key


@pytest.mark.slow
@pytest.mark.contract("C49")
def test_a_record_that_is_not_readable_is_named_where_it_stands(busy: Busy) -> None:
    for key in busy.world.base.values:
        copy = Copy(busy)
        copy.values[key] = UNREADABLE
        assert names(found_in(copy), key), key


@pytest.mark.slow
@pytest.mark.contract("C49")
def test_a_record_under_the_key_of_another_is_named(busy: Busy) -> None:
    by_family = dict[bytes, list[bytes]]()
    for key in busy.world.base.values:
        part = key[ID_LENGTH : ID_LENGTH + 1] if key[:1] == b"r" else b""
        by_family.setdefault(key[:1] + part, []).append(key)
    for family in by_family.values():
        for key, other in pairwise(family):
            copy = Copy(busy)
            if copy.values[key] != copy.values[other]:  # entries of an index have no value
                copy.values[key] = copy.values[other]
                assert names(found_in(copy), key), (key, other)


@pytest.mark.contract("C49")
@pytest.mark.parametrize(
    "key",
    [
        b"\x01",
        b"!other",
        b"a",
        b"c",
        b"call-it-what-you-like",
        b"e\x00",
        b"e" + bytes(9),
        b"e\xff\xff\xff\xff\xff\xff\xff\xff",
        b"i",
        b"i\xff\0ann",
        b"l\0",
        b"l\0\0\0",
        b"m\xff",
        b"n",
        b"nann\0c1",
        b"p",
        b"r",
        b"r\xff" + bytes(40),
        b"r" + b"0" * 24,
        b"r" + b"0" * 24 + b"k",
        b"r" + b"0" * 24 + b"q\0\0\0\1",
        b"r" + b"0" * 24 + b"z\0\0\0\1",
        b"s",
        b"s\0\0\0",
        b"sann\0short\0",
        b"w",
        b"z",
        b"\xff",
        b"\xff" * 511,
    ],
)
def test_a_key_that_is_none_is_named(busy: Busy, key: bytes) -> None:
    copy = Copy(busy)
    copy.values[key] = UNREADABLE
    assert names(found_in(copy), key)


@pytest.mark.slow
@pytest.mark.contract("C49")
def test_a_bit_that_flips_in_words_that_were_hashed_is_named(busy: Busy) -> None:
    message = keys.message(Copy(busy).record(Run, keys.run(busy.done)).message)
    for key in (message, keys.request_input(busy.done, 1)):
        words = busy.world.base.values[key]
        start = 0 if is_input(key) else words.index(Copy(busy).record(Message, key).text.encode())
        for bit in range(start * 8, start * 8 + 8 * len("What")):
            copy = Copy(busy)
            copy.values[key] = flipped(words, bit)
            assert names(found_in(copy), key), bit


# What is no damage.


def with_an_idle_owner(copy: Copy) -> None:
    owner = Owner(owner=copy.busy.world.ids.owner(), pid=1, host="", started_at_ms=1)
    copy.values[keys.owner(owner.owner)] = encode(owner)


def without_an_input(copy: Copy) -> None:
    copy.remove(keys.request_input(copy.busy.done, 1))


def with_a_run_that_waits(copy: Copy) -> None:
    run = copy.record(Run, keys.run(copy.busy.resumed))
    copy.remove(keys.slot(run.scope, run.run_class, run.run))
    copy.edit(Run, keys.run(run.run), state=RunState.WAITING)


@pytest.mark.contract("C49")
@pytest.mark.parametrize("change", [with_an_idle_owner, without_an_input, with_a_run_that_waits])
def test_what_the_rules_allow_is_no_breach(busy: Busy, change: Callable[[Copy], None]) -> None:
    copy = Copy(busy)
    change(copy)
    assert found_in(copy) == []


@pytest.mark.contract("C49")
def test_a_limit_that_was_lowered_is_a_breach_only_if_limits_are_given(busy: Busy) -> None:
    lowered = Limits(capacity={})
    assert {breach.row for breach in found_in(Copy(busy), lowered)} == {"E6"}
    assert found_in(Copy(busy), None) == []


def test_an_empty_store_has_no_breach(busy: Busy) -> None:
    copy = Copy(busy)
    copy.values.clear()
    assert found_in(copy) == []


# By seed.


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


class Vandal:
    """Damages a store at random, in a way that its seed repeats."""

    def __init__(self, copy: Copy, rng: random.Random) -> None:
        self.values = copy.values
        self.rng = rng
        self.acts = (self.flip, self.flip_key, self.swap, self.double, self.cut, self.drop)

    def some_key(self) -> bytes:
        return self.rng.choice(sorted(self.values))

    def flip(self) -> None:
        key = self.some_key()
        if self.values[key]:
            self.values[key] = flipped(
                self.values[key], self.rng.randrange(8 * len(self.values[key]))
            )

    def flip_key(self) -> None:
        key = self.some_key()
        changed = flipped(key, self.rng.randrange(8 * len(key)))
        if changed[0]:
            self.values[changed] = self.values.pop(key)

    def swap(self) -> None:
        one, other = self.some_key(), self.some_key()
        self.values[one], self.values[other] = self.values[other], self.values[one]

    def double(self) -> None:
        self.values[self.some_key()] = self.values[self.some_key()]

    def cut(self) -> None:
        key = self.some_key()
        self.values[key] = self.values[key][: self.rng.randint(0, len(self.values[key]))]

    def drop(self) -> None:
        del self.values[self.some_key()]


@pytest.mark.slow
@pytest.mark.contract("C49")
def test_random_damage_never_stops_it(busy: Busy, fault_seed: int) -> None:
    rng = random.Random(fault_seed)
    for _ in range(20):
        copy = Copy(busy)
        vandal = Vandal(copy, rng)
        for _ in range(rng.choice([1, 1, 3, 10, 60])):
            rng.choice(vandal.acts)()
        found_in(copy)


@pytest.mark.slow
@pytest.mark.contract("C49")
def test_records_that_changed_places_are_found(busy: Busy, fault_seed: int) -> None:
    rng = random.Random(fault_seed)
    for _ in range(20):
        copy = Copy(busy)
        Vandal(copy, rng).swap()
        if copy.values != busy.world.base.values:
            assert found_in(copy)


@pytest.mark.slow
@pytest.mark.contract("E1", "E2", "E3", "E4", "E5", "E6", "E7", "E9", "E11", "E12", "C49")
def test_a_random_life_leaves_no_breach(fault_seed: int) -> None:
    life = Life(fault_seed)
    for step in range(200):
        life.step()
        if step % 20 == 19:
            base, limits = life.world.base, life.world.limits
            assert [str(breach) for breach in verify(base, limits)] == []


# The engines.


class Torn(Copy):
    """A file of which one family can't be read."""

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        if start[:1] == b"r":
            raise StoreFailed("the store could not be read: MDB_CORRUPTED")
        return super().scan(start, stop, reverse=reverse)


@pytest.mark.contract("C49")
def test_a_part_of_the_file_that_can_not_be_read_is_named_and_the_rest_verified(
    busy: Busy,
) -> None:
    copy = Torn(busy)
    copy.remove(keys.slot(busy.world.record(busy.live).scope, "background", busy.live))
    copy.values[b"z"] = b""
    found = [str(breach) for breach in found_in(copy)]
    assert len(found) == 2
    assert "MDB_CORRUPTED" in found[0]
    assert "z belongs to no family" in found[1]


@pytest.mark.contract("C49")
async def test_both_engines_are_verified_while_they_are_open(busy: Busy, tmp_path: Path) -> None:
    def fill(txn: Txn) -> None:
        for key, value in busy.world.base.values.items():
            txn.put(key, value)

    def damage(txn: Txn) -> None:
        txn.delete(keys.SEQUENCE)

    async with open_lmdb_engine(tmp_path / "store", format_version=1) as lmdb_engine:
        for engine in (lmdb_engine, MemoryEngine()):
            await engine.write(fill, deadline=inf)
            with engine.read() as txn:
                breaches = verify(txn, LIMITS)
                await engine.write(damage, deadline=inf)
                assert list(breaches) == [], "it sees the store as it was"
            with engine.read() as txn:
                assert [breach.row for breach in verify(txn, LIMITS)] == ["E9"]


def test_a_breach_reads_as_one_line() -> None:
    request = keys.request(RunId("r" + "0" * 24), 3)
    breach = Breach("E9", "One\nis gone.", (request, keys.event(7), b"sann\0short\0", b"\xff", "x"))
    assert str(breach) == (
        r"E9: One\nis gone. [r000000000000000000000000 request 3, event 7 of the store, "
        r"sann short , \xff, x]"
    )
    assert len(str(Breach("E9", "x" * 10_000, ()))) < 1_100


def test_every_family_is_verified() -> None:
    assert sorted(FAMILIES) == [bytes((letter,)) for letter in b"!ceilmnprsw"]
