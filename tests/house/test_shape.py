"""Functions and files stay short, and a module is named for one noun."""

from . import rules
from .tree import all_code, listed, name, needs_checkout, parsed

pytestmark = needs_checkout

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

LONG_FUNCTIONS: dict[str, int] = {}
"""Functions over the bound, `path:qualified.name` to lines: they may shrink, none may join."""

NAMES_THAT_SAY_NOTHING = {"utils", "util", "core", "helpers", "helper", "manager", "common", "misc"}


def test_no_function_is_over_70_lines() -> None:
    too_long = {
        f"{name(path)}:{function.name}": function.lines
        for path in all_code()
        for function in rules.functions(parsed(path))
        if function.lines > FUNCTION_LINES_MAX
    }
    assert too_long == LONG_FUNCTIONS, listed(too_long.items())


def test_no_file_is_over_500_lines() -> None:
    lines = {name(path): path.read_bytes().count(b"\n") for path in all_code()}
    too_long = [f"{path}: {count}" for path, count in lines.items() if count > FILE_LINES_MAX]
    assert not too_long, listed(too_long)


def test_no_module_has_a_name_that_says_nothing() -> None:
    nameless = [
        name(path)
        for path in all_code()
        if NAMES_THAT_SAY_NOTHING & {part.removesuffix(".py") for part in name(path).split("/")}
    ]
    assert not nameless, listed(nameless)
