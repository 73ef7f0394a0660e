"""The three folders install as one namespace, all of it and nothing else."""

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .tree import LAYERS, PROJECT, ROOT, code, files, name, needs_checkout

pytestmark = needs_checkout


def setuptools_table() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]
    return table


def folders_of_code() -> set[str]:
    return {name(path.parent) for path in code(*LAYERS)}


def test_the_packages_listed_are_the_folders_that_hold_code() -> None:
    folders = {"counterpoint." + folder.replace("/", ".") for folder in folders_of_code()}
    assert sorted(setuptools_table()["packages"]) == sorted(folders)


def test_every_folder_of_code_is_a_package_with_types() -> None:
    wanted = {
        f"{folder}/{file}" for folder in folders_of_code() for file in ("__init__.py", "py.typed")
    }
    assert {path for path in wanted if not (ROOT / path).is_file()} == set()
    assert "py.typed" in setuptools_table()["package-data"]["*"]


@pytest.mark.slow
def test_the_wheel_holds_the_layers_and_nothing_else(tmp_path: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this environment has no pip to build a wheel with")
    # Built from a copy: setuptools would leave a build folder behind, and pack what an
    # earlier build left in it.
    source = tmp_path / "source"
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, source / layer, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    expected = {"counterpoint/" + name(path) for path in files(*LAYERS) if ships(path)}

    wheel = build_wheel(source, tmp_path / "wheel")

    packed = {path for path in wheel.namelist() if ".dist-info/" not in path}
    assert packed == expected


def ships(path: Path) -> bool:
    """Everything under the layers does, but a document about the code beside it."""
    return path.suffix != ".md" or "sample" in path.parts


def build_wheel(source: Path, destination: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(destination)]
    if setuptools_version() >= 80:
        command.append("--no-build-isolation")
    built = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = destination.glob("counterpoint-*.whl")
    return zipfile.ZipFile(wheel)


def setuptools_version() -> int:
    try:
        return int(importlib.metadata.version("setuptools").split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return 0
