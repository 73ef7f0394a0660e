"""Nothing outside the folder is read, and what is left out is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counterpoint.runtime.desk.folder import FileRefused, Folder, FolderLimits, decode


def paths(folder: Folder) -> list[str]:
    return [state.path for state in folder.scan().files]


def test_a_scan_lists_files_in_order_and_leaves_tools_and_secrets_alone(tmp_path: Path) -> None:
    for path in ("b.md", "a/c.py", ".env", ".git/config", "node_modules/x.js", "a/.hidden"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    assert paths(Folder(tmp_path)) == ["a/c.py", "b.md"]


def test_a_path_never_leads_outside_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "in.txt").write_text("inside")
    (root / "alias.txt").symlink_to(root / "in.txt")
    folder = Folder(root)

    assert paths(folder) == ["alias.txt", "in.txt"]
    assert {skipped.path for skipped in folder.scan().skipped} == {"out.txt", "up", "loop"}
    outside = ["../secret.txt", str(tmp_path / "secret.txt"), "out.txt", "up/secret.txt", "loop"]
    for path in [*outside, "a/../../secret.txt", "", "in.txt\0", ".env", "missing.txt"]:
        with pytest.raises(FileRefused):
            folder.read(path)
    assert folder.read("alias.txt") == ("inside",)


def test_only_regular_text_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer for ever
    folder = Folder(tmp_path, FolderLimits(file_bytes_max=10))
    (tmp_path / "large").write_text("x" * 11)

    assert paths(folder) == ["binary"]
    assert {skipped.path for skipped in folder.scan().skipped} == {"pipe", "large"}
    for path, why in (("binary", "binary"), ("sub", "regular"), ("pipe", "regular")):
        with pytest.raises(FileRefused, match=why):
            folder.read(path)
    with pytest.raises(FileRefused, match="larger than 10 bytes"):
        folder.read("large")


def test_lines_are_counted_as_editors_count_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one\r\ntwo\u2028still two\nthree\n".encode())
    (tmp_path / "empty.txt").write_bytes(b"")
    folder = Folder(tmp_path)
    assert folder.read("a.txt") == ("one", "two\u2028still two", "three")
    assert folder.read("empty.txt") == ()


def test_a_scan_says_when_the_folder_holds_more_than_is_read(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.md").write_text("x")
    scan = Folder(tmp_path, FolderLimits(files_max=2)).scan()
    assert ([state.path for state in scan.files], scan.complete) == (["0.md", "1.md"], False)
    assert Folder(tmp_path, FolderLimits(files_max=3)).scan().complete


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(FileRefused, match="not a folder"):
            Folder(path)


# fmt: off
ENCODED = [  # bytes, their text
    ("最大回撤".encode(), "最大回撤"),
    (b"\xef\xbb\xbfhead", "head"),
    ("最大回撤, max".encode("gb18030"), "最大回撤, max"),
    ("回撤".encode("utf-16"), "回撤"),
    (b"caf\xe9 au lait", "caf\ufffd au lait"),  # Latin-1 is not taken for Chinese
    (b"broken \xff\xfe\xfd text", "broken \ufffd\ufffd\ufffd text"),
]
# fmt: on


@pytest.mark.parametrize(("data", "text"), ENCODED)
def test_text_is_decoded_without_being_guessed_wrong(data: bytes, text: str) -> None:
    assert decode(data) == text
