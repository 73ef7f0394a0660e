"""The gate asks in one order: is the id known, is the place there, is there room.

Method: the whole small domain. Each question is answered in each way, and the first that
does not let the message in decides what is told. Only where all three do there is a run.
"""

import itertools

import pytest

from counterpoint.runtime import Code, Config, Limits, Refused

from ..runtime.stage import InMemory, person, rests
from .verbs import NEVER_A_CONVERSATION

CONFIG = Config(limits=Limits(capacity={"short": 2, "background": 0}), drain_s=0.01)

IDS = ["new", "the same again", "another meaning"]
PLACES = ["here", "nowhere", "somebody else's"]
ROOMS = ["free", "full"]


def verdict(identifier: str, place: str, room: str) -> Code | None:
    """Return what is told, or None for a receipt."""
    if identifier == "the same again" and place == "here":
        return None
    if identifier != "new":
        return Code.CONFLICT
    if place != "here":
        return Code.NOT_FOUND
    return Code.CAPACITY_FULL if room == "full" else None


@pytest.mark.contract("A11", "A15", "A16", "A17", "A25", "C5", "D21", "P14")
@pytest.mark.parametrize(
    ("identifier", "place", "room"), list(itertools.product(IDS, PLACES, ROOMS))
)
async def test_the_first_question_that_is_not_passed_decides(
    identifier: str, place: str, room: str
) -> None:
    store = InMemory()
    async with store.open({"short": rests}, CONFIG) as runtime:
        ann, bob = await person(runtime), await person(runtime, "bob")
        first = await ann.says("Hello", client_id="used")
        if room == "full":
            await ann.says("Hello")
        runs = len((await ann.view()).runs)
        where = {
            "here": ann.conversation,
            "nowhere": NEVER_A_CONVERSATION,
            "somebody else's": bob.conversation,
        }[place]
        code: Code | None = None
        before = store.engine.committed()
        try:
            receipt = await runtime.submit(
                scope="ann",
                conversation=where,
                client_id="new" if identifier == "new" else "used",
                text="Other words" if identifier == "another meaning" else "Hello",
            )
        except Refused as refused:
            code = refused.code
        else:
            assert (receipt == first) is (identifier != "new")
        assert code == verdict(identifier, place, room)
        admitted = code is None and identifier == "new"
        assert (store.engine.committed() is not before) is admitted
        view = await ann.view()
        assert len(view.runs) == runs + admitted, "a run for what was not let in"
        for run in view.live:
            await ann.stops(run)
