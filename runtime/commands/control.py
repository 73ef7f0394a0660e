"""The commands on a store from outside: what is in it, a stop, a check, a copy.

Another process may be executing its runs meanwhile. None are executed or settled here.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final

import trio

from ...store.engine import StoreError, StoreUnusable
from ...store.limits import DEFAULT_CAPACITY, Limits
from ...store.records import Conversation
from ...store.runs import FINAL
from ...store.verification.breach import spell
from ..controls import Controls, open_controls
from ..errors import Code, Damaged, OutcomeUnknown, Refused
from . import reports
from .arguments import StoreSettings
from .known_runs import KnownRun, find_run, runs_of
from .leaving import EXIT_BAD_INPUT, EXIT_FAILED
from .reports import Report
from .shown import RunLine, run_line

_NOTHING_DONE: Final = frozenset(Code) - {Code.STORE_UNAVAILABLE, Code.STORE_FULL, Code.BUSY}
"""Refusals for which the person who asked is to blame, and not the store."""


async def control(
    settings: StoreSettings, show: Callable[[Report], None], say: Callable[[str], None]
) -> int:
    """Carry out a command on a store, show what it reports, and return the exit code."""
    try:
        async with open_controls(settings.store, read_only=settings.command != "stop") as controls:
            return await _carry_out(settings, controls, show, say)
    except StoreUnusable as error:
        say(str(error))
        return EXIT_BAD_INPUT
    except Refused as refused:
        say(refused.sentence)
        return EXIT_BAD_INPUT if refused.code in _NOTHING_DONE else EXIT_FAILED
    except OutcomeUnknown as unknown:
        say(unknown.sentence)
    except Damaged as damaged:
        say(f"{damaged} `counterpoint verify` tells what else is wrong.")
    except StoreError as error:
        say(str(error))
    return EXIT_FAILED


async def _carry_out(
    settings: StoreSettings,
    controls: Controls,
    show: Callable[[Report], None],
    say: Callable[[str], None],
) -> int:
    match settings.command:
        case "runs":
            async with aclosing(_runs(settings, controls)) as listed:
                async for conversation in listed:
                    show(conversation)
            return 0
        case "inspect":
            show(await _inspected(settings, controls))
            return 0
        case "stop":
            return await _stop(settings, controls, show, say)
        case "verify":
            return _verify(settings, controls, show)
        case "backup":
            return await _back_up(settings, controls, show, say)


async def _runs(
    settings: StoreSettings, controls: Controls
) -> AsyncGenerator[reports.Listed, None]:
    for conversation in await controls.conversations(scope=settings.scope):
        yield await _listed(settings, controls, conversation)


async def _listed(
    settings: StoreSettings, controls: Controls, conversation: Conversation
) -> reports.Listed:
    scope = settings.scope
    view = await controls.view(scope=scope, conversation=conversation.conversation)
    known = await runs_of(controls, scope, conversation)
    newest = {run.run for run in known[-settings.last :]}
    listed = [run for run in known if run.run in newest or run.run in view.live]
    return reports.Listed(
        conversation=conversation.conversation,
        title=conversation.title,
        runs=tuple([await _line(controls, scope, run) for run in listed]),
        left_out=len(known) - len(listed),
    )


async def _line(controls: Controls, scope: str, run: KnownRun) -> RunLine:
    return run_line(await controls.view_run(scope=scope, run=run.run), run.label)


async def _inspected(settings: StoreSettings, controls: Controls) -> reports.Inspected:
    run = await find_run(controls, settings.scope, settings.run)
    found = await controls.inspect(scope=settings.scope, run=run.run)
    return reports.Inspected(run=run.run, label=run.label, inspection=found)


async def _stop(
    settings: StoreSettings,
    controls: Controls,
    show: Callable[[Report], None],
    say: Callable[[str], None],
) -> int:
    """Stop a run, and wait until whoever executes it has recorded its end (C19)."""
    scope = settings.scope
    run = await find_run(controls, scope, settings.run)
    client_id = f"stop-{secrets.token_hex(12)}"
    accepted = await controls.stop(scope=scope, run=run.run, client_id=client_id)
    show(
        reports.Accepted(
            id=client_id,
            verb=str(accepted.meaning.verb),
            conversation=accepted.conversation,
            version=accepted.version,
            run=run.run,
            label=run.label,
        )
    )
    with trio.move_on_after(settings.wait_s):
        await controls.wait(scope=scope, run=run.run)
    view = await controls.view_run(scope=scope, run=run.run)
    if view.state not in FINAL:
        say(
            f"The stop is accepted and stays so, but the process that executes the run has not "
            f"ended it in {settings.wait_s:g} s. If that process is gone by now, stop it again."
        )
        return EXIT_FAILED
    show(reports.Ended(run=run_line(view, run.label)))
    return 0


def _verify(settings: StoreSettings, controls: Controls, show: Callable[[Report], None]) -> int:
    limits = Limits(capacity={**DEFAULT_CAPACITY, **settings.slots}) if settings.slots else None
    count = 0
    for breach in controls.breaches(limits):
        count += 1
        keys = tuple(map(spell, breach.keys))
        show(reports.Broken(row=breach.row, sentence=breach.sentence, keys=keys, line=str(breach)))
    show(reports.Verified(breaches=count))
    return EXIT_FAILED if count else 0


async def _back_up(
    settings: StoreSettings,
    controls: Controls,
    show: Callable[[Report], None],
    say: Callable[[str], None],
) -> int:
    destination = settings.destination
    assert destination is not None, "the command line demands one"
    try:
        bytes_len = await controls.back_up(destination)
    except FileExistsError:
        say(f"{destination} is there already, and was left as it is. Name a new folder.")
        return EXIT_BAD_INPUT
    except OSError as error:
        say(f"{destination} can't be written: {error.strerror}.")
        return EXIT_BAD_INPUT
    show(reports.BackedUp(destination=_as_text(destination), bytes_len=bytes_len))
    return 0


def _as_text(path: Path) -> str:
    """Return a path for people: bytes that are no text become question marks."""
    return str(path).encode(errors="replace").decode()
