"""A short answer quotes few passages, says what is missing, and never more than was found."""

from __future__ import annotations

from counterpoint.runtime.desk.answer import best_passages, passages_answer
from counterpoint.runtime.desk.ranking import Found
from counterpoint.runtime.desk.tools import SearchResult


def found(score: float, *matched: str, path: str = "a.md", text: str = "text") -> Found:
    last_line = 10 + text.count("\n")
    return Found(path, 10, last_line, "", text, score, matched)


def result(*passages: Found, missing: tuple[str, ...] = (), waiting: int = 0) -> SearchResult:
    return SearchResult(passages, missing, 7, waiting, ("big.txt: larger than 8 bytes",), True)


def test_only_passages_near_the_best_are_quoted() -> None:
    passages = [found(10, "x"), found(6, "x"), found(5, "x")]
    assert best_passages(passages, terms=1) == passages[:2]
    assert len(best_passages([found(10, "x")] * 9, terms=1)) == 3


def test_a_passage_with_one_term_of_many_is_no_answer() -> None:
    assert best_passages([found(10, "x")], terms=4) == []
    assert best_passages([found(10, "x", "y")], terms=4) != []


def test_rows_of_a_table_are_quoted_only_where_nothing_else_is_there() -> None:
    row, line = found(10, "x", path="t.csv"), found(2, "x")
    assert best_passages([row, line], terms=1) == [line]
    assert best_passages([row], terms=1) == [row]


def test_an_answer_says_what_it_did_not_find_or_read() -> None:
    answer = passages_answer(
        "en", ["x", "y"], result(found(9, "x"), missing=("y",), waiting=3), "notes"
    )
    assert answer.startswith("[a.md:10]\n> text\n\n")
    assert "Not in the files: “y”." in answer
    assert "3 files are not indexed yet, only 7 were searched" in answer
    assert "Not read: big.txt: larger than 8 bytes." in answer
    assert passages_answer("en", ["x"], result(), "notes").startswith("Nothing found in notes")


def test_of_a_long_passage_the_lines_around_the_terms_are_quoted() -> None:
    lines = [f"line {at} " + "x" * 60 for at in range(30)]
    lines[20] = "here the apples are"
    passage = found(9, "apples", text="\n".join(lines))
    answer = passages_answer("en", ["apples"], result(passage), "notes")
    assert answer.startswith("[a.md:26-34]\n> line 16 ")
    assert "> here the apples are\n" in answer
