"""What an intent is about, as keywords in tiers.

First the words the vocabulary knows, with the names they stand for; then the other words of two
characters and more, split at punctuation, vocabulary and stop words, Chinese included; a language
model, if there is one, only adds what an intent that neither explains may mean. Pure; may import
the vocabulary, the words and the matching of this room.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Final, TypeVar

from agentmemory.checks import check_int, check_text
from agentmemory.ontology.matching import Trie, Unit, joined, units
from agentmemory.ontology.vocabulary import Form, TermKind, Vocabulary
from agentmemory.ontology.words import (
    CHINESE_AFFIXES,
    CHINESE_SEPARATORS,
    CHINESE_STOP_WORDS,
    ENGLISH_INTENT_WORDS,
    ORDINARY_WORDS,
)

T = TypeVar("T")

MAX_KEYWORDS: Final = 20
"""Most keywords of one intent, by default."""

MAX_INTENT_CHARS: Final = 8_000
"""Of a longer intent the first characters are read."""

_TERMS_PER_FORM: Final = 3
"""Most names one word stands for; a word that many terms share says nothing of any of them."""

_MOST_FORMS: Final = 12
"""Most other words for a keyword that memories are searched for."""

_HIRAGANA: Final = re.compile("[\u3041-\u309f]")


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word to look for.

    Args:
        text: The word.
        kind: What it names; None for a word that is not in the vocabulary.
        spoken: Whether the intent says it; if not, it is the name of what the intent says.
        source: "vocabulary", "words" or "model".
        forms: The other words for the same, in any language, that memories may hold instead; of
            what the intent says only.
        is_name: Whether it is a name or a synonym, not just a word of a longer name.
    """

    text: str
    _: KW_ONLY
    kind: TermKind | None = None
    spoken: bool = True
    source: str = "words"
    forms: tuple[str, ...] = ()
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Intent:
    """The keywords of an intent.

    Args:
        text: The intent.
        keywords: At most as many as asked for: what the vocabulary knows (names before values),
            then other words, then what a model added.
        rules: Names of the rules it speaks of.
        said: The words of the intent that are left without stop words, in its order.
    """

    text: str
    keywords: tuple[Keyword, ...]
    rules: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The keywords as text."""
        return tuple(keyword.text for keyword in self.keywords)

    @property
    def from_vocabulary(self) -> tuple[str, ...]:
        """The keywords of the first tier."""
        return tuple(item.text for item in self.keywords if item.source == "vocabulary")

    @property
    def is_ambiguous(self) -> bool:
        """Whether the vocabulary knows none of its words."""
        return not self.from_vocabulary


def read_intent(
    text: str, vocabulary: Vocabulary | None = None, *, max_keywords: int = MAX_KEYWORDS
) -> Intent:
    """Return the keywords of an intent.

    Args:
        text: What somebody wants, in any language.
        vocabulary: The names of the domain; None for none.
        max_keywords: Most keywords, 1 to 100.

    Raises:
        ValidationError: `text` is empty, or `max_keywords` out of range.
    """
    check_text(text, argument="intent")
    check_int(max_keywords, argument="max_keywords", minimum=1, maximum=100)
    reader = _Reader(vocabulary or Vocabulary())
    reader.read(units(text[:MAX_INTENT_CHARS]))
    keywords = _once((*reader.names, *reader.values, *reader.words))
    return Intent(
        text=text,
        keywords=keywords[:max_keywords],
        rules=tuple(dict.fromkeys(reader.rules)),
        said=tuple(dict.fromkeys(reader.said))[:max_keywords],
    )


def with_words(intent: Intent, words: tuple[str, ...], *, max_keywords: int) -> Intent:
    """Return an intent with the keywords a language model added, within the cap."""
    added = tuple(Keyword(word, spoken=False, source="model") for word in words)
    return Intent(
        text=intent.text,
        keywords=_once((*intent.keywords, *added))[:max_keywords],
        rules=intent.rules,
        said=intent.said,
    )


class _Reader:
    """Walks over the units of an intent and sorts what it finds."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._forms = vocabulary.forms
        self._stops = _stop_words()
        self.names: list[Keyword] = []
        self.values: list[Keyword] = []
        self.words: list[Keyword] = []
        self.rules: list[str] = []
        self.said: list[str] = []

    def read(self, text: list[Unit]) -> None:
        place = 0
        rest: list[Unit] = []
        while place < len(text):
            if rest and text[place].after_break:
                rest = self._flush(rest)
            known_end, forms = _longest(self._forms, text, place)
            stop_end, kinds = _longest(self._stops, text, place)
            if known_end > place and known_end >= stop_end:
                rest = self._flush(rest)
                self._known(forms, joined(text[place:known_end]))
                place = known_end
            elif stop_end > place and kinds[0] == "ordinary":
                # One unit, so that nothing falls off its ends.
                word = joined(text[place:stop_end])
                rest.append(replace(text[place], key=word, text=word))
                place = stop_end
            elif stop_end > place:
                rest = self._flush(rest)
                place = stop_end
            else:
                rest.append(text[place])
                place += 1
        self._flush(rest)

    def _known(self, forms: tuple[Form, ...], surface: str) -> None:
        whole = [form for form in forms if not form.partial] or list(forms)
        # Words that share a stem stay apart where the intent spells one of them out.
        spelled = [form for form in whole if form.text.casefold() == surface.casefold()]
        whole = spelled or whole
        said = whole[0].text
        self.said.append(said)
        terms = [form.term for form in whole]
        kinds = {term.kind for term in terms}
        target = self.values if kinds == {TermKind.VALUE} else self.names
        shared = whole[0].partial or len(terms) > _TERMS_PER_FORM
        others = () if shared else tuple(text for term in terms for text in term.forms)
        synonyms = tuple(dict.fromkeys(text for text in others if text != said))[:_MOST_FORMS]
        target.append(
            Keyword(
                said,
                kind=terms[0].kind,
                source="vocabulary",
                forms=synonyms,
                is_name=not whole[0].partial,
            )
        )
        if shared:
            return
        for term in terms:
            if term.kind is TermKind.RULE:
                self.rules.append(term.name)
            if term.name != said:
                target.append(
                    Keyword(
                        term.name, kind=term.kind, spoken=False, source="vocabulary", is_name=True
                    )
                )

    def _flush(self, rest: list[Unit]) -> list[Unit]:
        """Make words of the units between two known ones; return an empty list to go on with."""
        run: list[Unit] = []
        for unit in rest:
            if not unit.unspaced:
                # A digit belongs to the ideographs that follow it, as in 45天.
                if run and (run[-1].unspaced or not unit.text.isdigit()):
                    self._word(run)
                    run = []
                if unit.text.isdigit():
                    run = [unit]
                    continue
                self._word([unit])
                continue
            if run and (unit.after_gap and run[-1].unspaced):
                self._word(run)
                run = []
            if _HIRAGANA.match(unit.text):
                # Particles and endings; what stands before them is the word.
                self._word(run)
                run = []
                continue
            run.append(unit)
        self._word(run)
        return []

    def _word(self, run: list[Unit]) -> None:
        run = _trimmed(run)
        text = joined(run)
        if len(text) < 2 or text.casefold() in ENGLISH_INTENT_WORDS:
            return
        self.said.append(text)
        self.words.append(Keyword(text))


def _trimmed(run: list[Unit]) -> list[Unit]:
    """Take what carries no meaning off the ends of a word, down to two characters."""
    length = sum(len(unit.text) for unit in run)
    while length > 2 and run[-1].text in CHINESE_AFFIXES:
        run, length = run[:-1], length - 1
    while length > 2 and run[0].text in CHINESE_AFFIXES:
        run, length = run[1:], length - 1
    return [] if all(unit.text in CHINESE_AFFIXES for unit in run) else run


def _longest(trie: Trie[T], text: list[Unit], place: int) -> tuple[int, tuple[T, ...]]:
    """Return where the longest word that starts at a place ends, and what it stands for."""
    found: tuple[int, tuple[T, ...]] = (place, ())
    for found in trie.at(text, place):  # noqa: B007 - the last one is the longest
        pass
    return found


@cache
def _stop_words() -> Trie[str]:
    trie: Trie[str] = Trie()
    for word in ORDINARY_WORDS:
        trie.add(word, "ordinary")
    for word in (*CHINESE_STOP_WORDS, *CHINESE_SEPARATORS):
        if word not in ORDINARY_WORDS:
            trie.add(word, "stop")
    return trie


def _once(keywords: tuple[Keyword, ...]) -> tuple[Keyword, ...]:
    first: dict[str, Keyword] = {}
    for keyword in keywords:
        first.setdefault(keyword.text.casefold(), keyword)
    return tuple(first.values())
