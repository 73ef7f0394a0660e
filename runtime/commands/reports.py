"""What the commands on a store report: an object each for JSON, and lines for a person."""

from __future__ import annotations

from ...store.views import Inspection
from .inspection import inspection
from .printed import printable, quoted, state_in_words
from .shown import RunLine, Shown


class Listed(Shown, frozen=True, kw_only=True, tag="conversation"):
    """A conversation with its runs: all that live, and the newest of those that have ended."""

    conversation: str
    title: str
    runs: tuple[RunLine, ...]
    left_out: int
    """How many older runs that have ended are not listed."""


class Inspected(Shown, frozen=True, kw_only=True, tag="inspection"):
    """All that is recorded of a run."""

    run: str
    label: str | None
    inspection: Inspection


class Accepted(Shown, frozen=True, kw_only=True, tag="receipt"):
    """A stop is accepted: nothing more goes out of the run."""

    id: str
    verb: str
    conversation: str
    version: int
    run: str
    label: str | None


class Ended(Shown, frozen=True, kw_only=True, tag="ended"):
    """The run that was stopped has ended."""

    run: RunLine


class Broken(Shown, frozen=True, kw_only=True, tag="breach"):
    """One thing in the store that must never be."""

    row: str
    sentence: str
    keys: tuple[str, ...]
    line: str
    """All of it, for a person."""


class Verified(Shown, frozen=True, kw_only=True, tag="verified"):
    """All was looked at."""

    breaches: int


class BackedUp(Shown, frozen=True, kw_only=True, tag="backup"):
    """A copy is made, and durable."""

    destination: str
    bytes_len: int


Report = Listed | Inspected | Accepted | Ended | Broken | Verified | BackedUp


def in_lines(report: Report) -> str:
    """Return a report for a person: whole lines."""
    return "".join(f"{printable(line).rstrip()}\n" for line in _lines(report))


def _lines(report: Report) -> list[str]:
    match report:
        case Listed():
            return _listed(report)
        case Inspected():
            return inspection(report.inspection)
        case Accepted():
            return [f"{report.label or report.run}  stop accepted: nothing more goes out"]
        case Ended():
            run = report.run
            return [f"{run.label or run.run}  {state_in_words(run.state, run.reason)}"]
        case Broken():
            return [report.line]
        case Verified():
            return [f"{report.breaches or 'no'} {'breach' if report.breaches == 1 else 'breaches'}"]
        case BackedUp():
            return [f"{report.destination}  {report.bytes_len} bytes"]


def _listed(listed: Listed) -> list[str]:
    title = f"  {quoted(listed.title)}" if listed.title else ""
    rows = [(run, state_in_words(run.state, run.reason)) for run in listed.runs]
    width = max((len(words) for _, words in rows), default=0)
    label_len = max((len(run.label or "") for run, _ in rows), default=0)
    older = [f"  {listed.left_out} older runs that have ended"] if listed.left_out else []
    return [
        f"{listed.conversation}{title}",
        *older,
        *(
            f"  {(run.label or '').ljust(label_len)}  {run.run}  {run.run_class.ljust(10)}  "
            f"{words.ljust(width)}  {quoted(run.request)}"
            for run, words in rows
        ),
        *([] if rows or older else ["  no runs yet"]),
    ]
