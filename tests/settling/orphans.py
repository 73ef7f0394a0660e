"""A store in which many runs were under way when their process went."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from counterpoint.store import keys, runs
from counterpoint.store.engine import ReadTxn
from counterpoint.store.ids import OwnerId, RunId, ScopeId
from counterpoint.store.limits import BACKGROUND, SHORT, Limits
from counterpoint.store.memory_engine import Image
from counterpoint.store.records import Event, EventKind, Run, decode
from counterpoint.store.verify import verify

from ..store.world import World

LIMITS = Limits(capacity={SHORT: 4, BACKGROUND: 2})

Act = Callable[[World, RunId], object]

# fmt: off
STAGES: list[tuple[str, Act]] = [  # where a run was when its process went
    ("admitted", lambda world, run: None),
    ("asking",   lambda world, run: world.begin_request(run)),
    ("acting",   lambda world, run: world.begin_effect(run)),
    ("stopping", lambda world, run: world.stop(run, scope=world.record(run).scope)),
    ("saved",    lambda world, run: (world.ask(run), world.save(run))),
]
# fmt: on


class Left(msgspec.Struct):
    """What a process left behind."""

    world: World
    owner: OwnerId
    orphans: list[RunId]

    def image(self) -> Image:
        return Image().changed(sorted(self.world.base.values.items()))


def left_behind(count: int, *, resumes: bool = False) -> Left:
    """Return a store with `count` orphans, four short and one background run a scope."""
    world = World(LIMITS)
    orphans: list[RunId] = []
    while len(orphans) < count:
        scope = ScopeId(f"scope-{len(orphans) // 5}")
        conversation = world.open(scope)
        for n, (_, act) in enumerate(STAGES):
            background = n == len(STAGES) - 1
            run = world.start(conversation, scope=scope, background=background, resumes=resumes)
            act(world, run)
            orphans.append(run)
    return Left(world, world.owner, orphans)


def events(txn: ReadTxn) -> Iterator[Event]:
    for _, data in txn.scan(keys.EVENTS, keys.after(keys.EVENTS)):
        yield decode(Event, data)


def ends(txn: ReadTxn) -> Counter[RunId]:
    """Return how often the end of each run is told."""
    return Counter(
        event.run for event in events(txn) if event.kind is EventKind.RUN_ENDED and event.run
    )


def adoptions(txn: ReadTxn) -> Counter[RunId]:
    """Return how often each run is told to be adopted or entered again."""
    kinds = (EventKind.RUN_ADOPTED, EventKind.RUN_RESUMED)
    return Counter(event.run for event in events(txn) if event.kind in kinds and event.run)


def record(txn: ReadTxn, run: RunId) -> Run:
    found = runs.find(txn, run)
    assert found is not None
    return found


def nothing_is_left(txn: ReadTxn, orphans: list[RunId]) -> None:
    """Check that every orphan ended once, that no slot is held, and that all else holds."""
    assert ends(txn) == Counter(orphans)
    assert list(txn.scan(keys.SLOTS, keys.after(keys.SLOTS))) == []
    assert list(runs.all_live(txn)) == []
    assert list(verify(txn, LIMITS)) == []
