"""The frame words of the desk's answers and reports, in English and Chinese.

What stands in the files is quoted in the files' own language; only the words around it are
chosen by the language of the question.
"""

from __future__ import annotations

from typing import Any, Final

from .question import Language

_WORDS: Final[dict[str, tuple[str, str]]] = {
    "title": ("Research: {request}", "研究：{request}"),
    "revised": ("Revision {number}: {text}", "调整 {number}：{text}"),
    "window_asked": (
        "Window: {first} to {last} (“{phrase}”, counted by the data's dates)",
        "时间窗口：{first} 至 {last}（“{phrase}”，按数据日期推算）",
    ),
    "window_all": (
        "Window: {first} to {last} (no window was asked for: all the data)",
        "时间窗口：{first} 至 {last}（未指定窗口：全部数据）",
    ),
    "figures": ("Figures", "指标"),
    "column": (
        "{name}, {first} to {last}, {values} {frequency} values [{cite}]",
        "{name}，{first} 至 {last}，{values} 个{frequency}数据 [{cite}]",
    ),
    "return": (
        "period return {value}: from {first_value} on {first} to {last_value} on {last} [{cite}]",
        "区间收益率 {value}：{first} 的 {first_value} 到 {last} 的 {last_value} [{cite}]",
    ),
    "volatility": (
        "annualised volatility {value}: from {returns} {frequency} returns, × √{periods} [{cite}]",
        "年化波动率 {value}：{returns} 个{frequency}收益率，× √{periods} [{cite}]",
    ),
    "drawdown": (
        "maximum drawdown {value}: from {peak_value} on {peak} [{peak_cite}] to {trough_value} on"
        " {trough} [{trough_cite}]",
        "最大回撤 {value}：{peak} 的 {peak_value} [{peak_cite}] 到 {trough} 的 {trough_value}"
        " [{trough_cite}]",
    ),
    "no_drawdown": (
        "maximum drawdown 0.00%: no value is below an earlier one [{cite}]",
        "最大回撤 0.00%：没有低于此前数值的数据 [{cite}]",
    ),
    "correlation": (
        "Correlation of {left} and {right}: {value}, from {returns} returns, {first} to {last}"
        " [{cite}]",
        "{left} 与 {right} 的相关系数：{value}，{returns} 个收益率，{first} 至 {last} [{cite}]",
    ),
    "none": ("{figure}: not computed, {reason} [{cite}]", "{figure}：未计算，{reason} [{cite}]"),
    "returns_left_out": (
        "{missing} missing values; {count} returns next to them left out [{cite}]",
        "{missing} 个缺失值；与其相邻的 {count} 个收益率未计入 [{cite}]",
    ),
    "comparison": ("Side by side", "对照"),
    "most": (
        "Highest {figure}: {best} {best_value} [{best_cite}]; lowest: {worst} {worst_value}"
        " [{worst_cite}]",
        "{figure}最高：{best} {best_value} [{best_cite}]；最低：{worst} {worst_value}"
        " [{worst_cite}]",
    ),
    "mildest": (
        "Mildest maximum drawdown: {best} {best_value} [{best_cite}]; deepest: {worst}"
        " {worst_value} [{worst_cite}]",
        "最大回撤最小：{best} {best_value} [{best_cite}]；最深：{worst} {worst_value}"
        " [{worst_cite}]",
    ),
    "years": ("By calendar year", "按年度"),
    "year": (
        "{name}, {first} to {last}: return {value}, maximum drawdown {drawdown} [{cite}]",
        "{name}，{first} 至 {last}：收益率 {value}，最大回撤 {drawdown} [{cite}]",
    ),
    "passages": ("From the files", "文件中的内容"),
    "alias": ("“{word}” is read as {name} [{cite}]", "“{word}”按 {name} 理解 [{cite}]"),
    "method": ("How it is computed", "计算方法"),
    "formula_return": (
        "period return = last price / first price − 1",
        "区间收益率 = 期末价格 / 期初价格 − 1",
    ),
    "formula_volatility": (
        "annualised volatility = sample standard deviation (n − 1) of simple returns"
        " × √(periods in a year)",
        "年化波动率 = 简单收益率的样本标准差（n − 1）× √（每年期数）",
    ),
    "formula_drawdown": (
        "maximum drawdown = lowest price / highest price before it − 1",
        "最大回撤 = 最低价格 / 此前最高价格 − 1",
    ),
    "formula_correlation": (
        "correlation = Pearson's, of simple returns over the same periods",
        "相关系数 = 相同期间简单收益率的皮尔逊相关系数",
    ),
    "formula_first": (
        "the first price is the last one on or before the window's first date",
        "期初价格取窗口首日或之前最近的一个价格",
    ),
    "gaps": ("Asked for, not found", "要求了但没有找到"),
    "no_gaps": ("Nothing: everything asked for was found.", "无：要求的内容都已找到。"),
    "gap_nowhere": (
        "“{word}”: no column of that name and nothing in the files ({files} read)",
        "“{word}”：没有这个名称的数据列，文件中也没有提到（已读 {files} 个文件）",
    ),
    "gap_term": (
        "“{word}”: nowhere in the files ({files} read)",
        "“{word}”：文件中没有提到（已读 {files} 个文件）",
    ),
    "gap_no_column": (
        "“{word}”: no column of that name, so no figures; the files mention it [{cite}]",
        "“{word}”：没有这个名称的数据列，因此没有指标；文件中提到过 [{cite}]",
    ),
    "gap_no_figures": (
        "figures: none of the words names a column",
        "指标：没有词对应数据列",
    ),
    "gap_columns": ("columns there are: {names} [{cite}]", "现有数据列：{names} [{cite}]"),
    "gap_no_tables": (
        "figures: the folder has no CSV file with a date column",
        "指标：文件夹中没有带日期列的 CSV 文件",
    ),
    "gap_no_values": (
        "{name}: no values from {first} to {last}; {path} has dates from {data_first} to"
        " {data_last} [{path}]",
        "{name}：{first} 至 {last} 没有数据；{path} 的日期为 {data_first} 至 {data_last} [{path}]",
    ),
    "gap_late_start": (
        "{name}: the window begins on {first}, its data only on {data_first} [{cite}]",
        "{name}：窗口从 {first} 开始，数据从 {data_first} 才有 [{cite}]",
    ),
    "gap_early_end": (
        "{name}: the window ends on {last}, its data on {data_last} [{cite}]",
        "{name}：窗口到 {last} 结束，数据到 {data_last} 为止 [{cite}]",
    ),
    "gap_not_comparable": (
        "a comparison side by side: the columns do not cover the same dates",
        "对照：各列的起止日期不同",
    ),
    "gap_no_pair": (
        "correlation of {left} and {right}: no periods in common [{cite}]",
        "{left} 与 {right} 的相关系数：没有共同的期间 [{cite}]",
    ),
    "gap_left_out": (
        "{count} more columns: at most {most} are tabulated at once",
        "另有 {count} 列：一次最多计算 {most} 列",
    ),
    "gap_elsewhere": (
        "{name} is also a column of {path}, which was not used [{path}:1]",
        "{path} 中也有 {name} 列，未使用 [{path}:1]",
    ),
    "gap_window_unused": (
        "“{phrase}”: no column was named, so the window limits nothing",
        "“{phrase}”：没有指定数据列，时间窗口没有用上",
    ),
    "gap_failed": ("{name} failed: {reason}", "{name} 失败：{reason}"),
    "gap_incomplete": (
        "the folder holds more files than are read; only the first {files} were searched",
        "文件夹中的文件过多，只检索了前 {files} 个",
    ),
    "gap_waiting": (
        "{waiting} files are not indexed yet, only {files} were searched: ask again for the rest",
        "还有 {waiting} 个文件没有建立索引，只检索了 {files} 个：请再问一次",
    ),
    "gap_note": ("{note}", "{note}"),
    "nothing": (
        "Nothing found in {folder} on {terms} ({files} files read).",
        "在 {folder} 中没有找到与{terms}有关的内容（已读 {files} 个文件）。",
    ),
    "nothing_terms": (
        "There is nothing to search for in this question. Name what it is about.",
        "这个问题里没有可检索的词。请说出要查的内容。",
    ),
    "not_mentioned": ("Not in the files: {terms}.", "文件中没有提到：{terms}。"),
    "unavailable": ("The search failed: {reason}", "检索失败：{reason}"),
    "skipped": ("Not read: {files}.", "未读取：{files}。"),
    "progress_tables": ("Looking for tables with dates", "查找带日期的表格"),
    "progress_prepare": ("Indexing the files, step {step}", "为文件建立索引，第 {step} 步"),
    "progress_search": ("Searching the files for {terms}", "在文件中检索：{terms}"),
    "progress_read": (
        "Reading {path}, lines {first} to {last}",
        "阅读 {path} 第 {first} 至 {last} 行",
    ),
    "progress_tabulate": (
        "Computing figures for {columns} from {first} to {last}",
        "计算 {columns} 从 {first} 到 {last} 的指标",
    ),
    "progress_other": ("Calling {name}", "调用 {name}"),
    "progress_revised": ("Going on with revision {number}: {text}", "按调整 {number} 继续：{text}"),
    "return_name": ("period return", "区间收益率"),
    "volatility_name": ("annualised volatility", "年化波动率"),
    "drawdown_name": ("maximum drawdown", "最大回撤"),
    "correlation_name": ("correlation", "相关系数"),
    "too few values": ("too few values", "数据太少"),
    "a value is not positive": ("a value is not positive", "存在非正数值"),
    "irregular dates": ("the dates are irregular", "日期间隔不规则"),
    "no variation": ("a series does not vary", "序列没有变化"),
    "daily": ("daily", "日度"),
    "every day": ("daily", "日度"),
    "weekly": ("weekly", "周度"),
    "monthly": ("monthly", "月度"),
    "quarterly": ("quarterly", "季度"),
    "yearly": ("yearly", "年度"),
    "irregular": ("irregular", "不规则"),
}


def say(language: Language, key: str, **values: Any) -> str:
    """Return the sentence of that key in a language, with its values put in."""
    english, chinese = _WORDS[key]
    return (chinese if language == "zh" else english).format(**values)


def listed(language: Language, words: list[str] | tuple[str, ...]) -> str:
    """Return words in quotation marks, separated as the language does."""
    return ("、" if language == "zh" else ", ").join(f"“{word}”" for word in words)


def cite(path: str, first_line: int, last_line: int | None = None) -> str:
    """Return `path:line` or `path:first-last`."""
    if last_line is None or last_line == first_line:
        return f"{path}:{first_line}"
    return f"{path}:{first_line}-{last_line}"
