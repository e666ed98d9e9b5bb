"""The phrases in which people give standing instructions and say what they like, by language.

A further language is one more `PhraseTable` in `TABLES`. Patterns are matched without regard to
case at the start of a sentence (`match`), after the polite words of the table; what an
`exceptions` pattern matches at the same place is left alone. Pure; imports nothing of the package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseTable:
    """How one language says such things.

    Args:
        language: Its BCP 47 tag.
        lead_in: What may stand before the phrase: "please", "oh, and".
        guideline: Starts of a sentence that tells how to behave from now on.
        guideline_anywhere: Words that make an instruction of any sentence they stand in.
        guideline_exceptions: Starts that only look like one.
        preference: Words, anywhere in a sentence, with which people say what they like.
        preference_exceptions: Words that only look like one, at the same place.
    """

    language: str
    lead_in: re.Pattern[str]
    guideline: re.Pattern[str]
    guideline_anywhere: re.Pattern[str]
    guideline_exceptions: re.Pattern[str]
    preference: re.Pattern[str]
    preference_exceptions: re.Pattern[str]


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


ENGLISH: Final = PhraseTable(
    language="en",
    lead_in=_pattern(
        r"""(?: (?: please | pls | also | and | but | so | then | oh | ok(?:ay)? | hey | note
                  | important | reminder | just | plus | one\ more\ thing | by\ the\ way | btw
                  | in\ general | again | thanks | thank\ you )
            [\s,:;.!—–-]+ )*"""
    ),
    guideline=_pattern(
        r"""(?:
            (?: always | never ) \s+ (?: please\s+ )? [a-z]{2,}
          | (?: you\s+ (?: should | must | are\s+to | need\s+to | have\s+to | can )
              | (?: i\s+ (?: want | need | expect | would\s+like ) | i'd\s+like ) \s+ you \s+ to
              | make\s+ (?: sure | certain ) \s+ (?: that\s+ )? (?: you | to )
              | (?: be\s+ sure | remember | try | do\s+ not\s+ forget | don['’]t\s+ forget ) \s+ to
              | let['’]s | could\s+ you | can\s+ you | would\s+ you )
            \s+ (?: always | never ) \b
          | (?: whenever | each\s+time | every\s+time | any\s?time ) \s+
            (?: i | we | you ) \s+ [^,?]{2,120} , \s*
            (?: please | always | never | you\s+should | make\s+sure | be\s+sure | use | give
              | include | add | show | write | answer | reply | respond | format | explain
              | mention | remember | start | end | list | keep | avoid | do(?:n['’]t)? | don['’]t )
            \b
          | (?: do\s+not | don['’]t ) \s+ (?: you\s+ )? ever \b
          | (?: please\s+ )? call\s+ me \s+ (?-i: [A-Z] ) [\w'’-]+ [.!]* \Z
        )"""
    ),
    guideline_anywhere=_pattern(
        r"""\b (?: from\ (?:now|here|this\ point|today)\ (?:on|onwards?|forward)
                 | (?:for|in)\ (?:all\ )?(?:the\ |your\ )?future\ (?:answers|replies|responses)
                 | going\ forwards?
                 | in\ all\ (?:of\ )?your\ (?:answers|replies|responses) ) \b
          | \b (?: stop | quit ) \s+ [a-z]+ing \b [^.?!]* \b (?: me | your | answers | replies ) \b
          | \b (?: do\ not | don['’]t ) \s+ [a-z]+ \b [^.?!,]* \b
            (?: ever\ again | any\ ?more ) \b"""
    ),
    guideline_exceptions=_pattern(
        r"""(?: always | never ) \s+
            (?: a | an | the | been | had | was | were | mind | again | thought | wanted | knew
              | loved | liked | hated | heard | seen | saw | tried | had | got | went | felt
              | found | happy | good | nice | great | fun | glad | so | too | really | my | in | on
              | at | for | to | with | i | it | he | she | they | we | did | done | made | used
              | worked | happened | wondered | believed | enjoyed | struggled | looking | trying
              | has | have | is | are | there | that | this | one | more | less | says? | said
              | works? | happens | seems? | gets | feels | does )
            (?! \w )"""
    ),
    preference=_pattern(
        r"""(?<! should\  ) (?<! do\  ) (?<! would\  ) (?<! could\  ) (?<! if\  ) \b
            (?: (?: i | we ) (?: ['’]ve\ (?:always\ )? | \ have\ (?:always\ )? )?
                   (?: \s+ (?: really | also | still | strongly | generally | usually | much | do
                             | definitely | always | actually | personally | typically | tend\ to
                             | would | particularly | just ) )*
                   \s* (?<=\s) (?: prefer(?:red)? \b (?! \s+ not\ to\ say )
                        | favou?r \s+ (?! to\b | if\b | from\b )
                        | (?: chose | opted | decided ) \s+ (?: to | for )\s .* \b
                          (?: because | for | over | instead | rather | due )\b )
               | (?: i | we ) (?: ['’]ve | \ have ) \s+ (?: chosen | opted ) \s
               | (?: i | we ) (?: ['’]d | \ would ) \s+ (?: much\s+ )? rather (?! \s+ not\ say )
               | my \s+ (?: own\s+ | personal\s+ | usual\s+ )? preference \b
               | my \s+ (?: all[- ]time\s+ )? favou?rite \s+ (?: \w+ \s+ ){1,4}
                 (?: is | are | was )\b
               | i (?: ['’]m | \ am ) \s+ (?: a\s+ | an\s+ | strictly\s+ | mostly\s+ )*
                 (?: vegan | vegetarian | pescatarian | lactose[- ]intolerant | gluten[- ]free
                   | teetotal | allergic\s+to | not\s+a\s+fan\s+of | a\s+(?:big|huge)\s+fan\s+of
                   | more\s+of\s+an?\b )
               | i \s+ (?: really\s+ | absolutely\s+ | just\s+ )* (?: love | enjoy | adore | hate
                   | dislike | detest | can['’]t\s+stand | cannot\s+stand
                   | don['’]t\s+(?:like|eat|drink) )
                 \s+ (?! it\b | this\b | that\b | these\b | those\b | how\b
                       | the\s+(?:idea|way|fact)\b
                       | to\s+(?:hear|see|know)\b | when\b | what\b | your\b | you\b | him\b | her\b
                       | them\b | all\b | his\b | their\b | being\b | having\s+to\b )
            )"""
    ),
    preference_exceptions=_pattern(
        r"""(?: i | we ) \s+ (?: should | could | might | did | do ) \s+ prefer .* \?"""
    ),
)

CHINESE: Final = PhraseTable(
    language="zh",
    lead_in=_pattern(
        r"(?: (?: 请 | 麻烦(?:你|您)? | 另外 | 还有 | 对了 | 好的? | 那 ) [\s，,：:]* )*"
    ),
    guideline=_pattern(
        r"""(?:
            (?: 以后 | 今后 | 从现在(?:开始|起) | 从今(?:天|往)?(?:以后|后|开始|起)
              | 接下来 | 往后 | 之后 )
            [^。！？]{0,20}? (?: 请 | 都 | 要 | 不要 | 别 | 只 | 必须 | 务必 | 一律 | 用 )
          | (?: 每次 | 每当 | 只要 ) [^。！？]{1,40}? (?: 都 | 请 | 务必 | 必须 | 要 )
          | (?: 请 | 你 | 您 | 要 )* (?: 总是 | 始终 | 一直 | 永远 | 务必每次 )
            \s* (?! 很 | 觉得 | 在 | 是 | 想 | 没 )
            (?: 用 | 要 | 不要 | 别 | 以 | 把 | 给 | 附 | 写 | 提供 | 使用 | 包括 | 包含 | 说明
              | 注明 | 标注 | 列出 | 保持 | 加 | 先 | 称 | 叫 | 回答 | 回复 | 解释 )
          | (?: 请 )? (?: 不要再 | 别再 | 再也不要 | 千万不要 | 千万别 | 永远不要 | 永远别 )
          | (?: 请 )? 记住 [，,:：\s]* [^。！？]{0,20}? (?: 都 | 要 | 不要 | 别 | 请 | 总是 )
          | (?: 请 )? (?: 叫我 | 称呼我(?:为)? ) \s* [^\s，。！？吗]{1,12} [。！!]? \Z
        )"""
    ),
    guideline_anywhere=_pattern(
        r"""(?: 从现在(?:开始|起) | 从今以后 | 今后 | 以后 ) [，,]? \s*
            (?: 请 | 都请 | 不要 | 别 | 都要 | 一律 )"""
    ),
    guideline_exceptions=_pattern(
        r"""(?: 以后 | 之后 | 接下来 ) [^。！？]{0,12}
            (?: 我要 | 我会 | 我想 | 我们要 | 怎么 | 再说 )"""
    ),
    preference=_pattern(
        r"""(?<! 问 ) 我 (?: 们 | 自己 | 个人 )?
            (?: 还是 | 一直 | 一向 | 通常 | 平时 | 真的 | 其实 | 也 | 都 )*
            (?: (?: 更 | 比较 | 最 | 很 | 非常 | 特别 | 挺 | 超 )*
                (?: 喜欢 | 偏好 | 偏爱 | 倾向于? | 爱吃 | 爱喝 | 爱看 | 习惯用 )
                (?! 你 | 您 | 这个回答 | 吗 )
              | (?: 不 (?: 太 | 怎么 | 是很 )? (?: 喜欢 | 爱 | 吃 | 喝 | 能吃 | 能喝 )
                | 从来?不 (?: 吃 | 喝 ) )
              | 讨厌 | 受不了 | 宁愿 | 宁可 | 对 [^，。！？]{1,12} 过敏
              | 是 (?: 个 | 一个 | 一名 )? (?: 素食 | 纯素 | 严格素食 ) )
          | 我 (?: 最 | 的 ) (?: 偏好 | 最爱 | 首选 )"""
    ),
    preference_exceptions=_pattern(r"我 [^。！？]* (?: 吗 | 呢 ) [？?]"),
)

TABLES: Final[tuple[PhraseTable, ...]] = (ENGLISH, CHINESE)
"""Every language that is known."""
