"""The planner asks for what the report needs and is not there yet, and for nothing else.

Method: inputs are built by hand, as a run would build them; no files are read. What the
planner does with real files is in `test_agent.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from counterpoint.runtime.desk import OfflinePlanner
from counterpoint.runtime.desk.notes import NOTES_BYTES_MAX, OFFERED, Exchange, Notes, model_input
from counterpoint.runtime.desk.planner import ToolOutcome
from counterpoint.runtime.gateways.protocol import Call, Reply
from counterpoint.store.revisions import Words

from .stage import Silence

REQUEST = "Compare A and B over the past year"
TABLES: dict[str, Any] = {
    "tables": [
        {
            "path": "t.csv",
            "columns": ["A", "B", "C"],
            "header_line": 1,
            "first_date": "2000-01-01",
            "last_date": "2010-01-01",
            "notes": [],
        }
    ],
    "refused": [],
    "complete": True,
}
NOTHING: dict[str, Any] = {
    "passages": [],
    "missing": [],
    "files": 1,
    "files_waiting": 0,
    "files_skipped": [],
    "complete": True,
}

READY = {"files": 1, "waiting": 0}


def exchange(reply: Reply, *outcomes: ToolOutcome, revision: int = 0) -> Exchange:
    results = tuple(msgspec.json.encode(outcome).decode() for outcome in outcomes)
    return Exchange(reply.text, reply.calls, results, revision)


def done(value: Any) -> ToolOutcome:
    return ToolOutcome("done", value)


async def ask(notes: Notes, *revisions: str, request: str = REQUEST) -> Reply:
    words = tuple(
        Words(number=number, text=text, at_ms=0) for number, text in enumerate(revisions, start=1)
    )
    sent = model_input("research", request, notes, words, OFFERED)
    return await OfflinePlanner().complete(sent, Silence())


def called(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in reply.calls]


def tabulation(first: str, *columns: str) -> tuple[str, dict[str, Any]]:
    arguments = {"path": "t.csv", "columns": [*columns]}
    return "tabulate", {**arguments, "first_date": first, "last_date": "2010-01-01"}


async def before_figures() -> Notes:
    """Return notes of a run that has listed the tables and searched."""
    notes = Notes()
    for values in ((READY, TABLES), (NOTHING,)):
        notes = notes.with_exchange(exchange(await ask(notes), *map(done, values)))
    return notes


async def test_the_plan_goes_from_tables_over_a_search_to_figures() -> None:
    notes = Notes()
    assert called(await ask(notes)) == [("prepare", {"step": 1}), ("tables", {})]
    notes = notes.with_exchange(exchange(await ask(notes), done(READY), done(TABLES)))
    assert called(await ask(notes)) == [("search", {"terms": ["A", "B"]})]
    notes = notes.with_exchange(exchange(await ask(notes), done(NOTHING)))
    assert called(await ask(notes)) == [tabulation("2009-01-01", "A", "B")]


async def test_a_large_folder_is_indexed_in_steps_before_it_is_searched() -> None:
    notes = Notes()
    half = done({"files": 500, "waiting": 400})
    notes = notes.with_exchange(exchange(await ask(notes), half, done(TABLES)))
    assert called(await ask(notes)) == [("prepare", {"step": 2})]
    notes = notes.with_exchange(exchange(await ask(notes), done(READY)))
    assert called(await ask(notes)) == [("search", {"terms": ["A", "B"]})]


async def test_the_same_input_gives_the_same_reply() -> None:
    notes = await before_figures()
    assert await ask(notes) == await ask(notes)


async def test_a_revised_window_makes_the_old_figures_no_longer_count() -> None:
    notes = await before_figures()
    old = exchange(await ask(notes), done({"outdated": "and of no shape that is read"}))
    notes = notes.with_exchange(old)
    assert called(await ask(notes, "the past three years")) == [tabulation("2007-01-01", "A", "B")]


async def test_an_added_column_is_searched_and_tabulated() -> None:
    notes = await before_figures()
    reply = await ask(notes, "加上 C")
    assert called(reply) == [("search", {"terms": ["A", "B", "C"]})]
    notes = notes.with_exchange(exchange(reply, done(NOTHING), revision=1))
    assert called(await ask(notes, "加上 C")) == [tabulation("2009-01-01", "A", "B", "C")]


async def test_a_skipped_call_is_asked_for_again_under_another_id() -> None:
    notes = await before_figures()
    first = await ask(notes)
    notes = notes.with_exchange(exchange(first, ToolOutcome("skipped", reason="revised")))
    again = await ask(notes)
    assert called(again) == called(first)
    assert again.calls[0].call_id != first.calls[0].call_id


async def test_a_failed_call_is_not_repeated_but_reported() -> None:
    notes = await before_figures()
    failed = ToolOutcome("failed", reason="t.csv cannot be read")
    notes = notes.with_exchange(exchange(await ask(notes), failed))
    reply = await ask(notes)
    assert reply.final
    assert "- tabulate failed: t.csv cannot be read" in reply.text


async def test_a_withdrawn_steering_counts_no_longer() -> None:
    notes = await before_figures()
    steered = await ask(notes, "the past three years")
    assert called(steered) != called(await ask(notes))
    notes = notes.with_exchange(exchange(steered, ToolOutcome("skipped"), revision=1))
    assert called(await ask(notes)) == [tabulation("2009-01-01", "A", "B")]


async def test_revisions_stand_verbatim_behind_what_was_decided_without_them() -> None:
    first = exchange(await ask(Notes()), done(READY), done(TABLES), revision=1)
    notes = Notes((first,))
    words = [Words(number=at, text=f"  weird\n{at} ", at_ms=0) for at in (1, 2)]
    sent = model_input("research", REQUEST, notes, tuple(words), ())
    roles = [(message.role, message.text) for message in sent.messages[1:]]
    assert [role for role, _ in roles] == [*("user", "user", "assistant", "tool", "tool", "user")]
    assert (roles[1][1], roles[5][1]) == (words[0].text, words[1].text)


async def test_notes_leave_the_oldest_results_out_when_they_grow_too_large() -> None:
    notes = Notes()
    for at in range(1, 4):
        call = Call(call_id=f"{at}", name="search", arguments={"terms": [f"{at}"]})
        large = done("x" * (NOTES_BYTES_MAX // 2 - 1000))
        notes = notes.with_exchange(exchange(Reply(text="", calls=(call,)), large))
    outcomes = [
        msgspec.json.decode(result, type=ToolOutcome).status
        for one in notes.exchanges
        for result in one.results
    ]
    assert outcomes == ["skipped", "done", "done"]
    assert len(msgspec.msgpack.encode(notes)) < NOTES_BYTES_MAX * 1.1
