"""Ids grow, whatever the clock does, and say what they name."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.store.ids import ID_LENGTH, IdSource


def source(times_ms: Iterable[int], node: int = 1) -> IdSource:
    times: Iterator[int] = iter(times_ms)
    return IdSource(lambda: next(times), node=node)


@given(st.lists(st.integers(0, 2**48 - 1), min_size=2, max_size=50))
def test_ids_grow_even_if_the_clock_jumps_about(times_ms: list[int]) -> None:
    ids = source(times_ms)
    made = [ids.run() for _ in times_ms]
    assert made == sorted(set(made))


def test_ids_grow_when_the_clock_jumps_back_and_comes_forward_again() -> None:
    ids = source([5_000, 5_000, 1_000, 4_999, 5_000, 5_001])
    made = [ids.message() for _ in range(6)]
    assert made == sorted(set(made))
    assert made[2][1:13] == f"{5_000:012x}"  # the last millisecond seen goes on counting


def test_more_ids_than_a_millisecond_holds_borrow_from_the_next() -> None:
    ids = IdSource(lambda: 7, node=1)
    made = [ids.run() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert made[-1][1:13] == f"{9:012x}"


def test_the_time_never_goes_back_even_behind_borrowed_ids() -> None:
    ids = IdSource(lambda: 7, node=1)
    seen = [ids.now_ms()]
    for _ in range(5_000):
        ids.run()
        seen.append(ids.now_ms())
    assert seen == sorted(seen)


def test_two_makers_never_make_the_same_id() -> None:
    a, b = IdSource(lambda: 7, node=1), IdSource(lambda: 7, node=2)
    assert {a.run() for _ in range(50)} & {b.run() for _ in range(50)} == set()


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**36 - 1))
def test_every_id_has_one_length_and_the_letter_of_its_kind(ms: int, node: int) -> None:
    ids = IdSource(lambda: ms, node=node)
    made = [ids.conversation(), ids.message(), ids.run(), ids.publication(), ids.owner()]
    assert [identifier[0] for identifier in made] == ["c", "m", "r", "p", "w"]
    assert {len(identifier) for identifier in made} == {ID_LENGTH}


def test_ids_of_every_kind_are_counted_together_so_one_makers_never_differ_by_letter_only() -> None:
    ids = IdSource(lambda: 7, node=1)
    made = [ids.conversation(), ids.message(), ids.run(), ids.publication(), ids.owner()]
    assert len({identifier[1:] for identifier in made}) == len(made)


@pytest.mark.parametrize("node", [0, 2**36 - 1])
def test_a_node_takes_its_nine_digits(node: int) -> None:
    assert IdSource(lambda: 7, node=node).run()[-9:] == f"{node:09x}"
