"""The desk answers and researches over real files; a steering changes the report.

Method: the shipped sample and a staged run (`stage.py`) that plays the runtime's part. The
figures of a report are compared with numbers computed here from the prices by the standard
library, never with the desk's own.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing

from counterpoint.runtime.agent import RunContext
from counterpoint.runtime.desk import Desk, FileRefused, make_desk, sample_folder
from counterpoint.runtime.desk.agent import DeskRun
from counterpoint.runtime.gateways.protocol import (
    Call,
    Gateway,
    GatewayFailed,
    ModelInput,
    Reply,
    ReplyStream,
)

from .stage import StagedRun

THREE_YEARS = "Compare MSFT and IBM over the past three years, with drawdown"


def desk_of(tmp_path: Path, folder: Path | None = None, gateway: Gateway | None = None) -> Desk:
    return make_desk(folder or sample_folder(), tmp_path / "index", gateway=gateway)


def expected(name: str, first: str, last: str) -> dict[str, str]:
    """Return the figures of the sample as a report writes them, computed independently."""
    with (sample_folder() / "prices.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if first <= row["date"] <= last]
    prices = [float(row[name]) for row in rows]
    returns = [after / before - 1 for before, after in pairwise(prices)]
    falls = [b / a - 1 for at, a in enumerate(prices) for b in prices[at:]]
    return {
        "return": f"{prices[-1] / prices[0] - 1:+.2%}",
        "volatility": f"{statistics.stdev(returns) * math.sqrt(12):.2%}",
        "drawdown": f"{min(falls):.2%}",
    }


def report_of(run: StagedRun) -> str:
    assert run.answer is not None
    return run.answer


def assert_every_statement_is_cited(report: str, folder: Path) -> None:
    """Each line of the figures and each quotation names lines that the file really has."""
    cited = re.findall(r"\[?([\w./-]+\.(?:csv|md)):(\d+)(?:-(\d+))?", report)
    assert cited
    for path, first, last in cited:
        lines = (folder / path).read_text().splitlines()
        assert 1 <= int(first) <= int(last or first) <= len(lines)
    heads = r"## (?:Figures|Side by side|指标|对照)\n\n(.*?)(?=\n\n## )"
    for section in re.findall(heads, report, re.DOTALL):
        for line in section.split("\n"):
            assert re.search(r"\[[\w./-]+:\d", line) or not line.strip(), line


async def test_research_reports_the_window_that_was_asked_for(tmp_path: Path) -> None:
    run = StagedRun(THREE_YEARS)
    await desk_of(tmp_path).research(run)
    report = report_of(run)
    assert "2007-03-01 to 2010-03-01" in report
    for name in ("MSFT", "IBM"):
        for figure in expected(name, "2007-03-01", "2010-03-01").values():
            assert figure in report
    assert "36 monthly returns" in report
    assert "maximum drawdown = lowest price / highest price before it − 1" in report
    assert_every_statement_is_cited(report, sample_folder())
    assert {status for _, _, status in run.effects} == {"done"}


@pytest.mark.parametrize("turn", range(2, 6))
async def test_a_steered_window_is_the_only_one_in_the_report(tmp_path: Path, turn: int) -> None:
    run = StagedRun(THREE_YEARS, before={turn: "only the last year, please"})
    await desk_of(tmp_path).research(run)
    report = report_of(run)
    assert "2009-03-01 to 2010-03-01" in report
    assert "2007" not in report
    for name in ("MSFT", "IBM"):
        now, before = (
            expected(name, first, "2010-03-01") for first in ("2009-03-01", "2007-03-01")
        )
        assert all(figure in report for figure in now.values())
        assert not any(figure in report for figure in before.values())
    assert "only the last year, please" in report
    assert "12 monthly returns" in report


async def test_a_steering_amid_the_effects_skips_them_and_is_followed(tmp_path: Path) -> None:
    run = StagedRun(THREE_YEARS, within={"tabulate": "also compare with AMZN"})
    await desk_of(tmp_path).research(run)
    assert [status for name, _, status in run.effects if name == "tabulate"] == ["skipped", "done"]
    report = report_of(run)
    for name in ("MSFT", "IBM", "AMZN"):
        assert expected(name, "2007-03-01", "2010-03-01")["return"] in report


async def test_a_steering_at_the_very_end_is_still_in_the_report(tmp_path: Path) -> None:
    run = StagedRun(THREE_YEARS, at_the_end="drop IBM")
    await desk_of(tmp_path).research(run)
    report = report_of(run)
    assert expected("MSFT", "2007-03-01", "2010-03-01")["return"] in report
    assert expected("IBM", "2007-03-01", "2010-03-01")["return"] not in report


async def test_chinese_research_is_reported_in_chinese(tmp_path: Path) -> None:
    run = StagedRun(
        "比较 MSFT 和 IBM 近三年的表现", before={3: "只看最近一年", 4: "加上黄金和谷歌"}
    )
    await desk_of(tmp_path).research(run)
    report = report_of(run)
    assert "时间窗口：2009-03-01 至 2010-03-01" in report
    for name in ("MSFT", "IBM", "GOOG"):
        assert expected(name, "2009-03-01", "2010-03-01")["return"] in report
    assert "“谷歌”按 GOOG 理解 [SOURCE.md:17]" in report  # a file of the folder says so
    assert "“黄金”：没有这个名称的数据列" in report
    assert_every_statement_is_cited(report, sample_folder())


async def test_what_was_asked_for_and_not_found_is_listed(tmp_path: Path) -> None:
    run = StagedRun("Compare MSFT, GOOG and Tesla since 2003")
    await desk_of(tmp_path).research(run)
    gaps = report_of(run).split("## Asked for, not found")[1]
    assert "“Tesla”: no column of that name and nothing in the files" in gaps
    assert "GOOG: the window begins on 2003-01-01, its data only on 2004-08-01" in gaps
    assert "MSFT, AMZN, IBM, GOOG, AAPL [prices.csv:1]" in gaps


async def test_companies_may_be_called_by_the_names_that_a_file_explains(tmp_path: Path) -> None:
    run = StagedRun("Which fell more in 2008, Apple or Google?")
    await desk_of(tmp_path).research(run)
    for name in ("AAPL", "GOOG"):
        assert expected(name, "2008-01-01", "2008-12-31")["return"] in report_of(run)
    assert "“Apple” is read as AAPL [SOURCE.md:18]" in report_of(run)
    assert "Nothing: everything asked for was found." in report_of(run)


async def test_a_window_without_data_is_a_gap_and_not_another_window(tmp_path: Path) -> None:
    run = StagedRun("MSFT since 2015")
    await desk_of(tmp_path).research(run)
    report = report_of(run)
    assert "no values from 2015-01-01 to 2015-01-01" in report
    assert "period return +" not in report


async def test_deep_research_tabulates_each_year_too(tmp_path: Path) -> None:
    run = StagedRun("MSFT from 2007 to 2008", depth="deep")
    await desk_of(tmp_path).research(run)
    for year in ("2007", "2008"):
        figures = expected("MSFT", f"{year}-01-01", f"{year}-12-31")
        assert f"MSFT, {year}-01-01 to {year}-12-01: return {figures['return']}" in report_of(run)


async def test_research_in_prose_quotes_the_files(tmp_path: Path) -> None:
    run = StagedRun("黄金与美债的关联")
    await desk_of(tmp_path).research(run)
    assert "> 债券价格与收益率反向变动" in report_of(run)
    assert_every_statement_is_cited(report_of(run), sample_folder())


# fmt: off
QUESTIONS = [  # what is asked, what the answer quotes
    ("What is the Sharpe ratio?", "return above the risk-free rate divided by the volatility"),
    ("什么是最大回撤？", "最低价格 ÷ 此前最高价格 − 1"),
    ("黄金与美债的关联", "黄金与美债的关联在于实际利率"),
    ("为什么纳斯达克大跌", "该指数在 2000 年 3 月见顶后大跌"),
    ("夏普比率", "每承担一单位波动获得多少超额收益"),
]
# fmt: on


@pytest.mark.parametrize(("question", "quoted"), QUESTIONS)
async def test_a_short_answer_quotes_the_best_passage(
    tmp_path: Path, question: str, quoted: str
) -> None:
    run = StagedRun(question)
    await desk_of(tmp_path).answer(run)
    answer = report_of(run)
    assert quoted in answer
    assert re.search(r"\[glossary\.md:\d+", answer)
    assert len(run.inputs) == 2  # one search, one answer


async def test_a_short_answer_computes_a_figure_that_is_asked_for(tmp_path: Path) -> None:
    run = StagedRun("What was the max drawdown of AAPL in 2008?")
    await desk_of(tmp_path).answer(run)
    assert expected("AAPL", "2008-01-01", "2008-12-31")["drawdown"] in report_of(run)
    assert "prices.csv:98-109" in report_of(run)


async def test_a_short_answer_is_honest_about_finding_nothing(tmp_path: Path) -> None:
    for question, says in (
        ("What is the capital of France?", "Nothing found in sample on “capital”, “France”"),
        ("法国的首都是哪里", "在 sample 中没有找到"),
        ("???", "There is nothing to search for"),
    ):
        run = StagedRun(question)
        await desk_of(tmp_path).answer(run)
        assert says in report_of(run)


async def test_an_empty_folder_gives_an_honest_answer_and_report(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    desk = desk_of(tmp_path, tmp_path / "empty")
    short, long = StagedRun("What is gold?"), StagedRun(THREE_YEARS)
    await desk.answer(short)
    await desk.research(long)
    assert "Nothing found in empty" in report_of(short)
    gaps = report_of(long).split("## Asked for, not found")[1]
    assert "the folder has no CSV file with a date column" in gaps
    assert "“MSFT”: nowhere in the files" in gaps


async def test_a_run_goes_on_from_its_checkpoint_and_repeats_nothing(tmp_path: Path) -> None:
    whole = StagedRun(THREE_YEARS)
    await desk_of(tmp_path).research(whole)

    interrupted = StagedRun(THREE_YEARS, turns_max=3)
    with pytest.raises(AssertionError, match="no end"):
        await desk_of(tmp_path).research(interrupted)
    resumed = StagedRun(THREE_YEARS, checkpoint=interrupted.checkpoint)
    await desk_of(tmp_path).research(resumed)
    assert resumed.answer == whole.answer
    assert interrupted.effects + resumed.effects == whole.effects


async def test_the_same_request_gives_the_same_report(tmp_path: Path) -> None:
    reports: list[str | None] = []
    for _ in range(2):
        run = StagedRun(THREE_YEARS)
        await desk_of(tmp_path).research(run)
        reports.append(run.answer)
    assert reports[0] == reports[1]


async def test_progress_is_told_in_the_language_of_the_request(tmp_path: Path) -> None:
    english = StagedRun(THREE_YEARS, before={3: "only the last year, please"})
    chinese = StagedRun("比较 MSFT 和 IBM")
    await desk_of(tmp_path).research(english)
    await desk_of(tmp_path).research(chinese)
    assert english.said[:2] == ["Indexing the files, step 1", "Looking for tables with dates"]
    assert english.said.count("Going on with revision 1: only the last year, please") == 1
    figures = "Computing figures for MSFT, IBM (prices.csv) from 2009-03-01 to 2010-03-01"
    assert figures in english.said
    assert chinese.said[:2] == ["为文件建立索引，第 1 步", "查找带日期的表格"]


async def test_the_pace_is_waited_between_the_turns_of_research_only(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    desk = make_desk(sample_folder(), tmp_path / "index", pace_seconds=3600)
    autojump_clock.autojump_threshold = float("inf")
    run = StagedRun("What is the Sharpe ratio?")
    started = trio.current_time()
    await desk.answer(run)
    assert trio.current_time() == started

    research = StagedRun("What is the Sharpe ratio?")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.research, research)
        while research.answer is None:
            seen = len(research.inputs)
            await trio.testing.wait_all_tasks_blocked()
            if len(research.inputs) == seen:
                autojump_clock.jump(600)
    assert trio.current_time() - started >= 3600 * (len(research.inputs) - 1)


class ScriptedGateway:
    """A gateway that gives these replies in turn; an exception among them is raised."""

    name = "scripted"

    def __init__(self, *replies: Reply | Exception) -> None:
        self._replies = list(replies)

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def calling(name: str, **arguments: object) -> Reply:
    return Reply(text="", calls=(Call(call_id=f"id-{name}", name=name, arguments=arguments),))


async def test_a_model_may_call_the_tools_and_reads_why_a_call_failed(tmp_path: Path) -> None:
    gateway = ScriptedGateway(
        calling("search", terms=["Sharpe"]),
        calling("read", path="../secret"),
        calling("delete", path="glossary.md"),
        Reply(text="The Sharpe ratio is … [glossary.md:51]"),
    )
    run = StagedRun("What is the Sharpe ratio?")
    await desk_of(tmp_path, gateway=gateway).answer(run)
    assert run.answer == "The Sharpe ratio is … [glossary.md:51]"
    results = [message.text for message in run.inputs[-1].messages if message.role == "tool"]
    assert "glossary.md" in results[0]
    assert "is not a path inside the folder" in results[1]
    assert "There is no tool delete" in results[2]
    assert [(name, status) for name, _, status in run.effects] == [
        ("search", "done"),
        ("read", "failed"),
    ]


async def test_a_provider_that_fails_is_asked_again_and_then_given_up(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    fault = GatewayFailed("the provider is overloaded")
    run = StagedRun("hello")
    await desk_of(tmp_path, gateway=ScriptedGateway(fault, fault, Reply(text="hi"))).answer(run)
    assert run.answer == "hi"

    failing = desk_of(tmp_path, gateway=ScriptedGateway(fault, fault, fault))
    with pytest.raises(GatewayFailed):
        await failing.answer(StagedRun("hello"))


def test_a_desk_needs_a_folder_that_exists(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match="is not a folder"):
        make_desk(tmp_path / "missing", tmp_path / "index")


def test_the_runtimes_run_is_a_run_for_the_desk() -> None:
    def accepts(run: RunContext) -> DeskRun:
        return run  # the type checkers are this test

    assert accepts is not None
