"""Every verb refuses what is not of its form, by type, in one sentence, and stores nothing.

Method: a table of good arguments for each verb; in each case one of them is replaced by a
bad one. A missing id, a wrong type and a text over its limit are all the same kind of
answer: `Refused`, with the field's name.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from counterpoint.runtime import Code, Config, Limits, Refused, Runtime

from .stage import InMemory, Person, person, rests

LIMITS = Limits(text_bytes_max=100, title_bytes_max=20)
AGENTS = {"short": rests, "background": rests}

# fmt: off
BAD_IDS: list[tuple[Any, Code]] = [
    ("", Code.INVALID),
    (None, Code.INVALID),
    (7, Code.INVALID),
    (b"bytes", Code.INVALID),
    ("a\0b", Code.INVALID),
    ("line\nbreak", Code.INVALID),
    ("\x7f", Code.INVALID),
    ("\ud800", Code.INVALID),
    ("x" * 129, Code.TOO_LARGE),
    ("ж" * 65, Code.TOO_LARGE),  # 130 bytes
]
BAD_TEXTS: list[tuple[Any, Code]] = [
    ("", Code.INVALID),
    (None, Code.INVALID),
    (7, Code.INVALID),
    (b"bytes", Code.INVALID),
    ("half a pair: \ud83d", Code.INVALID),
    ("x" * 101, Code.TOO_LARGE),
    ("茶" * 34, Code.TOO_LARGE),  # 102 bytes
]
BAD_NUMBERS: list[tuple[Any, Code]] = [
    (-1, Code.INVALID), (1.0, Code.INVALID), ("1", Code.INVALID), (True, Code.INVALID),
    (1 << 63, Code.INVALID), (float("nan"), Code.INVALID),
]
UNKNOWN: list[tuple[Any, Code]] = [
    ("never", Code.NOT_FOUND), ("c", Code.NOT_FOUND), ("r", Code.NOT_FOUND),
    ("r" + "0" * 24, Code.NOT_FOUND), ("c" + "0" * 24, Code.NOT_FOUND), ("!", Code.NOT_FOUND),
    ("茶", Code.NOT_FOUND), ("x" * 128, Code.NOT_FOUND),
]
FIELDS: Mapping[str, Mapping[str, list[tuple[Any, Code]]]] = {
    "open_conversation": {
        "scope": BAD_IDS, "client_id": BAD_IDS,
        "title": [case for case in BAD_TEXTS if case[0] != ""],
    },
    "submit": {
        "scope": BAD_IDS, "client_id": BAD_IDS, "text": BAD_TEXTS,
        "conversation": BAD_IDS + UNKNOWN,
        "entry": [(entry, Code.INVALID) for entry in ("", "steer", "open", "PLAIN", None, 1)],
        "depth": [(depth, Code.INVALID) for depth in ("", "shallow", None, ["deep"])],
    },
    "steer": {
        "scope": BAD_IDS, "client_id": BAD_IDS, "text": BAD_TEXTS, "run": BAD_IDS + UNKNOWN,
        "expected_revision": [*BAD_NUMBERS, (3, Code.STALE_REVISION)],
    },
    "stop": {"scope": BAD_IDS, "client_id": BAD_IDS, "run": BAD_IDS + UNKNOWN},
    "lookup": {"scope": BAD_IDS, "client_id": BAD_IDS},
    "view": {
        "scope": BAD_IDS, "conversation": BAD_IDS + UNKNOWN,
        "before": [*BAD_NUMBERS, (0, Code.INVALID)],
    },
    "view_run": {"scope": BAD_IDS, "run": BAD_IDS + UNKNOWN},
    "inspect": {"scope": BAD_IDS, "run": BAD_IDS + UNKNOWN},
    "wait": {"scope": BAD_IDS, "run": BAD_IDS + UNKNOWN},
    "export_request": {
        "scope": BAD_IDS, "run": BAD_IDS + UNKNOWN,
        "ordinal": [*BAD_NUMBERS, (0, Code.INVALID), (1, Code.NOT_FOUND)],
    },
    "conversations": {"scope": BAD_IDS},
    "events": {
        "scope": BAD_IDS, "conversation": BAD_IDS + UNKNOWN, "after": BAD_NUMBERS,
    },
}
# fmt: on


def good(verb: str, ann: Person, run: str) -> dict[str, Any]:
    """Arguments with which the verb would be accepted."""
    given: dict[str, dict[str, Any]] = {
        "open_conversation": {"client_id": "new", "title": "Tea"},
        "submit": {"client_id": "new", "conversation": ann.conversation, "text": "Hello"},
        "steer": {"client_id": "new", "run": run, "text": "Deeper"},
        "stop": {"client_id": "new", "run": run},
        "lookup": {"client_id": "new"},
        "view": {"conversation": ann.conversation},
        "events": {"conversation": ann.conversation, "follow": False},
        "export_request": {"run": run, "ordinal": 1},
        "conversations": {},
    }
    return {"scope": "ann", **given.get(verb, {"run": run})}


async def call(runtime: Runtime, verb: str, arguments: dict[str, Any]) -> Any:
    if verb == "events":
        return [event async for event in runtime.events(**arguments)]
    function: Callable[..., Awaitable[Any]] = getattr(runtime, verb)
    return await function(**arguments)


@pytest.mark.contract("C2", "C3", "C4", "C50", "D8", "D21")
@pytest.mark.parametrize(
    ("verb", "field"), [(verb, field) for verb, fields in FIELDS.items() for field in fields]
)
async def test_a_bad_argument_is_refused_by_its_name_and_stores_nothing(
    verb: str, field: str
) -> None:
    place = InMemory()
    async with place.open(AGENTS, Config(limits=LIMITS)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        for bad, code in FIELDS[verb][field]:
            arguments = {**good(verb, ann, run), field: bad}
            with place.refuses(code) as caught:
                await call(runtime, verb, arguments)
            check(caught.value, field, arguments)
        assert await runtime.lookup(scope="ann", client_id="new") is None
        await ann.stops(run)


def check(refused: Refused, field: str, arguments: dict[str, Any]) -> None:
    facts = refused.facts
    if refused.code in (Code.INVALID, Code.TOO_LARGE):
        assert facts["field"] == field
        assert field in refused.sentence
    if refused.code is Code.TOO_LARGE:
        assert facts["actual"] > facts["limit"]
    if refused.code is Code.NOT_FOUND:
        assert facts["id"].startswith(str(arguments.get("run", arguments.get("conversation"))))
    text = arguments.get("text")
    assert refused.text == (text if isinstance(text, str) else None)
    assert not refused.retry_same_id
    assert len(refused.sentence) < 400
    assert "\n" not in refused.sentence


@pytest.mark.parametrize("verb", FIELDS.keys() - {"export_request"})  # no request is made
async def test_the_good_arguments_of_the_table_are_accepted(verb: str) -> None:
    async with InMemory().open(AGENTS, Config(limits=LIMITS)) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        if verb == "wait":
            await ann.stops(run)
        found = await call(runtime, verb, good(verb, ann, run))
        if verb == "submit":
            await ann.stops(found.run)
        if verb not in ("stop", "wait"):
            await ann.stops(run)


@pytest.mark.contract("A4", "C4", "C50")
async def test_what_fits_exactly_is_kept_byte_for_byte() -> None:
    scope, client_id = "ж" * 64, "x" * 128
    text = "a\0b \r\n\t🫖" + "x" * 89
    assert len(text.encode()) == LIMITS.text_bytes_max
    async with InMemory().open(AGENTS, Config(limits=LIMITS)) as runtime:
        opened = await runtime.open_conversation(scope=scope, client_id="c", title="ж" * 10)
        receipt = await runtime.submit(
            scope=scope, conversation=opened.conversation, client_id=client_id, text=text
        )
        view = await runtime.view(scope=scope, conversation=opened.conversation)
        assert view.entries[0].text == text
        assert view.title == "ж" * 10
        assert receipt.run is not None
        await runtime.stop(scope=scope, run=receipt.run, client_id="stop")


@pytest.mark.contract("C50")
@pytest.mark.parametrize("title", ["", " ", "茶"])
async def test_a_title_may_be_empty(title: str) -> None:
    async with InMemory().open(AGENTS) as runtime:
        opened = await runtime.open_conversation(scope="ann", client_id="c", title=title)
        view = await runtime.view(scope="ann", conversation=opened.conversation)
        assert view.title == title
