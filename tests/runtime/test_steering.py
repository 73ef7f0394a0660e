"""What a person adds to a running run is saved, carried by the next request, and delivered.

Method: the agent's requests wait at gates of a scripted gateway, so that each steering comes
in at a known point; then the exported inputs, the events and the views are compared. An
agent made with `PATIENT` waits for its request; any other is cut by a steering.
"""

import hashlib
from typing import Any

import pytest
import trio

from counterpoint.runtime import (
    Agent,
    AgentFunction,
    Call,
    Code,
    Config,
    Limits,
    ModelInput,
    ModelMessage,
    Refused,
    RunContext,
)
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say

from .stage import InMemory, Place, answers, as_input, person, plays, rests, user_words

WORDS = "Only  the last year —\n请只看最近一年 "
LOOK = Call(call_id="1", name="look", arguments={"at": "tea"})
LOOK_AGAIN = Call(call_id="2", name="look", arguments={"at": "coffee"})


def patient(agent: AgentFunction) -> Agent:
    return Agent(agent, when_steered="after_request")


def agents(background: AgentFunction | Agent) -> dict[str, AgentFunction | Agent]:
    return {"short": answers, "background": background}


async def look(arguments: dict[str, Any]) -> str:
    return f"saw {arguments['at']}"


@pytest.mark.contract("B33", "C11", "B17", "B28", "B30", "E3", "P47")
async def test_a_steering_is_saved_then_carried_then_delivered_and_each_is_seen(
    place: Place,
) -> None:
    first, second = Gate(), Gate()
    gateway = ScriptedGateway(say("All years.", first), say("This year.", second))
    async with place.open(agents(patient(plays(gateway)))) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await first.reached()
        receipt = await ann.steers(run, WORDS)

        saved = (await ann.run(run)).revisions[0]
        first.release()
        await second.reached()
        carried = (await ann.run(run)).revisions[0]
        second.release()
        ended = await ann.end_of(run)
        delivered = ended.revisions[0]

        inputs = [await ann.input_of(run, n) for n in (1, 2)]
        exported = await runtime.export_request(scope="ann", run=run, ordinal=2)
        story = [
            (event.kind, event.facts.get("request"))
            for event in await ann.events(
                "revision_saved", "request_started", "revision_delivered", "run_ended"
            )
        ]
        entries = (await ann.view()).entries

    assert (receipt.verb, receipt.run, receipt.revision) == ("steer", run, 1)
    assert (saved.state, saved.request) == ("saved", None)
    assert (carried.state, carried.request) == ("carried", 2)
    assert (delivered.state, delivered.request) == ("delivered", 2)
    assert delivered.text == WORDS
    assert delivered.input_sha256 == hashlib.sha256(exported).hexdigest()
    assert [WORDS in user_words(model_input) for model_input in inputs] == [False, True]
    assert story == [
        ("request_started", 1),
        ("revision_saved", None),
        ("request_started", 2),
        ("revision_delivered", 2),
        ("run_ended", None),
    ]
    assert ended.answer == "This year."
    assert [(entry.entry, entry.text) for entry in entries if entry.verb == "steer"] == [
        (receipt.message, WORDS)
    ]


@pytest.mark.contract("C12", "B60", "B61", "B62", "B64", "P34", "P36")
async def test_a_steering_cuts_the_text_that_streams_and_the_next_request_carries_it() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("All ye", gate, "ars."), say("This year."))
    async with InMemory().open(agents(plays(gateway))) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        await ann.steers(run, WORDS)
        ended = await ann.end_of(run)
        requests = (await runtime.inspect(scope="ann", run=run)).requests

    assert (ended.state, ended.answer) == ("completed", "This year.")
    assert [(item.state, item.reason, item.carries) for item in requests] == [
        ("interrupted", "steering", ()),
        ("completed", "", (1,)),
    ]
    assert [WORDS in user_words(item.model_input) for item in gateway.received] == [False, True]


@pytest.mark.contract("C12", "C11", "E3", "P34")
async def test_a_steering_saved_while_an_input_is_built_is_in_the_request_that_goes_out() -> None:
    """It is committed after the agent has built an input without it, and before the request
    is recorded: that input is never sent."""
    place = InMemory()
    gate = Gate()
    gateway = ScriptedGateway(say("Done."))
    built: list[ModelInput] = []

    async def agent(run: RunContext) -> None:
        await gate.passed()
        async for turn in run.turns():

            def build(revisions: Any) -> ModelInput:
                built.append(as_input(run, revisions))
                return built[-1]

            await run.complete((await turn.request(gateway, build)).text)

    async with place.open(agents(agent)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        async with trio.open_nursery() as nursery:
            with place.engine.locked_elsewhere():
                nursery.start_soon(ann.steers, run, WORDS)
                await trio.testing.wait_all_tasks_blocked()
                gate.release()
                await trio.testing.wait_all_tasks_blocked()
        ended = await ann.end_of(run)

    assert [WORDS in user_words(model_input) for model_input in built] == [False, True]
    assert [received.model_input for received in gateway.received] == built[1:]
    assert ended.revisions[0].request == 1


@pytest.mark.contract("C13", "C34", "B61", "E3", "P44")
async def test_effects_decided_under_an_older_revision_are_skipped_with_paired_results() -> None:
    looking, called = Gate(), Gate()

    async def look_slowly(arguments: dict[str, Any]) -> str:
        await looking.passed()
        return await look(arguments)

    gateway = ScriptedGateway(say(LOOK, LOOK_AGAIN), say(LOOK_AGAIN, called), say("Done."))
    async with InMemory().open(agents(plays(gateway, {"look": look_slowly}))) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await looking.reached()
        await ann.steers(run, "No coffee, please.")
        looking.release()  # the first effect had begun: it is finished and kept
        await called.reached()
        await ann.steers(run, "No tea either.")  # the call has begun: the request is not cut
        called.release()
        ended = await ann.end_of(run)
        effects = (await runtime.inspect(scope="ann", run=run)).effects

    assert [(item.state, item.reason) for item in effects] == [
        ("done", ""),
        ("skipped", "superseded by revision 1"),
        ("skipped", "superseded by revision 2"),
    ]
    last = gateway.received[-1].model_input
    assert [(message.call_id, message.text) for message in last.messages if message.call_id] == [
        ("1", "done: saw tea"),
        ("2", "skipped: superseded by revision 1"),
        ("2", "skipped: superseded by revision 2"),
    ]
    assert user_words(last)[-2:] == ["No coffee, please.", "No tea either."]
    assert [revision.request for revision in ended.revisions] == [2, 3]


@pytest.mark.contract("C14", "C3", "C4")
async def test_a_steering_against_another_revision_is_refused_with_both_numbers() -> None:
    place = InMemory()
    async with place.open(agents(rests)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await ann.steers(run, "One", expected=0)
        with place.refuses(Code.STALE_REVISION) as caught:
            await ann.steers(run, "Two, knowing nothing of one", expected=0)
        await ann.steers(run, "Two", expected=1)
        await ann.stops(run)

    assert caught.value.facts == {"run": run, "expected": 0, "actual": 1}
    assert caught.value.text == "Two, knowing nothing of one"
    assert not caught.value.retry_same_id


@pytest.mark.contract("C14")
async def test_of_several_at_once_against_the_same_revision_one_is_saved() -> None:
    async with InMemory().open(agents(rests)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        saved: list[int | None] = []
        refused: list[Code] = []

        async def steer(text: str) -> None:
            try:
                saved.append((await ann.steers(run, text, expected=0)).revision)
            except Refused as error:
                refused.append(error.code)

        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(steer, str(n))
        await ann.stops(run)

    assert saved == [1]
    assert refused == [Code.STALE_REVISION] * 4


@pytest.mark.contract("C15", "E9", "P37")
async def test_revisions_stand_in_the_input_in_the_order_of_their_receipts() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say(gate), say("Done."))
    receipts: dict[int, str] = {}
    async with InMemory().open(agents(patient(plays(gateway)))) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()

        async def steer(text: str) -> None:
            receipt = await ann.steers(run, text)
            assert receipt.revision is not None
            receipts[receipt.revision] = text

        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(steer, f"Point {n}")
        gate.release()
        ended = await ann.end_of(run)

    in_order = [receipts[number] for number in range(1, 21)]
    assert [revision.text for revision in ended.revisions] == in_order
    assert user_words(gateway.received[1].model_input) == ["Compare", *in_order]


@pytest.mark.contract("C16", "C7")
async def test_a_steering_changes_nothing_but_the_run_s_revisions() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Done.", gate, lasting=True))
    config = Config(limits=Limits(capacity={"short": 3, "background": 2}))
    async with InMemory().open(agents(patient(plays(gateway))), config) as runtime:
        ann = await person(runtime)
        run, other = await ann.researches("Compare"), await ann.researches("Something else")
        await trio.testing.wait_all_tasks_blocked()
        before = await runtime.inspect(scope="ann", run=run)
        other_before = await runtime.inspect(scope="ann", run=other)
        await ann.steers(run, WORDS)
        after = await runtime.inspect(scope="ann", run=run)
        other_after = await runtime.inspect(scope="ann", run=other)
        await ann.stops(run)
        await ann.stops(other)

    assert (after.run.state, after.budget, after.holds_slot) == (
        before.run.state,
        before.budget,
        before.holds_slot,
    )
    assert (after.run.requests, len(after.run.revisions)) == (before.run.requests, 1)
    assert other_after.run == other_before.run


@pytest.mark.contract("B31", "C1", "E2", "P1")
async def test_a_steering_sent_again_reads_its_receipt_back_also_when_it_no_longer_applies() -> (
    None
):
    place = InMemory()
    async with place.open(agents(rests)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        receipt = await ann.steers(run, WORDS, client_id="s-1", expected=0)
        await ann.steers(run, "More", client_id="s-2")
        await ann.stops(run)
        await ann.end_of(run)

        with place.stores_nothing():
            assert await ann.steers(run, WORDS, client_id="s-1", expected=0) == receipt
        for text, expected in ((WORDS + "!", 0), (WORDS, None), (WORDS, 1)):
            with place.refuses(Code.CONFLICT):
                await ann.steers(run, text, client_id="s-1", expected=expected)
        assert len((await ann.run(run)).revisions) == 2


@pytest.mark.contract("C6", "B26", "E2")
async def test_a_hundred_identical_steerings_at_once_are_one_revision() -> None:
    async with InMemory().open(agents(rests)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        receipts: list[object] = []

        async def steer() -> None:
            receipts.append(await ann.steers(run, WORDS, client_id="s-1"))

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(steer)
        assert len((await ann.run(run)).revisions) == 1
        assert len(await ann.events("revision_saved")) == 1
        await ann.stops(run)

    assert receipts == receipts[:1] * 100


@pytest.mark.contract("C18", "B69", "B70", "C4", "P27", "P29", "P41", "P46")
async def test_a_steering_of_a_run_that_has_ended_is_refused_as_that_with_its_text() -> None:
    place = InMemory()
    async with place.open({"short": answers}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("Compare")
        before = await ann.end_of(run)
        with place.refuses(Code.RUN_ENDED) as caught:
            await ann.steers(run, WORDS)
        assert await ann.run(run) == before

    assert caught.value.facts == {"run": run, "state": "completed", "reason": "answered"}
    assert caught.value.text == WORDS
    assert not caught.value.retry_same_id


@pytest.mark.contract("C50", "C4", "P39")
async def test_more_steerings_than_may_wait_are_refused_and_then_taken() -> None:
    place = InMemory()
    first = Gate()
    gateway = ScriptedGateway(say(first), say("Done."))
    config = Config(limits=Limits(undelivered_revisions_max=3))
    async with place.open(agents(patient(plays(gateway))), config) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await first.reached()
        for n in range(3):
            await ann.steers(run, f"Point {n}")
        with place.refuses(Code.REVISIONS_FULL) as caught:
            await ann.steers(run, "One too many", client_id="s-9")
        first.release()
        ended = await ann.end_of(run)

    assert caught.value.facts == {"run": run, "limit": 3}
    assert caught.value.retry_same_id
    assert [revision.state for revision in ended.revisions] == ["delivered"] * 3


@pytest.mark.contract("C10", "C9", "P26", "P49")
async def test_a_run_that_is_about_to_complete_takes_one_more_request_for_a_steering() -> None:
    """The steering is saved after the last reply, and before the run completes with it."""
    gate = Gate()
    gateway = ScriptedGateway(say("All years."), say("This year."))
    completed: list[bool] = []

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            reply = await turn.request(gateway, lambda revisions: as_input(run, revisions))
            await gate.passed()
            completed.append(await run.complete(reply.text))

    async with InMemory().open(agents(agent)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        await ann.steers(run, WORDS)
        gate.release()
        ended = await ann.end_of(run)
        published = [entry.text for entry in (await ann.view()).entries if entry.verb is None]

    assert completed == [False, True]
    assert published == ["This year."]
    assert [(item.state, item.request) for item in ended.revisions] == [("delivered", 2)]


@pytest.mark.contract("C10", "C17", "B32", "C4", "D16", "P26", "P32")
async def test_without_budget_for_one_more_the_steering_is_settled_with_the_answer() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("All years.", gate))
    config = Config(limits=Limits(requests_of_run_max=1))
    async with InMemory().open(agents(patient(plays(gateway))), config) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        receipt = await ann.steers(run, WORDS)
        gate.release()
        ended = await ann.end_of(run)
        settled = await ann.events("revision_settled", "run_ended")
        texts = {entry.entry: entry.text for entry in (await ann.view()).entries}

    assert (ended.state, ended.answer) == ("completed", "All years.")
    assert [(item.state, item.reason) for item in ended.revisions] == [("not_applied", "budget")]
    assert [event.kind for event in settled] == ["revision_settled", "run_ended"]
    assert settled[0].client_id == receipt.client_id
    assert settled[1].facts["unapplied_revisions"] == [1]
    assert receipt.message is not None
    assert texts[receipt.message] == WORDS


@pytest.mark.contract("C17", "B71", "P26")
async def test_a_stop_settles_what_was_saved_and_what_was_carried_each_as_it_was() -> None:
    first, second = Gate(), Gate()
    gateway = ScriptedGateway(say(first), say(second))
    async with InMemory().open(agents(patient(plays(gateway)))) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await first.reached()
        await ann.steers(run, "One")
        first.release()
        await second.reached()
        await ann.steers(run, "Two")
        await ann.stops(run)
        ended = await ann.end_of(run)

    assert ended.state == "stopped"
    assert [(item.state, item.reason) for item in ended.revisions] == [
        ("delivery_unknown", "user_stop"),
        ("not_applied", "user_stop"),
    ]


async def test_an_agent_that_makes_no_request_is_given_one_turn_and_then_ends() -> None:
    gate = Gate()
    turns: list[int] = []

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            turns.append(turn.number)
            await gate.passed()
            await run.complete("Done.")

    async with InMemory().open(agents(agent)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        await ann.steers(run, WORDS)
        gate.release()
        ended = await ann.end_of(run)

    assert turns == [1, 2]
    assert (ended.state, ended.answer) == ("completed", "Done.")
    assert [(item.state, item.reason) for item in ended.revisions] == [
        ("not_applied", "no_request")
    ]


@pytest.mark.contract("C11", "E3")
@pytest.mark.parametrize("role", ["system", "assistant", None])
async def test_an_input_without_the_words_as_a_user_s_is_never_sent(role: Any) -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Never."))

    async def agent(run: RunContext) -> None:
        await gate.passed()

        def build(revisions: Any) -> ModelInput:
            kept = [ModelMessage(role=role, text=item.text) for item in revisions if role]
            return ModelInput(messages=(ModelMessage(role="user", text=run.request), *kept))

        async for turn in run.turns():
            await run.complete((await turn.request(gateway, build)).text)

    async with InMemory().open(agents(agent)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        await ann.steers(run, WORDS)
        gate.release()
        ended = await ann.end_of(run)

    assert gateway.received == ()
    assert (ended.state, ended.reason, ended.requests) == ("failed", "agent_error", 0)
    assert "RevisionNotCarried: Revision 1" in ended.detail
    assert [item.state for item in ended.revisions] == ["not_applied"]
