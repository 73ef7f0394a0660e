"""FORMAT.md says what the code does: its tables are read and compared."""

import inspect
import re
from pathlib import Path

import pytest

from counterpoint import store
from counterpoint.store import events, keys, lmdb_engine, runs, store_format
from counterpoint.store.ids import ClientId, IdSource, ScopeId
from counterpoint.store.limits import SHORT
from counterpoint.store.records import RECORDS

from .invariants import read
from .world import World

DOCUMENT = Path(store.__file__).with_name("FORMAT.md")
pytestmark = pytest.mark.skipif(
    not DOCUMENT.is_file(), reason="FORMAT.md is not shipped with the package"
)

Row = dict[str, str]


def table(*columns: str) -> list[Row]:
    """Return the rows of the one table of the document that has these columns."""
    tables = re.findall(r"((?:^\|.*\|\n)+)", DOCUMENT.read_text(), re.MULTILINE)
    for text in tables:
        heads, _, *rows = [
            [cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in text.splitlines()
        ]
        if heads == list(columns):
            return [dict(zip(heads, row, strict=True)) for row in rows]
    raise AssertionError(f"no table has the columns {columns}")


FAMILIES = ("family", "made by", "key", "value", "written", "typical bytes")


def code(cell: str) -> str:
    """Return what stands between backticks."""
    found = re.fullmatch("`([^`]*)`", cell)
    assert found, cell
    return found[1]


class Typical(World):
    """A store as the document supposes one: its lengths of texts, results and ids."""

    scope = ScopeId("account-4711")

    def client_id(self) -> ClientId:
        self._clients += 1
        return ClientId(f"019ad{self._clients:03x}-0000-7000-8000-000000000000")

    def fill(self) -> None:
        self._time_ms = 1_764_590_000_000
        conversation = self.open(self.scope, title="On the prices of apples")
        for _ in range(3):
            run = self.start(conversation, "t" * 100, scope=self.scope)
            self.ask(run)
            self.steer(run, "t" * 100, scope=self.scope)
            self.ask(run)
            self.end_effect(run, self.begin_effect(run).number, value=b"r" * 200)
            self.save(run, b"c" * 200)
            self.complete(run, "a" * 1_000)
        self.start(conversation, "t" * 100, scope=self.scope)


def typical() -> Typical:
    world = Typical()
    world.fill()
    return world


# What a key's parts stand for, by the words of the document, and the keys that they make.
IDS = IdSource(lambda: 1_764_590_000_000, node=1)
SCOPE, CLIENT = ScopeId("account-4711"), ClientId("mine")
CONVERSATION, RUN, OWNER = IDS.conversation(), IDS.run(), IDS.owner()
MESSAGE, PUBLICATION = IDS.message(), IDS.publication()
PARTS = {
    "scope": SCOPE.encode(),
    "client": CLIENT.encode(),
    "conversation": CONVERSATION.encode(),
    "run": RUN.encode(),
    "message": MESSAGE.encode(),
    "publication": PUBLICATION.encode(),
    "owner": OWNER.encode(),
    "class": SHORT.encode(),
    "u32": (7).to_bytes(4),
    "u64": (7).to_bytes(8),
}
MADE: dict[str, bytes] = {
    "conversation": keys.conversation(CONVERSATION),
    "event": keys.event(7),
    "identity": keys.identity(SCOPE, CLIENT),
    "live_run": keys.live_run(CONVERSATION, RUN),
    "message": keys.message(MESSAGE),
    "conversation_of_scope": keys.conversation_of_scope(SCOPE, CONVERSATION),
    "publication": keys.publication(PUBLICATION),
    "run": keys.run(RUN),
    "request": keys.request(RUN, 7),
    "request_input": keys.request_input(RUN, 7),
    "effect": keys.effect(RUN, 7),
    "revision": keys.revision(RUN, 7),
    "checkpoint": keys.checkpoint(RUN),
    "slot": keys.slot(SCOPE, SHORT, RUN),
    "owner": keys.owner(OWNER),
}
PREFIXES = {"slots", "live_runs", "requests", "effects", "revisions", "conversations_of_scope"}


def spelt(key: str) -> bytes:
    """Return the key that the document's words spell."""
    return b"".join(
        PARTS[part] if part in PARTS else code(part).replace(r"\0", "\0").encode()
        for part in key.split(" + ")
    )


def family_of(key: bytes) -> str:
    """Return the first byte of a key, and for what is a run's own also the one behind its id."""
    first = key[:1].decode()
    return first + key[25:26].decode() if first == "r" else first


@pytest.mark.parametrize("made", MADE)
def test_every_key_is_made_as_the_document_spells_it(made: str) -> None:
    (row,) = [row for row in table(*FAMILIES) if code(row["made by"]) == made]
    assert spelt(row["key"]) == MADE[made]


def test_every_function_that_makes_a_key_has_its_row() -> None:
    functions = {
        name
        for name, member in inspect.getmembers(keys, inspect.isfunction)
        if member.__module__ == keys.__name__
    }
    assert {code(row["made by"]) for row in table(*FAMILIES)} == MADE.keys()
    assert functions - PREFIXES - {"after"} == MADE.keys()


def test_no_two_families_share_their_place() -> None:
    places = [family_of(spelt(row["key"])) for row in table(*FAMILIES)]
    assert len(set(places)) == len(places)


def test_every_record_and_its_tag_stand_in_the_document() -> None:
    documented = {row["record"]: int(row["tag"]) for row in table("tag", "record", "what it is")}
    assert documented == {kind.__name__: kind.__struct_config__.tag for kind in RECORDS}


def test_every_record_is_the_value_of_a_family_or_within_one() -> None:
    stored = {row["value"] for row in table(*FAMILIES)}
    within = {
        row["record"]
        for row in table("tag", "record", "what it is")
        if "; within " in row["what it is"]
    }
    assert within == {"Meaning", "Budget"}
    assert {kind.__name__ for kind in RECORDS} - within <= stored
    assert stored - {kind.__name__ for kind in RECORDS} == {"empty", "its class", "the exact input"}


def test_a_store_in_which_everything_happens_has_the_families_of_the_document() -> None:
    base = typical().base
    assert read(base).unreadable == []
    assert {family_of(key) for key in base.values} == {
        family_of(spelt(row["key"])) for row in table(*FAMILIES)
    } | {"!"}


@pytest.mark.parametrize("family", MADE)
def test_a_record_takes_about_as_many_bytes_as_the_document_says(family: str) -> None:
    (row,) = [row for row in table(*FAMILIES) if code(row["made by"]) == family]
    if row["typical bytes"] == "as long as it is":
        return
    said = int(row["typical bytes"].replace(",", ""))
    place = family_of(MADE[family])
    sizes = [
        len(key) + len(value)
        for key, value in typical().base.values.items()
        if family_of(key) == place
    ]
    assert said == pytest.approx(sum(sizes) / len(sizes), rel=0.25)


def test_admitting_a_message_writes_the_eight_records_that_the_document_names() -> None:
    world = World()
    conversation = world.open()
    world.start(conversation)
    before = dict(world.base.values)
    world.start(conversation)
    written = {key for key, value in world.base.values.items() if before.get(key) != value}
    assert sorted(map(family_of, written)) == sorted("irlsmec!")


def test_the_engines_own_keys_stand_in_the_document() -> None:
    documented = {code(row["key"]).replace(r"\0", "\0").encode() for row in table("key", "value")}
    assert documented == {store_format.FORMAT_KEY, lmdb_engine.SETTLED_KEY}


def test_every_row_of_part_e_is_told_in_terms_of_records() -> None:
    told = re.findall(r"^- \*\*(E\d+)\*\*", DOCUMENT.read_text(), re.MULTILINE)
    assert told == [f"E{number}" for number in range(1, 13)]


def test_back_pointers_are_those_of_the_documents_examples() -> None:
    world = World()
    conversation = world.open()
    run = world.start(conversation)
    for step in range(130):
        world.run(runs.note_progress, run, world.owner, str(step), world.now_ms())
    for row in table("number", "its back pointers, by number"):
        said = row["its back pointers, by number"]
        event = world.events(conversation)[int(row["number"]) - 1]
        back = [events.event_at(world.base, at).number for at in event.back]
        assert back == [int(number) for number in re.findall(r"\d+", said)]
