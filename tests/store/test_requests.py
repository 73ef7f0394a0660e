"""Requests: on record before they are sent, and what became of each as far as it is known."""

import hashlib

import pytest

from counterpoint.store import keys, requests, runs
from counterpoint.store.ids import ConversationId, RunId
from counterpoint.store.limits import Limits
from counterpoint.store.records import (
    Damaged,
    EventKind,
    Interruption,
    Reason,
    RequestState,
    RevisionState,
    RunState,
)
from counterpoint.store.requests import BudgetSpent, GateClosed, Stale

from .world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def conversation(world: World) -> ConversationId:
    return world.open()


@pytest.fixture
def run(world: World, conversation: ConversationId) -> RunId:
    return world.start(conversation)


@pytest.mark.contract("C11")
def test_a_request_is_kept_with_its_exact_input_and_the_hash_of_it(
    world: World, run: RunId
) -> None:
    request = world.begin_request(run)
    kept = world.base.values[keys.request_input(run, request.ordinal)]
    assert kept == f"input of {run} at 0".encode()
    assert world.request(run, 1).input_sha256 == hashlib.sha256(kept).digest()


@pytest.mark.contract("E9")
def test_requests_are_numbered_without_a_gap_whatever_became_of_them(
    world: World, run: RunId
) -> None:
    for state in (RequestState.COMPLETED, RequestState.FAILED, RequestState.INTERRUPTED):
        world.end_request(run, world.begin_request(run).ordinal, state)
    world.steer(run)
    assert world.try_request(run, revision=0) == Stale(revision=1)  # takes no number
    world.begin_request(run)
    found = list(requests.of_run(world.base, run))
    assert [request.ordinal for request in found] == [1, 2, 3, 4]
    assert [str(r.state) for r in found] == ["completed", "failed", "interrupted", "open"]


@pytest.mark.contract("C20", "E4", "P52")
def test_after_a_stop_before_the_first_request_none_is_ever_sent(world: World, run: RunId) -> None:
    world.stop(run)
    with world.changes_nothing(), pytest.raises(GateClosed):
        world.try_request(run)
    world.finish(run)
    assert world.record(run).requests == 0


@pytest.mark.contract("C19", "E4")
def test_after_a_stop_what_is_under_way_may_end_and_nothing_begins(
    world: World, run: RunId
) -> None:
    request = world.begin_request(run)
    world.stop(run)
    world.end_request(run, request.ordinal)
    assert world.request(run, 1).state is RequestState.COMPLETED
    with world.changes_nothing(), pytest.raises(GateClosed):
        world.try_request(run)
    assert world.record(run).state is RunState.STOPPING


@pytest.mark.contract("B44")
def test_a_run_sends_no_more_requests_than_its_budget_has() -> None:
    world = World(Limits(requests_of_run_max=2))
    run = world.start(world.open())
    world.ask(run)
    world.ask(run)
    with world.changes_nothing(), pytest.raises(BudgetSpent) as spent:
        world.try_request(run)
    assert spent.value.what == "requests"


@pytest.mark.contract("B44", "B66")
def test_a_run_whose_tokens_are_spent_sends_no_more_requests() -> None:
    world = World(Limits(tokens_of_run_max=10))
    run = world.start(world.open())
    world.begin_request(run)
    world.end_request(run, 1, tokens=(4, 5))
    world.begin_request(run)
    world.end_request(run, 2, tokens=(1, 0))
    with world.changes_nothing(), pytest.raises(BudgetSpent) as spent:
        world.try_request(run)
    assert spent.value.what == "tokens"
    world.steer(run)
    world.complete(run)
    assert world.revision(run, 1).reason == "budget"


def test_of_a_request_whose_input_is_not_kept_the_hash_is() -> None:
    world = World(Limits(keep_inputs=False))
    run = world.start(world.open())
    request = world.ask(run)
    assert world.base.get(keys.request_input(run, 1)) is None
    assert len(world.request(run, 1).input_sha256) == len(request.input_sha256) == 32


@pytest.mark.contract("B44")
def test_more_slots_refill_no_budget() -> None:
    world = World(Limits(requests_of_run_max=1))
    run = world.start(world.open())
    world.ask(run)
    world.limits = Limits(capacity={"short": 50, "background": 50}, requests_of_run_max=9)
    world.promote(run)
    with pytest.raises(BudgetSpent):
        world.try_request(run)


@pytest.mark.contract("B64")
def test_an_interrupted_request_keeps_its_reason_and_its_run_goes_on(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.steer(run)
    world.begin_request(run)
    world.end_request(run, 1, RequestState.INTERRUPTED, reason="steering")
    assert world.request(run, 1).reason == "steering"
    ended = world.last_event(conversation)
    assert (ended.kind, ended.facts["reason"]) == (EventKind.REQUEST_ENDED, "steering")
    assert world.record(run).state is RunState.RUNNING
    assert world.begin_request(run).carries == (1,)


@pytest.mark.contract("B66", "C33")
@pytest.mark.parametrize(
    "state", [RequestState.INTERRUPTED, RequestState.FAILED, RequestState.COMPLETED]
)
def test_usage_that_nobody_observed_is_not_zero(
    world: World, run: RunId, state: RequestState
) -> None:
    world.begin_request(run)
    world.end_request(run, 1, state)
    request = world.request(run, 1)
    assert (request.input_tokens, request.output_tokens) == (None, None)


@pytest.mark.contract("B62", "C33")
def test_usage_that_was_observed_is_kept_though_the_request_was_interrupted(
    world: World, run: RunId
) -> None:
    world.begin_request(run)
    world.end_request(run, 1, RequestState.INTERRUPTED, tokens=(120, 0))
    request = world.request(run, 1)
    assert (request.input_tokens, request.output_tokens) == (120, 0)


@pytest.mark.contract("B62", "C22", "P59")
def test_the_late_result_of_an_interrupted_request_is_recorded_and_closes_nothing_else(
    world: World, conversation: ConversationId, run: RunId
) -> None:
    world.steer(run)
    world.begin_request(run)
    world.end_request(run, 1, RequestState.INTERRUPTED, reason="steering")
    second = world.begin_request(run)
    before = world.record(run)

    world.end_request(run, 1, RequestState.COMPLETED)

    late = world.request(run, 1)
    assert (late.state, late.reason) == (RequestState.INTERRUPTED, "steering")
    assert late.late is RequestState.COMPLETED
    assert world.record(run) == before
    assert world.request(run, 2) == second
    assert world.revision(run, 1).state is RevisionState.CARRIED
    told = world.last_event(conversation)
    assert (told.kind, told.facts["request"]) == (EventKind.REQUEST_ENDED, 1)
    assert told.facts["late"] is True


@pytest.mark.contract("B44", "B66", "C22", "C33")
def test_usage_that_comes_late_is_charged_and_no_longer_counted_as_unobserved(
    world: World, run: RunId
) -> None:
    world.begin_request(run)
    world.end_request(run, 1, RequestState.INTERRUPTED)
    record = world.record(run)
    assert (record.tokens, record.unobserved) == (0, 1)
    world.end_request(run, 1, RequestState.COMPLETED, tokens=(120, 30))
    record = world.record(run)
    assert (record.tokens, record.unobserved) == (150, 0)


@pytest.mark.contract("C22")
def test_a_late_result_does_not_take_back_usage_that_was_observed(world: World, run: RunId) -> None:
    world.begin_request(run)
    world.end_request(run, 1, RequestState.INTERRUPTED, tokens=(120, 7))
    world.end_request(run, 1, RequestState.FAILED)
    request = world.request(run, 1)
    assert (request.input_tokens, request.output_tokens) == (120, 7)
    assert request.late is RequestState.FAILED


@pytest.mark.contract("C22")
@pytest.mark.parametrize("first", [RequestState.COMPLETED, RequestState.INTERRUPTED])
def test_a_result_that_comes_again_changes_nothing(
    world: World, run: RunId, first: RequestState
) -> None:
    world.begin_request(run)
    world.end_request(run, 1, first, tokens=(1, 1))
    if first is RequestState.INTERRUPTED:
        world.end_request(run, 1, RequestState.COMPLETED)
    with world.changes_nothing():
        world.end_request(run, 1, RequestState.COMPLETED, tokens=(9, 9))


@pytest.mark.parametrize("ordinal", [0, 2, -1])
def test_a_result_of_a_request_that_never_was_changes_nothing(
    world: World, run: RunId, ordinal: int
) -> None:
    world.begin_request(run)
    with world.changes_nothing():
        world.end_request(run, ordinal)


def test_two_requests_under_way_end_each_for_itself(world: World, run: RunId) -> None:
    world.begin_request(run)
    world.begin_request(run)
    world.end_request(run, 2)
    assert world.record(run).open_requests == (1,)
    world.end_request(run, 1, RequestState.FAILED)
    assert world.record(run).open_requests == ()


@pytest.mark.contract("C17")
@pytest.mark.parametrize(
    ("cue", "reason", "interruption"),
    [
        (runs.Cue.FALL_SHORT, Reason.DEADLINE, Interruption.DEADLINE),
        (runs.Cue.FALL_SHORT, Reason.BUDGET, Interruption.BUDGET),
        (runs.Cue.FAIL, Reason.AGENT_ERROR, Interruption.INTERNAL),
        (runs.Cue.INTERRUPT, Reason.HOST_SHUTDOWN, Interruption.SHUTDOWN),
    ],
)
def test_an_end_closes_the_requests_under_way_and_says_what_cut_them(
    world: World, run: RunId, cue: runs.Cue, reason: Reason, interruption: Interruption
) -> None:
    world.begin_request(run)
    world.finish(run, cue, reason)
    request = world.request(run, 1)
    assert (request.state, request.reason) == (RequestState.INTERRUPTED, interruption)
    assert world.record(run).open_requests == ()


def test_a_request_that_is_counted_but_gone_is_damage(world: World, run: RunId) -> None:
    with pytest.raises(Damaged, match="counts request 1"):
        requests.get(world.base, run, 1)
