"""Results that do not all say the same; pure. May import requests; numpy when first used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from agentmemory.requests import FloatVector


_LEAST_STRIP: Final = 16
"""How many results are compared with the others at a time, at least."""


def maximal_marginal_relevance(
    relevance: Sequence[float],
    similarity: npt.NDArray[np.float32],
    *,
    balance: float,
    count: int,
) -> list[int]:
    """Choose places greedily by `balance * relevance - (1 - balance) * similarity`.

    Relevance is scaled from the pool's worst to its best; similarity is the largest cosine to
    what was chosen before. Ties go to the smaller place. Formula:
    Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents
    and Producing Summaries" (1998).

    Args:
        relevance: Scores in rank order.
        similarity: Cosines between all of them, in the same order.
        balance: 1.0: relevance only; 0.0: difference only.
        count: How many to choose.

    Returns:
        The chosen places, in the order chosen.
    """
    if not relevance:
        return []
    low, high = min(relevance), max(relevance)
    spread = high - low
    scaled = [(value - low) / spread if spread > 0 else 1.0 for value in relevance]
    import numpy as np

    worth = balance * np.array(scaled)
    likeness = (1 - balance) * similarity.astype(np.float64)
    penalty = np.zeros(len(scaled))
    chosen: list[int] = []
    while len(chosen) < min(count, len(scaled)):
        best = int(np.argmax(worth - penalty))
        penalty = np.maximum(penalty, likeness[best]) if chosen else likeness[best]
        worth[best] = -np.inf
        chosen.append(best)
    return chosen


def near_duplicates(
    texts: Sequence[str], similarity: npt.NDArray[np.float32], *, threshold: float
) -> Mapping[int, list[int]]:
    """Group results that say the same: each kept place with the places it stands for.

    Two results are the same if their texts are equal but for white space and case, or if their
    cosine reaches the threshold. Places are in rank order, so the best of a group is kept.

    Args:
        texts: Contents in rank order.
        similarity: Cosines between all of them, in the same order.
        threshold: Cosine from which two results are the same.
    """
    import numpy as np

    near: dict[int, list[int]] = {}
    for earlier, later in np.argwhere(similarity >= threshold).tolist():
        if earlier < later:
            near.setdefault(later, []).append(earlier)
    groups: dict[int, list[int]] = {}
    for place, twin in enumerate(_first_equal(texts)):
        leader = twin
        if place in near:
            leader = min([twin, *(other for other in near[place] if other in groups)])
        if leader == place:
            groups[place] = []
        else:
            groups[leader].append(place)
    return groups


def _first_equal(texts: Sequence[str]) -> list[int]:
    """Return for each text the place of the first that is equal but for white space and case."""
    # Few texts begin alike; only those are worth the comparison as a whole.
    openings = [" ".join(text.split(None, 2)[:2]).casefold() for text in texts]
    shared = Counter(openings)
    by_text: dict[str, int] = {}
    return [
        place
        if shared[opening] == 1
        else by_text.setdefault(" ".join(text.casefold().split()), place)
        for place, (text, opening) in enumerate(zip(texts, openings, strict=True))
    ]


def similarities(vectors: Sequence[FloatVector | None]) -> npt.NDArray[np.float32]:
    """Return the cosines between unit vectors; 0 where a vector is missing."""
    import numpy as np

    dimension = next((vector.shape[0] for vector in vectors if vector is not None), 1)
    matrix = np.zeros((len(vectors), dimension), dtype=np.float32)
    for place, vector in enumerate(vectors):
        if vector is not None:
            matrix[place] = vector
    product = np.zeros((len(vectors), len(vectors)), dtype=np.float32)
    # In strips, each from its own place on: what is like another is as like the other way round.
    strip = max(_LEAST_STRIP, len(vectors) // 8)
    for start in range(0, len(vectors), strip):
        # Not BLAS: its threads wait for one another on a busy machine.
        product[start : start + strip, start:] = np.einsum(
            "ik,jk->ij", matrix[start : start + strip], matrix[start:]
        )
    upper: npt.NDArray[np.float32] = np.triu(product)
    return upper + np.triu(product, 1).T
