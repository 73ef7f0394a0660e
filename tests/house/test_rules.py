"""Each rule finds what it is there for, and leaves alone what it is not."""

import ast
import textwrap

import pytest

from . import rules


def tree(source: str) -> ast.Module:
    return ast.parse(textwrap.dedent(source))


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("import lmdb", "lmdb"),
        ("import counterpoint.actors.kernel", "counterpoint.actors.kernel"),
        ("from counterpoint import actors", "counterpoint.actors"),
        ("from . import keys", "counterpoint.store.sub.keys"),
        ("from .keys import key", "counterpoint.store.sub.keys.key"),
        ("from ..records import Run", "counterpoint.store.records.Run"),
        ("from ... import runtime", "counterpoint.runtime"),
        ("from ...actors.kernel import *", "counterpoint.actors.kernel.*"),
    ],
)
def test_an_import_is_read_down_to_the_imported_name(line: str, target: str) -> None:
    assert rules.imports(tree(line), "counterpoint.store.sub") == [rules.Import(1, target)]


def test_an_import_inside_a_function_counts() -> None:
    source = "def late():\n    from ..runtime import cli"
    assert rules.layers_imported(tree(source), "counterpoint.store") == [rules.Import(2, "runtime")]


def test_a_function_is_measured_from_def_to_its_last_line() -> None:
    source = """
        class Desk:
            @staticmethod
            async def answer():
                '''Say.'''
                def inner():
                    return 1
                return inner
    """
    assert rules.functions(tree(source)) == [
        rules.Function(4, "Desk.answer", 5),
        rules.Function(6, "Desk.answer.inner", 2),
    ]


@pytest.mark.parametrize(
    "handler",
    [
        "except: pass",
        "except BaseException: pass",
        "except (ValueError, BaseException) as error: note(error)",
        "except builtins.BaseException as error: raise Refused from error",
        "except BaseException:\n        def later(): raise",
    ],
)
def test_a_handler_that_swallows_is_found(handler: str) -> None:
    source = f"def act():\n    try: work()\n    {handler}"
    assert rules.swallowed(tree(source)) == [rules.Swallowed(3, "act")]


def test_suppressing_everything_is_swallowing() -> None:
    source = "with contextlib.suppress(BaseException): work()"
    assert rules.swallowed(tree(source)) == [rules.Swallowed(1, "")]


@pytest.mark.parametrize(
    "handler",
    [
        "except Exception: pass",
        "except BaseException:\n        note()\n        raise",
        "except BaseException as error:\n        if note(error): raise error",
    ],
)
def test_a_handler_that_raises_again_is_left_alone(handler: str) -> None:
    assert rules.swallowed(tree(f"def act():\n    try: work()\n    {handler}")) == []


def test_a_print_is_found_and_a_method_of_that_name_is_not() -> None:
    assert rules.prints(tree("console.print(1)\nprint(2)")) == [2]


@pytest.mark.parametrize(
    "source",
    [
        "def test(autojump_clock): time.sleep(1)",
        "from time import sleep as nap\ndef test(): nap(1)",
        "async def test(): await trio.sleep(0.01)",
        "async def test(): await trio.sleep(pause_s)",
        "from trio import sleep\nasync def test(): await sleep(1)",
        "pytestmark = pytest.mark.usefixtures('autojump_clock')\ntime.sleep(1)",
    ],
)
def test_a_sleep_is_found(source: str) -> None:
    assert rules.sleeps(tree(source)) == [source.count("\n") + 1]


@pytest.mark.parametrize(
    "source",
    [
        "async def test(): await trio.sleep(0)",
        "async def test(): await trio.sleep_forever()",
        "async def test(autojump_clock): await trio.sleep(3600)",
        "async def test(autojump_clock):\n    async def agent(): await trio.sleep(3600)",
        "@pytest.mark.usefixtures('autojump_clock')\nasync def test(): await trio.sleep(3600)",
        "pytestmark = [pytest.mark.usefixtures('autojump_clock')]\n"
        "async def agent(): await trio.sleep(3600)",
    ],
)
def test_a_sleep_that_costs_no_time_is_left_alone(source: str) -> None:
    assert rules.sleeps(tree(source)) == []


def test_the_rows_of_a_mark_are_read_wherever_it_stands() -> None:
    source = """
        pytestmark = pytest.mark.contract("A1")
        case = pytest.param(1, marks=[pytest.mark.contract("B2", "P3")])
        @mark.contract(*ROWS)
        def test(): ...
    """
    assert sorted(rules.citations(tree(source)), key=str) == [
        rules.Citation(2, "A1"),
        rules.Citation(3, "B2"),
        rules.Citation(3, "P3"),
        rules.Citation(4, None),
    ]
