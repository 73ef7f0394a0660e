"""What every test may ask of the command line.

`--fault-seeds N` sets how many lives a seeded test goes through: a test that takes
`fault_seed` runs once a seed, and the seed stands in its id. To replay one:
`pytest --fault-seeds 100 -k seed-17`.
"""

import hypothesis
import pytest

# A deadline measures the machine, not the code: other workers share its cores.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("counterpoint")
    group.addoption(
        "--fault-seeds",
        type=int,
        default=5,
        metavar="N",
        help="how many seeds each seeded fault test runs (default: 5)",
    )
    group.addoption(
        "--rewrite-rows",
        action="store_true",
        help="strike the rows that have a test now from tests/house/rows_without_a_test.txt",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault_seed" in metafunc.fixturenames:
        seeds = range(metafunc.config.option.fault_seeds)
        metafunc.parametrize("fault_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a function by its name: pytest's own way puts its address into the test's id, which
    is another one in every worker of `pytest -n`."""
    return getattr(val, "__qualname__", None) if callable(val) else None
