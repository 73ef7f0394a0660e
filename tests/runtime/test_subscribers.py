"""Who listens hears everything once, in order, and changes nothing by coming or going.

Method: readers come early, late, in the midst and never; they leave, come back with a
cursor, or are slow; what each has heard is compared with the conversation's events.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import pytest
import trio

from counterpoint.runtime import Code, Config, Limits, Refused, Runtime, StreamedText
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.views import EventView

from .stage import InMemory, Person, answers, person, plays, rests

Heard = list[EventView | StreamedText]


def stream(ann: Person, after: int = 0) -> AsyncGenerator[EventView | StreamedText, None]:
    return ann.runtime.events(scope=ann.scope, conversation=ann.conversation, after=after)


async def listen(ann: Person, heard: Heard, *, after: int = 0, until: str = "run_ended") -> None:
    async with aclosing(stream(ann, after)) as events:
        async for event in events:
            heard.append(event)
            if not isinstance(event, StreamedText) and event.kind == until:
                return


def numbers(heard: Heard) -> list[int]:
    return [event.number for event in heard if not isinstance(event, StreamedText)]


@pytest.mark.contract("C42", "E5", "P71", "P116")
async def test_everyone_hears_exactly_one_end_whenever_they_came() -> None:
    gate = Gate()
    early: Heard = []
    midway: Heard = []
    late: Heard = []
    gateway = ScriptedGateway(say("Tea ", gate, "grows."))
    async with InMemory().open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, ann, early)
            run = await ann.starts("Tea?")
            await gate.reached()
            nursery.start_soon(listen, ann, midway)
            await trio.testing.wait_all_tasks_blocked()
            gate.release()
        await listen(ann, late)
        everything = await ann.events()
        assert (await ann.end_of(run)).answer == "Tea grows."

    for heard in (early, midway, late):
        assert [event for event in heard if not isinstance(event, StreamedText)] == everything
    assert [item.text for item in early if isinstance(item, StreamedText)] == ["Tea ", "grows."]
    assert [item.text for item in midway if isinstance(item, StreamedText)] == ["grows."]
    assert not any(isinstance(item, StreamedText) for item in late)
    assert [event.kind for event in everything].count("run_ended") == 1


@pytest.mark.contract("C43", "C41", "E9", "P114")
async def test_whoever_comes_back_with_a_cursor_misses_nothing_and_hears_nothing_twice() -> None:
    async with InMemory().open({"short": answers}, _small_pages()) as runtime:
        ann = await person(runtime)
        for n in range(4):
            await ann.end_of(await ann.starts(f"Question {n}"))
        everything = await ann.events()
        for cursor in range(len(everything) + 1):
            assert await _from(runtime, ann, cursor) == everything[cursor:]
        assert await _from(runtime, ann, 10_000) == []
        version = (await ann.view()).version
        heard: Heard = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(listen, ann, heard, after=version))
            await ann.starts("One more")

    assert [event.number for event in everything] == list(range(1, version + 1))
    assert numbers(heard) == list(range(version + 1, version + len(heard) + 1))


def _small_pages() -> Config:
    return Config(limits=Limits(event_page=3))


async def _from(runtime: Runtime, ann: Person, cursor: int) -> list[EventView]:
    return [
        event
        async for event in runtime.events(
            scope="ann", conversation=ann.conversation, after=cursor, follow=False
        )
        if not isinstance(event, StreamedText)
    ]


@pytest.mark.contract("B6", "B7", "C25", "P72")
async def test_leaving_stops_nothing() -> None:
    gate = Gate()
    heard: Heard = []
    gateway = ScriptedGateway(say("Tea ", gate, "grows."))
    async with InMemory().open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, ann, heard)
            nursery.start_soon(ann.end_of, run := await ann.starts("Tea?"))
            await gate.reached()
            nursery.cancel_scope.cancel()
        assert (await ann.run(run)).state == "running"
        gate.release()
        assert (await ann.end_of(run)).state == "completed"


@pytest.mark.contract("C42", "C43")
async def test_a_slow_reader_gets_every_event_and_keeps_nobody_waiting() -> None:
    gate = Gate()
    heard: Heard = []
    words = [f"word {n} " for n in range(3_000)]  # more than are kept for one who is slow
    gateway = ScriptedGateway(say(*words))
    async with InMemory().open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)

        async def listen_slowly() -> None:
            async with aclosing(stream(ann)) as events:
                async for event in events:
                    heard.append(event)
                    await gate.passed()
                    if not isinstance(event, StreamedText) and event.kind == "run_ended":
                        return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen_slowly)
            await gate.reached()
            run = await ann.starts("Talk")
            assert (await ann.end_of(run)).answer == "".join(words)
            assert len(heard) == 1
            gate.release()
        everything = await ann.events()

    assert [event for event in heard if not isinstance(event, StreamedText)] == everything
    pieces = [item.text for item in heard if isinstance(item, StreamedText)]
    assert pieces == words[-len(pieces) :]
    assert 0 < len(pieces) < len(words)


@pytest.mark.contract("C41", "C42")
async def test_a_view_and_the_events_behind_its_version_leave_no_gap() -> None:
    """The view is read at every version there ever was."""
    async with InMemory().open({"short": rests}) as runtime:
        ann = await person(runtime)
        seen: list[tuple[int, int]] = []
        run = await ann.starts("Dig")
        for n in range(10):
            await ann.steers(run, f"Point {n}")
            view = await ann.view()
            behind = await _from(runtime, ann, view.version)
            seen.append((view.version, len(view.runs[run].revisions)))
            assert behind == []
        await ann.stops(run)

    assert [revisions for _, revisions in seen] == list(range(1, 11))
    versions = [version for version, _ in seen]
    assert versions == sorted(set(versions))


@pytest.mark.contract("C45", "E9", "P121")
async def test_every_event_about_a_message_carries_its_client_s_id() -> None:
    async with InMemory().open({"short": answers, "background": rests}) as runtime:
        ann = await person(runtime)
        await ann.end_of(await ann.starts("Hello", client_id="m-1"))
        run = await ann.starts("Dig", entry="background", client_id="m-2")
        await ann.steers(run, "Deeper", client_id="m-3")
        await ann.stops(run, client_id="m-4")
        await ann.end_of(run)
        told = {(event.kind, event.client_id) for event in await ann.events()}

    assert told == {
        ("conversation_opened", "ann-0"),
        ("message_admitted", "m-1"),
        ("run_ended", "m-1"),
        ("message_admitted", "m-2"),
        ("revision_saved", "m-3"),
        ("stop_accepted", "m-4"),
        ("revision_settled", "m-3"),
        ("run_ended", "m-2"),
    }


@pytest.mark.contract("D16")
async def test_streamed_text_is_not_durable_and_the_published_answer_is() -> None:
    gate = Gate()
    heard: Heard = []
    gateway = ScriptedGateway(say("Tea gr", gate, "ows."))
    place = InMemory()
    async with place.open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, ann, heard)
            run = await ann.starts("Tea?")
            await gate.reached()
            crashed = place.after_a_crash()
            gate.release()
        assert (await ann.end_of(run)).answer == "Tea grows."

    assert StreamedText(conversation=ann.conversation, run=run, text="Tea gr") in heard
    async with crashed.open({"short": rests}) as runtime:
        left = await ann.in_runtime(runtime).run(run)
    assert (left.state, left.reason, left.answer) == ("interrupted", "owner_lost", None)


async def test_a_reader_of_what_is_not_there_is_refused_and_leaves_nothing() -> None:
    async with InMemory().open({"short": rests}) as runtime:
        with pytest.raises(Refused) as caught:
            await anext(runtime.events(scope="ann", conversation="c" + "0" * 24))
        assert caught.value.code is Code.NOT_FOUND
