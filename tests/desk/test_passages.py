"""A file is cut into passages that name the lines they stand on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from counterpoint.runtime.desk.passages import CHARACTERS_MAX, LINES_MAX, cut


def cuts(path: str, text: str) -> list[tuple[int, int, str]]:
    return [(p.first_line, p.last_line, p.heading) for p in cut(path, text.split("\n"))]


def test_markdown_is_cut_by_paragraph_under_its_headings() -> None:
    text = "# A\n\none\ntwo\n\n## B\nthree\n\n```\ncode\n\n# no heading\n```\n\n# C"
    assert cuts("x.md", text) == [
        (3, 4, "A"),
        (7, 7, "A > B"),
        (9, 13, "A > B"),
        (15, 15, "C"),
    ]


def test_prose_is_cut_at_blank_lines() -> None:
    assert cuts("x.txt", "\none\ntwo\n\n\nthree") == [(2, 3, ""), (6, 6, "")]


def test_code_is_cut_where_a_block_begins() -> None:
    function = "def f():\n" + "    pass\n" * 9
    assert cuts("x.py", f"{function}\n{function}") == [(1, 10, ""), (12, 21, "")]


def test_a_table_gives_its_header_and_blocks_of_rows() -> None:
    text = "date,A\n" + "\n".join(f"2020-01-{at:02},1" for at in range(1, 32))
    assert cuts("x.csv", text) == [(1, 1, ""), (2, 21, ""), (22, 32, "")]


def test_a_huge_line_is_given_in_pieces_with_its_line() -> None:
    passages = list(cut("x.txt", ["before", "y" * (2 * CHARACTERS_MAX + 5), "after"]))
    places = [(passage.first_line, passage.last_line) for passage in passages]
    assert places == [(1, 1), (2, 2), (2, 2), (2, 2), (3, 3)]
    assert "".join(passage.text for passage in passages[1:4]) == "y" * (2 * CHARACTERS_MAX + 5)


@given(
    st.sampled_from(["x.md", "x.txt", "x.py", "x.csv"]),
    st.lists(st.text("ab #`\t最", max_size=30) | st.just("") | st.just("long " * 900), max_size=90),
)
def test_every_line_with_something_on_it_is_in_a_passage(path: str, lines: list[str]) -> None:
    covered: set[int] = set()
    for passage in cut(path, lines):
        assert passage.text.strip() or len(lines[passage.first_line - 1]) > CHARACTERS_MAX
        assert len(passage.text) <= CHARACTERS_MAX
        assert passage.last_line - passage.first_line < LINES_MAX
        covered.update(range(passage.first_line, passage.last_line + 1))
    headings = {at for at, line in enumerate(lines, start=1) if line.lstrip().startswith("#")}
    filled = {at for at, line in enumerate(lines, start=1) if line.strip()}
    assert filled - headings <= covered
