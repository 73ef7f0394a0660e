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
import re
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from .folder import FileRefused, FileState, Folder, Skipped
from .passages import cut
from .question import forms, is_cjk, pairs

SCHEMA_VERSION = 1  # a file of any other version is built anew
BUSY_WAIT_SECONDS = 10.0
_BATCH_FILES = 50
_CANDIDATES_MAX = 200
_SCANNED_MAX = 200
_TRIGRAM = 3
_HEADING_WEIGHT = 2.0  # bm25: words of a heading count double
_WITHIN_WORD = 0.2  # "ratio" inside "iteration" is hardly a find
_HEADING_SHARE = 0.8  # of a find in the text itself
_MATCHED = 0.3  # less than that is not called a match
_PAIRS_ONLY = 0.6  # a Chinese run found in pairs of characters, not whole

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


class Found(msgspec.Struct, frozen=True):
    """A passage that answers a search, best first."""

    path: str
    first_line: int
    last_line: int
    heading: str
    text: str
    score: float
    matched: tuple[str, ...]
    """Those of the searched terms that stand in it."""


class Findings(msgspec.Struct, frozen=True):
    """What a search found, and what it could not have found."""

    passages: tuple[Found, ...]
    missing: tuple[str, ...]
    """Terms that stand nowhere in the files that were read."""
    files: int
    skipped: tuple[Skipped, ...]
    complete: bool
    """False if the folder holds more files than are read."""


class FolderIndex:
    """The index of one folder. Every method blocks, and may be called from any thread."""

    def __init__(self, folder: Folder, index_folder: Path) -> None:
        self._folder = folder
        name = hashlib.sha256(str(folder.root).encode(errors="surrogateescape")).hexdigest()[:16]
        index_folder.mkdir(parents=True, exist_ok=True)
        self.path = index_folder / f"desk-{name}.sqlite3"

    def search(self, terms: Sequence[str], limit: int) -> Findings:
        """Bring the index up to date and return the passages that hold the terms.

        Passages rank by the rarity of the terms they hold, whole words before parts of
        words, then by bm25.

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
            return self._search(terms, limit)
        except _Outdated:
            self._remove(inode)
        except sqlite3.DatabaseError as error:
            if not error.sqlite_errorname.startswith(_REBUILT):
                raise self._unavailable(error) from error
            self._remove(inode)
        except OSError as error:
            raise self._unavailable(error) from error
        try:
            return self._search(terms, limit)
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._unavailable(error) from error

    def _search(self, terms: tuple[str, ...], limit: int) -> Findings:
        with self._open() as base:
            skipped, complete = self._update(base)
            (files,) = base.execute("SELECT count(*) FROM files WHERE why = ''").fetchone()
            ranked, missing = _rank(base, terms)
        return Findings(tuple(ranked[:limit]), missing, files, skipped, complete)

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

    def _update(self, base: sqlite3.Connection) -> tuple[tuple[Skipped, ...], bool]:
        scan = self._folder.scan()
        known = {
            row[0]: FileState(*row[:4])
            for row in base.execute("SELECT path, bytes_len, modified_ns, changed_ns FROM files")
        }
        present = {state.path for state in scan.files}
        gone = [path for path in known if path not in present]
        changed = [state for state in scan.files if known.get(state.path) != state]
        if gone:
            with _transaction(base):
                for path in gone:
                    _forget(base, path)
        for start in range(0, len(changed), _BATCH_FILES):
            # Read before the transaction opens: others wait for the writing only.
            batch = [(state, *self._passages(state)) for state in changed[start:][:_BATCH_FILES]]
            with _transaction(base):
                for state, why, rows in batch:
                    _forget(base, state.path)
                    _insert(base, state, why, rows)
        refused = base.execute("SELECT path, why FROM files WHERE why <> '' ORDER BY path")
        return (*scan.skipped, *(Skipped(*row) for row in refused)), scan.complete

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


def _forget(base: sqlite3.Connection, path: str) -> None:
    base.execute("DELETE FROM passages WHERE path = ?", (path,))
    base.execute("DELETE FROM files WHERE path = ?", (path,))


def _insert(
    base: sqlite3.Connection, state: FileState, why: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    base.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?)", (*msgspec.structs.astuple(state), why))
    base.executemany(
        "INSERT INTO passages (path, first_line, last_line, heading, text) VALUES (?, ?, ?, ?, ?)",
        rows,
    )


def _rank(base: sqlite3.Connection, terms: tuple[str, ...]) -> tuple[list[Found], tuple[str, ...]]:
    full_text = base.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone()
    (total,) = base.execute("SELECT count(*) FROM passages").fetchone()
    rows: dict[int, tuple[Any, ...]] = {}
    weights: dict[str, float] = {}
    for term in terms:
        hits = _candidates(base, forms(term)[-1], full_text is not None)
        if not hits:
            for pair in pairs(term):
                hits += _candidates(base, pair, full_text is not None)
        rows.update((hit[0], hit) for hit in hits)
        weights[term] = math.log(1 + (total + 1) / (len(hits) + 1))
    return _score(list(rows.values()), weights)


def _candidates(base: sqlite3.Connection, needle: str, full_text: bool) -> list[tuple[Any, ...]]:
    """Return up to 200 rows with `needle` in them: id, path, lines, heading, text, bm25."""
    columns = "p.id, p.path, p.first_line, p.last_line, p.heading, p.text"
    if full_text and len(needle) >= _TRIGRAM:
        phrase = '"' + needle.replace('"', '""') + '"'
        return base.execute(
            f"SELECT {columns}, bm25(words, {_HEADING_WEIGHT}, 1.0) AS rank FROM words"
            " JOIN passages p ON p.id = words.rowid WHERE words MATCH ? ORDER BY rank LIMIT ?",
            (phrase, _CANDIDATES_MAX),
        ).fetchall()
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", needle) + "%"
    return base.execute(
        f"SELECT {columns}, 0.0 FROM passages p WHERE p.text LIKE ?1 ESCAPE '\\'"
        " OR p.heading LIKE ?1 ESCAPE '\\' ORDER BY p.path, p.first_line LIMIT ?2",
        (pattern, _SCANNED_MAX),
    ).fetchall()


def _score(
    rows: list[tuple[Any, ...]], weights: dict[str, float]
) -> tuple[list[Found], tuple[str, ...]]:
    found: list[tuple[float, Found]] = []
    met: set[str] = set()
    for _, path, first, last, heading, text, rank in rows:
        title, body = heading.lower(), text.lower()
        strengths = {
            term: _presence(term, body) + _HEADING_SHARE * _presence(term, title)
            for term in weights
        }
        score = sum(weights[term] * strength for term, strength in strengths.items())
        matched = tuple(term for term, strength in strengths.items() if strength >= _MATCHED)
        met.update(matched)
        if matched:
            shown = Found(path, first, last, heading, text, round(score, 3), matched)
            found.append((rank, shown))
    found.sort(key=lambda pair: (-pair[1].score, pair[0], pair[1].path, pair[1].first_line))
    return [passage for _, passage in found], tuple(t for t in weights if t not in met)


def _presence(term: str, place: str) -> float:
    if is_cjk(term):
        if term.lower() in place:
            return 1.0
        parts = pairs(term)
        share = sum(part in place for part in parts) / len(parts) if parts else 0.0
        return _PAIRS_ONLY * share
    for form in forms(term):
        if re.search(rf"(?<![^\W_]){re.escape(form)}(?![^\W_])", place):
            return 1.0
    return _WITHIN_WORD if forms(term)[-1] in place else 0.0
