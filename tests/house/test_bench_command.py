"""`python -m bench` lists what can be measured and runs it by name."""

from pathlib import Path

import pytest
from bench.__main__ import benches, main


def test_a_bench_is_a_module_with_a_main_and_its_first_line_says_what_it_measures(
    tmp_path: Path,
) -> None:
    (tmp_path / "admission.py").write_text(
        '"""Durable admissions.\n\nMore."""\ndef main(argv): ...'
    )
    (tmp_path / "table.py").write_text('"""Prints rows."""\ndef show(rows): ...')
    (tmp_path / "__main__.py").write_text("def main(argv): ...")
    assert benches(tmp_path) == {"admission": "Durable admissions."}


def test_without_a_name_the_benches_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m bench NAME [options]\n")


def test_an_unknown_name_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.startswith("There is no bench 'nothing'.")
