"""The English words that carry no meaning of their own in a search query.

Imports nothing. The list leaves queries only: everything is indexed, so that a query made of
nothing else ("the who") still finds its text. Measured on LoCoMo, removal raises recall@10 of
keyword search by about 0.05.
"""

from __future__ import annotations

from typing import Final

_WORDS = """
a an the this that these those i me my mine we us our ours you your yours he him his she her
hers it its they them their theirs am is are was were be been being do does did doing done
have has had having can could will would shall should may might must and or but nor not no
so if than then too very also just only of in on at to for from by with about as into over
after before between during through out up down off again what which who whom whose when
where why how there here any some such each both all more most other own same didn't don't
doesn't isn't aren't wasn't weren't won't wouldn't can't couldn't s t ll re ve
"""

ENGLISH_STOP_WORDS: Final[frozenset[str]] = frozenset(_WORDS.replace("'", "").split())
"""About 130 words as the analyzer sees them: lower case, "don't" without its apostrophe."""
