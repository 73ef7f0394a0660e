"""What is shown, as lines for a person: each begins with the label of its run.

Pure: values in, lines out. Whatever comes out of files or models passes `printable`, so that
no text can move the cursor or change the terminal.
"""

from __future__ import annotations

from typing import Any, Final

from ...store.records import EventKind
from ...store.refusal import Code
from . import shown
from .inspection import inspection
from .labels import Labels

QUOTE_LEN: Final = 60
LABEL_LEN: Final = 3

_COLOURS: Final = ("36", "33", "35", "32", "34", "31")  # ANSI foregrounds, by number of the run


class Printer:
    """Turns what is shown into lines. `mine` tells the ids of this chat from others'."""

    def __init__(self, labels: Labels, *, colour: bool, mine: str) -> None:
        self._labels = labels
        self._colour = colour
        self._mine = mine

    def lines(self, what: shown.AnyShown) -> list[str]:
        """Return what is to be printed; often nothing, where a person needs nothing."""
        match what:
            case shown.Ready():
                return self._ready(what)
            case shown.Happened():
                return self._labelled(what.label, self._happened(what))
            case shown.Answered():
                return self._labelled(what.label, what.text.splitlines())
            case shown.Declined():
                return self._declined(what)
            case shown.Unknown():
                return self._labelled(None, [f"not known whether accepted: {what.sentence}"])
            case shown.Inspected():
                return self._labelled(what.label or what.run, inspection(what.inspection))
            case shown.Listed():
                return self._runs(what.runs) or self._labelled(None, ["no runs yet"])
            case shown.Waiting():
                return self._labelled(None, [f"waiting for {_and(what.runs)}; Ctrl-C leaves now"])
            case shown.Leaving():
                return self._labelled(None, _leaving(what))
            case shown.Helped():
                return self._labelled(None, what.text.splitlines())
            case _:  # receipts are told by their events, and the rest is asked for in JSON only
                return []

    def _labelled(self, label: str | None, texts: list[str]) -> list[str]:
        head = (label or "--").ljust(LABEL_LEN)
        if self._colour:
            number = label[1:] if label is not None else ""
            code = _COLOURS[(int(number) - 1) % len(_COLOURS)] if number.isdecimal() else "2"
            head = f"\x1b[{code}m{head}\x1b[0m"
        return [f"{head}│ {printable(text)}".rstrip() for text in texts]

    def _ready(self, ready: shown.Ready) -> list[str]:
        lines = [
            f"folder  {ready.folder}",
            f"store   {ready.store}",
            f"scope   {ready.scope}",
        ]
        if ready.runs:
            lines.append("The conversation goes on. Its last runs:")
        hint = "Type a question, /research TEXT for work in the background, or /help."
        return [
            *self._labelled(None, lines),
            *self._runs(ready.runs[-RUNS_AT_START:]),
            *self._labelled(None, [hint]),
        ]

    def _runs(self, runs: tuple[shown.RunLine, ...]) -> list[str]:
        rows = [(run, state_in_words(run.state, run.reason)) for run in runs]
        width = max((len(words) for _, words in rows), default=0)
        return [
            line
            for run, words in rows
            for line in self._labelled(
                run.label or run.run,
                [f"{run.run_class.ljust(10)}  {words.ljust(width)}  {quoted(run.request)}"],
            )
        ]

    def _declined(self, declined: shown.Declined) -> list[str]:
        lines = [f"not accepted: {self._labels.in_words(declined.sentence)}"]
        holders: list[str] = declined.facts.get("holders", [])
        if declined.code == Code.CAPACITY_FULL and holders:
            named = _and([self._labels.of(run) or run for run in holders])
            lines.append(f"held by {named}: /stop or /steer works on it")
        if declined.text is not None:
            lines.append(f"your words: {quoted(declined.text)} (the arrow up brings them back)")
        return self._labelled(None, lines)

    def _happened(self, event: shown.Happened) -> list[str]:
        facts = event.facts
        match event.kind:
            case EventKind.MESSAGE_ADMITTED:
                where = "started" if facts.get("run_class") == "short" else "research started"
                return [f"{where}{self._whose(event)}: {quoted(event.text or '')}"]
            case EventKind.REVISION_SAVED:
                saved = f"saved as revision {facts['revision']}{self._whose(event)}"
                return [f"{saved}: {quoted(event.text or '')}"]
            case EventKind.REVISION_DELIVERED:
                return [f"revision {facts['revision']} delivered in request {facts['request']}"]
            case EventKind.REVISION_SETTLED:
                what = in_words(facts.get("state", ""))
                why = in_words(facts.get("reason", ""))
                return [f"revision {facts['revision']} {what}: the run ended first ({why})"]
            case EventKind.PROMOTION_REFUSED:
                holders = _and([self._labels.of(run) or run for run in facts.get("holders", [])])
                return [f"stays short: the background is held by {holders}"]
            case EventKind.STOP_ACCEPTED:
                return [f"stop accepted{self._whose(event)}: nothing more goes out of this run"]
            case _:
                return _of_run(event.kind, facts)

    def _whose(self, event: shown.Happened) -> str:
        """Say so where something was asked for by another chat."""
        client_id = event.client_id or ""
        return "" if client_id.startswith(self._mine) else " (from elsewhere)"


def _of_run(kind: str, facts: dict[str, Any]) -> list[str]:
    """Say what a run did; nothing where its progress tells it better."""
    match kind:
        case EventKind.PROGRESS:
            return str(facts["text"]).splitlines()
        case EventKind.REQUEST_STARTED:
            carried = facts.get("revisions", [])
            if not carried:
                return []
            named = _and([f"revision {number}" for number in carried])
            return [f"{named} on the way in request {facts['request']}"]
        case EventKind.REQUEST_ENDED:
            return _unless(facts, "completed", f"request {facts['request']}")
        case EventKind.EFFECT_ENDED:
            return _unless(facts, "done", _effect(facts))
        case EventKind.RUN_PROMOTED:
            return ["goes on in the background"]
        case EventKind.RUN_ADOPTED:
            return ["taken over from a process that is gone"]
        case EventKind.RUN_RESUMED:
            return [f"taken up again at checkpoint {facts['checkpoint']}: its process is gone"]
        case EventKind.REVISION_WITHDRAWN:
            return [f"revision {facts['revision']} withdrawn"]
        case EventKind.EFFECT_RESOLVED:
            return [f"{_effect(facts)} is settled as {in_words(facts['state'])}"]
        case EventKind.RUN_ENDED:
            return _ended(facts)
        case EventKind.EFFECT_STARTED | EventKind.CONVERSATION_OPENED:
            return []
        case _:
            return [in_words(kind)]


def _unless(facts: dict[str, Any], usual: str, what: str) -> list[str]:
    if facts["state"] == usual:
        return []
    why = facts.get("reason")
    return [f"{what} {in_words(facts['state'])}" + (f": {in_words(why)}" if why else "")]


def _effect(facts: dict[str, Any]) -> str:
    return f"{facts['name']} (effect {facts['effect']})"


def _ended(facts: dict[str, Any]) -> list[str]:
    line = state_in_words(facts["state"], facts["reason"])
    if facts.get("detail"):
        line += f": {facts['detail']}"
    unknown = facts.get("unknown_effects", [])
    if unknown:
        line += f"; not known whether done: {_and([f'effect {number}' for number in unknown])}"
    return [line]


def _leaving(leaving: shown.Leaving) -> list[str]:
    if not leaving.runs:
        return ["leaving"]
    return [f"leaving; up to {leaving.drain_s:g} s for {_and(leaving.runs)} to end"]


RUNS_AT_START: Final = 5

_SAID_BY_STATE: Final = frozenset({"answered", "user_stop"})


def state_in_words(state: str, reason: str | None) -> str:
    """Return a state with its reason, where that says more."""
    if reason is None or reason in _SAID_BY_STATE:
        return state
    return f"{state} ({in_words(reason)})"


def in_words(name: str) -> str:
    """Return a name of the store as words."""
    return name.replace("_", " ")


def quoted(text: str) -> str:
    """Return the beginning of a text, on one line, in quotes."""
    line = " ".join(text.split())
    return f"“{line}”" if len(line) <= QUOTE_LEN else f"“{line[: QUOTE_LEN - 1]}…”"


def _and(names: list[str] | tuple[str, ...]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


_MUTE: Final = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "\N{REPLACEMENT CHARACTER}"),
    # marks that reorder what is on a line, and separators that some terminals break at
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), ""),
    **dict.fromkeys((0x2028, 0x2029), " "),
    ord("\t"): "    ",
}


def printable(text: str) -> str:
    """Return a text that leaves the terminal as it is."""
    return text.encode(errors="replace").decode().translate(_MUTE)
