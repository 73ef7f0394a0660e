"""A store with many messages, made quickly, and what it keeps of each.

The records are made by the rules, a thousand messages a transaction: each is admitted and
answered, a hundred to a conversation. Nothing above the engine takes part.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from counterpoint.runtime import Limits
from counterpoint.runtime.opening import FORMAT_VERSION
from counterpoint.store import admission, endings, identity, runs
from counterpoint.store.engine import KEY_FIRST, Txn
from counterpoint.store.ids import ConversationId, IdSource, OwnerId, ScopeId
from counterpoint.store.lmdb_engine import DATA_FILE, open_lmdb_engine
from counterpoint.store.records import Depth, Reason, Verb

from .admission_load import TEXT, WRITE_WAIT_S, ClientIds

OF_CONVERSATION = 100
IN_TRANSACTION = 1_000
ANSWER = "The returns differ in the third year and nowhere else. " * 18
"""About a thousand characters."""

FAMILIES = {
    "c": "conversation", "e": "event", "i": "identity", "l": "live run", "m": "message",
    "n": "index of conversations", "p": "publication", "r": "run", "s": "slot", "w": "owner",
    "!": "sequence",
}  # fmt: skip


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a filled store keeps on disk, in bytes a message and its answer."""

    messages: int
    file: float
    """Of the data file, free pages in it included."""
    families: dict[str, float]
    """Keys and values, by what they are of."""

    @property
    def records(self) -> float:
        """All keys and values."""
        return sum(self.families.values())


class _Filler:
    """Makes messages with their answers, by the rules."""

    def __init__(self, *, in_order: bool) -> None:
        self._ids = IdSource(lambda: time.time_ns() // 1_000_000)
        self._client_id = ClientIds(in_order=in_order)
        self._owner: OwnerId = self._ids.owner()
        self._limits = Limits()
        self._place: tuple[ScopeId, ConversationId] | None = None
        self._count = 0

    def fill(self, txn: Txn, messages: int) -> None:
        """Add so many messages, each with its answer."""
        for _ in range(messages):
            if self._count % OF_CONVERSATION == 0 or self._place is None:
                self._place = self._open(txn)
            self._count += 1
            self._converse(txn, *self._place)

    def _open(self, txn: Txn) -> tuple[ScopeId, ConversationId]:
        scope = ScopeId(f"filled-{self._count // OF_CONVERSATION:06}")
        opening = admission.Opening(
            scope=scope,
            client_id=self._client_id(),
            title="",
            conversation=self._ids.conversation(),
            now_ms=self._ids.now_ms(),
        )
        return scope, admission.open_conversation(txn, opening).conversation

    def _converse(self, txn: Txn, scope: ScopeId, conversation: ConversationId) -> None:
        run = self._ids.run()
        submission = admission.Submission(
            scope=scope,
            conversation=conversation,
            client_id=self._client_id(),
            verb=Verb.PLAIN,
            text=TEXT,
            text_sha256=identity.text_hash(TEXT),
            depth=Depth.NORMAL,
            message=self._ids.message(),
            run=run,
            owner=self._owner,
            now_ms=self._ids.now_ms(),
            disposition="answer: nothing to decide",
        )
        admission.admit(txn, self._limits, submission)
        ending = endings.Ending(
            run=run,
            owner=self._owner,
            cue=runs.Cue.COMPLETE,
            reason=Reason.ANSWERED,
            publication=self._ids.publication(),
            now_ms=self._ids.now_ms(),
            text=ANSWER,
        )
        endings.finish(txn, ending)


async def fill(folder: Path, messages: int, *, in_order: bool, say: Callable[[str], None]) -> Kept:
    """Make a store of so many messages in `folder`; return what it keeps."""
    filler = _Filler(in_order=in_order)
    async with open_lmdb_engine(folder, format_version=FORMAT_VERSION) as engine:
        for done in range(0, messages, IN_TRANSACTION):
            many = min(IN_TRANSACTION, messages - done)
            deadline = trio.current_time() + WRITE_WAIT_S
            await engine.write(partial(filler.fill, messages=many), deadline=deadline)
            if done % (20 * IN_TRANSACTION) == 0:
                say(f"filled {done:,} of {messages:,} messages")
        sizes: defaultdict[str, int] = defaultdict(int)
        with engine.read() as txn:
            for key, value in txn.scan(KEY_FIRST, b"\xff"):
                sizes[FAMILIES[chr(key[0])]] += len(key) + len(value)
    used = (folder / DATA_FILE).stat().st_blocks * 512
    return Kept(
        messages=messages,
        file=used / messages,
        families={name: size / messages for name, size in sorted(sizes.items())},
    )
