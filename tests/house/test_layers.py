"""Imports go downwards: runtime over actors over store."""

from . import rules
from .tree import LAYERS, all_code, code, listed, name, needs_checkout, package, parsed

pytestmark = needs_checkout


def test_imports_go_downwards_only() -> None:
    upwards = [
        f"{name(path)}:{line} imports {imported}"
        for layer in LAYERS
        for path in code(layer)
        for line, imported in rules.layers_imported(parsed(path), package(path))
        if imported not in LAYERS[LAYERS.index(layer) :]
    ]
    assert not upwards, listed(upwards)


def test_no_folder_is_imported_by_its_bare_name() -> None:
    # `import store` makes a second copy of every class beside `counterpoint.store`.
    bare = [
        f"{name(path)}:{line} imports {target}"
        for path in all_code()
        for line, target in rules.imports(parsed(path), package(path))
        if target.split(".")[0] in LAYERS
    ]
    assert not bare, listed(bare)


def test_the_product_imports_neither_its_tests_nor_its_benches() -> None:
    sideways = [
        f"{name(path)}:{line} imports {target}"
        for path in code(*LAYERS)
        for line, target in rules.imports(parsed(path), package(path))
        if target.split(".")[0] in {"tests", "bench", "pytest", "hypothesis"}
    ]
    assert not sideways, listed(sideways)


def test_only_the_lmdb_engine_imports_lmdb() -> None:
    importers = {
        name(path)
        for path in code(*LAYERS)
        for _, target in rules.imports(parsed(path), package(path))
        if target.split(".")[0] == "lmdb"
    }
    assert importers <= {"store/lmdb_engine.py"}
