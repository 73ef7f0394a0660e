"""`python -m bench admission` measures every row and writes what it found."""

from pathlib import Path

import msgspec
import pytest
from bench.admission import Report, main


@pytest.mark.slow
def test_it_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer.json"
    assert main(["--size", "tiny", "--json", str(answer), "--folder", str(tmp_path)]) == 0

    report = msgspec.json.decode(answer.read_bytes(), type=Report)
    delays = [0.0] if report.skipped else [0.0, 1.0]  # without a compiler those are skipped
    assert [result.rows[0].flush_delay_ms for result in report.results] == delays
    for result in report.results:
        rows = {(row.kind, row.callers, row.busy_ms) for row in result.rows}
        assert rows == {
            ("admit", 1, 0.0),
            ("admit", 4, 0.0),
            ("admit", 4, 0.05),
            ("admit", 4, 0.5),
            ("admit + end", 4, 0.0),
            ("store alone", 1, 0.0),
            ("store alone", 4, 0.0),
        }
        assert all(row.rate > 0 and row.p50_ms <= row.p99_ms for row in result.rows)
        assert all(row.rate_to_raw for row in result.rows if not row.busy_ms)
        assert set(result.records) >= set("eimr")
    assert {goal.goal for goal in report.goals} == {"G4"}

    printed = capsys.readouterr().out
    assert "store alone" in printed
    assert "1 caller: p50 <= 1.6 x a bare commit" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"], "it cleans up"
