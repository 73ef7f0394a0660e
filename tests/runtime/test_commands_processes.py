"""The commands on a store that another process is executing runs in.

Method: a chat in a process of its own holds a run for as long as a test wants; the command
is a second process. Nothing sleeps: a test reads what either has said.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from .test_cli_process import PATIENCE_S, Process, chat

pytestmark = pytest.mark.slow


def counterpoint(store: Path, *argv: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run a command; return its exit code, what it reports, and what it complains of."""
    done = subprocess.run(
        [sys.executable, "-m", "counterpoint.runtime.cli", *argv, "--store", store, "--json"],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    reports = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    return done.returncode, reports, done.stderr.decode()


def research(process: Process, label: str = "r1") -> str:
    """Begin a run that goes on until it is stopped; return its id once it is under way."""
    process.asks(id=label, entry="background", text="Compare MSFT and IBM")
    run: str = process.until(kind="effect_ended", label=label)["run"]
    return run


@pytest.mark.contract("C19", "C30", "B8", "B45", "E4", "A63")
def test_a_run_is_seen_and_stopped_from_beside_and_ends_where_it_is_executed(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    with chat(store, "--pace", "300") as process:
        run = research(process)
        code, [listed], errors = counterpoint(store, "runs")
        assert (code, errors) == (0, "")
        [line] = listed["runs"]
        assert (line["run"], line["label"], line["state"]) == (run, "r1", "running")
        code, [inspected], _ = counterpoint(store, "inspect", "r1")
        assert (code, inspected["inspection"]["holds_slot"]) == (0, True)
        assert counterpoint(store, "verify")[0] == 0

        code, [accepted, ended], errors = counterpoint(store, "stop", "r1")
        assert (code, errors) == (0, "")
        assert (accepted["run"], ended["run"]["state"]) == (run, "stopped")
        there = process.until(kind="run_ended", label="r1")
        assert (there["facts"]["state"], there["facts"]["reason"]) == ("stopped", "user_stop")
        assert there["facts"]["detail"] == ""  # by its own process, whose agent came to rest
        assert len(process.all(kind="stop_accepted", client_id=accepted["id"])) == 1

        process.asks(id="m2", entry="background", text="Compare AAPL and AMZN")  # the slot is free
        assert process.until(id="m2")["type"] == "receipt"


@pytest.mark.contract("C30", "C31", "P74")
def test_the_run_of_a_process_that_stands_still_is_not_ended_for_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with chat(store, "--pace", "300") as process:
        run = research(process)
        process.asks(id="m2", text="What is volatility?")
        process.until(kind="run_ended", label="r2")  # nothing is left to write: no lock is held
        process.child.send_signal(signal.SIGSTOP)
        code, [accepted], errors = counterpoint(store, "stop", run, "--wait", "0.5")
        assert (code, accepted["type"]) == (1, "receipt")
        assert "the process that executes the run has not ended it" in errors
        code, [inspected], _ = counterpoint(store, "inspect", run)
        assert inspected["inspection"]["run"]["state"] == "stopping"
        process.child.send_signal(signal.SIGCONT)
        assert process.until(kind="run_ended", run=run)["facts"]["state"] == "stopped"


@pytest.mark.contract("C23", "C24", "C30", "C31")
def test_a_stop_of_one_lost_run_leaves_the_others_to_who_has_their_agents(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with chat(store, "--pace", "300", "--slots", "background=2") as process:
        lost = [research(process, "r1"), research(process, "r2")]
        process.child.send_signal(signal.SIGKILL)
        process.gone()
    code, [_, ended], _ = counterpoint(store, "stop", "r1")
    assert (code, ended["run"]["state"]) == (0, "stopped")
    code, [listed], _ = counterpoint(store, "runs")
    assert [(run["run"], run["state"]) for run in listed["runs"]] == [
        (lost[0], "stopped"),
        (lost[1], "running"),
    ]
    assert counterpoint(store, "verify")[1] == [{"type": "verified", "breaches": 0}]
    with chat(store) as again:
        ready = again.until(type="ready")
        assert [run["state"] for run in ready["runs"]] == ["stopped", "interrupted"]
