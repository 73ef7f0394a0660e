"""The rules of the house as functions of a syntax tree.

Each returns what it found, with its line. `test_rules.py` shows each rule what it must
find and what it must leave alone; the other tests hold the checkout to them.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

Def = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    line: int
    target: str
    """Absolute, down to the name: `from ..store import keys` is `counterpoint.store.keys`."""


class Function(NamedTuple):
    line: int
    name: str
    lines: int


class Swallowed(NamedTuple):
    line: int
    function: str
    """Qualified name of the function around it, empty for the module."""


class Citation(NamedTuple):
    line: int
    row: str | None
    """None when the row is not spelt out, so that nobody can look for it."""


def imports(tree: ast.Module, package: str) -> list[Import]:
    found: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            found += [Import(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def layers_imported(tree: ast.Module, package: str) -> list[Import]:
    """Return the imports from our namespace, each cut down to its layer."""
    return [
        Import(line, target.split(".")[1])
        for line, target in imports(tree, package)
        if target.startswith("counterpoint.")
    ]


def functions(tree: ast.Module) -> list[Function]:
    return [
        Function(node.lineno, _qualified((*around, node)), (node.end_lineno or 0) - node.lineno + 1)
        for node, around in _walk(tree)
        if isinstance(node, Def)
    ]


def swallowed(tree: ast.Module) -> list[Swallowed]:
    """Return where a cancellation, an interrupt or an exit could get lost.

    Raising something else in its place loses it too: only `raise` or `raise error` keeps it.
    """
    return [
        Swallowed(node.lineno, _qualified(around))
        for node, around in _walk(tree)
        if (isinstance(node, ast.ExceptHandler) and _catches_all(node) and not _reraises(node))
        or (isinstance(node, ast.Call) and _called(node) == "suppress" and _names_base(node.args))
    ]


def prints(tree: ast.Module) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def sleeps(tree: ast.Module) -> list[int]:
    """Return where a test would wait for real time to pass.

    `trio.sleep(0)` is a checkpoint. Longer ones are free under `autojump_clock`, taken by
    a function around the call or by the whole module.
    """
    if _module_takes_clock(tree):
        return [line for line, called in _sleep_calls(tree) if called == "time.sleep"]
    return [line for line, _ in _sleep_calls(tree)]


def citations(tree: ast.Module) -> list[Citation]:
    """Return the rows named by `pytest.mark.contract(...)`."""
    found: list[Citation] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _dotted(node.func).endswith("mark.contract"):
            found += [Citation(node.lineno, _literal(argument)) for argument in node.args]
            found += [Citation(node.lineno, None) for _ in node.keywords]
    return found


def _walk(
    node: ast.AST, around: tuple[ast.AST, ...] = ()
) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Yield every node with the functions and classes around it, outermost first."""
    for child in ast.iter_child_nodes(node):
        yield child, around
        yield from _walk(
            child, (*around, child) if isinstance(child, Def | ast.ClassDef) else around
        )


def _qualified(around: tuple[ast.AST, ...]) -> str:
    return ".".join(node.name for node in around if isinstance(node, Def | ast.ClassDef))


def _base(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parts = package.split(".")
    kept = parts[: len(parts) - (node.level - 1)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return _names_base([handler.type])


def _names_base(nodes: list[ast.expr]) -> bool:
    named = [
        name for node in nodes for name in (node.elts if isinstance(node, ast.Tuple) else [node])
    ]
    return any(_dotted(name).split(".")[-1] == "BaseException" for name in named)


def _reraises(handler: ast.ExceptHandler) -> bool:
    return any(
        isinstance(node, ast.Raise)
        and (node.exc is None or (isinstance(node.exc, ast.Name) and node.exc.id == handler.name))
        for node, around in _walk(handler)
        if not around
    )


def _sleep_calls(tree: ast.Module) -> list[tuple[int, str]]:
    asleep = {"time.sleep", "trio.sleep", "trio.sleep_until", "asyncio.sleep", "anyio.sleep"}
    given = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found: list[tuple[int, str]] = []
    for node, around in _walk(tree):
        if not isinstance(node, ast.Call):
            continue
        dotted = _dotted(node.func)
        called = given.get(dotted, dotted)
        if called in asleep and (
            called == "time.sleep" or not (_is_zero(node.args) or any(map(_takes_clock, around)))
        ):
            found.append((node.lineno, called))
    return found


def _takes_clock(node: ast.AST) -> bool:
    if not isinstance(node, Def):
        return False
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return any(argument.arg == "autojump_clock" for argument in taken) or any(
        map(_uses_clock, node.decorator_list)
    )


def _module_takes_clock(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        )
        and any(_uses_clock(inner) for inner in ast.walk(node.value))
        for node in tree.body
    )


def _uses_clock(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and _called(node) == "usefixtures"
        and any(_literal(argument) == "autojump_clock" for argument in node.args)
    )


def _is_zero(arguments: list[ast.expr]) -> bool:
    return (
        len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value == 0
    )


def _called(node: ast.Call) -> str:
    return _dotted(node.func).split(".")[-1]


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c` for such an expression, and what can be told of any other."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
