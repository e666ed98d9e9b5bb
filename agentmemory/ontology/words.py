"""Words of an intent that say nothing about its subject, in Chinese, English and others.

Chinese is written without spaces, so that its words have to be found: a stop word between two
others is where one ends and the next begins. Imports the English list of the text room only.
"""

from __future__ import annotations

from typing import Final

from agentmemory.text.stop_words import ENGLISH_STOP_WORDS

_CHINESE_STOP_WORDS: Final = """
我想 我要 我们 你们 他们 它们 咱们 我 你 您 他 她 它 自己 大家 请问 请 帮我 帮忙 麻烦
想要 想看 想知道 想了解 知道 看看 看一下 看一看 看下 查一下 说一下 说说 讲讲 告诉 一下 一些 一个
一种
这个 那个 这些 那些 这样 那样 这里 那里 这次 那次 每个 每次 各个 某个 其他 其它 别的
哪些 哪个 哪里 什么 怎么 怎样 怎么样 如何 为什么 为何 多少 几个 是否 是不是 有没有 能不能
可不可以 可否 能否
需要 可以 可能 应该 应当 能够 必须 不得 必要 得要 想 要 会 能
现在 目前 当前 今天 昨天 明天 刚才 刚刚 上次 下次 之前 以前 之后 以后 最近 近期 马上 立刻 已经
正在 曾经
上个月 下个月 这个月 本月 上月 下月 今年 去年 明年 上周 下周 本周
然后 因为 所以 但是 可是 不过 如果 假如 而且 并且 或者 还是 以及 及其 由于 对于 关于 至于 根据
按照 通过
非常 比较 特别 十分 有点 有些 太 很 更 最 还 也 都 就 才 又 再 只 仅 不 没 没有 不是 不会 不能
的 了 吗 呢 吧 啊 呀 嘛 和 与 及 或 是 在 有 被 把 将 让 给 对 从 到 向 往 为 以 由 于 用 跟 比
个 些 之 其 此 该 每 各 所 而 则 若 且 那 这 哪 谁 几
时候 时 后 前 里 中 上 下 内 外 等 等等 之类 情况 问题 事情 东西
"""

_ORDINARY_WORDS: Final = """
目的 标的 的确 了解 为了 和谐 和解 参与 与会 涉及 及时 及格 或许 于是 凡是 但是
存在 正在 在线 在职 在途 所在 有效 有效期 有效性 有限 有关 所有 持有 拥有 没有
有害 有权 把握 把关 给予 供给 补给 让步 转让 被动 是非 授予 赋予 温和 总和 饱和
普及 以及 提及
"""

_ASKING: Final = """
want wants wanted need needs needed like please tell show give let lets know see look looking
think thinking discuss talk going get got make makes sure whether because while still yet now
today currently really maybe perhaps something anything everything thing things one two next
last month week year us im id ill hello hi thanks
"""

CHINESE_STOP_WORDS: Final = frozenset(word for word in _CHINESE_STOP_WORDS.split() if len(word) > 1)
"""Words of two characters and more that separate the others wherever they stand."""

CHINESE_SEPARATORS: Final = frozenset("的了吗呢吧啊呀嘛和与及或是在有被把让给")
"""Single characters that separate words wherever they stand, but for `ORDINARY_WORDS`."""

CHINESE_AFFIXES: Final = frozenset(
    word for word in _CHINESE_STOP_WORDS.split() if len(word) == 1
) | frozenset("快受过着得地们")
"""Single characters that fall off the ends of a word for as long as two characters are left."""

ORDINARY_WORDS: Final = frozenset(_ORDINARY_WORDS.split())
"""Words with a separator inside that stay whole."""

ENGLISH_INTENT_WORDS: Final = ENGLISH_STOP_WORDS | frozenset(_ASKING.split())
"""What leaves an intent besides the stop words of search: how people ask, not what about."""
