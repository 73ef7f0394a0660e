"""Every verb that changes something, on one talk, under one client id.

Ann has two conversations, `here` and `there`; two runs here and one there. Each run has two
effects of unknown outcome and two steerings that no request has taken, so that every verb has
something to act on, and something else beside it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import trio

from counterpoint.runtime import Config, Limits, OutcomeUnknown, Receipt, RunContext, Runtime
from counterpoint.runtime.gateways import ScriptedGateway, say
from counterpoint.store.ids import ConversationId, RunId

from ..runtime.stage import Agents, Person, as_input, person, run_of

CONFIG = Config(
    limits=Limits(capacity={"short": 9, "background": 9}),
    write_wait_s=20,
    ask_wait_s=60,
    drain_s=0.01,
    stop_wait_s=0.01,
)
USED = "used"
NEVER_A_RUN = RunId("r" + "0" * 24)
NEVER_A_CONVERSATION = ConversationId("c" + "0" * 24)


async def works(run: RunContext) -> None:
    """An agent that leaves two effects of unknown outcome behind, and goes on for ever."""

    async def book(_: Mapping[str, Any], __: str) -> None:
        raise OutcomeUnknown("the line went dead")

    gateway = ScriptedGateway(say("Let me see."))
    async for turn in run.turns():
        await turn.request(gateway, lambda revisions: as_input(run, revisions))
        await turn.effect("book", {"room": 1}, do=book, repeat="once")
        await turn.effect("book", {"room": 2}, do=book, repeat="once")
        await trio.sleep_forever()


AGENTS: Agents = {"short": works, "background": works}


class Talk(NamedTuple):
    """What there is to act on, and the process that is asked."""

    runtime: Runtime
    here: ConversationId
    there: ConversationId
    run: RunId
    sibling: RunId
    stranger: RunId
    never: RunId = NEVER_A_RUN
    nowhere: ConversationId = NEVER_A_CONVERSATION


async def talk(runtime: Runtime) -> Talk:
    ann = await person(runtime)
    other = await runtime.open_conversation(scope="ann", client_id="there")
    there = Person(runtime, "ann", other.conversation, 100)
    runs = [run_of(await somebody.says("Dig")) for somebody in (ann, ann, there)]
    await trio.testing.wait_all_tasks_blocked()
    for somebody, run in zip((ann, ann, there), runs, strict=True):
        await somebody.steers(run, "One more thing")
        await somebody.steers(run, "And another")
        inspection = await runtime.inspect(scope="ann", run=run)
        assert [effect.state for effect in inspection.effects] == ["unknown", "unknown"]
        assert [item.state for item in inspection.run.revisions] == ["saved", "saved"]
    run, sibling, stranger = runs
    return Talk(runtime, ann.conversation, other.conversation, run, sibling, stranger)


Do = Callable[[Talk], Awaitable[Receipt]]


def plain(text: str = "Hello", *, where: str = "here") -> Do:
    return lambda t: t.runtime.submit(
        scope="ann", conversation=getattr(t, where), client_id=USED, text=text
    )


def background(text: str = "Hello", depth: str = "normal", *, where: str = "here") -> Do:
    return lambda t: t.runtime.submit(
        scope="ann",
        conversation=getattr(t, where),
        client_id=USED,
        text=text,
        entry="background",
        depth=depth,
    )


def steer(text: str = "Hello", *, target: str = "run", expected: int | None = None) -> Do:
    return lambda t: t.runtime.steer(
        scope="ann",
        run=getattr(t, target),
        client_id=USED,
        text=text,
        expected_revision=expected,
    )


def stop(target: str = "run") -> Do:
    return lambda t: t.runtime.stop(scope="ann", run=getattr(t, target), client_id=USED)


def withdraw(revision: int = 1, *, target: str = "run") -> Do:
    return lambda t: t.runtime.withdraw(
        scope="ann", run=getattr(t, target), revision=revision, client_id=USED
    )


def resolve(
    effect: int = 1,
    *,
    target: str = "run",
    happened: bool = True,
    value: object = None,
    reason: str = "",
) -> Do:
    return lambda t: t.runtime.resolve(
        scope="ann",
        run=getattr(t, target),
        effect=effect,
        client_id=USED,
        happened=happened,
        value=value,
        reason=reason,
    )


def opening(title: str = "Hello") -> Do:
    return lambda t: t.runtime.open_conversation(scope="ann", client_id=USED, title=title)


VERBS: Mapping[str, Do] = {
    "open": opening(),
    "plain": plain(),
    "background": background(),
    "steer": steer(),
    "stop": stop(),
    "withdraw": withdraw(),
    "resolve": resolve(),
}
