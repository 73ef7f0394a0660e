"""What lies in the repository, and what must not."""

import re

import pytest

from .tree import LAYERS, ROOT, listed, needs_checkout, tracked, tracked_texts

pytestmark = needs_checkout

TOP = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", *LAYERS, "tests", "bench"}

# Each pattern is spelt so that it does not match itself.
MACHINE = re.compile(r"(?<![\w.~/-])/(?:home|root|work|Users)/|\b[A-Z]:\\Users\b")
REGISTRY = re.compile(
    r"\b(?:test\.)?pypi\.org\b|pythonhosted\.org|registry\.npmjs\.org"
    r"|--(?:extra-)?index[-]url|--find[-]links|--trusted[-]host"
)


def test_the_top_holds_the_three_layers_and_little_else() -> None:
    entries = {path.split("/")[0] for path in tracked()}
    assert {entry for entry in entries if not entry.startswith(".")} <= TOP


@pytest.mark.parametrize("layer", LAYERS)
def test_the_type_checkers_see_the_namespace_through_links(layer: str) -> None:
    link = ROOT / ".src" / "counterpoint" / layer
    assert link.is_symlink()
    assert link.resolve() == ROOT / layer


def test_the_type_checkers_see_nothing_but_the_layers() -> None:
    assert {path.name for path in (ROOT / ".src" / "counterpoint").iterdir()} == set(LAYERS)


def test_no_file_holds_a_path_of_somebody_s_machine() -> None:
    lines = _lines_with(MACHINE)
    assert not lines, listed(lines)


def test_no_file_names_where_packages_come_from() -> None:
    # That is set on the machine that installs them.
    lines = _lines_with(REGISTRY)
    assert not lines, listed(lines)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = [line for line in readme.splitlines() if "-m pytest" in line and "&&" in line]
    if not commands:
        pytest.skip("the README has no test command yet")
    last_step = commands[0].split("&&")[-1].strip()
    assert last_step in (ROOT / ".ci" / "run").read_text()


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
