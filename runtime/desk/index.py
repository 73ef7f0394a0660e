"""A full-text index of a folder, kept in one SQLite file and brought up to date before use.

The trigram tokenizer finds any run of three characters, so Chinese needs no dictionary; a
term of one or two characters, which trigrams cannot see, is found by a scan of the rows.
Where SQLite was built without the trigram tokenizer (before 3.34), everything is found by
that scan: slower, with the same results.

The file is a cache: it can be deleted at any time, and a damaged one is built anew. Several
processes may use it at once; updates are short transactions, each file's in one.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from .folder import FileRefused, FileState, Folder, Scan, Skipped
from .passages import cut
from .ranking import Found, rank

SCHEMA_VERSION = 1  # a file of any other version is built anew
BUSY_WAIT_SECONDS = 10.0
_BATCH_FILES = 20
_BATCH_BYTES = 1 << 20

# What a damaged or half-made file is answered with; a full disk is not mended by a new file.
_REBUILT = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")

_TABLES = (
    "CREATE TABLE files (path TEXT PRIMARY KEY, bytes_len INT, modified_ns INT, changed_ns INT,"
    " why TEXT)",  # why it could not be read, or an empty string
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, path TEXT, first_line INT, last_line INT,"
    " heading TEXT, text TEXT)",
    "CREATE INDEX passages_by_path ON passages (path)",
)
_FULL_TEXT = (
    "CREATE VIRTUAL TABLE words USING fts5 (heading, text, content='passages',"
    " content_rowid='id', tokenize='trigram')",
    "CREATE TRIGGER passages_in AFTER INSERT ON passages BEGIN INSERT INTO"
    " words (rowid, heading, text) VALUES (new.id, new.heading, new.text); END",
    "CREATE TRIGGER passages_out AFTER DELETE ON passages BEGIN INSERT INTO"
    " words (words, rowid, heading, text) VALUES ('delete', old.id, old.heading, old.text); END",
)


class IndexUnavailable(Exception):
    """The index cannot be used now: held by another process, read-only, or its disk is full.

    The person's files are untouched. The sentence says which; once that is mended, or the
    other process is done, the same call works.
    """


class _Outdated(Exception):
    """The file is of another version of this code."""


class Findings(msgspec.Struct, frozen=True):
    """What a search found, and what it could not have found."""

    passages: tuple[Found, ...]
    missing: tuple[str, ...]
    """Terms that stand nowhere in the files that were read."""
    files: int
    """How many files are in the index."""
    waiting: int
    """How many more are not yet: their words were not found by this search."""
    skipped: tuple[Skipped, ...]
    complete: bool
    """False if the folder holds more files than are read."""


class FolderIndex:
    """The index of one folder. Every method blocks, and may be called from any thread."""

    def __init__(
        self, folder: Folder, index_folder: Path, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._now = now
        name = hashlib.sha256(str(folder.root).encode(errors="surrogateescape")).hexdigest()[:16]
        index_folder.mkdir(parents=True, exist_ok=True)
        self.path = index_folder / f"desk-{name}.sqlite3"

    def update(self, seconds_max: float) -> Findings:
        """Bring the index up to date, as far as the time goes, and search for nothing.

        At least one batch of files is taken in, so repeated calls come to an end.

        Raises:
          IndexUnavailable: as `search`.
        """
        return self.search((), 0, seconds_max)

    def search(self, terms: Sequence[str], limit: int, seconds_max: float = math.inf) -> Findings:
        """Bring the index up to date, as far as the time goes, and return the best passages.

        What has changed since it was indexed is never shown in its old words.

        Raises:
          IndexUnavailable: if another process held the index longer than
            `BUSY_WAIT_SECONDS`, or its file cannot be written.
        """
        clean = (
            term.encode(errors="replace").decode().replace("\0", " ").strip() for term in terms
        )
        terms = tuple(dict.fromkeys(filter(None, clean)))
        inode = self._inode()
        try:
            return self._search(terms, limit, seconds_max)
        except _Outdated:
            self._remove(inode)
        except sqlite3.DatabaseError as error:
            if not error.sqlite_errorname.startswith(_REBUILT):
                raise self._unavailable(error) from error
            self._remove(inode)
        except OSError as error:
            raise self._unavailable(error) from error
        try:
            return self._search(terms, limit, seconds_max)
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._unavailable(error) from error

    def _search(self, terms: tuple[str, ...], limit: int, seconds_max: float) -> Findings:
        with self._open() as base:
            scan = self._folder.scan()
            waiting = self._update(base, scan, seconds_max)
            (files,) = base.execute("SELECT count(*) FROM files WHERE why = ''").fetchone()
            refused = base.execute("SELECT path, why FROM files WHERE why <> '' ORDER BY path")
            skipped = (*scan.skipped, *(Skipped(*row) for row in refused))
            passages, missing = rank(base, terms)
        return Findings(
            passages=tuple(passages[:limit]),
            missing=missing,
            files=files,
            waiting=waiting,
            skipped=skipped,
            complete=scan.complete,
        )

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection, None, None]:
        connection = sqlite3.connect(self.path, timeout=BUSY_WAIT_SECONDS, isolation_level=None)
        with closing(connection) as base:
            base.execute("PRAGMA synchronous = NORMAL")  # a cache: lost commits are found again
            if _version(base) == 0:
                # SQLite does not wait for its own locks while it turns a new file to WAL.
                with self._locked():
                    base.execute("PRAGMA journal_mode = WAL")
                    _create_tables(base)
            if _version(base) != SCHEMA_VERSION:
                raise _Outdated
            yield base

    def _update(self, base: sqlite3.Connection, scan: Scan, seconds_max: float) -> int:
        """Take in what has changed and return how many files are left for another call."""
        until = self._now() + seconds_max
        known = {
            row[0]: FileState(*row)
            for row in base.execute("SELECT path, bytes_len, modified_ns, changed_ns FROM files")
        }
        present = {state.path: state for state in scan.files}
        outdated = [path for path, state in known.items() if present.get(path) != state]
        if outdated:
            with _transaction(base):
                for path in outdated:
                    _forget(base, path)
        waiting = [state for state in scan.files if known.get(state.path) != state]
        while waiting:
            batch = _first_batch(waiting)
            waiting = waiting[len(batch) :]
            # Read before the transaction opens: others wait for the writing only.
            read = [(state, *self._passages(state)) for state in batch]
            with _transaction(base):
                for state, why, rows in read:
                    _insert(base, state, why, rows)
            if self._now() >= until:
                break
        return len(waiting)

    def _passages(self, state: FileState) -> tuple[str, list[tuple[Any, ...]]]:
        try:
            lines = self._folder.read(state.path)
        except FileRefused as refusal:
            return str(refusal), []
        return "", [
            (state.path, p.first_line, p.last_line, p.heading, p.text)
            for p in cut(state.path, lines)
        ]

    def _remove(self, inode: int) -> None:
        """Remove a file that cannot be used, unless another process has replaced it by now."""
        with self._locked():
            if self._inode() == inode:
                for suffix in ("-wal", "-shm", ""):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Generator[None, None, None]:
        with open(f"{self.path}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for milliseconds; the kernel frees it
            yield

    def _inode(self) -> int:
        return self.path.stat().st_ino if self.path.exists() else 0

    def _unavailable(self, error: Exception) -> IndexUnavailable:
        return IndexUnavailable(f"The index {self.path.name} cannot be used now: {error}.")


def has_trigram() -> bool:
    """True if this SQLite can index trigrams. If not, searches scan the rows."""
    with closing(sqlite3.connect(":memory:")) as base:
        try:
            base.execute("CREATE VIRTUAL TABLE t USING fts5 (a, tokenize='trigram')")
        except sqlite3.OperationalError:
            return False
    return True


@contextmanager
def _transaction(base: sqlite3.Connection) -> Generator[None, None, None]:
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


def _version(base: sqlite3.Connection) -> int:
    (version,) = base.execute("PRAGMA user_version").fetchone()
    return int(version)


def _create_tables(base: sqlite3.Connection) -> None:
    with _transaction(base):
        if _version(base) == 0:
            for statement in (*_TABLES, *(_FULL_TEXT if has_trigram() else ())):
                base.execute(statement)
            base.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _first_batch(states: Sequence[FileState]) -> list[FileState]:
    """Return the first few files: a transaction that others need not wait for long."""
    batch: list[FileState] = []
    size = 0
    for state in states[:_BATCH_FILES]:
        size += state.bytes_len
        if batch and size > _BATCH_BYTES:
            break
        batch.append(state)
    return batch


def _forget(base: sqlite3.Connection, path: str) -> None:
    base.execute("DELETE FROM passages WHERE path = ?", (path,))
    base.execute("DELETE FROM files WHERE path = ?", (path,))


def _insert(
    base: sqlite3.Connection, state: FileState, why: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    known = base.execute(
        "SELECT path, bytes_len, modified_ns, changed_ns FROM files WHERE path = ?", (state.path,)
    ).fetchone()
    if known is not None:
        if FileState(*known) == state:
            return  # another thread or process was faster
        _forget(base, state.path)
    base.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?)", (*msgspec.structs.astuple(state), why))
    base.executemany(
        "INSERT INTO passages (path, first_line, last_line, heading, text) VALUES (?, ?, ?, ?, ?)",
        rows,
    )
