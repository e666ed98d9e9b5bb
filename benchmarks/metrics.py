"""Retrieval metrics over ranked ids with binary relevance, and how sure they are.

Pure: imports numpy only. Definitions follow Järvelin and Kekäläinen (2002) for nDCG and Efron
(1979) for the bootstrap; recall, hit and reciprocal rank are the usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

METRICS: Final = (
    "recall_at_5",
    "recall_at_10",
    "recall_at_20",
    "recall_all_at_10",
    "hit_at_10",
    "mrr_at_10",
    "ndcg_at_10",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One question's ranking, judged: each metric's value.

    Args:
        category: The question's category.
        conversation: Where it was asked.
        values: By the names of `METRICS`.
    """

    category: str
    conversation: str
    values: Mapping[str, float]


def recall_at(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant ids among the first `k`."""
    _check(ranked, relevant, k)
    return len(set(ranked[:k]) & set(relevant)) / len(set(relevant))


def recall_all_at(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1.0 if all relevant ids are among the first `k`, else 0.0."""
    return float(recall_at(ranked, relevant, k) == 1.0)


def hit_at(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1.0 if any relevant id is among the first `k`, else 0.0."""
    return float(recall_at(ranked, relevant, k) > 0.0)


def reciprocal_rank_at(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1 / rank of the first relevant id among the first `k`, else 0.0."""
    _check(ranked, relevant, k)
    wanted = set(relevant)
    return next(
        (1.0 / rank for rank, name in enumerate(ranked[:k], start=1) if name in wanted), 0.0
    )


def ndcg_at(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the discounted gain of the first `k`, as a share of the best possible.

    A relevant id at rank r gains `1 / log2(r + 1)`; the best ranking has all of them in front.
    """
    _check(ranked, relevant, k)
    wanted = set(relevant)
    gain = sum(
        1.0 / math.log2(rank + 1) for rank, name in enumerate(ranked[:k], start=1) if name in wanted
    )
    best = sum(1.0 / math.log2(rank + 1) for rank in range(1, min(k, len(wanted)) + 1))
    return gain / best


def judge(
    ranked: Sequence[str], relevant: Collection[str], *, category: str, conversation: str
) -> Judged:
    """Compute all `METRICS` for one question.

    Args:
        ranked: Ids as retrieved, best first; at least 20 if there are as many.
        relevant: Ids marked as evidence; at least one.
        category: The question's category.
        conversation: Where it was asked.
    """
    return Judged(
        category=category,
        conversation=conversation,
        values={
            "recall_at_5": recall_at(ranked, relevant, 5),
            "recall_at_10": recall_at(ranked, relevant, 10),
            "recall_at_20": recall_at(ranked, relevant, 20),
            "recall_all_at_10": recall_all_at(ranked, relevant, 10),
            "hit_at_10": hit_at(ranked, relevant, 10),
            "mrr_at_10": reciprocal_rank_at(ranked, relevant, 10),
            "ndcg_at_10": ndcg_at(ranked, relevant, 10),
        },
    )


def mean_values(judged: Iterable[Judged]) -> dict[str, float]:
    """Return the mean of each metric; every question counts the same.

    Raises:
        ValueError: There is no question.
    """
    rows = list(judged)
    if not rows:
        raise ValueError("no questions were judged")
    return {name: math.fsum(row.values[name] for row in rows) / len(rows) for name in METRICS}


def by_category(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Group by category, in the order of the first question of each."""
    groups: dict[str, list[Judged]] = {}
    for row in judged:
        groups.setdefault(row.category, []).append(row)
    return groups


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a mean: (low, high).

    Args:
        values: One per question.
        level: How much of the resampled means lies within, between 0 and 1.
        resamples: How often the questions are drawn anew, with replacement.
        seed: Makes the interval repeatable.

    Raises:
        ValueError: There are no values, or `level` is not between 0 and 1.
    """
    if not values:
        raise ValueError("no values to resample")
    if not 0.0 < level < 1.0:
        raise ValueError(f"`level` must be between 0 and 1, not {level!r}")
    sample = np.asarray(values, dtype=np.float64)
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    for index in range(resamples):
        means[index] = sample[generator.integers(0, len(sample), len(sample))].mean()
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return float(low), float(high)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie, interpolated linearly.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("no values to take a percentile of")
    return float(np.quantile(np.asarray(values, dtype=np.float64), share))


def _check(ranked: Sequence[str], relevant: Collection[str], k: int) -> None:
    if k < 1:
        raise ValueError(f"`k` must be at least 1, not {k!r}")
    if not relevant:
        raise ValueError("`relevant` is empty: a question without evidence cannot be judged")
    if len(set(ranked)) != len(ranked):
        raise ValueError("`ranked` holds an id twice")
