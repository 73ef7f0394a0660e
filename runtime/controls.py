"""A store seen and controlled from outside the processes that execute its runs.

    async with open_controls("store") as controls:
        stopped = await controls.stop(scope="ann", run=run, client_id="stop-1")

Nothing is executed, adopted or settled here: whoever has the agents does that. It makes no
difference whether such a process is there at this moment.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import time_ns

import trio

from ..actors.environment import Environment
from ..actors.tail import Tail
from ..store import backup, endings, identity, runs, views
from ..store.engine import StoreUnusable
from ..store.ids import IdSource, OwnerId, RunId
from ..store.limits import Limits
from ..store.lmdb_engine import DATA_FILE, LmdbEngine, open_lmdb_engine
from ..store.owner_lock import Liveness, OwnerLocks
from ..store.records import Accepted, Verb
from ..store.verify import Breach, verify
from . import validation
from .config import Config
from .opening import FORMAT_VERSION
from .reading import Readers, named_client_id, named_scope


class Controls(Readers):
    """One open store without agents. Made by `open_controls`."""

    def __init__(self, config: Config, engine: LmdbEngine, liveness: Liveness) -> None:
        super().__init__(config, engine, Tail(engine))
        ids = IdSource(lambda: time_ns() // 1_000_000)
        self._lmdb = engine
        self._liveness = liveness
        # The owner is never registered: it owns nothing.
        self._environment = Environment(
            engine=engine,
            ids=ids,
            owner=ids.owner(),
            liveness=liveness,
            limits=config.limits,
            timing=config.timing(),
            agents={},
        )

    async def stop(self, *, scope: str, run: str, client_id: str) -> Accepted:
        """Accept a stop. The process that executes the run ends it; if that is gone, the run
        has ended when this returns (C23).

        Raises:
          Refused: as `Runtime.stop`.
          OutcomeUnknown: see there.
        """
        where, which = named_scope(scope), RunId(validation.identifier("run", run))
        client = named_client_id(client_id)
        with self.reading() as txn:
            owner = identity.run_of(txn, where, client, Verb.STOP, which).owner
        stopping = endings.Stopping(
            scope=where,
            run=which,
            client_id=client,
            publication=self._environment.ids.publication(),
            now_ms=self._environment.ids.now_ms(),
            owner_gone=self._if_gone(owner),
        )
        return await self._environment.commit(partial(endings.stop, stopping=stopping))

    def _if_gone(self, owner: OwnerId) -> OwnerId | None:
        return owner if self._liveness.gone([owner]) else None

    async def wait(self, *, scope: str, run: str) -> views.RunView:
        """See `Readers.wait`. Nothing here follows other processes: this looks by itself."""
        while True:
            view = await self.view_run(scope=scope, run=run)
            if view.state in runs.FINAL:
                return view
            await trio.sleep(self.config.poll_s)

    def breaches(self, limits: Limits | None = None) -> Iterator[Breach]:
        """Yield every breach of what always holds, of one moment; see `store/verify.py`.

        With `limits` the holders of slots are counted, too.
        """
        with self.reading() as txn:
            yield from verify(txn, limits)

    async def back_up(self, destination: Path) -> int:
        """Make `destination` a copy of the store as of one moment, and return its size.

        Raises:
          FileExistsError: it is there already.
          OSError, StoreError: the copy could not be made; there is no destination.
        """
        copy = partial(backup.back_up, self._lmdb, destination)
        return await trio.to_thread.run_sync(copy)


@asynccontextmanager
async def open_controls(
    path: str | Path, *, config: Config | None = None, read_only: bool = False
) -> AsyncGenerator[Controls, None]:
    """Open the store in the folder `path`, which must hold one, without agents.

    `read_only` needs no right to write, and refuses every stop.

    Raises:
      StoreUnusable: the path can't be opened as a store; the sentence says why.
    """
    config = config or Config()
    folder = Path(path)
    if not (folder / DATA_FILE).exists():
        raise StoreUnusable(f"{folder} holds no store.")
    async with open_lmdb_engine(
        folder,
        map_bytes=config.map_bytes,
        map_bytes_max=config.map_bytes_max,
        format_version=FORMAT_VERSION,
        read_only=read_only,
    ) as engine:
        yield Controls(config, engine, OwnerLocks(folder / "owners"))
