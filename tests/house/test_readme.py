"""The README's picture of a run's life is the table's, and its example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoint.store.runs import TRANSITIONS

from .tree import ROOT

MARK = "<!-- the life of a run: drawn by tests/house/test_readme.py -->\n"


def drawn() -> str:
    """Return the table as a Mermaid diagram."""
    lines = ["stateDiagram-v2", "    [*] --> admitted"]
    for state, moves in TRANSITIONS.items():
        by_target: dict[str, list[str]] = {}
        for cue, target in moves.items():
            by_target.setdefault(target, []).append(cue)
        lines += [
            f"    {state} --> {target}: {', '.join(cues)}" for target, cues in by_target.items()
        ]
        if not moves:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines)


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.contract("D12")
def test_the_picture_of_a_runs_life_is_drawn_from_the_table() -> None:
    _, _, behind = readme().partition(MARK)
    assert behind.startswith(f"```mermaid\n{drawn()}\n```\n")


def example() -> str:
    found = re.search(r"## Embedding it\n+```python\n(.*?)```", readme(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.slow
@pytest.mark.contract("A16", "A56")
def test_the_embedding_example_runs_and_runs_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", example()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stderr, done.stdout) == ("", "Hello\n")
