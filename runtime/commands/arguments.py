"""The command line of `counterpoint`, checked before anything happens."""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import re
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn

import msgspec

from ...store.limits import DEFAULT_CAPACITY, Limits
from .. import validation
from ..desk import sample_folder
from ..errors import Refused
from . import json_lines, typed_lines

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction["_Parser"]  # pyright: ignore[reportPrivateUsage]

KEY_VARIABLE: Final = "COUNTERPOINT_API_KEY"

Command = Literal["runs", "inspect", "stop", "verify", "backup"]

_PACE_S_MAX: Final = 3_600.0
_SLOTS_MAX: Final = 1_000
_MAP_BYTES_MAX: Final = 1 << 46
_CURSOR_MAX: Final = 1 << 62


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `counterpoint chat` was asked to do."""

    folder: Path
    store: Path
    scope: str
    pace_s: float
    drain_s: float
    json: bool
    after: int | None
    slots: dict[str, int]
    map_bytes_max: int | None
    base_url: str | None = None
    """A provider that speaks OpenAI's chat completions; without one the desk works offline."""
    model: str | None = None

    def limits(self) -> Limits:
        """Return the limits of the store."""
        return Limits(capacity={**DEFAULT_CAPACITY, **self.slots})


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a command on a store was asked to do."""

    command: Command
    store: Path
    json: bool
    scope: str
    run: str = ""
    """An id, a label, or the beginning or end of an id."""
    last: int = 0
    """How many of a conversation's newest runs are listed, beside those that live."""
    wait_s: float = 0.0
    """How long the end of a run that was stopped is waited for."""
    slots: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    destination: Path | None = None


class Wrong(Exception):
    """The command line can't be carried out; the sentence says why. Nothing has happened."""


class Answered(Exception):
    """The command line asked for a text, and here it is: `--help` or `--version`."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and leaves printing and exiting to its caller."""

    def error(self, message: str) -> NoReturn:
        raise Wrong(f"{message[:1].upper()}{message[1:].rstrip('.')}. See {self.prog} --help.")

    def print_help(self, file: object = None) -> None:
        raise Answered(self.format_help())


class _Version(argparse.Action):
    def __call__(self, *_: object) -> None:
        raise Answered(f"counterpoint {metadata.version('counterpoint')}\n")


def read(arguments: Sequence[str], environ: dict[str, str]) -> Settings | StoreSettings:
    """Return what is asked for.

    Raises:
      Wrong: something about it is wrong.
      Answered: it asks for a text only.
    """
    found = _parser().parse_args(arguments)
    return _chat(found, environ) if found.command == "chat" else _on_store(found, environ)


def _on_store(found: argparse.Namespace, environ: dict[str, str]) -> StoreSettings:
    given = {
        name: value
        for name, value in vars(found).items()
        if name in StoreSettings.__struct_fields__ and value is not None
    }
    given["slots"] = dict(found.slots) if "slots" in found else {}
    store = given.get("store")
    given["store"] = default_store(sample_folder(), environ) if store is None else Path(store)
    return StoreSettings(**given)


def _chat(found: argparse.Namespace, environ: dict[str, str]) -> Settings:
    if (found.base_url is None) != (found.model is None):
        raise Wrong("--base-url and --model go together. See counterpoint chat --help.")
    folder = Path(found.folder) if found.folder is not None else sample_folder()
    try:
        _must_be_folder(folder, "Name a folder of your own files, or none for the sample")
        store = Path(found.store) if found.store is not None else default_store(folder, environ)
        if store.exists():
            _must_be_folder(store, "A store is a folder: name another with --store")
    except OSError as error:
        raise Wrong(f"{error.filename} can't be looked at: {error.strerror}.") from error
    return Settings(
        folder=folder.resolve(),
        store=store.absolute(),
        scope=found.scope,
        pace_s=found.pace,
        drain_s=found.drain,
        json=found.json,
        after=found.after,
        slots=dict(found.slots),
        map_bytes_max=found.map_bytes_max,
        base_url=found.base_url,
        model=found.model,
    )


def _must_be_folder(path: Path, what_to_do: str) -> None:
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "does not exist"
        raise Wrong(f"{path} {what}. {what_to_do}.")


def default_store(folder: Path, environ: dict[str, str]) -> Path:
    """Return where the chats over a folder are kept, unless the person says otherwise.

    Raises:
      Wrong: the person has no home folder.
    """
    data = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):  # the XDG specification: ignore it then
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    if not os.path.isabs(data):
        raise Wrong("There is no home folder to keep the store in: use --store.")
    root = str(folder.resolve())
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "_", Path(root).name) or "root"
    return Path(data) / "counterpoint" / f"{name}-{digest}"


def _parser() -> _Parser:
    parser = _Parser(
        prog="counterpoint",
        description="Talk with an agent that goes on working while you talk.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    verbs = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, dest="command"
    )
    chat = verbs.add_parser(
        "chat",
        help="talk about the files of a folder",
        description="Talk about the files of a folder, offline, while research runs over them.",
        epilog=f"At a terminal:\n\n{_indented(typed_lines.HELP)}\n\n{json_lines.__doc__}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_options(chat)
    _add_store_commands(verbs)
    return parser


def _add_store_commands(verbs: Verbs) -> None:
    runs = _add_store_command(verbs, "runs", "list the runs of a scope")
    runs.add_argument(
        "--last",
        default=20,
        type=_whole(least=1, most=_CURSOR_MAX),
        metavar="N",
        help="at most so many of each conversation that have ended (20)",
    )
    inspect = _add_store_command(
        verbs, "inspect", "read back a run and its answer, all that is recorded"
    )
    stop = _add_store_command(verbs, "stop", "stop a run, in whichever process it is executed")
    for command in (inspect, stop):
        command.add_argument(
            "run",
            metavar="RUN",
            help="its label in its conversation, its id, or the beginning or end of its id",
        )
    stop.add_argument(
        "--wait",
        dest="wait_s",
        default=15.0,
        type=_seconds(least=0.0),
        metavar="SECONDS",
        help="how long to wait until it has stopped (15)",
    )
    verify = _add_store_command(verbs, "verify", "name everything in a store that must never be")
    _add_slots(verify, "count the holders of slots against these limits, too")
    backup = _add_store_command(verbs, "backup", "copy a store, also while it is written to")
    backup.add_argument(
        "destination", type=Path, metavar="DEST", help="a folder that is not there yet"
    )


def _add_store_command(verbs: Verbs, name: str, what: str) -> _Parser:
    command = verbs.add_parser(
        name,
        help=what,
        description=f"{what[:1].upper()}{what[1:]}. Nothing is executed here, and no chat on "
        "the store is disturbed.",
        allow_abbrev=False,
    )
    command.add_argument(
        "--store", metavar="DIR", help="the folder of the store (that of a chat on the sample)"
    )
    command.add_argument("--scope", default="me", type=_scope, help="whose runs (me)")
    command.add_argument("--json", action="store_true", help="lines of JSON")
    return command


def _add_slots(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "--slots",
        action="append",
        default=[],
        type=_slots,
        metavar="CLASS=N",
        help=what,
    )


def _add_options(chat: argparse.ArgumentParser) -> None:
    chat.add_argument(
        "folder", nargs="?", metavar="FOLDER", help="your files; without it, the sample data"
    )
    chat.add_argument(
        "--store", metavar="DIR", help="where conversations are kept (a folder of your own data)"
    )
    chat.add_argument(
        "--scope", default="me", type=_scope, help="whose conversation and slots (me)"
    )
    chat.add_argument(
        "--pace",
        default=0.0,
        type=_seconds(least=0.0),
        metavar="SECONDS",
        help="wait so long between two turns of research (0)",
    )
    chat.add_argument(
        "--json", action="store_true", help="lines of JSON, as always without a terminal"
    )
    chat.add_argument(
        "--after",
        type=_whole(least=0, most=_CURSOR_MAX),
        metavar="N",
        help="show the events behind number N; 0 shows all (only new ones)",
    )
    _add_slots(chat, "runs at once in a scope: short=3, background=1; may be given for both")
    chat.add_argument(
        "--drain",
        default=10.0,
        type=_seconds(least=0.01),
        metavar="SECONDS",
        help="how long runs may still work when the chat is left (10)",
    )
    chat.add_argument(
        "--map-bytes-max",
        type=_whole(least=1 << 16, most=_MAP_BYTES_MAX),
        metavar="N",
        help="how large the store may grow (64 GiB)",
    )
    chat.add_argument(
        "--base-url",
        metavar="URL",
        help="answer with a model of this OpenAI-compatible provider (without: offline)",
    )
    chat.add_argument(
        "--model",
        metavar="NAME",
        help=f"which model; its key comes from ${KEY_VARIABLE}, if it needs one",
    )


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _scope(text: str) -> str:
    try:
        return validation.identifier("scope", text)
    except Refused as refused:
        raise argparse.ArgumentTypeError(refused.sentence) from refused


def _seconds(*, least: float) -> Callable[[str], float]:
    def seconds(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= _PACE_S_MAX:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number of seconds from {least:g} to {_PACE_S_MAX:g}"
            )
        return value

    return seconds


def _whole(*, least: int, most: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        value = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else -1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {least} to {most}"
            )
        return value

    return whole


def _slots(text: str) -> tuple[str, int]:
    run_class, sign, number = text.partition("=")
    if run_class not in DEFAULT_CAPACITY or not sign:
        choices = " or ".join(f"{name}=N" for name in DEFAULT_CAPACITY)
        raise argparse.ArgumentTypeError(f"{text!r} is no class with a number: say {choices}")
    return run_class, _whole(least=0, most=_SLOTS_MAX)(number)
