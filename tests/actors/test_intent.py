"""What becomes of a message is decided from values, and never by what runs beside it."""

import pytest

from counterpoint.actors.intent import Act, Surroundings, decide
from counterpoint.store.records import Verb

# fmt: off
CASES = [  # entry, background runs, act, rule
    (Verb.PLAIN,      0, Act.ANSWER,   "nothing to decide"),
    (Verb.PLAIN,      1, Act.ANSWER,   "no classifier: beside what is running"),
    (Verb.PLAIN,      7, Act.ANSWER,   "no classifier: beside what is running"),
    (Verb.BACKGROUND, 0, Act.RESEARCH, "the person chose background"),
    (Verb.BACKGROUND, 7, Act.RESEARCH, "the person chose background"),  # capacity is asked later
]
# fmt: on


@pytest.mark.contract("B12", "B16", "B24", "D1", "D2")
@pytest.mark.parametrize(("verb", "background_runs", "act", "rule"), CASES)
def test_an_entry_is_settled_by_what_it_is(
    verb: Verb, background_runs: int, act: Act, rule: str
) -> None:
    decision = decide(verb, Surroundings(background_runs=background_runs))

    assert (decision.act, decision.rule) == (act, rule)
    assert decision.disposition == f"{act}: {rule}"
