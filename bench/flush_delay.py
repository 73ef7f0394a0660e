"""Slower flushes: the shim of `flush_delay.c`, built when a compiler is there, preloaded into
a child process.

What it delays is said in the C file: on LMDB's part `fdatasync` and the write of the meta
page through an O_DSYNC descriptor, so a commit gets the delay twice.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


class NotBuilt(Exception):
    """The shim can't be had here: the sentence says why."""


def build(folder: Path) -> Path:
    """Compile the shim into `folder` and return the library.

    Raises:
      NotBuilt: no compiler, or it failed.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotBuilt("there is no C compiler")
    library = folder / "flush_delay.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise NotBuilt(f"the C compiler failed: {built.stderr.strip()[:300]}")
    return library


def environment(library: Path, delay_us: int) -> dict[str, str]:
    """Return the environment of a child whose flushes take `delay_us` longer."""
    return {**os.environ, "LD_PRELOAD": str(library), "FLUSH_DELAY_US": str(delay_us)}


def flushes() -> int | None:
    """Return how many flushes this process has made, or None if the shim is not loaded."""
    try:
        count = ctypes.CDLL(None).flush_delay_count
    except AttributeError:
        return None
    count.restype = ctypes.c_long
    counted = count()
    assert isinstance(counted, int)
    return counted
