"""A search finds what stands in the folder now, in English and Chinese, and says where.

Method: real files in a temporary folder and a real index file; every change of a file is
followed by a search. Modification times are set, never waited for.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from counterpoint.runtime.desk import index
from counterpoint.runtime.desk.folder import Folder, FolderLimits
from counterpoint.runtime.desk.index import FolderIndex, IndexUnavailable, has_trigram


def index_of(tmp_path: Path, files: Mapping[str, str | bytes] | None = None) -> FolderIndex:
    root = tmp_path / "files"
    root.mkdir(exist_ok=True)
    for path, text in (files or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode() if isinstance(text, str) else text)
    return FolderIndex(Folder(root), tmp_path / "index")


def places(found: FolderIndex, *terms: str) -> list[str]:
    return [f"{p.path}:{p.first_line}-{p.last_line}" for p in found.search(terms, 10).passages]


NOTES = {
    "en.md": "# Ratios\n\nThe Sharpe ratio divides the excess return.\n\nAn iteration is a loop.\n",
    "zh.md": "# 指标\n\n最大回撤是窗口内的最大跌幅。\n\n黄金不付利息。\n",
}


def test_words_are_found_with_their_lines(tmp_path: Path) -> None:
    found = index_of(tmp_path, NOTES)
    assert places(found, "Sharpe") == ["en.md:3-3"]
    assert places(found, "RATIOS")[0] == "en.md:3-3"


def test_chinese_is_found_whole_in_pairs_and_by_one_or_two_characters(tmp_path: Path) -> None:
    found = index_of(tmp_path, NOTES)
    assert places(found, "最大回撤") == ["zh.md:3-3"]
    assert places(found, "最大的回撤") == ["zh.md:3-3"]  # not there whole
    assert places(found, "黄金") == ["zh.md:5-5"]
    assert places(found, "金") == ["zh.md:5-5"]


def test_part_of_a_word_alone_is_no_match(tmp_path: Path) -> None:
    found = index_of(tmp_path, {"a.txt": "A ratio.\n\nAn iteration.\n\nTwo ratios."})
    assert places(found, "ratio") == ["a.txt:1-1", "a.txt:5-5"]


def test_a_rare_word_counts_more_than_a_common_one(tmp_path: Path) -> None:
    files = {f"{at}.md": "return of the window" for at in range(9)}
    found = index_of(tmp_path, {**files, "z.md": "kurtosis"})
    assert places(found, "return", "kurtosis")[0] == "z.md:1-1"


def test_terms_that_stand_nowhere_are_named(tmp_path: Path) -> None:
    found = index_of(tmp_path, NOTES).search(["Sharpe", "Tesla", "特斯拉"], 10)
    assert found.missing == ("Tesla", "特斯拉")


@pytest.mark.parametrize("term", ['"', "'", "%", "_", "\\", "a OR b", "NEAR(", "*", "-x", "a\0b"])
def test_a_term_is_text_and_no_query_language(tmp_path: Path, term: str) -> None:
    found = index_of(tmp_path, {"a.md": f"before {term} after\n", "b.md": "nothing here\n"})
    assert "b.md:1-1" not in places(found, term)


def test_a_changed_file_is_read_again_and_a_deleted_one_vanishes(tmp_path: Path) -> None:
    found = index_of(tmp_path, {"a.md": "apples\n", "b.md": "apples too\n"})
    assert places(found, "apples") == ["a.md:1-1", "b.md:1-1"]

    (tmp_path / "files" / "a.md").write_text("cherry\n")  # of the same length
    (tmp_path / "files" / "b.md").unlink()
    assert places(found, "apples") == []
    assert places(found, "cherry") == ["a.md:1-1"]


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    found = index_of(tmp_path, {"a.md": "apples\n"})
    path = tmp_path / "files" / "a.md"
    before = path.stat()
    assert places(found, "apples") == ["a.md:1-1"]
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of files ticks coarsely
        path.write_text("cherry\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert places(found, "cherry") == ["a.md:1-1"]


def test_an_empty_folder_is_searched_without_a_find(tmp_path: Path) -> None:
    found = index_of(tmp_path).search(["anything"], 10)
    assert (found.passages, found.missing, found.files) == ((), ("anything",), 0)


def test_what_cannot_be_read_is_skipped_and_named(tmp_path: Path) -> None:
    found = index_of(
        tmp_path,
        {
            "image.png": b"\x89PNG\r\n\0\0apples",
            "broken.txt": b"apples \xff\xfe\xfd\n",
            "long.txt": "x" * 100_000 + " apples\n",
            "ok.md": "apples\n",
        },
    ).search(["apples"], 10)
    assert {passage.path for passage in found.passages} == {"broken.txt", "long.txt", "ok.md"}
    assert [(one.path, one.why) for one in found.skipped] == [
        ("image.png", "image.png is a binary file.")
    ]


def test_a_folder_with_too_many_files_says_so(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.md").write_text("apples")
    limited = FolderIndex(Folder(tmp_path, FolderLimits(files_max=2)), tmp_path / ".index")
    found = limited.search(["apples"], 10)
    assert (len(found.passages), found.files, found.complete) == (2, 2, False)


@pytest.mark.parametrize("damage", ["garbage", "truncated", "other schema", "newer version"])
def test_a_damaged_index_is_built_anew(tmp_path: Path, damage: str) -> None:
    found = index_of(tmp_path, NOTES)
    assert places(found, "Sharpe")
    if damage == "garbage":
        found.path.write_bytes(b"this is no database" * 300)
    elif damage == "truncated":
        found.path.write_bytes(found.path.read_bytes()[:5000])
    else:
        with closing(sqlite3.connect(found.path)) as base:
            statement = "DROP TABLE files" if damage == "other schema" else "PRAGMA user_version=9"
            base.execute(statement)
    assert places(found, "Sharpe") == ["en.md:3-3"]


def test_without_trigrams_everything_is_found_by_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "has_trigram", lambda: False)
    found = index_of(tmp_path, NOTES)
    assert places(found, "Sharpe") == ["en.md:3-3"]
    assert places(found, "最大回撤") == ["zh.md:3-3"]


def test_this_sqlite_has_trigrams() -> None:
    assert has_trigram()


def test_an_index_that_cannot_be_opened_is_one_clear_sentence(tmp_path: Path) -> None:
    found = index_of(tmp_path, NOTES)
    found.path.mkdir()
    with pytest.raises(IndexUnavailable, match="cannot be used now"):
        found.search(["Sharpe"], 10)


def test_a_held_index_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "BUSY_WAIT_SECONDS", 0.01)
    found = index_of(tmp_path, NOTES)
    assert places(found, "Sharpe")
    (tmp_path / "files" / "new.md").write_text("kurtosis")
    with closing(sqlite3.connect(found.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexUnavailable, match="locked"):
            found.search(["kurtosis"], 10)
        other.execute("ROLLBACK")
    assert places(found, "kurtosis") == ["new.md:1-1"]


def test_a_large_folder_is_taken_in_as_far_as_the_time_goes(tmp_path: Path) -> None:
    files = {f"{at:03}.md": f"apples {at}" for at in range(50)}
    index_of(tmp_path, files)
    seconds = itertools.count()  # each look at the clock takes a second
    found = FolderIndex(
        Folder(tmp_path / "files"), tmp_path / "index", now=lambda: float(next(seconds))
    )
    counts = [(step.files, step.waiting) for step in (found.update(1) for _ in range(3))]
    assert counts == [(20, 30), (40, 10), (50, 0)]


def test_what_has_changed_and_waits_is_not_shown_in_its_old_words(tmp_path: Path) -> None:
    found = index_of(tmp_path, {f"{at:03}.md": "apples" for at in range(50)})
    assert found.search(["apples"], 100, 60).waiting == 0
    for path in (tmp_path / "files").iterdir():
        path.write_text("pears!")
    seconds = itertools.count()
    hurried = FolderIndex(
        Folder(tmp_path / "files"), tmp_path / "index", now=lambda: float(next(seconds))
    )
    after = hurried.search(["apples"], 100, 1)
    assert (after.passages, after.files, after.waiting) == ((), 20, 30)


@pytest.mark.slow
def test_many_may_build_and_search_one_index_at_once(tmp_path: Path) -> None:
    files = {f"{at}.md": f"apples {at}" for at in range(120)}
    root = index_of(tmp_path, files)

    def search_anew(_: int) -> int:
        own = FolderIndex(Folder(tmp_path / "files"), tmp_path / "index")
        return len(own.search(["apples"], 500).passages)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(search_anew, range(8))) == {120}
    with closing(sqlite3.connect(root.path)) as base:
        assert base.execute("SELECT count(*) FROM passages").fetchone() == (120,)


def test_two_folders_share_an_index_folder_without_mixing(tmp_path: Path) -> None:
    for name, text in (("a", "apples"), ("b", "pears")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.md").write_text(text)
    of_a = FolderIndex(Folder(tmp_path / "a"), tmp_path / "index")
    of_b = FolderIndex(Folder(tmp_path / "b"), tmp_path / "index")
    assert of_a.path != of_b.path
    assert (places(of_a, "pears"), places(of_b, "pears")) == ([], ["x.md:1-1"])
