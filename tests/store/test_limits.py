"""Limits are checked where they are built, so that no rule has to ask again."""

import msgspec
import pytest

from counterpoint.store import keys
from counterpoint.store.limits import BACKGROUND, SHORT, Limits

NUMBERS = [name for name in Limits.__struct_fields__ if type(getattr(Limits(), name)) is int]


@pytest.mark.contract("B41", "D9")
def test_the_limits_begin_at_three_short_and_one_background() -> None:
    limits = Limits()
    assert limits.slots("anyone", SHORT) == 3
    assert limits.slots("anyone", BACKGROUND) == 1


@pytest.mark.contract("D9")
def test_a_scope_may_have_its_own_limit_for_one_class_and_keep_the_rest() -> None:
    limits = Limits(capacity_of_scope={"team": {BACKGROUND: 8}})
    assert limits.slots("team", BACKGROUND) == 8
    assert limits.slots("team", SHORT) == 3
    assert limits.slots("anyone", BACKGROUND) == 1


def test_a_class_that_is_not_configured_has_no_slots() -> None:
    assert Limits().slots("anyone", "review") == 0


def test_a_scope_may_be_given_no_slots_at_all() -> None:
    assert Limits(capacity_of_scope={"closed": {SHORT: 0}}).slots("closed", SHORT) == 0


@pytest.mark.parametrize("name", NUMBERS)
def test_a_bound_below_one_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        msgspec.structs.replace(Limits(), **{name: 0})


@pytest.mark.parametrize("run_class", ["", "a b", "a\0b", "9"])
def test_what_can_not_be_the_name_of_a_class_is_refused(run_class: str) -> None:
    with pytest.raises(ValueError, match="not the name of a capacity class"):
        Limits(capacity={run_class: 1})
    with pytest.raises(ValueError, match="not the name of a capacity class"):
        Limits(capacity_of_scope={"ann": {run_class: 1}})


def test_the_name_of_a_class_has_to_fit_into_a_key() -> None:
    longest = "x" * keys.ID_BYTES_MAX
    assert Limits(capacity={longest: 1}).slots("anyone", longest) == 1
    with pytest.raises(ValueError, match="not the name of a capacity class"):
        Limits(capacity={longest + "x": 1})


def test_fewer_slots_than_none_are_refused() -> None:
    with pytest.raises(ValueError, match="can't have -1 slots"):
        Limits(capacity={SHORT: -1})


def test_a_switch_is_no_bound_and_may_be_off() -> None:
    assert Limits(keep_inputs=False).keep_inputs is False
