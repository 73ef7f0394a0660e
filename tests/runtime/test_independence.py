"""Several runs in one conversation: what each of them sees, and what none of them does.

Method: gates hold some runs while others come and go; then the exact inputs of all of them
are searched for words that must, or must not, stand in them.
"""

import pytest
import trio

from counterpoint.runtime import Config, Limits, RunContext
from counterpoint.runtime.gateways import Gate, ScriptedGateway, mentions, say
from counterpoint.store.history import Snapshot

from .stage import InMemory, answers, person, plays, rests, user_words


def texts(snapshot: Snapshot) -> list[str]:
    return [item.text for item in snapshot.items]


@pytest.mark.contract("A6", "A9", "B1", "B2", "B3", "B4", "B5", "B37", "B38", "B39", "C12")
async def test_three_answers_overlap_a_background_run_and_only_the_steering_reaches_it() -> None:
    begun, going_on = Gate(), Gate()
    research = ScriptedGateway(say("Finding 1.", begun), say("Finding 2.", going_on))
    short = ScriptedGateway(
        *(say(f"Answer {n}.", when=mentions(f"Question {n}")) for n in range(3))
    )
    async with InMemory().open({"short": plays(short), "background": plays(research)}) as runtime:
        ann = await person(runtime)
        background = await ann.researches("Compare the two")
        await begun.reached()
        first = await ann.end_of(await ann.starts("Question 0"))
        await ann.steers(background, "Only the last year")
        second = await ann.end_of(await ann.starts("Question 1"))
        await going_on.reached()
        assert (await ann.run(background)).state == "running"
        third = await ann.end_of(await ann.starts("Question 2"))
        going_on.release()
        ended = await ann.end_of(background)

    assert [run.answer for run in (first, second, third)] == [f"Answer {n}." for n in range(3)]
    heard = [user_words(item.model_input) for item in research.received]
    assert heard == [["Compare the two"], ["Compare the two", "Only the last year"]]
    everything = b"".join(item.data for item in short.received)
    assert b"Finding" not in everything  # no work of the run comes into an answer
    assert b"Compare the two" in everything  # what was asked does
    assert ended.answer == "Finding 2."


@pytest.mark.contract("A7", "B2", "B35", "B54", "B58", "C44")
async def test_a_later_question_may_end_first_and_an_input_is_fixed_at_its_admission() -> None:
    gates = {"first": Gate(), "second": Gate()}
    snapshots: dict[str, list[str]] = {}

    async def agent(run: RunContext) -> None:
        if gate := gates.get(run.request):
            await gate.passed()
        snapshots[run.request] = texts(run.history)
        async for _ in run.turns():
            await run.complete(f"Answer to {run.request}")

    async with InMemory().open({"short": agent}) as runtime:
        ann = await person(runtime)
        await ann.end_of(await ann.starts("zeroth"))
        first = await ann.starts("first")
        second = await ann.starts("second")
        gates["second"].release()
        await ann.end_of(second)
        third = await ann.starts("third")
        await ann.end_of(third)
        gates["first"].release()  # it looks only now
        await ann.end_of(first)
        entries = [(entry.run, entry.text) for entry in (await ann.view()).entries]

    before = ["zeroth", "Answer to zeroth"]
    assert snapshots["first"] == before
    assert snapshots["second"] == [*before, "first"]
    assert snapshots["third"] == [*before, "first", "second", "Answer to second"]
    assert entries[-1] == (first, "Answer to first")
    assert entries[4] == (second, "Answer to second")


@pytest.mark.contract("B36", "C44", "C50")
async def test_a_snapshot_is_bounded_and_says_what_it_left_out() -> None:
    seen: dict[str, Snapshot] = {}

    async def agent(run: RunContext) -> None:
        seen[run.request[:1]] = run.history
        async for _ in run.turns():
            await run.complete("ok")

    limits = Limits(history_items_max=5, history_bytes_max=40)
    async with InMemory().open({"short": agent}, Config(limits=limits)) as runtime:
        ann = await person(runtime)
        for text in ("a", "b" * 100, "c"):
            await ann.end_of(await ann.starts(text))
        await ann.end_of(await ann.starts("d"))

    assert texts(seen["d"]) == ["ok", "ok", "c", "ok"]
    assert (seen["d"].left_out.older, seen["d"].left_out.too_large) == (1, 1)


@pytest.mark.contract("B36", "B37", "B42", "D2")
async def test_a_short_answer_knows_what_runs_beside_it_by_what_was_asked_only() -> None:
    seen: list[Snapshot] = []

    async def agent(run: RunContext) -> None:
        seen.append(run.history)
        async for _ in run.turns():
            await run.complete("ok")

    async def works(run: RunContext) -> None:
        await run.progress("A secret finding")
        run.draft("A secret draft")
        await rests(run)

    capacity = Limits(capacity={"short": 3, "background": 2})
    async with InMemory().open(
        {"short": agent, "background": works}, Config(limits=capacity)
    ) as runtime:
        ann = await person(runtime)
        runs = [await ann.researches("Compare"), await ann.researches("Count " + "x" * 2000)]
        await trio.testing.wait_all_tasks_blocked()
        await ann.end_of(await ann.starts("What is going on?"))
        for run in runs:
            await ann.stops(run)

    assert [(brief.run, brief.run_class) for brief in seen[0].overview] == [
        (run, "background") for run in runs
    ]
    assert [brief.request for brief in seen[0].overview] == ["Compare", "Count " + "x" * 506]
    assert texts(seen[0]) == ["Compare", "Count " + "x" * 2000]


@pytest.mark.contract("A3", "A27", "B53", "E11")
async def test_a_run_sees_its_own_conversation_and_no_other() -> None:
    seen: dict[str, list[str]] = {}

    async def agent(run: RunContext) -> None:
        seen[run.request] = texts(run.history)
        async for _ in run.turns():
            await run.complete("ok")

    async with InMemory().open({"short": agent}) as runtime:
        ann, bob = await person(runtime, "ann"), await person(runtime, "bob")
        for who, text in ((ann, "hers"), (bob, "his")):
            await who.end_of(await who.starts(text))
        await ann.end_of(await ann.starts("hers again"))

    assert seen == {"hers": [], "his": [], "hers again": ["hers", "ok"]}


@pytest.mark.contract("B14", "B16", "B20", "B23", "B24", "B25", "D1", "D2")
async def test_no_entry_is_settled_by_what_its_words_say() -> None:
    depths: dict[str, str] = {}

    async def agent(run: RunContext) -> None:
        depths[run.request] = f"{run.run_class} {run.depth}"
        await answers(run)

    async with InMemory().open({"short": agent, "background": agent}) as runtime:
        ann = await person(runtime)
        for text, entry, depth in (
            ("Please research this in depth", "plain", "normal"),
            ("hi", "background", "normal"),
            ("hi there", "background", "deep"),
        ):
            receipt = await ann.says(text, entry=entry, depth=depth)
            assert receipt.run is not None
            ended = await ann.end_of(receipt.run)
            assert ended.requests == 0  # no classifier is asked, and none has to be
        dispositions = [entry.disposition for entry in (await ann.view()).entries if entry.verb]

    assert depths == {
        "Please research this in depth": "short normal",
        "hi": "background normal",
        "hi there": "background deep",
    }
    assert dispositions == [
        "answer: nothing to decide",
        "research: the person chose background",
        "research: the person chose background",
    ]


@pytest.mark.contract("B1", "B38", "A6", "A10", "B12")
async def test_a_plain_message_beside_a_running_run_never_becomes_a_steering() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Done.", gate))
    async with InMemory().open({"short": answers, "background": plays(gateway)}) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        other = await ann.starts("Only the last year, please")
        assert (await ann.end_of(other)).answer == "You said: Only the last year, please"
        gate.release()
        ended = await ann.end_of(run)

    assert other != run
    assert (ended.revisions, ended.requests) == ((), 1)
