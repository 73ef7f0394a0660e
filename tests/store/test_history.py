"""What an answer may see: fixed at admission, bounded, and never another run's work."""

import pytest

from counterpoint.store import history, runs
from counterpoint.store.history import Item, Snapshot
from counterpoint.store.ids import ConversationId, RunId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.records import Reason, Verb

from .world import World


@pytest.fixture
def world() -> World:
    return World(Limits(capacity={SHORT: 9, BACKGROUND: 9}))


@pytest.fixture
def conversation(world: World) -> ConversationId:
    return world.open()


def seen_by(world: World, run: RunId) -> Snapshot:
    return history.snapshot(world.base, world.limits, world.record(run))


def texts(snapshot: Snapshot) -> list[str]:
    return [item.text for item in snapshot.items]


@pytest.mark.contract("A8", "A27", "B36")
def test_a_question_sees_what_was_said_and_answered_before_it_oldest_first(
    world: World, conversation: ConversationId
) -> None:
    first = world.start(conversation, "How much?")
    world.complete(first, "12.")
    run = world.start(conversation, "And now?")
    assert texts(seen_by(world, run)) == ["How much?", "12."]
    assert [item.role for item in seen_by(world, run).items] == ["user", "assistant"]
    assert [item.verb for item in seen_by(world, run).items] == [Verb.PLAIN, None]
    assert {item.run for item in seen_by(world, run).items} == {first}


@pytest.mark.contract("A2", "A9", "E11")
def test_a_question_sees_nothing_of_another_conversation(world: World) -> None:
    elsewhere = world.start(world.open(), "A secret.")
    world.complete(elsewhere, "Another secret.")
    run = world.start(world.open(), "Well?")
    snapshot = seen_by(world, run)
    assert (snapshot.items, snapshot.overview) == ((), ())
    assert snapshot.left_out == history.LeftOut(older=0, too_large=0)


@pytest.mark.contract("B35", "C44")
def test_what_comes_after_the_question_never_comes_into_its_view(
    world: World, conversation: ConversationId
) -> None:
    earlier = world.start(conversation, "A long one?")
    background = world.start(conversation, "Compare.", background=True)
    run = world.start(conversation, "A short one?")
    before = seen_by(world, run)
    assert texts(before) == ["A long one?", "Compare."]

    world.complete(earlier, "The long answer.")
    world.steer(background, "Only this year.")
    world.ask(background)
    later = world.start(conversation, "And?")
    world.stop(later)
    world.finish(later)
    world.promote(world.start(conversation, "More."))
    world.complete(background, "The comparison.")
    world.complete(run, "The short answer.")

    assert seen_by(world, run) == before


@pytest.mark.contract("B37", "B38")
def test_unpublished_work_of_other_runs_is_not_seen(
    world: World, conversation: ConversationId
) -> None:
    background = world.start(conversation, "Compare.", background=True)
    world.begin_request(background)
    world.begin_effect(background)
    world.end_effect(background, 1, value=b'"a finding"')
    world.run(runs.save_checkpoint, background, world.owner, b"a note", world.now_ms())
    world.run(runs.note_progress, background, world.owner, "an inkling", world.now_ms())
    run = world.start(conversation, "Meanwhile?")
    snapshot = seen_by(world, run)
    assert texts(snapshot) == ["Compare."]
    shown = repr(snapshot)
    assert not any(word in shown for word in ("finding", "note", "inkling", "input of", "post"))


@pytest.mark.contract("A9", "B37")
@pytest.mark.parametrize(
    ("cue", "reason"),
    [(runs.Cue.FAIL, Reason.AGENT_ERROR), (runs.Cue.INTERRUPT, Reason.HOST_SHUTDOWN)],
)
def test_a_run_that_published_nothing_is_seen_by_its_question_alone(
    world: World, conversation: ConversationId, cue: runs.Cue, reason: Reason
) -> None:
    failed = world.start(conversation, "Compare.")
    world.ask(failed)
    world.finish(failed, cue, reason, text=None)
    run = world.start(conversation, "Well?")
    assert texts(seen_by(world, run)) == ["Compare."]


@pytest.mark.contract("B36", "C44")
def test_the_view_has_so_many_items_and_counts_what_is_older() -> None:
    world = World(Limits(capacity={SHORT: 99}, history_items_max=3))
    conversation = world.open()
    for n in range(5):
        world.start(conversation, str(n))
    run = world.start(conversation, "Well?")
    snapshot = seen_by(world, run)
    assert texts(snapshot) == ["2", "3", "4"]
    assert snapshot.left_out == history.LeftOut(older=2, too_large=0)


@pytest.mark.contract("B36", "C44")
def test_the_view_has_so_many_bytes_and_counts_what_did_not_fit() -> None:
    world = World(Limits(capacity={SHORT: 99}, history_bytes_max=10))
    conversation = world.open()
    for text in ("first", "x" * 11, "é" * 3, "four"):  # 5, 11, 6 and 4 bytes
        world.start(conversation, text)
    run = world.start(conversation, "Well?")
    snapshot = seen_by(world, run)
    assert texts(snapshot) == ["ééé", "four"]
    assert snapshot.left_out == history.LeftOut(older=0, too_large=2)


@pytest.mark.contract("C44")
@pytest.mark.parametrize(("items", "size"), [(1, 100), (40, 1), (3, 9), (2, 4)])
def test_every_entry_before_the_question_is_seen_or_counted(items: int, size: int) -> None:
    world = World(Limits(capacity={SHORT: 99}, history_items_max=items, history_bytes_max=size))
    conversation = world.open()
    for n in range(7):
        run = world.start(conversation, "x" * n)
        world.complete(run, "y" * n)
    run = world.start(conversation, "Well?")
    snapshot = seen_by(world, run)
    left = snapshot.left_out
    assert len(snapshot.items) + left.older + left.too_large == 14
    assert len(snapshot.items) <= items
    assert sum(len(item.text.encode()) for item in snapshot.items) <= size


def test_a_steering_is_seen_as_something_that_was_said(
    world: World, conversation: ConversationId
) -> None:
    background = world.start(conversation, "Compare.", background=True)
    world.steer(background, "Only this year.")
    run = world.start(conversation, "Well?")
    said = seen_by(world, run).items[-1]
    assert (said.role, said.verb, said.run) == ("user", Verb.STEER, background)


# The overview of the background.


@pytest.mark.contract("B36", "B42")
def test_a_question_knows_the_background_runs_that_lived_when_it_came(
    world: World, conversation: ConversationId
) -> None:
    ended = world.start(conversation, "Ended.", background=True)
    world.complete(ended)
    lived = [world.start(conversation, text, background=True) for text in ("One.", "Two.")]
    world.start(conversation, "A short one.")
    run = world.start(conversation, "Well?")
    world.complete(lived[0])
    world.start(conversation, "Later.", background=True)
    overview = seen_by(world, run).overview
    assert [(brief.run, brief.request) for brief in overview] == list(
        zip(lived, ["One.", "Two."], strict=True)
    )


@pytest.mark.contract("B36")
def test_a_brief_is_cut_to_its_bound_and_the_newest_are_taken() -> None:
    world = World(Limits(capacity={SHORT: 9, BACKGROUND: 9}, overview_runs_max=2))
    conversation = world.open()
    started = [world.start(conversation, "é" * 600, background=True) for _ in range(3)]
    overview = seen_by(world, world.start(conversation)).overview
    assert [brief.run for brief in overview] == started[1:]
    assert {len(brief.request) for brief in overview} == {history.BRIEF_CHARS_MAX}


# What was stopped.


def stopped(world: World, run: RunId) -> dict[str, bool]:
    return {item.text: item.stopped for item in seen_by(world, run).items}


@pytest.mark.contract("P69")
def test_the_question_of_a_stopped_run_is_marked(
    world: World, conversation: ConversationId
) -> None:
    cancelled = world.start(conversation, "Never mind?")
    answered = world.start(conversation, "This?")
    world.stop(cancelled)
    world.finish(cancelled)
    world.complete(answered, "That.")
    run = world.start(conversation, "Well?")
    assert stopped(world, run) == {"Never mind?": True, "This?": False, "That.": False}


@pytest.mark.contract("P69")
def test_it_is_marked_as_soon_as_the_stop_was_accepted(
    world: World, conversation: ConversationId
) -> None:
    """A person who stops a run and asks on does not wait until it has stopped."""
    cancelled = world.start(conversation, "Never mind?")
    world.begin_request(cancelled)
    world.stop(cancelled)
    run = world.start(conversation, "Well?")
    assert stopped(world, run) == {"Never mind?": True}
    world.finish(cancelled)
    assert stopped(world, run) == {"Never mind?": True}


@pytest.mark.contract("B35", "P69")
@pytest.mark.parametrize("step_ms", [0, 1])
def test_a_stop_that_comes_after_the_question_marks_nothing_even_in_the_same_millisecond(
    world: World, conversation: ConversationId, step_ms: int
) -> None:
    world.step_ms = step_ms
    asked = world.start(conversation, "Never mind?")
    run = world.start(conversation, "Well?")
    before = seen_by(world, run)
    world.stop(asked)
    world.finish(asked)
    assert seen_by(world, run) == before
    assert stopped(world, run) == {"Never mind?": False}


@pytest.mark.contract("P69")
def test_a_stop_in_the_same_millisecond_as_the_question_marks_if_it_came_before(
    world: World, conversation: ConversationId
) -> None:
    world.step_ms = 0
    asked = world.start(conversation, "Never mind?")
    world.stop(asked)
    run = world.start(conversation, "Well?")
    assert stopped(world, run) == {"Never mind?": True}


def test_an_item_names_its_entry(world: World, conversation: ConversationId) -> None:
    first = world.start(conversation, "How much?")
    ended = world.complete(first, "12.")
    run = world.start(conversation, "And now?")
    question, answer = seen_by(world, run).items
    assert (question.entry, answer.entry) == (ended.message, ended.publication)
    assert isinstance(question, Item)
