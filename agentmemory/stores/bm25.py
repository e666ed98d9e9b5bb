"""BM25 over the fields of a chunk, the same for every store; pure.

Formula: BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009) with k1 1.2
and b 0.75, the frequency of a word being the sum of its occurrences weighted by field, and the
inverse document frequency in Lucene's form, ln(1 + (N - n + 0.5) / (n + 0.5)), never negative.
May import requests and index_fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final

from agentmemory.requests import QueryTerm
from agentmemory.stores.index_fields import FIELD_WEIGHTS

K1: Final = 1.2
B: Final = 0.75

_WEIGHTS: Final[tuple[float, ...]] = astuple(FIELD_WEIGHTS)


@dataclass(frozen=True, slots=True)
class Corpus:
    """What an index holds in all.

    Args:
        chunks: Number of chunks.
        tokens: Number of tokens of all fields of all chunks.
    """

    chunks: int
    tokens: int

    @property
    def average(self) -> float:
        """Mean length of a chunk in tokens; 0.0 without chunks."""
        return self.tokens / self.chunks if self.chunks else 0.0


def inverse_frequency(chunks: int, frequency: int) -> float:
    """Return what a word is worth that `frequency` of all chunks hold.

    Both may have been counted at different moments, so a frequency counts as at most all chunks.
    """
    held = min(frequency, chunks)
    return math.log1p((chunks - held + 0.5) / (held + 0.5))


class Bm25:
    """Scores chunks against one query.

    Args:
        corpus: What the index holds in all.
        frequencies: How many chunks hold each term of the query. A term that no chunk held when
            they were counted counts as one that a single chunk holds, so that it is worth
            something where it stands by now.
    """

    def __init__(self, corpus: Corpus, frequencies: Mapping[QueryTerm, int]) -> None:
        # In this order sums of floats are the same whatever store brought the terms.
        held = sorted(
            (max(frequency, 1), term.text, term.prefix) for term, frequency in frequencies.items()
        )
        self._terms = [
            (text, prefix, inverse_frequency(corpus.chunks, frequency))
            for frequency, text, prefix in held
        ]
        self._average = corpus.average or 1.0

    def score(self, fields: Sequence[str]) -> float:
        """Return the score of one chunk; 0.0 where no word of a weighted field matches.

        Args:
            fields: Its fields in the order of `FIELD_WEIGHTS`; tokens separated by single spaces.
        """
        text = " ".join(fields)
        # Most chunks lack most words, and looking for a substring is fast.
        present = [item for item in self._terms if item[0] in text]
        if not present:
            return 0.0
        split = [
            (weight, field.split(" "))
            for weight, field in zip(_WEIGHTS, fields, strict=True)
            if field
        ]
        length = sum(len(tokens) for _, tokens in split)
        norm = K1 * (1 - B + B * length / self._average)
        score = 0.0
        for word, is_prefix, worth in present:
            frequency = _frequency(word, split, is_prefix=is_prefix)
            if frequency:
                score += worth * frequency * (K1 + 1) / (frequency + norm)
        return score

    def best(self, chunks: Iterable[tuple[int, Sequence[str]]]) -> dict[int, float]:
        """Return the score of the best chunk of each record.

        Args:
            chunks: Pairs of a record's seq and the fields of one of its chunks.
        """
        scores: dict[int, float] = {}
        for seq, fields in chunks:
            scores[seq] = max(scores.get(seq, 0.0), self.score(fields))
        return scores


def _frequency(
    word: str, fields: Sequence[tuple[float, Sequence[str]]], *, is_prefix: bool
) -> float:
    if is_prefix:
        return sum(
            weight * sum(token.startswith(word) for token in tokens) for weight, tokens in fields
        )
    return sum(weight * tokens.count(word) for weight, tokens in fields)
