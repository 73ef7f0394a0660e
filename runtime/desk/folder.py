"""A folder of a person's own files: which are read, how they are decoded, what is left out.

Everything the desk reads goes through `Folder`, so that nothing outside the folder is ever
opened: not by `..`, not by an absolute path, not through a symbolic link. Hidden files are
left alone (`.env` and `.git` are nobody's research material).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
_LINE_END = re.compile(r"\r\n|\n|\r")  # as editors count; str.splitlines also cuts at U+2028
_PROBE_BYTES = 8192
BINARY = "is a binary file."
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")


class FolderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a folder is read. What lies beyond is named in the scan, not dropped silently."""

    files_max: int = 5_000
    file_bytes_max: int = 8 << 20
    depth_max: int = 24


class FileRefused(Exception):
    """A path that the desk does not read: outside the folder, hidden, missing or not text.

    Nothing was read. The sentence says which; the same path will be refused again until the
    file itself changes.
    """


class FileState(msgspec.Struct, frozen=True):
    """What tells one state of a file from another without reading it."""

    path: str
    bytes_len: int
    modified_ns: int
    changed_ns: int
    """The inode's change time: catches a tool that sets the modification time back."""


class Skipped(msgspec.Struct, frozen=True):
    """A file that was seen and not read."""

    path: str
    why: str


class Scan(msgspec.Struct, frozen=True):
    """The files of a folder at one moment, in path order."""

    files: tuple[FileState, ...]
    skipped: tuple[Skipped, ...]
    complete: bool
    """False if the folder holds more files than `files_max`."""


class Folder:
    """The files below `root`. Every method blocks: call it from a worker thread."""

    def __init__(self, root: Path, limits: FolderLimits | None = None) -> None:
        """Open the folder.

        Raises:
          FileRefused: if `root` is not a folder.
        """
        if not root.is_dir():
            raise FileRefused(f"{root} is not a folder. Name a folder that exists.")
        self.root = root.resolve()
        self.limits = limits or FolderLimits()

    def scan(self) -> Scan:
        """Return the readable files. A subfolder that cannot be opened is listed as skipped."""
        files: list[FileState] = []
        skipped: list[Skipped] = []
        for entry, path in self._walk(self.root, "", 0, skipped):
            if len(files) == self.limits.files_max:
                return Scan(tuple(files), tuple(skipped), complete=False)
            found = self._judge(entry, path)
            if isinstance(found, FileState):
                files.append(found)
            else:
                skipped.append(found)
        return Scan(tuple(files), tuple(skipped), complete=True)

    def state(self, path: str) -> FileState:
        """Return the state of a file now.

        Raises:
          FileRefused: as `read`, but for what its content would say.
        """
        try:
            status = self._resolve(path).stat()
        except OSError as error:
            raise FileRefused(f"{path} cannot be read: {error.strerror}.") from error
        return FileState(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def read(self, path: str) -> tuple[str, ...]:
        """Return the lines of a text file, without their ends. Line 1 is at index 0.

        Raises:
          FileRefused: if the path leads outside the folder, is hidden, does not exist, is
            not a regular file, is larger than `file_bytes_max`, is binary, or cannot be
            opened.
        """
        limit = self.limits.file_bytes_max
        target = self._resolve(path)
        try:
            if not stat.S_ISREG(target.stat().st_mode):
                raise FileRefused(f"{path} is not a regular file.")
            with target.open("rb") as file:
                data = file.read(limit + 1)
        except OSError as error:
            raise FileRefused(f"{path} cannot be read: {error.strerror}.") from error
        if len(data) > limit:
            raise FileRefused(f"{path} is larger than {limit:,} bytes.")
        if b"\0" in data[:_PROBE_BYTES] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise FileRefused(f"{path} {BINARY}")
        lines = _LINE_END.split(decode(data))
        return tuple(lines[:-1] if lines[-1] == "" else lines)

    def _resolve(self, path: str) -> Path:
        pure = PurePosixPath(path)
        if not path or "\0" in path or pure.is_absolute() or ".." in pure.parts:
            raise FileRefused(f"{path!r} is not a path inside the folder.")
        if any(_left_alone(part) for part in pure.parts):
            raise FileRefused(f"{path} is hidden or belongs to a tool, so it is not read.")
        try:
            target = (self.root / pure).resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise FileRefused(f"{path} does not exist in the folder.") from error
        if not target.is_relative_to(self.root):
            raise FileRefused(f"{path} leads outside the folder.")
        return target

    def _walk(
        self, folder: Path, prefix: str, depth: int, skipped: list[Skipped]
    ) -> Iterator[tuple[os.DirEntry[str], str]]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            skipped.append(Skipped(prefix or ".", f"cannot be opened: {error.strerror}"))
            return
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if _left_alone(entry.name):
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield entry, path
            elif depth == self.limits.depth_max:
                skipped.append(Skipped(path, "nested too deep"))
            else:
                yield from self._walk(folder / entry.name, f"{path}/", depth + 1, skipped)

    def _judge(self, entry: os.DirEntry[str], path: str) -> FileState | Skipped:
        try:
            path.encode()
            if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(self.root):
                return Skipped(path, "leads outside the folder")
            status = entry.stat()
        except UnicodeEncodeError:
            return Skipped(path.encode(errors="replace").decode(), "its name is not valid text")
        except (OSError, RuntimeError):
            return Skipped(path, "cannot be opened")
        if not stat.S_ISREG(status.st_mode):
            return Skipped(path, "not a regular file")
        if status.st_size > self.limits.file_bytes_max:
            return Skipped(path, f"larger than {self.limits.file_bytes_max:,} bytes")
        return FileState(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def decode(data: bytes) -> str:
    """Return the text of a file: UTF-8, UTF-16 with a mark, GB 18030, or UTF-8 with U+FFFD.

    GB 18030 is what Chinese spreadsheets still export. Almost any bytes decode as it, so it
    is believed only where the high bytes come in pairs, which Latin-1 text rarely does.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    if all(len(run) % 2 == 0 for run in _HIGH_BYTES.findall(data)):
        try:
            return data.decode("gb18030")
        except UnicodeDecodeError:
            pass
    return data.decode("utf-8-sig", errors="replace")


def _left_alone(name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED_FOLDERS
