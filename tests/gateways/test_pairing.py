"""Every call has its result, whatever an interruption left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime import Call, ModelInput, ModelMessage
from counterpoint.runtime.gateways.pairing import NO_RESULT, paired


def user(text: str = "hi") -> ModelMessage:
    return ModelMessage(role="user", text=text)


def asks(*call_ids: str) -> ModelMessage:
    calls = tuple(Call(call_id=call_id, name="look", arguments={}) for call_id in call_ids)
    return ModelMessage(role="assistant", text="", calls=calls)


def gives(call_id: str, text: str = "found") -> ModelMessage:
    return ModelMessage(role="tool", text=text, call_id=call_id)


def missing(call_id: str) -> ModelMessage:
    return gives(call_id, NO_RESULT)


# fmt: off
CASES = [
    ("nothing to pair",  [user()],                                      [user()]),
    ("whole",            [asks("a", "b"), gives("b"), gives("a")],      [asks("a", "b"), gives("b"), gives("a")]),
    ("cut at the end",   [user(), asks("a", "b"), gives("a")],          [user(), asks("a", "b"), gives("a"), missing("b")]),
    ("then a steering",  [asks("a"), user("only 2009")],                [asks("a"), missing("a"), user("only 2009")]),
    ("asked for twice",  [asks("a"), gives("a"), gives("a"), user()],   [asks("a"), gives("a"), user()]),
    ("never asked for",  [user(), gives("z")],                          [user()]),
    ("late",             [asks("a"), user(), gives("a")],               [asks("a"), missing("a"), user()]),
    ("an id used again", [asks("a"), gives("a"), asks("a")],            [asks("a"), gives("a"), asks("a"), missing("a")]),
]
# fmt: on


@pytest.mark.contract("C34")
@pytest.mark.parametrize(("why", "before", "after"), CASES, ids=[case[0] for case in CASES])
def test_what_is_unpaired_is_paired(
    why: str, before: list[ModelMessage], after: list[ModelMessage]
) -> None:
    del why
    assert paired(ModelInput(messages=tuple(before))) == ModelInput(messages=tuple(after))


MESSAGES = st.one_of(
    st.just(user()),
    st.lists(st.sampled_from("abc"), unique=True).map(lambda ids: asks(*ids)),
    st.sampled_from("abc").map(gives),
)


@pytest.mark.contract("C34")
@given(st.lists(MESSAGES, max_size=12))
def test_every_input_comes_out_well_formed_and_stays_as_it_is(messages: list[ModelMessage]) -> None:
    once = paired(ModelInput(messages=tuple(messages)))
    owed: set[str] = set()
    for message in once.messages:
        if message.role == "tool":
            assert message.call_id in owed
            owed.discard(message.call_id)
        else:
            assert not owed
            owed = {call.call_id for call in message.calls}
    assert not owed
    assert paired(once) == once
    words = [message for message in messages if message.role != "tool"]
    assert [message for message in once.messages if message.role != "tool"] == words
