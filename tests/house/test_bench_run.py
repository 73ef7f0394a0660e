"""`python -m bench run` measures every step of a run and writes what it found."""

from pathlib import Path

import msgspec
import pytest
from bench.run import Report, main


@pytest.mark.slow
def test_it_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer.json"
    assert main(["--size", "tiny", "--json", str(answer), "--folder", str(tmp_path)]) == 0

    report = msgspec.json.decode(answer.read_bytes(), type=Report)
    assert {row.live_runs for row in report.rows} == {1, 3}
    commits = {row.step: row.commits for row in report.rows}
    assert commits == {
        "request": 2,
        "effect: read": 2,
        "effect: idempotent": 2,
        "effect: reconcilable": 2,
        "effect: once": 2,
        "steer to saved": 1,
        "saved to delivered": 3,  # the cut one ends, the next begins and ends
        "stop accepted": 1,
        "accepted to stopped": 1,
    }
    assert all(row.p50_ms > 0 and row.raw_p50_ms > 0 for row in report.rows)
    assert "steer to saved" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"], "it cleans up"
