"""Words of a question that name nothing: not searched for, and no column's name."""

from __future__ import annotations

from typing import Final

_ENGLISH = """
a about across after all also am an and another any are as at be been before being best between
both but by can come compare compared comparing comparison could did do does doing down during
each either else every explain few find for from further get give had has have having help her
here him his how how's i if in into is isn't it it's its itself just know let let's like look
make many me mean means more most much must my need no nor not now of off on once one only or
other our out over own per please put regarding research same say see she should show since so
some such summarise summarize tell than that that's the their them then there these they thing
this those through to too until up us use using versus vs was want we were what what's whats
when where which while who why will with within without would yes you your
analyse analyze analysis describe happen happened happens
"""

# Cut out of Chinese text, which has no spaces; the longest is cut first.
_CHINESE = """
什么是 是什么 什么叫 什么意思 是什么意思 什么 怎么样 怎么 怎样 如何 为什么 为何 哪些 哪个
哪里 多少 有没有
是不是 能不能 可不可以 可以 能否 是否 请问 请 帮我 帮忙 给我 告诉我 告诉 我想知道 我想
想要 知道 解释一下
解释 说明一下 说明 介绍一下 介绍 说说 谈谈 看看 看一下 分析一下 分析 研究一下 研究
比较一下 比较 对比一下
对比 相比 一下 关于 有关 之间 以及 还有 并且 而且 或者 或 和 与 及其 跟 同时 同 的 了 吗
呢 吧 啊 呀 嘛 么
我们 你们 他们 它们 这个 那个 这些 那些 我 你 他 她 它 这 那 是 也 都 还 就 只要 只看 只
把 被 让 加上 加入
再加 另外 需要 里面 里 中 一个 两者 二者 它俩 情况 进行 做 下
"""

# Words about the work itself; they name nothing once a column is named.
_OF_THE_WORK = """
report reports price prices stock stocks data figure figures number numbers chart table period
window year years month months performance perform performed performing fared fare change
changes value values column columns series add added adding include including plus drop remove
exclude excluding except leave skip replace instead rather everything together history full
whole annualised annualized maximum max latest recent past last fall fell rise rose well badly
better worse worst result results question summary overview short long time focus
股票 数据 报告 走势 表现 价格 数字 指标 年 月 期间 时间 区间 结果 全部 所有 每只 每个 各只
股价 添加 增加
去掉 去除 不要 排除 除了 换成 改成 只比较 以外 之外 年化 最大 再 顺便 计算 算 列出 写 份
给 过去 最近 最近的
"""

ENGLISH_STOP_WORDS: Final = frozenset(_ENGLISH.split())
CHINESE_STOP_WORDS: Final = tuple(sorted(_CHINESE.split(), key=len, reverse=True))
WORDS_OF_THE_WORK: Final = frozenset(_OF_THE_WORK.split())
