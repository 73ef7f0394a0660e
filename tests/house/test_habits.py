"""Nothing is swallowed, nothing printed beside the command, and no test waits for a clock."""

from . import rules
from .tree import LAYERS, all_code, code, listed, name, needs_checkout, parsed

pytestmark = needs_checkout

MAY_SWALLOW: dict[str, str] = {
    "actors/life.py:Life.live": "it is the actor's death, and its task's end",
    "actors/life.py:Life._serve_at_once": "it is handed to the actor's own task",
    "actors/life.py:Life._perish": "it is the actor's death; what is trio's goes on",
    "actors/life.py:Life._live_as_child": "it is the parent's death",
    "actors/system.py:open_actor_system": "it is raised again behind the nursery",
}
"""`path:qualified.name` of a function that may end a BaseException, and where it goes instead."""


def test_no_cancellation_interrupt_or_exit_is_swallowed() -> None:
    found = {
        f"{name(path)}:{handler.function}": handler.line
        for path in all_code()
        for handler in rules.swallowed(parsed(path))
    }
    swallowing = [f"{where} at {line}" for where, line in found.items() if where not in MAY_SWALLOW]
    assert not swallowing, listed(swallowing)
    assert MAY_SWALLOW.keys() <= found.keys(), "an exception that is no longer needed"


def test_only_the_command_prints() -> None:
    printing = [
        f"{name(path)}:{line}"
        for path in code(*LAYERS)
        if not name(path).startswith("runtime/cli")
        for line in rules.prints(parsed(path))
    ]
    assert not printing, listed(printing)


MAY_SLEEP = {"tests/meetings/stage.py": "it runs its own loop, on a clock that jumps"}


def test_no_test_sleeps() -> None:
    asleep = [
        f"{name(path)}:{line}"
        for path in code("tests")
        if name(path) not in MAY_SLEEP
        for line in rules.sleeps(parsed(path))
    ]
    assert not asleep, listed(asleep)
