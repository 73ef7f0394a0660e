"""A whole chat, from its opening to the last thing shown.

Method: the chat runs with its ways in memory on a store on disk; what the test does next
depends on what it was shown, never on time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from counterpoint.runtime import OutcomeUnknown, Runtime, open_runtime
from counterpoint.runtime.commands import shown
from counterpoint.runtime.commands.command import Plain
from counterpoint.runtime.commands.labels import Labels
from counterpoint.runtime.commands.session import open_session

from .chat_stage import Chat, Worker, answers, chatting


async def test_the_first_thing_shown_says_where_one_is(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        ready = await chat.first(shown.Ready)
    assert chat.shown[0] is ready
    assert (ready.reopened, ready.version, ready.runs) == (False, 1, ())
    assert (ready.store, ready.scope) == (str(tmp_path / "store"), "ann")
    assert chat.code == 0


@pytest.mark.contract("B54")
async def test_an_answer_stands_right_behind_the_end_of_its_run(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        chat.asks(id="m1", text="Hello")
        answer = await chat.first(shown.Answered)
    (receipt,) = chat.all(shown.Received)
    assert (receipt.id, receipt.verb, receipt.label) == ("m1", "plain", "r1")
    end = chat.shown[chat.shown.index(answer) - 1]
    assert isinstance(end, shown.Happened)
    assert (end.kind, end.run, end.number) == ("run_ended", receipt.run, answer.number)
    assert (answer.text, answer.client_id) == ("You said: Hello", "m1")
    (admitted,) = chat.all(shown.Happened, kind="message_admitted")
    assert (admitted.text, admitted.label, admitted.client_id) == ("Hello", "r1", "m1")


@pytest.mark.contract("B1", "B2", "B3", "B33")
async def test_a_person_goes_on_talking_while_research_runs(tmp_path: Path) -> None:
    worker = Worker()
    async with chatting(tmp_path, worker.agents()) as chat:
        chat.asks(id="m1", entry="background", text="Compare over three years")
        await chat.event("progress", label="r1")

        chat.asks(id="m2", text="Something else")
        answer = await chat.first(shown.Answered, label="r2")
        assert answer.text == "You said: Something else"
        assert "run_ended" not in chat.events(label="r1")

        chat.asks(id="m3", entry="steer", run="r1", text="only the last year")
        saved = await chat.event("revision_saved")
        assert (saved.label, saved.text, saved.client_id) == ("r1", "only the last year", "m3")
        assert "revision_delivered" not in chat.events()

        worker.finish()
        delivered = await chat.event("revision_delivered")
        assert (delivered.facts["revision"], delivered.facts["request"]) == (1, 1)
        report = await chat.first(shown.Answered, label="r1")
    assert report.text == "Compare over three years / only the last year"
    assert chat.code == 0


async def test_a_label_can_be_used_before_its_run_was_shown(tmp_path: Path) -> None:
    worker = Worker()
    async with chatting(tmp_path, worker.agents()) as chat:
        chat.asks(id="m1", entry="deep", text="Compare")
        chat.asks(id="m2", entry="steer", run="r1", text="less", expected_revision=0)
        chat.asks(id="m3", entry="steer", run="r1", text="more", expected_revision=0)
        chat.asks(id="m4", entry="inspect", run="r1")
        worker.finish()
        inspected = await chat.first(shown.Inspected)
    run = inspected.inspection.run
    assert (inspected.label, run.depth, run.revisions[0].text) == ("r1", "deep", "less")
    (stale,) = chat.all(shown.Declined)
    assert (stale.id, stale.code, stale.text) == ("m3", "stale_revision", "more")


@pytest.mark.contract("B8")
async def test_a_stop_ends_one_run_and_no_other(tmp_path: Path) -> None:
    worker = Worker()
    async with chatting(tmp_path, worker.agents(), slots={"background": 2}) as chat:
        chat.asks(id="m1", entry="background", text="first")
        chat.asks(id="m2", entry="background", text="second")
        await chat.event("progress", label="r1")
        await chat.event("progress", label="r2")
        chat.asks(id="m3", entry="stop", run="r2")
        ended = await chat.event("run_ended")
        assert (ended.label, ended.facts["state"]) == ("r2", "stopped")
        assert chat.events(label="r2").index("stop_accepted") < chat.events(label="r2").index(
            "run_ended"
        )
        worker.finish()
        assert (await chat.first(shown.Answered)).label == "r1"
    (only,) = chat.all(shown.Happened, kind="run_ended", label="r1")
    assert only.facts["state"] == "completed"


@pytest.mark.contract("B52", "C3", "C4")
async def test_a_refusal_names_the_holders_and_gives_the_words_back(tmp_path: Path) -> None:
    worker = Worker()
    async with chatting(tmp_path, worker.agents()) as chat:
        chat.asks(id="m1", entry="background", text="first")
        receipt = await chat.first(shown.Received)
        chat.asks(id="m2", entry="background", text="second")
        refused = await chat.first(shown.Declined)
        chat.asks(id="m2", entry="lookup")
        found = await chat.first(shown.Found)
        worker.finish()
    assert (refused.id, refused.code, refused.text) == ("m2", "capacity_full", "second")
    assert refused.facts["holders"] == [receipt.run]
    assert refused.retry_same_id
    assert found.receipt is None


async def test_a_mistake_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        chat.asks(b"nope")
        chat.asks(b'{"id": "m1", "text": "\xff"}')
        chat.asks(id="m2")
        chat.asks(id="m3", entry="steer", run="r7", text="mine")
        chat.asks(id="m4", text="")
        chat.asks(id="", text="mine")
        chat.asks(id="m5", text="x" * 70_000)
        chat.asks(id="m6", text="Hello")
        await chat.first(shown.Answered)
    refused = [(item.id, item.code, item.text) for item in chat.all(shown.Declined)]
    assert refused == [
        (None, "invalid", None),
        (None, "invalid", None),
        ("m2", "invalid", None),
        ("m3", "not_found", "mine"),
        ("m4", "invalid", ""),
        ("", "invalid", "mine"),
        ("m5", "too_large", "x" * 70_000),
    ]
    assert chat.events().count("message_admitted") == 1


@pytest.mark.contract("A16", "A17", "C1")
async def test_the_same_line_again_is_the_same_receipt(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        chat.asks(id="m1", text="Hello")
        chat.asks(id="m1", text="Hello")
        chat.asks(id="m1", text="Good bye")
        conflict = await chat.first(shown.Declined)
        chat.asks(id="m1", entry="lookup")
        found = await chat.first(shown.Found)
    first, second = chat.all(shown.Received)
    assert first == second == found.receipt
    assert (conflict.code, conflict.text) == ("conflict", "Good bye")


@pytest.mark.contract("C43", "E9")
async def test_the_end_of_input_waits_for_the_runs_and_shows_every_event(tmp_path: Path) -> None:
    worker = Worker()
    async with chatting(tmp_path, worker.agents()) as chat:
        chat.asks(id="m1", entry="background", text="first")
        await chat.event("progress")
        chat.ends()
        waiting = await chat.first(shown.Waiting)
        worker.finish()
    assert waiting.runs == ("r1",)
    numbers = [event.number for event in chat.all(shown.Happened)]
    assert numbers == list(range(2, numbers[-1] + 1))
    assert isinstance(chat.shown[-1], shown.Answered)
    assert chat.code == 0


@pytest.mark.contract("D20")
async def test_to_quit_gives_the_runs_a_moment_and_shows_what_became_of_them(
    tmp_path: Path,
) -> None:
    async with chatting(tmp_path, Worker().agents()) as chat:
        chat.asks(id="m1", entry="background", text="first")
        await chat.event("progress")
        chat.asks(entry="quit")
        chat.asks(id="m2", text="too late")
    leaving = await chat.first(shown.Leaving)
    assert leaving.runs == ("r1",)
    ended = await chat.event("run_ended")
    assert (ended.facts["state"], ended.facts["reason"]) == ("interrupted", "host_shutdown")
    assert chat.events().count("message_admitted") == 1
    assert chat.code == 0


@pytest.mark.contract("C43")
async def test_the_conversation_goes_on_at_its_cursor(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        chat.asks(id="m1", text="Hello")
        await chat.first(shown.Answered)
    before = chat.all(shown.Happened)

    async with chatting(tmp_path) as again:
        ready = await again.first(shown.Ready)
        again.asks(id="m2", text="And?")
        await again.first(shown.Answered)
    assert ready.reopened
    assert ready.version == ready.after == before[-1].number
    (run,) = ready.runs
    assert (run.label, run.state, run.request) == ("r1", "completed", "Hello")
    assert again.all(shown.Happened)[0].number == ready.version + 1
    assert again.all(shown.Answered)[0].label == "r2"

    async with chatting(tmp_path, after=0) as replay:
        await replay.first(shown.Answered, label="r2")
    assert replay.all(shown.Happened)[1:] == before + again.all(shown.Happened)


async def test_a_cursor_from_elsewhere_is_refused(tmp_path: Path) -> None:
    async with chatting(tmp_path, after=99) as chat:
        pass
    assert chat.code == 2
    assert chat.said == ["--after 99: the conversation's last event is number 1."]
    assert chat.shown == []


@pytest.mark.contract("D19", "E10")
async def test_a_full_map_refuses_and_loses_nothing(tmp_path: Path) -> None:
    text = "x" * 30_000
    async with chatting(tmp_path, map_bytes_max=1 << 19, slots={"short": 100}) as chat:
        number = 0
        while not chat.all(shown.Declined):
            number += 1
            chat.asks(id=f"m{number}", text=text)
            await chat.outcome(f"m{number}")
        chat.asks(entry="quit")
    (refused,) = chat.all(shown.Declined)
    assert (refused.code, refused.text, refused.retry_same_id) == ("store_full", text, True)
    accepted = {receipt.id for receipt in chat.all(shown.Received)}
    assert accepted

    async with chatting(tmp_path) as again:
        again.asks(id="q", entry="view")
        view = (await again.first(shown.Viewed)).view
        again.asks(id=f"m{number}", text=text)
        await again.first(shown.Received, id=refused.id)
    assert accepted == {entry.client_id for entry in view.entries if entry.verb == "plain"}


async def test_what_is_read_changes_nothing(tmp_path: Path) -> None:
    worker = Worker()
    worker.finish()
    async with chatting(tmp_path, worker.agents()) as chat:
        chat.asks(id="m1", entry="background", text="Hello")
        await chat.first(shown.Answered)
        chat.asks(id="q1", entry="view")
        chat.asks(id="q2", entry="runs")
        chat.asks(id="q3", entry="export", run="r1", ordinal=1)
        chat.asks(id="q4", entry="export", run="r1", ordinal=2)
        chat.asks(id="q5", entry="view", before=2)
        await chat.first(shown.Viewed, id="q5")
    whole, older = chat.all(shown.Viewed)
    assert [entry.text for entry in whole.view.entries] == ["Hello", "Hello"]
    assert [entry.text for entry in older.view.entries] == ["Hello"]
    assert list(whole.labels.values()) == ["r1"]
    (listed,) = chat.all(shown.Listed)
    assert [(run.label, run.state) for run in listed.runs] == [("r1", "completed")]
    (exported,) = chat.all(shown.Exported)
    assert b"Hello" in bytes(exported.input)
    (missing,) = chat.all(shown.Declined)
    assert (missing.id, missing.code) == ("q4", "not_found")
    assert max(event.number for event in chat.all(shown.Happened)) == whole.view.version


class Doubtful:
    """A runtime whose every submission ends unknown, and that knows what is stored."""

    def __init__(self, runtime: Runtime, *, stores: bool) -> None:
        self._runtime = runtime
        self._stores = stores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    async def submit(self, **fields: Any) -> None:
        if self._stores:
            await self._runtime.submit(**fields)
        raise OutcomeUnknown("No outcome was known in time.", fields["client_id"])


@pytest.mark.contract("A19", "C2")
@pytest.mark.parametrize(
    ("reconciles", "stores", "told"),
    [
        (False, True, shown.Unknown),  # whoever gave the id looks it up
        (True, True, shown.Received),
        (True, False, shown.Unknown),
    ],
)
async def test_an_unknown_outcome_is_looked_up_for_who_types_no_ids(
    tmp_path: Path, reconciles: bool, stores: bool, told: type[shown.Shown]
) -> None:
    screen = Chat(tmp_path)
    async with open_runtime(tmp_path / "store", agents={"short": answers}) as runtime:
        session, _ = await open_session(
            cast("Runtime", Doubtful(runtime, stores=stores)),
            screen,
            Labels(),
            scope="ann",
            reconciles=reconciles,
        )
        await session.carry_out(Plain(id="m1", text="Hello"))
        assert len((await session.view()).entries) >= int(stores)
    (only,) = screen.shown
    assert isinstance(only, told)
