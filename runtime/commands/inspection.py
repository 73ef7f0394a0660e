"""All that is recorded of a run, as lines for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...store.views import EffectView, Inspection, RequestView, RevisionView


def inspection(found: Inspection) -> list[str]:
    """Return the lines: what it is, what was added, what it did, what is not known."""
    run = found.run
    reason = "" if run.reason is None else f" ({_words(run.reason)})"
    lines = [
        f"{run.run}  {run.run_class}, {run.depth}, {run.state}{reason}",
        *([run.detail] if run.detail else []),
        f"asked     {' '.join(run.request.split())}",
        f"admitted  by {found.disposition}",
        *map(_revision, run.revisions),
        f"requests  {_counted(item.state for item in found.requests)}, "
        f"at most {found.budget.requests_max}",
        *map(_request, found.requests),
        f"effects   {_counted(item.state for item in found.effects)}, "
        f"at most {found.budget.effects_max}",
        *map(_effect, found.effects),
        f"saved     {found.checkpoints} checkpoints; slot {'held' if found.holds_slot else 'free'}",
    ]
    if run.answer is not None:
        lines += ["answer", *(f"  {line}" for line in run.answer.splitlines())]
    return lines


def _revision(item: RevisionView) -> str:
    where = "" if item.request is None else f" in request {item.request}"
    why = f" ({_words(item.reason)})" if item.reason else ""
    return f"revision {item.number} {_words(item.state)}{where}{why}: {' '.join(item.text.split())}"


def _request(item: RequestView) -> str:
    carried = ", ".join(map(str, item.carries))
    parts = [
        f"  request {item.ordinal} {_words(item.state)}",
        f"to {item.gateway}",
        *([f"carries revision {carried}"] if carried else []),
        *([_words(item.reason)] if item.reason else []),
        f"input {item.input_sha256[:12]}…",
    ]
    return ", ".join(parts)


def _effect(item: EffectView) -> str:
    why = f": {item.reason}" if item.reason else ""
    return f"  effect {item.number} {item.name} {_words(item.state)}{why}"


def _counted(states: Iterable[str]) -> str:
    counts = Counter(states)
    return ", ".join(f"{count} {_words(state)}" for state, count in counts.items()) or "none"


def _words(name: str) -> str:
    return str(name).replace("_", " ")
