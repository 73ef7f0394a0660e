"""`python -m bench NAME [options]` runs `bench.NAME.main([options])`; without a name, the list."""

import ast
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path


def benches(folder: Path) -> dict[str, str]:
    """Return the first line about each bench in `folder`: a module with a `main` at its top.

    The files are read and not imported, so one that cannot be imported here is listed too.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.glob("[!_]*.py")):
        tree = ast.parse(path.read_bytes(), str(path))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(argv: Sequence[str]) -> int:
    known = benches(Path(__file__).parent)
    if not argv or argv[0] in {"-h", "--help"}:
        print("usage: python -m bench NAME [options]")
        width = max(map(len, known), default=0)
        for name, summary in known.items():
            print(f"  {name:{width}}  {summary}")
        return 0
    name, *options = argv
    if name not in known:
        print(f"There is no bench {name!r}. Known: {', '.join(known) or 'none'}.", file=sys.stderr)
        return 2
    status: int | None = importlib.import_module(f"bench.{name}").main(options)
    return status or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
