"""Fictional text of any amount: seeded, with the word statistics of real text.

Words follow Zipf's law (frequency falls as 1 / (rank + 2.7), Mandelbrot's form). The head of the
vocabulary are English function words and everyday nouns; the tail are invented words, so that a
large corpus has as many rare words as a real one.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator
from typing import Final

from agentmemory.records import RecordType

TYPES: Final[tuple[RecordType, ...]] = ("message", "memory", "fact", "guideline", "preference")

_FUNCTION_WORDS_TEXT: Final = """
the and to of a in is that for it with as was on be by have not this are or from at which
but an they you were her she we all there would their will when who him about what so some
"""

_COMMON_WORDS_TEXT: Final = """
time garden kitchen market train letter winter summer morning evening dinner coffee bread
cheese fish soup window bridge river mountain harbour village station office meeting project
budget ticket hotel doctor dentist school teacher exam piano violin concert museum painting
camera bicycle engine battery laptop screen password server backup report invoice contract
deadline weekend holiday birthday wedding sister brother neighbour friend cousin uncle dog
cat horse parrot tomato lemon olive pepper cinnamon blanket jacket shoes umbrella suitcase
map island lighthouse forest trail tent campfire canoe chess novel poem recipe oven vegan
allergy medicine running swimming climbing yoga guitar choir theatre film festival rent flat
sofa lamp carpet paint hammer ladder seed harvest orchard honey weather storm snow rain sun
"""

_SYLLABLES_TEXT: Final = """
ba be bi bo bra ca ce co cri da de di do dra fa fe fi flo ga ge gi gra ha he hi ho ja jo ka
ke ki kla la le li lo lu ma me mi mo mu na ne ni no nu pa pe pi po pra ra re ri ro ru sa se
si so sta su ta te ti to tra tu va ve vi vo wa we wi za ze zo
"""

_FUNCTION_WORDS: Final = tuple(_FUNCTION_WORDS_TEXT.split())
_COMMON_WORDS: Final = tuple(_COMMON_WORDS_TEXT.split())
_SYLLABLES: Final = tuple(_SYLLABLES_TEXT.split())

_VOCABULARY_SIZE: Final = 20_000


class Corpus:
    """An endless supply of sentences and of questions about them.

    Args:
        seed: The same seed gives the same text.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        words = [*_FUNCTION_WORDS, *self._random.sample(_COMMON_WORDS, len(_COMMON_WORDS))]
        known = set(words)
        while len(words) < _VOCABULARY_SIZE:
            word = "".join(self._random.choices(_SYLLABLES, k=self._random.choice((2, 3, 3, 4))))
            if word not in known:
                known.add(word)
                words.append(word)
        self._words = words
        weights = (1.0 / (rank + 2.7) for rank in range(1, len(words) + 1))
        self._cumulative = list(itertools.accumulate(weights))

    def sentence(self) -> str:
        """Return a sentence of 8 to 40 words."""
        count = self._random.randint(8, 40)
        words = [self._word() for _ in range(count)]
        return f"{' '.join(words).capitalize()}."

    def records(self) -> Iterator[tuple[RecordType, str]]:
        """Yield records forever, the five types in turn."""
        for record_type in itertools.cycle(TYPES):
            yield record_type, self.sentence()

    def question(self, text: str) -> str:
        """Return a question with three to six of a text's words."""
        words = text.rstrip(".").lower().split()
        rare = [word for word in words if word not in _FUNCTION_WORDS] or words
        chosen = self._random.sample(rare, min(len(rare), self._random.randint(3, 6)))
        return f"What was it about the {' '.join(chosen)}?"

    def choose(self, texts: list[str], count: int) -> list[str]:
        """Return some of the texts, drawn with replacement."""
        return self._random.choices(texts, k=count)

    def _word(self) -> str:
        point = self._random.random() * self._cumulative[-1]
        return self._words[bisect.bisect_left(self._cumulative, point)]
