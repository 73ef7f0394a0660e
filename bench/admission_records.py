"""What admissions write, recorded from real ones, and raw LMDB writing the same.

The records come from one run through the public API, on an engine that notes what each
transaction put. Raw LMDB then puts the same keys and values, so many admissions a
transaction, durably: sorted, each key once a batch, in one call, with all of that prepared
before the clock runs and with none of the reads that admissions make. That is the least
that LMDB can be asked to do for them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import lmdb

from counterpoint.store import admission
from counterpoint.store.engine import Engine, Overlay, Transaction, Txn

from .noting import NotingEngine

T = TypeVar("T")

Puts = list[tuple[bytes, bytes]]
MAP_BYTES = 1 << 30


class Recorded(NamedTuple):
    """What one run wrote, in the order in which it was committed."""

    before: Puts
    """Everything but admissions: what they found in the store."""
    admissions: list[Puts]

    def families(self) -> dict[str, dict[str, float]]:
        """Return puts and bytes an admission by the first letter of their key."""
        puts: dict[str, int] = defaultdict(int)
        sizes: dict[str, int] = defaultdict(int)
        for writes in self.admissions:
            for key, value in writes:
                puts[chr(key[0])] += 1
                sizes[chr(key[0])] += len(key) + len(value)
        count = len(self.admissions)
        return {
            family: {"puts": puts[family] / count, "bytes": sizes[family] / count}
            for family in sorted(puts)
        }


class RecordingEngine(NotingEngine):
    """An `Engine` that passes everything on and notes what was put."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.recorded = Recorded([], [])

    def noting(self, transaction: Transaction[T]) -> Transaction[T]:
        """See `NotingEngine.noting`."""
        admits = getattr(transaction, "func", None) is admission.admit

        def noted(txn: Txn) -> T:
            result = transaction(txn)
            assert isinstance(txn, Overlay)
            puts = [(key, value) for key, value in txn.writes() if value is not None]
            if admits:
                self.recorded.admissions.append(puts)
            elif not self.recorded.admissions:
                self.recorded.before.extend(puts)
            return result

        return noted


def written_bytes() -> int:
    """Return what this process has handed to the kernel to be written.

    Not `write_bytes`, which counts whole folios as soon as a page of them is dirty: on
    recent kernels several times of what is written.
    """
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "wchar":
            return int(value)
    raise RuntimeError("this system does not count written bytes")


class Raw(NamedTuple):
    """How raw LMDB did."""

    rate: float
    """Admissions a second."""
    commit_s: list[float]
    written: float
    """Bytes an admission."""


def _batches(admissions: Sequence[Puts], batch: int) -> list[Puts]:
    merged: list[Puts] = []
    for first in range(0, len(admissions), batch):
        last_of_each: dict[bytes, bytes] = {}
        for puts in admissions[first : first + batch]:
            last_of_each.update(puts)
        merged.append(sorted(last_of_each.items()))
    return merged


def write_raw(folder: Path, recorded: Recorded, count: int, batch: int) -> Raw:
    """Write `count` recorded admissions, `batch` a transaction, into a new LMDB store."""
    folder.mkdir()
    env = lmdb.Environment(str(folder), map_size=MAP_BYTES, meminit=False)
    txn = env.begin(write=True)
    for key, value in recorded.before:
        txn.put(key, value)
    txn.commit()
    assert count <= len(recorded.admissions)
    batches = _batches(recorded.admissions[:count], batch)
    commit_s: list[float] = []
    written_before = written_bytes()
    began = time.perf_counter()
    for puts in batches:
        batch_began = time.perf_counter()
        txn = env.begin(write=True)
        txn.cursor().putmulti(puts)
        txn.commit()
        commit_s.append(time.perf_counter() - batch_began)
    took = time.perf_counter() - began
    written = (written_bytes() - written_before) / count
    env.close()
    return Raw(rate=count / took, commit_s=commit_s, written=written)
