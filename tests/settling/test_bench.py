"""The bench of settling measures what it says, in small."""

from pathlib import Path

import msgspec
import pytest
from bench.settling import Report, main


@pytest.mark.slow
def test_the_bench_of_settling_prints_and_writes_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--tiny", "--json", str(tmp_path / "out.json"), "--folder", str(tmp_path)]) == 0
    report = msgspec.json.decode((tmp_path / "out.json").read_bytes(), type=Report)
    assert [one.ended for one in report.openings] == [10, 60]
    assert report.settled_rate > 0
    assert "20 orphans" in capsys.readouterr().out
