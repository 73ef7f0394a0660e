"""An overlay over a base reads as a dict would that has both.

Method: the same random steps on an `Overlay` and on a plain dict, then every way of
reading compared. The base is a dict too, so nothing here knows an engine.
"""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.store.engine import KEY_BYTES_MAX, Overlay

Model = dict[bytes, bytes]
Step = tuple[bytes, bytes | None]


class Base:
    """A `ReadTxn` on a dict."""

    def __init__(self, content: Model) -> None:
        self._content = content

    def get(self, key: bytes) -> bytes | None:
        return self._content.get(key)

    def scan(
        self, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return iter(scanned(self._content, start, stop, reverse=reverse))


def scanned(
    content: Model, start: bytes, stop: bytes, *, reverse: bool = False
) -> list[tuple[bytes, bytes]]:
    return sorted(
        ((key, value) for key, value in content.items() if start <= key < stop), reverse=reverse
    )


def carry_out(steps: list[Step], overlay: Overlay, model: Model) -> None:
    for key, value in steps:
        if value is None:
            overlay.delete(key)
            model.pop(key, None)
        else:
            overlay.put(key, value)
            model[key] = value


KEYS = st.binary(min_size=1, max_size=2).map(lambda key: bytes(97 + byte % 4 for byte in key))
BOUNDS = st.one_of(st.just(b""), KEYS, st.just(b"z"))
VALUES = st.binary(max_size=2)
STEPS = st.lists(st.tuples(KEYS, st.one_of(st.none(), VALUES)), max_size=12)


@pytest.mark.slow
@given(st.dictionaries(KEYS, VALUES), STEPS, STEPS, st.lists(st.tuples(BOUNDS, BOUNDS), max_size=5))
def test_an_overlay_reads_as_a_dict_with_the_same_writes(
    content: Model, first: list[Step], then: list[Step], bounds: list[tuple[bytes, bytes]]
) -> None:
    overlay = Overlay(Base(content))
    model = dict(content)
    for steps in (first, then):  # twice, because a scan changes how later keys are kept
        carry_out(steps, overlay, model)
        for start, stop in bounds:
            for reverse in (False, True):
                found = list(overlay.scan(start, stop, reverse=reverse))
                assert found == scanned(model, start, stop, reverse=reverse)
        assert all(overlay.get(key) == model.get(key) for key in {*model, *content, b"zz"})


@pytest.mark.slow
@given(st.dictionaries(KEYS, VALUES), STEPS, STEPS, st.booleans())
def test_what_one_overlay_absorbs_from_another_is_as_if_written_to_it(
    content: Model, below: list[Step], above: list[Step], scan_between: bool
) -> None:
    lower = Overlay(Base(content))
    model = dict(content)
    carry_out(below, lower, model)
    if scan_between:
        assert list(lower.scan(b"a", b"z")) == scanned(model, b"a", b"z")
    upper = Overlay(lower)
    before = dict(model)
    carry_out(above, upper, model)
    assert list(upper.scan(b"a", b"z")) == scanned(model, b"a", b"z")
    assert list(lower.scan(b"a", b"z")) == scanned(before, b"a", b"z"), "not yet absorbed"
    lower.absorb(upper)
    assert list(lower.scan(b"a", b"z")) == scanned(model, b"a", b"z")


@pytest.mark.slow
@given(st.dictionaries(KEYS, VALUES), STEPS)
def test_the_writes_are_in_key_order_and_lead_from_the_base_to_the_overlay(
    content: Model, steps: list[Step]
) -> None:
    overlay = Overlay(Base(content))
    model = dict(content)
    carry_out(steps, overlay, model)
    writes = overlay.writes()
    assert [key for key, _ in writes] == sorted({key for key, _ in steps})
    assert overlay.empty == (not steps)
    applied = dict(content)
    for key, value in writes:
        if value is None:
            applied.pop(key, None)
        else:
            applied[key] = value
    assert applied == model


# fmt: off
BAD_KEYS = [
    b"",
    b"\0",
    b"\0format",                   # the engine's own
    b"x" * (KEY_BYTES_MAX + 1),
]
# fmt: on


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_no_store_can_hold_is_an_error_where_it_is_written(key: bytes) -> None:
    overlay = Overlay(Base({}))
    with pytest.raises(ValueError, match="not a key of the store"):
        overlay.put(key, b"")
    with pytest.raises(ValueError, match="not a key of the store"):
        overlay.delete(key)
    assert overlay.empty


def test_the_longest_key_and_the_first_key_are_fine() -> None:
    overlay = Overlay(Base({}))
    overlay.put(b"\x01", b"first")
    overlay.put(b"x" * KEY_BYTES_MAX, b"longest")
    assert len(overlay.writes()) == 2


def test_a_value_that_could_change_later_is_an_error() -> None:
    with pytest.raises(TypeError, match="bytearray"):
        Overlay(Base({})).put(b"k", bytearray(b"v"))  # type: ignore[arg-type]
