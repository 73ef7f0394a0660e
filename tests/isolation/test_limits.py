"""What comes in has a form and a size, and each bad one is refused by its name (C50).

Ids and texts at both sides of every boundary; the settings of a host, which are checked where
they are built; and any text that fits comes back byte for byte.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime import Code, Config, Limits, Receipt, Refused, validation
from counterpoint.store import keys, messages
from counterpoint.store.ids import ClientId, MessageId, RunId, ScopeId

from ..runtime.stage import InMemory
from ..store.world import World
from .verbs import AGENTS, CONFIG, talk

KIB_64 = 64 * 1024

# fmt: off
IDS: list[tuple[Any, Code | None]] = [
    ("x",                 None),
    ("x" * 128,           None),
    ("ж" * 64,            None),           # 128 bytes
    ("🫖" * 32,           None),           # 128 bytes
    (" ",                 None),           # a host's own business
    ("a\u00a0b",          None),           # a space that does not break
    ("a\u200db",          None),           # of category Cf, not Cc
    ("e\u0301",           None),           # not normalised: another id than the next
    ("\u00e9",            None),
    ("",                  Code.INVALID),
    ("x" * 129,           Code.TOO_LARGE),
    ("ж" * 65,            Code.TOO_LARGE),
    ("a\0b",              Code.INVALID),
    ("a\x1f",             Code.INVALID),
    ("\n",                Code.INVALID),
    ("\x7f",              Code.INVALID),
    ("\x80",              Code.INVALID),
    ("\x9f",              Code.INVALID),
    ("\ud800",            Code.INVALID),
    ("a\udfffb",          Code.INVALID),
    (None,                Code.INVALID),
    (b"x",                Code.INVALID),
    (1,                   Code.INVALID),
    (True,                Code.INVALID),
    (["x"],               Code.INVALID),
]
TEXTS: list[tuple[Any, Code | None]] = [
    ("x",                      None),
    ("\0",                     None),      # a text may hold what an id may not
    (" \r\n\t",                None),
    ("x" * KIB_64,             None),
    ("茶" * (KIB_64 // 3),     None),      # 65,535 bytes
    ("🫖" * (KIB_64 // 4),     None),
    ("",                       Code.INVALID),
    ("x" * (KIB_64 + 1),       Code.TOO_LARGE),
    ("茶" * (KIB_64 // 3 + 1), Code.TOO_LARGE),
    ("half of 🫖: \ud83e",     Code.INVALID),
    (None,                     Code.INVALID),
    (b"x",                     Code.INVALID),
    (7,                        Code.INVALID),
]
# fmt: on


def identifier(value: Any) -> str:
    return validation.identifier("name", value)


def text(value: Any) -> str:
    return validation.text("name", value, bytes_max=Limits().text_bytes_max)


@pytest.mark.contract("C50", "C3")
@pytest.mark.parametrize(
    ("check", "value", "code"),
    [(check, *case) for check, cases in ((identifier, IDS), (text, TEXTS)) for case in cases],
    ids=[f"{n:02}" for n in range(len(IDS) + len(TEXTS))],
)
def test_an_id_and_a_text_are_taken_up_to_their_bounds_and_no_further(
    check: Callable[[Any], str], value: Any, code: Code | None
) -> None:
    if code is None:
        assert check(value) is value
        return
    with pytest.raises(Refused) as caught:
        check(value)
    assert (caught.value.code, caught.value.facts["field"]) == (code, "name")
    assert caught.value.sentence.startswith("name ")
    assert not caught.value.retry_same_id
    assert len(caught.value.sentence) < 200


def test_the_checks_and_the_keys_agree_on_how_long_an_id_is() -> None:
    longest = "x" * keys.ID_BYTES_MAX
    assert identifier(longest) == longest
    assert len(keys.identity(ScopeId(longest), ClientId(longest))) <= keys.KEY_BYTES_MAX


@pytest.mark.contract("C50", "C2")
@pytest.mark.parametrize("happened", [None, 0, 1, "yes", "", [], float("nan")])
async def test_whether_an_effect_happened_is_yes_or_no(happened: Any) -> None:
    place = InMemory()
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        with place.refuses(Code.INVALID) as caught:
            await runtime.resolve(
                scope="ann", run=at.run, effect=1, client_id="new", happened=happened
            )
        assert caught.value.facts["field"] == "happened"


# fmt: off
ARGUMENTS: list[tuple[str, str, Any, Code]] = [  # verb, argument, what it is given
    ("withdraw", "scope",     "",            Code.INVALID),
    ("withdraw", "client_id", "\n",          Code.INVALID),
    ("withdraw", "run",       "x" * 129,     Code.TOO_LARGE),
    ("withdraw", "run",       "never",       Code.NOT_FOUND),
    ("withdraw", "revision",  0,             Code.INVALID),
    ("withdraw", "revision",  True,          Code.INVALID),
    ("withdraw", "revision",  "1",           Code.INVALID),
    ("withdraw", "revision",  1 << 63,       Code.INVALID),
    ("withdraw", "revision",  3,             Code.NOT_FOUND),
    ("resolve",  "scope",     None,          Code.INVALID),
    ("resolve",  "client_id", "",            Code.INVALID),
    ("resolve",  "run",       "\ud800",      Code.INVALID),
    ("resolve",  "run",       "never",       Code.NOT_FOUND),
    ("resolve",  "effect",    -1,            Code.INVALID),
    ("resolve",  "effect",    1.0,           Code.INVALID),
    ("resolve",  "effect",    3,             Code.NOT_FOUND),
    ("resolve",  "reason",    "x" * (KIB_64 + 1), Code.TOO_LARGE),
    ("resolve",  "reason",    None,          Code.INVALID),
    ("resolve",  "value",     "x" * 262_143, Code.TOO_LARGE),
    ("resolve",  "value",     object(),      Code.INVALID),
    ("resolve",  "value",     {"a": {1j}},   Code.INVALID),
]
# fmt: on


@pytest.mark.contract("C2", "C3", "C50", "D8")
@pytest.mark.parametrize(
    ("verb", "argument", "value", "code"),
    ARGUMENTS,
    ids=[f"{n:02}-{row[0]}-{row[1]}" for n, row in enumerate(ARGUMENTS)],
)
async def test_taking_back_and_resolving_refuse_a_bad_argument_by_its_name(
    verb: str, argument: str, value: Any, code: Code
) -> None:
    place = InMemory()
    async with place.open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        good: dict[str, Any] = {"scope": "ann", "run": at.run, "client_id": "new"}
        good |= {"revision": 1} if verb == "withdraw" else {"effect": 1, "happened": True}
        act: Callable[..., Any] = getattr(runtime, verb)
        with place.refuses(code) as caught:
            await act(**{**good, argument: value})
        if code is not Code.NOT_FOUND:
            assert caught.value.facts["field"] == argument
        accepted: Receipt = await act(**good)
        assert accepted.client_id == "new"


# fmt: off
BAD_LIMITS: list[tuple[Mapping[str, Any], type[Exception], str]] = [
    ({"text_bytes_max": "64 KiB"},                  TypeError,  "text_bytes_max"),
    ({"text_bytes_max": 1.5},                       TypeError,  "text_bytes_max"),
    ({"text_bytes_max": True},                      TypeError,  "text_bytes_max"),
    ({"text_bytes_max": None},                      TypeError,  "text_bytes_max"),
    ({"text_bytes_max": 0},                         ValueError, "text_bytes_max"),
    ({"event_page": -1},                            ValueError, "event_page"),
    ({"keep_inputs": 1},                            TypeError,  "keep_inputs"),
    ({"deadline_ms_of_run": "never"},               TypeError,  "deadline_ms_of_run"),
    ({"deadline_ms_of_run": 0},                     ValueError, "deadline_ms_of_run"),
    ({"capacity": 3},                               TypeError,  "capacity"),
    ({"capacity": {"short": "3"}},                  TypeError,  "capacity"),
    ({"capacity": {"short": True}},                 TypeError,  "capacity"),
    ({"capacity": {1: 3}},                          TypeError,  "capacity"),
    ({"capacity": {"short": -1}},                   ValueError, "short"),
    ({"capacity_of_scope": {"ann": 3}},             TypeError,  "capacity_of_scope"),
    ({"capacity_of_scope": {"ann": {"short": 0.5}}},TypeError,  "capacity_of_scope"),
    ({"no_such_limit": 1},                          TypeError,  "no_such_limit"),
]
BAD_CONFIG: list[tuple[Mapping[str, Any], type[Exception], str]] = [
    ({"write_wait_s": 0},                           ValueError, "write_wait_s"),
    ({"write_wait_s": -1.0},                        ValueError, "write_wait_s"),
    ({"write_wait_s": float("nan")},                ValueError, "write_wait_s"),
    ({"live_runs_max": 0},                          ValueError, "live_runs_max"),
    ({"map_bytes": 2, "map_bytes_max": 1},          ValueError, "map_bytes"),
    ({"no_such_setting": 1},                        TypeError,  "no_such_setting"),
    ({"write_wait_s": "5"},                         TypeError,  "write_wait_s"),
    ({"live_runs_max": True},                       TypeError,  "live_runs_max"),
]
# fmt: on


@pytest.mark.contract("C50", "B41")
@pytest.mark.parametrize(
    ("kind", "given", "error", "name"),
    [(Limits, *case) for case in BAD_LIMITS] + [(Config, *case) for case in BAD_CONFIG],
)
def test_a_setting_that_can_not_be_is_refused_by_its_name(
    kind: Callable[..., object], given: Mapping[str, Any], error: type[Exception], name: str
) -> None:
    with pytest.raises(error, match=name):
        kind(**given)


def test_settings_may_be_any_mapping_and_whole_numbers_of_seconds() -> None:
    class Slots(dict[str, int]):
        """A mapping of the host's own."""

    limits = Limits(capacity=Slots(short=2), capacity_of_scope={"ann": Slots(short=1)})
    assert (limits.slots("ann", "short"), limits.slots("bob", "short")) == (1, 2)
    assert Config(write_wait_s=5).write_wait_s == 5


texts = st.text(min_size=1, max_size=200)


@pytest.mark.contract("A4", "B28", "C4")
@given(texts)
def test_every_text_is_stored_and_read_byte_for_byte(words: str) -> None:
    world = World()
    accepted = world.say(world.open(), words)
    assert accepted.message is not None
    stored = messages.get(world.base, MessageId(accepted.message))
    assert stored.text.encode() == words.encode()
    steered = world.steer(RunId(accepted.run or ""), words)
    assert messages.get(world.base, MessageId(steered.message or "")).text == words


@pytest.mark.contract("A4", "C4")
async def test_a_text_travels_through_the_runtime_byte_for_byte() -> None:
    odd = "a\0b\r\n\u2028\ufeff\u202e e\u0301 \ufffd\U0010ffff 🫖"
    async with InMemory().open(AGENTS, CONFIG) as runtime:
        at = await talk(runtime)
        said = await runtime.submit(scope="ann", conversation=at.here, client_id="odd", text=odd)
        await runtime.steer(scope="ann", run=at.run, client_id="odder", text=odd)
        view = await runtime.view(scope="ann", conversation=at.here)
    assert [entry.text for entry in view.entries if entry.client_id in ("odd", "odder")] == [
        odd,
        odd,
    ]
    assert view.runs[said.run or ""].request == odd
    assert view.runs[at.run].revisions[-1].text == odd


@pytest.mark.contract("C2", "C4")
@given(texts)
def test_a_refusal_gives_every_text_back_as_json(words: str) -> None:
    refused = Refused(Code.CAPACITY_FULL, "No.", holders=[])
    refused.text = words
    assert msgspec.json.decode(msgspec.json.encode(refused.as_dict()))["text"] == words
