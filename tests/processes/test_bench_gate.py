"""`python -m bench gate` measures every row and writes what it found."""

from pathlib import Path

import msgspec
import pytest
from bench.gate import Report, main


@pytest.mark.slow
@pytest.mark.parametrize("client_ids", ["in-order", "random"])
def test_it_prints_a_table_and_writes_json(
    client_ids: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer.json"
    arguments = ["--size", "tiny", "--json", str(answer), "--folder", str(tmp_path)]
    assert main([*arguments, "--client-ids", client_ids]) == 0

    report = msgspec.json.decode(answer.read_bytes(), type=Report)
    assert [(row.what, row.processes, row.callers) for row in report.rows] == [
        ("admit", 1, 1),
        ("admit", 1, 4),
        ("admit", 2, 4),
        ("replay", 1, 1),
        ("conflict", 1, 1),
        ("not found", 1, 1),
        ("capacity full", 1, 1),
        ("replay", 1, 4),
        ("conflict", 1, 4),
        ("not found", 1, 4),
        ("capacity full", 1, 4),
        ("into an empty store", 1, 4),
        ("into 300 messages", 1, 4),
    ]
    assert all(row.rate > 0 and row.p50_ms <= row.p99_ms for row in report.rows)
    spent = {row.what: row.transactions for row in report.rows if row.transactions is not None}
    assert spent == {"replay": 0, "conflict": 0, "not found": 0, "capacity full": 1}
    assert report.kept.messages == 300
    assert report.kept.families.keys() >= {"run", "message", "publication", "event", "identity"}
    assert report.kept.records < report.kept.file
    assert report.filled_to_empty > 0
    assert {goal.goal for goal in report.goals} == {"G9", "G17"}

    printed = capsys.readouterr().out
    assert "capacity full" in printed
    assert "kept on disk" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"], "it cleans up"
