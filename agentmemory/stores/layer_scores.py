"""How well memories of a layer hold keywords, and when one leaves; the same for every store. Pure.

May import layering, records, requests, bm25 and text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final

from agentmemory.layering import EvictionPolicy, LayerWord
from agentmemory.records import Tier
from agentmemory.requests import QueryTerm
from agentmemory.stores.bm25 import inverse_frequency
from agentmemory.text.analyzer import analyze

CONTENT_SHARE: Final = 0.8
"""What a keyword is worth that stands in the content but not in the tags."""

PART_SHARE: Final = 0.9
"""What a keyword is worth that is part of a tag, as in CREATE_ORDER."""

STRANGE_TAGS: Final = 0.2
"""What a memory loses whose tags are all of other things than the keywords."""

RESTORED_FROM: Final = 0.3
"""With less confidence a memory stays put away even if it is raised; as eviction's default."""

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class WeighedWord:
    """A keyword that occurs: what to look for between spaces for each form, and its worth."""

    text: str
    needles: tuple[tuple[str, ...], ...]
    whole: frozenset[str]
    worth: float

    def is_in(self, text: str) -> bool:
        """Tell whether tokens, with a space on either side of each, hold all of one form."""
        return any(all(needle in text for needle in needles) for needles in self.needles)


@dataclass(frozen=True, slots=True)
class LayerChunk:
    """A chunk of a memory, as far as scoring reads it.

    Args:
        seq: The memory.
        hits: How often it was a hit.
        confidence: Its confidence.
        tags: Its tags.
        content: The tokens of the chunk's content, separated by single spaces.
    """

    seq: int
    hits: int
    confidence: float
    tags: tuple[str, ...]
    content: str


@dataclass(frozen=True, slots=True)
class Scored:
    """A memory that holds keywords: how well, and which, in the order of the query."""

    seq: int
    match: float
    words: tuple[str, ...]


def terms_of(words: Iterable[LayerWord]) -> list[QueryTerm]:
    """Return every term of every form, none of them twice."""
    return list(dict.fromkeys(term for word in words for form in word.forms for term in form))


def weigh_words(
    words: Iterable[LayerWord], chunks: int, frequencies: Mapping[QueryTerm, int]
) -> list[WeighedWord]:
    """Return the keywords that occur; one is as rare as all of its forms together.

    Args:
        words: The keywords.
        chunks: How many chunks there are.
        frequencies: How many of them hold each term.
    """
    found = []
    for word in words:
        forms = [
            form for form in word.forms if form and all(frequencies.get(term) for term in form)
        ]
        if forms:
            held = min(chunks, sum(min(frequencies[term] for term in form) for form in forms))
            found.append(
                WeighedWord(
                    word.text,
                    tuple(tuple(map(_needle, form)) for form in forms),
                    word.whole,
                    word.weight * inverse_frequency(chunks, held),
                )
            )
    return found


def best(rows: Iterable[LayerChunk], words: Sequence[WeighedWord], pool: int) -> list[Scored]:
    """Score memories by the keywords that stand in their tags and content; the best first.

    Args:
        rows: Chunks of memories of one layer.
        words: The keywords that occur.
        pool: How many are wanted at most.
    """
    whole = sum(word.worth for word in words) or 1.0
    held: dict[int, dict[str, float]] = {}
    match: dict[int, float] = {}
    use: dict[int, float] = {}
    # Many memories carry the same tags.
    read: dict[tuple[str, ...], tuple[list[float], float]] = {}
    for row in rows:
        if row.tags not in read:
            read[row.tags] = _in_tags(row.tags, words)
        shares, spoken_of = read[row.tags]
        text = f" {row.content} "
        scores = held.setdefault(row.seq, {})
        for word, in_tags in zip(words, shares, strict=True):
            share = in_tags or (CONTENT_SHARE if word.is_in(text) else 0.0)
            if share:
                scores[word.text] = max(scores.get(word.text, 0.0), word.worth * share)
        use[row.seq] = (row.hits + 1) * row.confidence
        covered = sum(scores.values()) / whole
        match[row.seq] = min(1.0, covered * (1 - STRANGE_TAGS + STRANGE_TAGS * spoken_of))
    holding = [seq for seq, scores in held.items() if scores]
    holding.sort(key=lambda seq: (-round(match[seq], 9), -use[seq], -seq))
    return [
        Scored(seq, match[seq], tuple(word.text for word in words if word.text in held[seq]))
        for seq in holding[:pool]
    ]


def eviction_reason(
    target: Tier,
    policy: EvictionPolicy,
    *,
    confidence: float,
    review_reason: str | None,
    idle: timedelta,
) -> str:
    """Say in words why a memory moves to a tier."""
    if target is Tier.DEPRECATED:
        if confidence < policy.deprecate_below:
            return f"confidence {confidence:g} is below {policy.deprecate_below:g}"
        return str(review_reason)
    return f"idle for {idle // _DAY} days"


def _needle(term: QueryTerm) -> str:
    return f" {term.text}" if term.prefix else f" {term.text} "


def _in_tags(tags: tuple[str, ...], words: Sequence[WeighedWord]) -> tuple[list[float], float]:
    """Return how far tags hold each keyword, and how much of them the keywords speak of."""
    if not tags:
        return [0.0] * len(words), 0.0
    analysed = _analysed(tags)
    about = [0.0] * len(analysed)
    shares = []
    for word in words:
        share = 0.0
        for place, (whole_tag, text) in enumerate(analysed):
            if whole_tag in word.whole:
                share, about[place] = 1.0, 1.0
            elif word.is_in(text):
                share, about[place] = max(share, PART_SHARE), max(about[place], 0.5)
        shares.append(share)
    return shares, sum(about) / len(analysed)


@lru_cache(maxsize=16_384)
def _analysed(tags: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return tags as the analyzer reads them: each as it is, and to look in."""
    tokens = [" ".join(analyze(tag)) for tag in tags]
    return tuple((item, f" {item} ") for item in tokens)
