"""What a person reads at a terminal, line by line: pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.commands import shown
from counterpoint.runtime.commands.labels import Labels
from counterpoint.runtime.commands.printed import Printer, printable, quoted, state_in_words

# fmt: off
EVENTS: list[tuple[str, dict[str, Any], str | None, list[str]]] = [  # kind, facts, words, lines
    ("message_admitted", {"run_class": "short"}, "Why?", ["started: “Why?”"]),
    ("message_admitted", {"run_class": "background"}, "Why?", ["research started: “Why?”"]),
    ("revision_saved", {"revision": 2}, "less", ["saved as revision 2: “less”"]),
    ("request_started", {"request": 3, "revisions": []}, None, []),
    ("request_started", {"request": 3, "revisions": [1, 2]}, None,
     ["revision 1 and revision 2 on the way in request 3"]),
    ("revision_delivered", {"revision": 2, "request": 3}, None,
     ["revision 2 delivered in request 3"]),
    ("revision_settled", {"revision": 2, "state": "not_applied", "reason": "user_stop"}, None,
     ["revision 2 not applied: the run ended first (user stop)"]),
    ("request_ended", {"request": 3, "state": "completed", "reason": ""}, None, []),
    ("request_ended", {"request": 3, "state": "interrupted", "reason": "steering"}, None,
     ["request 3 interrupted: steering"]),
    ("effect_started", {"effect": 1, "name": "read", "state": "open"}, None, []),
    ("effect_ended", {"effect": 1, "name": "read", "state": "done", "reason": ""}, None, []),
    ("effect_ended", {"effect": 1, "name": "read", "state": "failed", "reason": "gone"}, None,
     ["read (effect 1) failed: gone"]),
    ("progress", {"text": "Reading a.md"}, None, ["Reading a.md"]),
    ("run_promoted", {}, None, ["goes on in the background"]),
    ("promotion_refused", {"holders": ["rx"]}, None, ["stays short: the background is held by rx"]),
    ("run_adopted", {}, None, ["taken over from a process that is gone"]),
    ("stop_accepted", {"requests": [], "effects": []}, None,
     ["stop accepted: nothing more goes out of this run"]),
    ("run_ended", {"state": "completed", "reason": "answered", "detail": ""}, None, ["completed"]),
    ("run_ended", {"state": "stopped", "reason": "user_stop", "detail": ""}, None, ["stopped"]),
    ("run_ended", {"state": "interrupted", "reason": "owner_lost", "detail": "It is gone.",
                   "unknown_effects": [4]}, None,
     ["interrupted (owner lost): It is gone.; not known whether done: effect 4"]),
    ("run_resumed", {"entry": 2, "checkpoint": 5}, None,
     ["taken up again at checkpoint 5: its process is gone"]),
    ("revision_withdrawn", {"revision": 2}, None, ["revision 2 withdrawn"]),
    ("effect_resolved", {"effect": 1, "name": "send", "state": "done", "reason": ""}, None,
     ["send (effect 1) is settled as done"]),
    ("conversation_opened", {}, None, []),
    ("something_new", {}, None, ["something new"]),
]
# fmt: on


def event(kind: str, facts: dict[str, Any], text: str | None, **fields: Any) -> shown.Happened:
    usual: dict[str, Any] = {
        "number": 1,
        "kind": kind,
        "at_ms": 0,
        "conversation": "c",
        "run": "rx",
        "label": "r1",
        "message": None,
        "client_id": "mine-1",
        "facts": facts,
        "text": text,
    }
    return shown.Happened(**(usual | fields))


def printer(*, colour: bool = False) -> Printer:
    return Printer(Labels(), colour=colour, mine="mine-")


@pytest.mark.parametrize(("kind", "facts", "text", "lines"), EVENTS)
def test_an_event_is_told_in_short_lines_with_its_label(
    kind: str, facts: dict[str, Any], text: str | None, lines: list[str]
) -> None:
    assert printer().lines(event(kind, facts, text)) == [f"r1 │ {line}" for line in lines]


def test_what_somebody_else_asked_for_is_told_as_theirs() -> None:
    other = event("revision_saved", {"revision": 1}, "less", client_id="theirs-1")
    assert printer().lines(other) == ["r1 │ saved as revision 1 (from elsewhere): “less”"]


def test_an_answer_is_printed_whole_and_every_line_has_its_label() -> None:
    answer = shown.Answered(
        number=1,
        run="rx",
        label="r12",
        client_id="m",
        publication="p",
        state="completed",
        text="One\n\n  two\x1b[2J",
    )
    assert printer().lines(answer) == ["r12│ One", "r12│", "r12│   two\N{REPLACEMENT CHARACTER}[2J"]
    coloured = printer(colour=True).lines(answer)
    assert all(line.startswith("\x1b[3") and "\x1b[0m│" in line for line in coloured)


@pytest.mark.contract("C4")
def test_a_refusal_says_who_is_in_the_way_and_keeps_the_words() -> None:
    refused = shown.Declined(
        id="m",
        entry="background",
        code="capacity_full",
        sentence="All slots are in use.",
        retry_same_id=True,
        facts={"holders": ["rx", "ry"]},
        text="compare",
    )
    assert printer().lines(refused) == [
        "-- │ not accepted: All slots are in use.",
        "-- │ held by rx and ry: /stop or /steer works on it",
        "-- │ your words: “compare” (the arrow up brings them back)",
    ]


def test_the_start_says_where_one_is_and_what_became_of_the_last_runs() -> None:
    run = shown.RunLine(
        label="r1",
        run="rx",
        client_id="m",
        request="Compare",
        run_class="background",
        state="interrupted",
        reason="owner_lost",
        requests=1,
        revisions=0,
        admitted_at_ms=0,
        ended_at_ms=1,
    )
    ready = shown.Ready(
        conversation="c",
        version=9,
        after=9,
        reopened=True,
        scope="me",
        store="/s",
        folder="/f",
        runs=(run,),
    )
    assert printer().lines(ready) == [
        "-- │ folder  /f",
        "-- │ store   /s",
        "-- │ scope   me",
        "-- │ The conversation goes on. Its last runs:",
        "r1 │ background  interrupted (owner lost)  “Compare”",
        "-- │ Type a question, /research TEXT for work in the background, or /help.",
    ]


@given(st.text())
def test_no_text_can_move_the_cursor(text: str) -> None:
    assert printable(text).encode().decode() == printable(text)
    assert all(character.isprintable() or character == " " for character in printable(text)
               if ord(character) < 0xA0)  # fmt: skip


def test_a_quotation_stays_on_its_line() -> None:
    assert quoted("a\n b") == "“a b”"
    assert len(quoted("word " * 50)) == 62


def test_a_reason_is_told_where_it_says_more_than_the_state() -> None:
    assert state_in_words("running", None) == "running"
    assert state_in_words("completed", "answered") == "completed"
    assert state_in_words("partial", "budget") == "partial (budget)"
