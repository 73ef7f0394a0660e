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


def spoken(line: str) -> ModelInput:
    """Read an input: `u` a person, `ab?` calls a and b, `a!` a's result, `a~` a stand-in."""
    return ModelInput(messages=tuple(spoken_word(word) for word in line.split()))


def spoken_word(word: str) -> ModelMessage:
    match word[-1]:
        case "?":
            return asks(*word[:-1])
        case "!":
            return gives(word[:-1])
        case "~":
            return missing(word[:-1])
        case _:
            return user()


# fmt: off
CASES = {
    "nothing to pair":  ("u",                "u"),
    "whole":            ("ab? b! a!",        "ab? b! a!"),
    "cut at the end":   ("u ab? a!",         "u ab? a! b~"),
    "then a steering":  ("a? u",             "a? a~ u"),
    "answered twice":   ("a? a! a! u",       "a? a! u"),
    "never asked for":  ("u z!",             "u"),
    "late":             ("a? u a!",          "a? a~ u"),
    "an id used again": ("a? a! a?",         "a? a! a? a~"),
}
# fmt: on


@pytest.mark.contract("C34")
@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_what_is_unpaired_is_paired(before: str, after: str) -> None:
    assert paired(spoken(before)) == spoken(after)


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
