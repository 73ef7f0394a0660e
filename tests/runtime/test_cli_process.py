"""The command as a process of its own: what scripts see, and what outlives a kill.

Method: the test writes lines and reads objects, and reacts to what it reads; every read is
bounded, and nothing sleeps.
"""

from __future__ import annotations

import csv
import json
import math
import queue
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from counterpoint.runtime.desk import sample_folder

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
Shown = dict[str, Any]


class Process:
    """A chat in another process."""

    def __init__(self, store: Path, *options: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "counterpoint.runtime.cli", "chat", "--store", store, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.shown: list[Shown] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def asks(self, **fields: Any) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(fields).encode() + b"\n")
        self.child.stdin.flush()

    def until(self, **fields: Any) -> Shown:
        """Return the first object with these fields, of those read already or next."""
        for shown in self.shown:
            if matches(shown, fields):
                return shown
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            assert line, f"the chat ended before it showed {fields}: {self.shown[-3:]}"
            self.shown.append(json.loads(line))
            if matches(self.shown[-1], fields):
                return self.shown[-1]

    def all(self, **fields: Any) -> list[Shown]:
        return [shown for shown in self.shown if matches(shown, fields)]

    def ends(self) -> tuple[int, str]:
        """End its input, read the rest, and return its exit code and what it complained of."""
        assert self.child.stdin is not None
        assert self.child.stderr is not None
        self.child.stdin.close()
        return self.gone()

    def gone(self) -> tuple[int, str]:
        assert self.child.stderr is not None
        while line := self._lines.get(timeout=PATIENCE_S):
            self.shown.append(json.loads(line))
        errors = self.child.stderr.read().decode()
        return self.child.wait(PATIENCE_S), errors


def matches(shown: Shown, fields: Shown) -> bool:
    return all(shown.get(name) == value for name, value in fields.items())


@contextmanager
def chat(store: Path, *options: str) -> Generator[Process]:
    process = Process(store, *options)
    try:
        yield process
    finally:
        process.child.kill()
        process.child.wait()
        for stream in (process.child.stdin, process.child.stdout, process.child.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # it was not read to the end
                    stream.close()


def figures_of_the_last_year(column: str) -> tuple[str, str, str]:
    """Compute what a report must say, from the sample itself and with the standard library."""
    with (sample_folder() / "prices.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get(column)]
    date = next(name for name in rows[0] if name and "date" in name.lower())
    last = rows[-1][date]
    first = f"{int(last[:4]) - 1}{last[4:]}"
    prices = [float(row[column]) for row in rows if first <= row[date] <= last]
    changes = [after / before - 1 for before, after in pairwise(prices)]
    volatility = statistics.stdev(changes) * math.sqrt(12)
    return first, f"{prices[-1] / prices[0] - 1:+.2%}", f"{volatility:.2%}"


@pytest.mark.contract("B1", "B32", "B33", "B38", "C11")
def test_the_scene_on_the_sample(tmp_path: Path) -> None:
    with chat(tmp_path / "store", "--pace", "0.5") as process:
        process.asks(
            id="m1",
            entry="background",
            text="Compare MSFT and IBM over the past three years, with drawdown",
        )
        process.until(kind="effect_ended", label="r1")

        process.asks(id="m2", text="What is the Sharpe ratio?")
        answer = process.until(type="answer", label="r2")
        assert "glossary.md:" in answer["text"]
        assert not process.all(kind="run_ended", label="r1")

        process.asks(id="m3", entry="steer", run="r1", text="only the last year, please")
        process.until(kind="revision_saved", label="r1", client_id="m3")
        delivered = process.until(kind="revision_delivered", label="r1")
        report = process.until(type="answer", label="r1")["text"]
        ordinal = delivered["facts"]["request"]
        process.asks(id="q1", entry="export", run="r1", ordinal=ordinal)
        exported = process.until(type="export")

        process.asks(id="m4", entry="background", text="Compare AAPL and AMZN over all the data")
        process.until(kind="effect_ended", label="r3")
        process.asks(id="m5", text="What is volatility?")
        process.asks(id="m6", entry="stop", run="r3")
        stopped = process.until(kind="run_ended", label="r3")
        assert process.until(type="answer", label="r4")["state"] == "completed"
        code, errors = process.ends()
    assert (code, errors) == (0, "")
    assert stopped["facts"]["state"] == "stopped"
    assert not process.all(type="answer", label="r3")

    said = [
        message["text"] for message in exported["input"]["messages"] if message["role"] == "user"
    ]
    assert any("only the last year, please" in text for text in said)
    assert not any("Sharpe" in text for text in said)
    numbers = [event["number"] for event in process.all(type="event")]
    assert numbers == list(range(2, numbers[-1] + 1))
    for column in ("MSFT", "IBM"):
        first, change, volatility = figures_of_the_last_year(column)
        assert f"{column}, {first} to 2010-03-01, 13 monthly values" in report
        assert f"period return {change}" in report
        assert f"annualised volatility {volatility}" in report
    assert "2007" not in report


@pytest.mark.contract("C30", "C32", "D13", "E10")
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with chat(tmp_path / "store", "--pace", "30") as process:
        process.asks(id="m1", entry="background", text="Compare MSFT and IBM")
        process.until(kind="effect_ended", label="r1")
        process.asks(id="m2", entry="steer", run="r1", text="only the last year")
        process.until(type="receipt", id="m2")
        process.child.send_signal(signal.SIGKILL)
        assert process.gone()[0] == -signal.SIGKILL

    with chat(tmp_path / "store", "--after", "0") as again:
        ready = again.until(type="ready")
        (run,) = ready["runs"]
        assert (run["label"], run["state"], run["reason"]) == ("r1", "interrupted", "owner_lost")
        ended = again.until(kind="run_ended", label="r1")
        assert (ended["facts"]["state"], ended["facts"]["reason"]) == ("interrupted", "owner_lost")
        again.asks(id="m3", entry="background", text="Compare MSFT and IBM")
        assert again.until(id="m3")["type"] == "receipt"
        again.asks(id="m2", entry="steer", run="r1", text="only the last year")
        assert again.until(type="receipt", id="m2")["revision"] == 1
        again.asks(id="q", entry="view")
        view = again.until(type="view")["view"]
        code, errors = again.ends()
    words = [(entry["client_id"], entry["text"]) for entry in view["entries"][:2]]
    assert words == [("m1", "Compare MSFT and IBM"), ("m2", "only the last year")]
    assert (code, errors) == (0, "")
    assert again.all(type="answer", label="r2")


@pytest.mark.contract("C42")
def test_two_chats_of_one_scope_see_each_other(tmp_path: Path) -> None:
    with chat(tmp_path / "store") as here, chat(tmp_path / "store") as there:
        ready = here.until(type="ready")
        assert there.until(type="ready")["conversation"] == ready["conversation"]
        here.asks(id="m1", text="What is the Sharpe ratio?")
        assert there.until(kind="message_admitted")["text"] == "What is the Sharpe ratio?"
        assert there.until(type="answer", label="r1") == here.until(type="answer", label="r1")
        there.asks(id="m2", text="What is volatility?")
        here.until(type="answer", label="r2")
        assert here.ends() == (0, "")
        assert there.ends() == (0, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_in_good_order(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with chat(tmp_path / "store", "--pace", "30", "--drain", "0.1") as process:
        process.asks(id="m1", entry="background", text="Compare MSFT and IBM")
        process.until(kind="effect_ended", label="r1")
        process.child.send_signal(number)
        exit_code, errors = process.gone()
    assert exit_code == code
    assert errors == f"counterpoint: Leaving on {number.name}; a second signal ends it at once.\n"
    assert process.until(type="leaving")["runs"] == ["r1"]
    assert process.until(kind="run_ended")["facts"]["reason"] == "host_shutdown"


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with chat(tmp_path / "store", "--pace", "30", "--drain", "300") as process:
        process.asks(id="m1", entry="background", text="Compare MSFT and IBM")
        process.until(kind="effect_ended", label="r1")
        process.child.send_signal(signal.SIGINT)
        process.until(type="leaving")
        process.child.send_signal(signal.SIGINT)
        assert process.gone()[0] == -signal.SIGINT


def test_a_reader_that_goes_ends_the_chat_in_silence(tmp_path: Path) -> None:
    quiet = subprocess.Popen(
        [sys.executable, "-m", "counterpoint.runtime.cli", "chat", "--store", tmp_path / "store"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with quiet:
        assert quiet.stdin is not None
        assert quiet.stdout is not None
        assert quiet.stderr is not None
        assert quiet.stdout.readline()
        quiet.stdout.close()
        quiet.stdin.write(b'{"id": "m1", "text": "Hello"}\n')
        quiet.stdin.flush()
        assert quiet.wait(PATIENCE_S) == 141
        assert quiet.stderr.read() == b""
        quiet.stdin.close()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_files_that_are_closed_at_the_start_do_no_harm(tmp_path: Path, closed: str) -> None:
    command = f'exec "$0" -m counterpoint.runtime.cli chat --store "$1" {closed}'
    for _ in range(2):  # the second finds a store that nothing was written into by accident
        done = subprocess.run(
            ["/bin/sh", "-c", command, sys.executable, tmp_path / "store"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
