"""The commands on a store that nobody has open: what they say, and what they exit with.

Method: a runtime makes the store and leaves it, or dies in it (its lock is free, its runs
are not settled); then `main` runs in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from counterpoint.runtime.cli import main
from counterpoint.runtime.commands.known_runs import KnownRun, choose
from counterpoint.runtime.errors import Code, Refused
from counterpoint.runtime.opening import FORMAT_VERSION
from counterpoint.store import admission, keys, settlement
from counterpoint.store.engine import Txn
from counterpoint.store.identity import text_hash
from counterpoint.store.ids import ClientId, ConversationId, IdSource, OwnerId, RunId, ScopeId
from counterpoint.store.limits import Limits
from counterpoint.store.lmdb_engine import open_lmdb_engine
from counterpoint.store.records import Depth, Owner, Verb

from .stage import OnDisk, answers, person

Captured = pytest.CaptureFixture[str]
ME = ScopeId("me")


async def _talk(store: Path) -> list[RunId]:
    async with OnDisk(store).open({"short": answers, "background": answers}) as runtime:
        me = await person(runtime, "me", title="Tea")
        begun = [await me.starts("What is tea?"), await me.researches("Compare teas")]
        for run in begun:
            await me.end_of(run)
    return begun


async def write(store: Path, rule: Callable[[Txn], Any]) -> None:
    async with open_lmdb_engine(store, format_version=FORMAT_VERSION) as engine:
        await engine.write(rule, deadline=trio.current_time() + 30)


def admit_by_a_process_that_dies(store: Path) -> RunId:
    """Leave a run behind whose owner is known, and gone."""
    ids = IdSource(lambda: 1_000, node=7)
    owner, conversation, run = ids.owner(), ids.conversation(), ids.run()

    def rule(txn: Txn) -> None:
        settlement.register(txn, Owner(owner=owner, pid=1, host="here", started_at_ms=1_000))
        opening = admission.Opening(
            scope=ME,
            client_id=ClientId("c-dead"),
            title="",
            conversation=conversation,
            now_ms=1_000,
        )
        admission.open_conversation(txn, opening)
        admission.admit(txn, Limits(), _submission(ids, owner, conversation, run))

    trio.run(write, store, rule)
    return run


def _submission(
    ids: IdSource, owner: OwnerId, conversation: ConversationId, run: RunId
) -> admission.Submission:
    return admission.Submission(
        scope=ME,
        conversation=conversation,
        client_id=ClientId("m-dead"),
        verb=Verb.PLAIN,
        text="Anybody?",
        text_sha256=text_hash("Anybody?"),
        depth=Depth.NORMAL,
        message=ids.message(),
        run=run,
        owner=owner,
        now_ms=1_000,
        disposition="answer",
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def begun(store: Path) -> list[RunId]:
    return trio.run(_talk, store)


def command(store: Path, *argv: str) -> int:
    return main([*argv, "--store", str(store)])


def printed(capfd: Captured) -> list[dict[str, Any]]:
    out, err = capfd.readouterr()
    assert err == ""
    return [msgspec.json.decode(line) for line in out.splitlines()]


def the_sentence(capfd: Captured) -> str:
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("counterpoint: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.contract("B42", "C46")
def test_the_runs_of_a_scope_are_listed_with_their_labels(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    assert command(store, "runs", "--json") == 0
    [listed] = printed(capfd)
    assert (listed["type"], listed["title"], listed["left_out"]) == ("conversation", "Tea", 0)
    assert [(run["label"], run["run"], run["state"]) for run in listed["runs"]] == [
        ("r1", begun[0], "completed"),
        ("r2", begun[1], "completed"),
    ]
    assert command(store, "runs") == 0
    out, _ = capfd.readouterr()
    assert [line.split()[:4] for line in out.splitlines()[1:]] == [
        ["r1", begun[0], "short", "completed"],
        ["r2", begun[1], "background", "completed"],
    ]


def test_of_many_runs_the_newest_are_listed_and_all_that_live(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    live = admit_by_a_process_that_dies(store)
    assert command(store, "runs", "--last", "1", "--json") == 0
    found = {run["run"]: listed["left_out"] for listed in printed(capfd) for run in listed["runs"]}
    assert found == {begun[1]: 1, live: 0}


def test_another_scope_sees_nothing(store: Path, begun: list[RunId], capfd: Captured) -> None:
    assert command(store, "runs", "--scope", "you", "--json") == 0
    assert printed(capfd) == []
    for name in (begun[0], "r1"):
        for verb in ("inspect", "stop"):
            assert command(store, verb, name, "--scope", "you") == 2
            assert name in the_sentence(capfd)


@pytest.mark.contract("A63", "A64", "C46")
def test_a_run_that_has_ended_is_read_back_and_nothing_is_executed(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    before = (store / "data.mdb").read_bytes()
    for name in ("r1", begun[0], begun[0][:-10]):
        assert command(store, "inspect", name, "--json") == 0
        [found] = printed(capfd)
        assert (found["type"], found["run"]) == ("inspection", begun[0])
        assert found["inspection"]["run"]["answer"] == "You said: What is tea?"
    assert command(store, "inspect", "r2") == 0
    assert "  You said: Compare teas" in capfd.readouterr().out.splitlines()
    assert (store / "data.mdb").read_bytes() == before


KNOWN = [
    KnownRun("r000a1", "r1"),
    KnownRun("r000b1", "r2"),
    KnownRun("r001a2", "r1"),
    KnownRun("r001b3", "r3"),
]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("r2", 1), ("r000a", 0), ("a1", 0), ("b3", 3), ("r001a2", 2)],
)
def test_a_run_is_meant_by_its_label_or_an_end_of_its_id(name: str, meant: int) -> None:
    assert choose(KNOWN, "me", name) == KNOWN[meant]


@pytest.mark.parametrize(
    ("name", "code", "named"),
    [
        ("r1", Code.INVALID, "r000a1, r001a2"),  # of two conversations
        ("r00", Code.INVALID, "r000a1, r000b1, r001a2, r001b3"),
        ("r9", Code.NOT_FOUND, "'r9'"),
        ("00a", Code.NOT_FOUND, "'00a'"),
        ("", Code.NOT_FOUND, "''"),
    ],
)
def test_a_name_of_none_or_of_several_is_refused(name: str, code: Code, named: str) -> None:
    with pytest.raises(Refused, match=named) as caught:
        choose(KNOWN, "me", name)
    assert caught.value.code is code


@pytest.mark.contract("C23", "C24", "C30", "E6")
def test_the_stop_of_a_run_whose_process_is_gone_ends_it(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    run = admit_by_a_process_that_dies(store)
    assert command(store, "stop", run, "--json") == 0
    accepted, ended = printed(capfd)
    assert (accepted["type"], accepted["verb"], accepted["run"]) == ("receipt", "stop", run)
    assert (ended["type"], ended["run"]["state"]) == ("ended", "stopped")
    assert command(store, "inspect", run, "--json") == 0
    [found] = printed(capfd)
    assert found["inspection"]["holds_slot"] is False
    assert command(store, "verify") == 0
    capfd.readouterr()
    assert command(store, "stop", run) == 2
    assert "has ended (stopped)" in the_sentence(capfd)


@pytest.mark.contract("C30", "C31")
def test_looking_at_a_store_settles_nothing(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    run = admit_by_a_process_that_dies(store)
    before = (store / "data.mdb").read_bytes()
    owners = sorted((store / "owners").iterdir())
    for argv in (["runs"], ["inspect", run], ["verify"]):
        assert command(store, *argv) == 0
    assert (store / "data.mdb").read_bytes() == before
    assert sorted((store / "owners").iterdir()) == owners
    capfd.readouterr()
    assert command(store, "inspect", run, "--json") == 0
    assert printed(capfd)[0]["inspection"]["run"]["state"] == "admitted"


@pytest.mark.contract("C49", "E6")
def test_every_breach_is_printed_and_the_exit_code_tells(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    assert command(store, "verify", "--json") == 0
    assert printed(capfd) == [{"type": "verified", "breaches": 0}]
    slot = keys.slot(ME, "short", begun[0])
    trio.run(partial(write, store, lambda txn: txn.put(slot, b"")))
    assert command(store, "verify", "--json") == 1
    *breaches, verified = printed(capfd)
    assert verified == {"type": "verified", "breaches": len(breaches)}
    assert {breach["row"] for breach in breaches} == {"E6"}
    assert any(begun[0] in key for breach in breaches for key in breach["keys"])
    assert command(store, "verify") == 1
    out, err = capfd.readouterr()
    assert out.count("\n") == len(breaches) + 1
    assert (out.startswith("E6: "), err) == (True, "")


@pytest.mark.contract("E6", "B41")
def test_holders_are_counted_against_the_limits_that_are_given(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    admit_by_a_process_that_dies(store)
    assert command(store, "verify", "--slots", "short=1") == 0
    assert command(store, "verify", "--slots", "short=0") == 1
    assert "holds 1 short slots, and has 0" in capfd.readouterr().out


@pytest.mark.contract("C49", "E12")
def test_a_damaged_record_is_named_and_the_rest_is_still_verified(
    store: Path, begun: list[RunId], capfd: Captured
) -> None:
    damaged = keys.run(begun[0])
    trio.run(partial(write, store, lambda txn: txn.put(damaged, b"\xff")))
    assert command(store, "inspect", begun[0]) == 1
    assert "counterpoint verify" in the_sentence(capfd)
    assert command(store, "verify") == 1
    assert begun[0] in capfd.readouterr().out


@pytest.mark.parametrize("argv", [["runs"], ["inspect", "r1"], ["stop", "r1"], ["verify"]])
def test_a_folder_without_a_store_is_refused_and_stays_as_it_is(
    argv: list[str], tmp_path: Path, capfd: Captured
) -> None:
    for folder in (tmp_path / "missing", tmp_path):
        assert command(folder, *argv) == 2
        assert "holds no store" in the_sentence(capfd)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["inspect"], "RUN"),
        (["backup"], "DEST"),
        (["runs", "--last", "0"], "'0'"),
        (["runs", "--scope", ""], "empty"),
        (["stop", "r1", "--wait", "-1"], "'-1'"),
        (["verify", "--slots", "huge=1"], "huge"),
        (["inspect", "r1", "r2"], "r2"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_sentence(
    argv: list[str], named: str, tmp_path: Path, capfd: Captured
) -> None:
    assert command(tmp_path, *argv) == 2
    assert named in the_sentence(capfd)
