"""Real failures of the disk: a limit on the file's size, a full file system, failing calls.

They happen in child processes, beneath LMDB. The failing calls come from a small library
put before the C library: it fails the next flush, or the next write of LMDB's meta page,
when the test says so by making a file.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CHILD = """
import os, resource, sys, trio
from math import inf
from pathlib import Path
from counterpoint.store.engine import StoreError
from counterpoint.store.lmdb_engine import open_lmdb_engine

folder = Path(sys.argv[1])
fault = Path(sys.argv[2])

async def attempt(engine, key, size=0):
    try:
        await engine.write(lambda txn: txn.put(key, bytes(size)), deadline=inf)
        print(key.decode(), "stored")
    except StoreError as error:
        print(key.decode(), type(error).__name__)

def keys_of(engine):
    with engine.read() as txn:
        return b" ".join(key for key, _ in txn.scan(b"", b"~")).decode()

async def main():
    async with open_lmdb_engine(folder, format_version=1) as engine:
        BODY
        print(engine.statistics().failed_commits, "failed")
    async with open_lmdb_engine(folder, format_version=1) as engine:
        print("found", keys_of(engine))

trio.run(main)
"""


def life(folder: Path, body: str, *, fault: Path = Path(), shim: Path | None = None) -> list[str]:
    """Run `body` with an `engine` in a process of its own; return what it printed."""
    code = CHILD.replace("BODY", "\n        ".join(body.strip().splitlines()))
    environment = os.environ | ({"LD_PRELOAD": str(shim), "FAULT": str(fault)} if shim else {})
    ended = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(fault)],
        env=environment,
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    return ended.stdout.decode().splitlines()


LIMITED = """
await attempt(engine, b"before")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(folder / "data.mdb").st_size + 20_000, hard))
async with trio.open_nursery() as nursery:  # one batch
    nursery.start_soon(attempt, engine, b"small")
    nursery.start_soon(attempt, engine, b"large", 1_000_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
await attempt(engine, b"after", 1_000_000)
"""


@pytest.mark.contract("D19")
def test_a_file_that_may_not_grow_refuses_what_does_not_fit_alone(tmp_path: Path) -> None:
    printed = life(tmp_path, LIMITED)
    assert sorted(printed[1:3]) == ["large StoreFull", "small stored"]
    assert printed[0] == "before stored"
    assert printed[3:] == ["after stored", "2 failed", "found after before small"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs to be root")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


FILLED = """
await attempt(engine, b"before", 1_000)
await attempt(engine, b"large", 2_000_000)
for number in range(200):
    await attempt(engine, b"%03d" % number, 10_000)
await attempt(engine, b"before", 1)
"""


@pytest.mark.contract("D19")
def test_a_full_disk_loses_nothing_that_was_acknowledged(small_disk: Path) -> None:
    printed = life(small_disk, FILLED)
    assert printed[:2] == ["before stored", "large StoreFull"]
    written = [line.split() for line in printed[2:202]]
    assert {outcome for _, outcome in written} == {"stored", "StoreFull"}
    stored = {"before"} | {key for key, outcome in written if outcome == "stored"}
    assert set(printed[-1].split()[1:]) == stored


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* What FAULT holds: "flush" fails one fdatasync, "meta" one write of a meta page, "stuck"
   every write of a meta page while the file is there. "torn" lets the meta page reach the
   disk, says that it failed, and fails to put the old one back. */
static int fault(const char *kind, int once) {
    char found[16] = {0};
    int file = open(getenv("FAULT"), O_RDONLY);
    if (file < 0) return 0;
    ssize_t length = read(file, found, 15);
    close(file);
    if (length <= 0 || strcmp(found, kind)) return 0;
    if (once) unlink(getenv("FAULT"));
    return 1;
}

int fdatasync(int file) {
    if (fault("flush", 1)) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}

static int torn;

static ssize_t write_at(int file, const void *data, size_t size, off64_t at) {
    int meta = at < 8192 && size < 4096;
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    if (meta && torn) { torn = 0; errno = EIO; return -1; }
    if (meta && fault("torn", 1)) { torn = 1; real(file, data, size, at); errno = EIO; return -1; }
    if (meta && (fault("meta", 1) || fault("stuck", 0))) { errno = EIO; return -1; }
    return real(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return write_at(file, data, size, at);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    return write_at(file, data, size, at);
}
"""


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("failing calls are put beneath LMDB by a library made with a C compiler")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    library = folder / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "shim.c"), "-ldl"],
        check=True,
    )
    return library


FAULTY = """
await attempt(engine, b"before")
fault.write_text("KIND")
await attempt(engine, b"faulty")
await attempt(engine, b"next")
fault.unlink(missing_ok=True)
await attempt(engine, b"after")
"""

# fmt: off
FAULTS = {  # outcomes of `faulty`, `next` and `after`; what a new opening finds
    "flush": (["StoreFailed",    "stored",         "stored"],         "after before next"),
    "meta":  (["StoreFailed",    "stored",         "stored"],         "after before next"),
    "torn":  (["stored",         "stored",         "stored"],         "after before faulty next"),
    "stuck": (["OutcomeInDoubt", "OutcomeInDoubt", "OutcomeInDoubt"], "before"),
}
# fmt: on


@pytest.mark.contract("D19", "E10")
@pytest.mark.parametrize("kind", FAULTS)
def test_a_failed_commit_is_read_back_and_told_as_it_is(
    tmp_path: Path, shim: Path, kind: str
) -> None:
    outcomes, found = FAULTS[kind]
    keys = ("faulty", "next", "after")
    printed = life(
        tmp_path / "store", FAULTY.replace("KIND", kind), fault=tmp_path / "fault", shim=shim
    )
    assert printed[:4] == [
        "before stored",
        *(f"{key} {outcome}" for key, outcome in zip(keys, outcomes, strict=True)),
    ]
    assert printed[4:] == ["1 failed", f"found {found}"]
