"""The command line: whatever is wrong with it gets one sentence and exit code 2.

Method: `main` runs in this process with the standard files that pytest gives it: no input.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from counterpoint.runtime.cli import main
from counterpoint.runtime.commands import arguments
from counterpoint.runtime.opening import FORMAT_VERSION
from counterpoint.store.lmdb_engine import open_lmdb_engine

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nTea grows in Yunnan.\n")
    return folder


def the_sentence(capfd: Captured) -> str:
    """Return the one line on standard error; nothing else was printed."""
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("counterpoint: ")
    assert err.count("\n") == 1
    return err


# fmt: off
BAD: list[tuple[list[str], str]] = [  # arguments, what the sentence names
    ([], "COMMAND"),
    (["shout"], "shout"),
    (["chat", "--bogus"], "--bogus"),
    (["chat", "--sto", "x"], "--sto"),  # no guessing
    (["chat", "one", "two"], "two"),
    (["chat", "{tmp}/missing"], "does not exist"),
    (["chat", "{tmp}/file"], "is not a folder"),
    (["chat", "{tmp}/file/inside"], "does not exist"),
    (["chat", "{tmp}/\udcff"], "does not exist"),
    (["chat", "{tmp}/notes", "--store", "{tmp}/file"], "is not a folder"),
    (["chat", "{tmp}/notes", "--store", "{tmp}/file/inside"], "Not a directory"),
    (["chat", "{tmp}/notes", "--store", "/proc/nowhere"], "/proc/nowhere"),
    (["chat", "--pace", "soon"], "'soon'"),
    (["chat", "--pace", "-1"], "'-1'"),
    (["chat", "--pace", "nan"], "'nan'"),
    (["chat", "--pace", "inf"], "'inf'"),
    (["chat", "--pace"], "--pace"),
    (["chat", "--drain", "0"], "'0'"),
    (["chat", "--scope", ""], "empty"),
    (["chat", "--scope", "a\nb"], "control characters"),
    (["chat", "--scope", "\udcff"], "Unicode"),
    (["chat", "--scope", "x" * 129], "128"),
    (["chat", "--after", "-1"], "'-1'"),
    (["chat", "--after", "last"], "'last'"),
    (["chat", "--slots", "huge=1"], "huge"),
    (["chat", "--slots", "short"], "short"),
    (["chat", "--slots", "short=-1"], "'-1'"),
    (["chat", "--map-bytes-max", "1"], "65536"),
    (["chat", "--map-bytes-max", "9" * 30], "9"),
    (["chat", "--version\x1b[2J"], "version"),
]
# fmt: on


@pytest.mark.parametrize(("argv", "named"), BAD)
def test_a_bad_command_line_is_refused_in_one_sentence(
    argv: list[str], named: str, notes: Path, capfd: Captured
) -> None:
    (notes.parent / "file").touch()
    before = sorted(notes.parent.rglob("*"))
    assert main([item.replace("{tmp}", str(notes.parent)) for item in argv]) == 2
    sentence = the_sentence(capfd)
    assert named in sentence
    assert "\x1b" not in sentence
    assert sorted(notes.parent.rglob("*")) == before


def test_a_text_is_asked_for_and_printed(capfd: Captured) -> None:
    for argv, named in ((["--version"], "0."), (["--help"], "chat"), (["chat", "--help"], "r1")):
        assert main(argv) == 0
        out, err = capfd.readouterr()
        assert named in out
        assert err == ""


def test_a_chat_without_input_opens_the_store_and_ends(notes: Path, capfd: Captured) -> None:
    store = notes.parent / "store"
    assert main(["chat", str(notes), "--store", str(store)]) == 0
    out, err = capfd.readouterr()
    ready = msgspec.json.decode(out)
    assert (ready["type"], ready["store"]) == ("ready", str(store))
    assert err == ""
    assert store.stat().st_mode & 0o777 == 0o700


def test_the_store_is_kept_in_the_person_s_data_folder(notes: Path, tmp_path: Path) -> None:
    there = arguments.read(["chat", str(notes)], {"XDG_DATA_HOME": str(tmp_path)}).store
    assert there.parent == tmp_path / "counterpoint"
    assert there.name.startswith("notes-")
    again = arguments.read(["chat", f"{notes}/../notes"], {"XDG_DATA_HOME": str(tmp_path)})
    assert again.store == there
    other = tmp_path / "other" / "notes"
    other.mkdir(parents=True)
    elsewhere = arguments.read(["chat", str(other)], {"XDG_DATA_HOME": str(tmp_path)})
    assert elsewhere.store != there
    home = arguments.read(["chat", str(notes)], {"XDG_DATA_HOME": "relative"}).store
    assert home.is_relative_to(Path.home())


def test_a_store_of_a_newer_version_is_refused(notes: Path, capfd: Captured) -> None:
    store = notes.parent / "store"
    store.mkdir()

    async def write() -> None:
        async with open_lmdb_engine(store, format_version=FORMAT_VERSION + 1):
            pass

    trio.run(write)
    before = (store / "data.mdb").read_bytes()
    assert main(["chat", str(notes), "--store", str(store)]) == 2
    assert "newer version" in the_sentence(capfd)
    assert (store / "data.mdb").read_bytes() == before


def test_another_program_s_file_is_no_store(notes: Path, capfd: Captured) -> None:
    store = notes.parent / "store"
    store.mkdir()
    (store / "data.mdb").write_bytes(b"not a database" * 1_000)
    assert main(["chat", str(notes), "--store", str(store)]) == 2
    assert "no store" in the_sentence(capfd)


@contextmanager
def without_privileges() -> Generator[None]:
    """Be an ordinary user for a while, where the tests run as root, whom no mode stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def an_empty_folder(place: Path) -> None:
    place.mkdir(mode=0o555)


def a_store(place: Path) -> None:
    assert main(["chat", "--store", str(place)]) == 0
    for path in (*place.rglob("*"), place):
        path.chmod(0o555 if path.is_dir() else 0o444)


def a_private_folder(place: Path) -> None:
    place.mkdir(mode=0o700)
    (place / "store").mkdir()
    place.chmod(0o000)


@pytest.mark.parametrize("make", [an_empty_folder, a_store, a_private_folder])
def test_a_store_that_cannot_be_written_is_refused(
    make: Callable[[Path], None], capfd: Captured
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "place"
        Path(name).chmod(0o755)
        make(place)
        capfd.readouterr()
        inside = place / "store" if make is a_private_folder else place
        with without_privileges():
            assert main(["chat", "--store", str(inside)]) == 2
        assert "Permission denied" in the_sentence(capfd)
        place.chmod(0o700)
