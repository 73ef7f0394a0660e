"""The checkout that the tests of the house read.

The suite also runs from a copy beside an installed wheel. There `COUNTERPOINT_CHECKOUT`
names the checkout; without it these tests are skipped.
"""

import ast
import functools
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("COUNTERPOINT_CHECKOUT") or Path(__file__).parents[2]).resolve()
LAYERS = ("runtime", "actors", "store")
"""From top to bottom: each may import itself and those after it."""

PROJECT = ROOT / "pyproject.toml"

needs_checkout = pytest.mark.skipif(
    not (PROJECT.is_file() and all((ROOT / layer).is_dir() for layer in LAYERS)),
    reason="not in a checkout, and COUNTERPOINT_CHECKOUT names none",
)


def files(*folders: str) -> list[Path]:
    """Return every file under these folders of the checkout, what Python leaves there aside."""
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]


def code(*folders: str) -> list[Path]:
    """Return our Python files: source code among sample data is data."""
    return [path for path in files(*folders) if path.suffix == ".py" and "sample" not in path.parts]


def all_code() -> list[Path]:
    return code(*LAYERS, "tests", "bench")


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package(path: Path) -> str:
    """Return the dotted package that a relative import in this file starts from."""
    parts = path.relative_to(ROOT).parent.parts
    return ".".join(("counterpoint", *parts) if parts[0] in LAYERS else parts)


def listed(found: Iterable[object]) -> str:
    """Return all that was found, a line each: the message of an assertion that wanted nothing."""
    return "\n".join(["found:", *map(str, found)])


@functools.cache
def tracked() -> tuple[str, ...]:
    """Return what git keeps of the checkout; skip the test where there is no git to ask."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git lists no files here: {error}")
    return tuple(filter(None, listed.stdout.decode().split("\0")))


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each tracked file that is still there."""
    for tracked_name in tracked():
        path = ROOT / tracked_name
        if path.is_file() and not path.is_symlink():
            yield tracked_name, path.read_bytes().decode(errors="replace")
