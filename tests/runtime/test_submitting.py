"""A message is admitted once, whoever sends it how often, and is told apart by its id alone.

Method: one agent answers at once or waits at a gate; the same and other submissions come in
one after another, at the same time, and after a restart.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from counterpoint.runtime import Code, Config, Limits, Receipt, Refused
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.ids import ConversationId

from .stage import InMemory, Person, answers, person, plays, rests, run_of

ANSWERS = {"short": answers, "background": answers}
RESTS = {"short": rests, "background": rests}


@pytest.mark.contract("A4", "A15", "D1", "D2", "E1")
async def test_a_message_gets_an_id_a_run_and_in_the_end_its_answer() -> None:
    async with InMemory().open(ANSWERS) as runtime:
        ann = await person(runtime)
        receipt = await ann.says(" Wie geht’s? \n", client_id="m-1")
        run = await ann.end_of(run_of(receipt))
        view = await ann.view()

    assert (receipt.client_id, receipt.verb, receipt.revision) == ("m-1", "plain", None)
    assert (run.state, run.reason) == ("completed", "answered")
    assert (run.request, run.answer) == (" Wie geht’s? \n", "You said:  Wie geht’s? \n")
    assert (run.message, run.client_id) == (receipt.message, "m-1")
    assert [(entry.entry, entry.run) for entry in view.entries] == [
        (receipt.message, receipt.run),
        (run.publication, receipt.run),
    ]
    assert view.entries[0].disposition == "answer: nothing to decide"


@pytest.mark.contract("A12", "A16", "A56", "C1", "P2", "P9", "P12")
async def test_the_same_submission_reads_its_receipt_back_also_when_its_run_has_ended() -> None:
    place = InMemory()
    async with place.open(ANSWERS) as runtime:
        ann = await person(runtime)
        first = await ann.says("Hello", client_id="m-1")
        assert await ann.says("Hello", client_id="m-1") == first
        await ann.end_of(run_of(first))
        with place.stores_nothing():
            assert await ann.says("Hello", client_id="m-1") == first
        assert len((await ann.view()).runs) == 1


@pytest.mark.contract("A13", "P19")
async def test_the_same_words_under_two_ids_are_two_messages_and_two_runs() -> None:
    async with InMemory().open(ANSWERS) as runtime:
        ann = await person(runtime)
        first, second = await ann.says("Again!"), await ann.says("Again!")

    assert first.message != second.message
    assert first.run != second.run


# fmt: off
OTHERS: list[tuple[str, Mapping[str, Any]]] = [  # the field that differs, and how
    ("text", {"text": "Hello!"}),
    ("text", {"text": "Hello "}),
    ("verb", {"entry": "background"}),
    ("conversation", {"conversation": "other"}),
]
# fmt: on


@pytest.mark.contract("A14", "A17", "D7", "C3", "C4")
@pytest.mark.parametrize(("field", "other"), OTHERS)
async def test_a_used_id_with_another_meaning_is_a_conflict_that_names_what_differs(
    field: str, other: Mapping[str, Any]
) -> None:
    place = InMemory()
    async with place.open(ANSWERS) as runtime:
        ann = await person(runtime)
        elsewhere = await runtime.open_conversation(scope="ann", client_id="c-2")
        first = await ann.says("Hello", client_id="m-1")
        await ann.end_of(run_of(first))
        submission: dict[str, Any] = {"text": "Hello", "conversation": ann.conversation, **other}
        if "conversation" in other:
            submission["conversation"] = elsewhere.conversation

        with place.refuses(Code.CONFLICT) as caught:
            await runtime.submit(scope="ann", client_id="m-1", **submission)
        assert await runtime.lookup(scope="ann", client_id="m-1") == first
        assert (await ann.run(run_of(first))).request == "Hello"

    facts = caught.value.facts
    assert facts["field"] == field
    assert facts["expected"] != facts["actual"]
    assert (facts["conversation"], facts["message"], facts["run"]) == (
        ann.conversation,
        first.message,
        first.run,
    )
    assert caught.value.text == submission["text"]
    assert not caught.value.retry_same_id


@pytest.mark.contract("A17", "E11")
async def test_a_conflict_shows_hashes_and_never_the_words() -> None:
    async with InMemory().open(ANSWERS) as runtime:
        ann = await person(runtime)
        await ann.says("A secret", client_id="m-1")
        with pytest.raises(Refused) as caught:
            await ann.says("A guess", client_id="m-1")

    assert caught.value.facts["expected"] == hashlib.sha256(b"A secret").hexdigest()
    assert "secret" not in str(caught.value.as_dict())


@pytest.mark.contract("C1", "D7", "P11")
async def test_an_id_used_by_one_verb_is_a_conflict_for_every_other_verb() -> None:
    place = InMemory()
    async with place.open(RESTS) as runtime:
        ann = await person(runtime)
        other = await ann.researches("Dig")
        submitted = await ann.says("Hello", client_id="submitted")
        steered = await ann.steers(other, "Deeper", client_id="steered")
        stopped = await ann.stops(run_of(submitted), client_id="stopped")
        await ann.end_of(run_of(submitted))
        opened = await runtime.open_conversation(scope="ann", client_id="opened")

        for client_id in ("submitted", "steered", "stopped", "opened"):
            for verb in ("submit", "steer", "stop", "open"):
                if client_id.startswith(verb):
                    continue
                with place.refuses(Code.CONFLICT):
                    await _do(verb, ann, other, client_id)
        found = [
            await runtime.lookup(scope="ann", client_id=client_id)
            for client_id in ("submitted", "steered", "stopped", "opened")
        ]
        assert found == [submitted, steered, stopped, opened]
        await ann.stops(other)


async def _do(verb: str, ann: Person, run: str, client_id: str) -> Receipt:
    match verb:
        case "submit":
            return await ann.says("Hello", client_id=client_id)
        case "steer":
            return await ann.steers(run, "Deeper", client_id=client_id)
        case "stop":
            return await ann.stops(run, client_id=client_id)
        case _:
            return await ann.runtime.open_conversation(scope=ann.scope, client_id=client_id)


@pytest.mark.contract("D7", "E11")
async def test_two_scopes_may_use_the_same_id() -> None:
    async with InMemory().open(ANSWERS) as runtime:
        ann, bob = await person(runtime, "ann"), await person(runtime, "bob")
        hers = await ann.says("Hello", client_id="m-1")
        his = await bob.says("Good day", client_id="m-1")
        assert hers.run != his.run
        assert await runtime.lookup(scope="bob", client_id="m-1") == his


@pytest.mark.contract("C5", "P14")
async def test_a_retry_is_answered_when_every_slot_is_taken_also_by_its_own_run() -> None:
    config = Config(limits=Limits(capacity={"short": 1, "background": 0}))
    place = InMemory()
    async with place.open(RESTS, config) as runtime:
        ann = await person(runtime)
        first = await ann.says("Hello", client_id="m-1")
        with place.refuses(Code.CAPACITY_FULL):
            await ann.says("And?", client_id="m-2")

        assert await ann.says("Hello", client_id="m-1") == first
        await ann.stops(run_of(first))


@pytest.mark.contract("D8", "A21", "A22", "C3", "C4")
async def test_a_refusal_stores_nothing_and_its_id_may_be_used_again_unchanged() -> None:
    config = Config(limits=Limits(capacity={"short": 1, "background": 0}))
    place = InMemory()
    async with place.open(RESTS, config) as runtime:
        ann = await person(runtime)
        first = await ann.starts("Hello")
        with place.refuses(Code.CAPACITY_FULL) as caught:
            await ann.says("And you?", client_id="m-2")
        assert await runtime.lookup(scope="ann", client_id="m-2") is None
        await ann.stops(first)
        await ann.end_of(first)

        admitted = await ann.says("And you?", client_id="m-2")
        await ann.stops(run_of(admitted))

    refused = caught.value
    assert refused.retry_same_id
    assert refused.text == "And you?"
    assert refused.as_dict()["facts"]["holders"] == [first]


@pytest.mark.contract("A21", "D8")
async def test_an_id_that_was_refused_is_free_for_another_meaning() -> None:
    config = Config(limits=Limits(text_bytes_max=10))
    place = InMemory()
    async with place.open(ANSWERS, config) as runtime:
        ann = await person(runtime)
        with place.refuses(Code.TOO_LARGE):
            await ann.says("far too long for this", client_id="m-1")
        await ann.end_of(run_of(await ann.says("shorter", client_id="m-1")))


@pytest.mark.contract("C8", "B11")
async def test_every_id_that_is_returned_can_be_read_and_stopped_at_once() -> None:
    async with InMemory().open(RESTS) as runtime:
        ann = await person(runtime)
        receipt = await ann.says("Hello")
        run = run_of(receipt)

        assert (await ann.run(run)).stoppable
        assert (await runtime.inspect(scope="ann", run=run)).holds_slot
        assert (await ann.view()).version >= receipt.version
        assert receipt.message in [entry.entry for entry in (await ann.view()).entries]
        stopped = await ann.stops(run)
        assert (await ann.end_of(run)).state == "stopped"
        assert await runtime.lookup(scope="ann", client_id=stopped.client_id) == stopped


@pytest.mark.contract("C6", "P16", "P17")
async def test_a_hundred_identical_submissions_at_once_are_one_message_and_one_run() -> None:
    place = InMemory()
    gate = Gate()
    gateway = ScriptedGateway(say(gate, "Hello yourself."))
    receipts: list[Receipt] = []
    async with place.open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)

        async def submit() -> None:
            receipts.append(await ann.says("Hello", client_id="m-1"))

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(submit)
        await gate.reached()
        gate.release()
        await ann.end_of(run_of(receipts[0]))
        assert len(await ann.events("message_admitted")) == 1

    assert receipts == receipts[:1] * 100
    assert len(gateway.received) == 1


@pytest.mark.contract("C6", "A17")
async def test_of_two_meanings_at_once_under_one_id_one_is_admitted_and_one_a_conflict() -> None:
    admitted: list[str] = []
    refused: list[Refused] = []
    async with InMemory().open(ANSWERS) as runtime:
        ann = await person(runtime)

        async def submit(text: str) -> None:
            try:
                await ann.says(text, client_id="m-1")
            except Refused as error:
                refused.append(error)
            else:
                admitted.append(text)

        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(submit, f"Text {n % 2}")
        assert [entry.text for entry in (await ann.view()).entries if entry.verb] == admitted[:1]

    assert len(admitted) == len(refused) == 10
    assert len(set(admitted)) == 1
    assert {error.code for error in refused} == {Code.CONFLICT}
    assert all(error.text not in admitted for error in refused)


@pytest.mark.contract("C2", "A19", "C25")
async def test_who_leaves_a_submission_finds_its_outcome_under_the_id() -> None:
    place = InMemory()
    async with place.open(ANSWERS) as runtime:
        ann = await person(runtime)
        found: list[Receipt | None] = []

        async def look_up() -> None:
            found.append(await runtime.lookup(scope="ann", client_id="m-1"))

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                with trio.CancelScope() as left:
                    left.cancel()
                    await ann.says("Hello", client_id="m-1")
                nursery.start_soon(look_up)
                await trio.testing.wait_all_tasks_blocked()
                assert found == []
        assert left.cancelled_caught
        assert found[0] is not None
        assert await ann.says("Hello", client_id="m-1") == found[0]


@pytest.mark.contract("C2", "A19")
async def test_looking_up_a_conversation_that_is_being_opened_waits_for_its_outcome() -> None:
    place = InMemory()
    async with place.open(ANSWERS) as runtime:
        found: list[Receipt | None] = []

        async def look_up() -> None:
            found.append(await runtime.lookup(scope="ann", client_id="c-1"))

        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                with trio.CancelScope() as left:
                    left.cancel()
                    await runtime.open_conversation(scope="ann", client_id="c-1")
                nursery.start_soon(look_up)
                await trio.testing.wait_all_tasks_blocked()
                assert found == []
        assert found[0] is not None
        assert found == [await runtime.open_conversation(scope="ann", client_id="c-1")]


@pytest.mark.contract("D18", "A20", "C2", "C3")
async def test_a_store_that_stays_locked_refuses_as_busy_and_nothing_happened(
    autojump_clock: MockClock,
) -> None:
    place = InMemory()
    async with place.open(ANSWERS, Config(write_wait_s=3)) as runtime:
        ann = await person(runtime)
        with place.engine.locked_elsewhere(), place.refuses(Code.BUSY) as caught:
            await ann.says("Hello", client_id="m-1")
        assert await runtime.lookup(scope="ann", client_id="m-1") is None

        run = run_of(await ann.says("Hello", client_id="m-1"))
        assert (await ann.end_of(run)).answer == "You said: Hello"

    assert caught.value.facts == {"waited_s": 3}
    assert caught.value.retry_same_id
    assert caught.value.text == "Hello"


@pytest.mark.contract("D21", "E11")
async def test_what_belongs_to_another_scope_is_not_there() -> None:
    place = InMemory()
    async with place.open(RESTS) as runtime:
        ann = await person(runtime, "ann")
        run = await ann.starts("A secret")
        eve = Person(runtime, "eve", ann.conversation)
        never = Person(runtime, "eve", ConversationId("c" + "0" * 24))

        for intruder, target in ((eve, run), (never, "r" + "0" * 24)):
            with place.refuses(Code.NOT_FOUND):
                await intruder.says("Hello")
            with place.refuses(Code.NOT_FOUND):
                await intruder.steers(target, "Tell me")
            with place.refuses(Code.NOT_FOUND):
                await intruder.stops(target)
            with place.refuses(Code.NOT_FOUND):
                await intruder.view()
            with place.refuses(Code.NOT_FOUND):
                await intruder.events()
            with place.refuses(Code.NOT_FOUND):
                await intruder.run(target)
            with place.refuses(Code.NOT_FOUND):
                await runtime.wait(scope="eve", run=target)
            with place.refuses(Code.NOT_FOUND):
                await runtime.inspect(scope="eve", run=target)
            with place.refuses(Code.NOT_FOUND):
                await runtime.export_request(scope="eve", run=target, ordinal=1)
        assert await runtime.conversations(scope="eve") == []
        assert await runtime.lookup(scope="eve", client_id="ann-1") is None
        await ann.stops(run)
