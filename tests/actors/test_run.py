"""For which reason a run ends, from what came out of its agent."""

import pytest

from counterpoint.actors.causes import WORDS_BYTES_MAX, in_words, why_it_ended
from counterpoint.store.records import Reason
from counterpoint.store.refusal import Code, OutcomeUnknown, Refused
from counterpoint.store.requests import BudgetSpent, GateClosed
from counterpoint.store.runs import OwnerLost

SPENT = BudgetSpent("effects")
TOO_LONG = Refused(Code.TOO_LARGE, "The answer is too long.")
STOPPING = Refused(Code.RUN_STOPPING, "It is being stopped.")
NO_DISK = Refused(Code.STORE_UNAVAILABLE, "The disk is gone.")
IN_DOUBT = OutcomeUnknown("Nobody knows.")
FAULT = ValueError("no idea")


def several(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several tasks", errors)


# fmt: off
CASES = [  # what the agent raised, reason, words
    (SPENT,                            Reason.BUDGET,      "The run's budget of effects is spent."),
    (GateClosed(),                     Reason.USER_STOP,   ""),
    (OwnerLost(),                      None,               ""),
    (STOPPING,                         Reason.USER_STOP,   ""),
    (TOO_LONG,                         Reason.AGENT_ERROR, "The answer is too long."),
    (NO_DISK,                          Reason.INTERNAL,    "The disk is gone."),
    (IN_DOUBT,                         Reason.INTERNAL,    "Nobody knows."),
    (FAULT,                            Reason.AGENT_ERROR, "ValueError: no idea"),
    (several(SPENT),                   Reason.BUDGET,      "The run's budget of effects is spent."),
    (several(SPENT, several(SPENT)),   Reason.BUDGET,      "The run's budget of effects is spent."),
    (several(SPENT, GateClosed()),     Reason.USER_STOP,   ""),      # a stop outranks (D17)
    (several(GateClosed(), OwnerLost()), None,             ""),      # it is not ours to end
    (several(several(FAULT)),          Reason.AGENT_ERROR, "ValueError: no idea"),
    (several(SPENT, FAULT),            Reason.AGENT_ERROR,
        "ExceptionGroup: several tasks (2 sub-exceptions)"),
]
# fmt: on


@pytest.mark.contract("D12", "D17", "B44", "B65")
@pytest.mark.parametrize(("error", "reason", "words"), CASES)
def test_a_run_ends_for_the_weightiest_of_what_its_agent_raised(
    error: Exception, reason: Reason | None, words: str
) -> None:
    assert why_it_ended(error) == (reason, words)


@pytest.mark.contract("C50")
@pytest.mark.parametrize("words", ["x" * 1_000_000, "茶" * 1_000_000, "\ud800" * 1_000_000])
def test_what_an_exception_says_is_kept_up_to_a_bound_and_can_be_stored(words: str) -> None:
    kept = in_words(ValueError(words)).encode()

    assert kept.startswith(b"ValueError: ")
    assert WORDS_BYTES_MAX - 4 < len(kept) <= WORDS_BYTES_MAX
