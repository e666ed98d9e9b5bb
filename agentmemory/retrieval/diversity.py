"""Results that do not all say the same; pure. May import requests; numpy when first used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from agentmemory.requests import FloatVector


def maximal_marginal_relevance(
    relevance: Sequence[float],
    vectors: Sequence[FloatVector | None],
    *,
    balance: float,
    count: int,
) -> list[int]:
    """Choose places greedily by `balance * relevance - (1 - balance) * similarity`.

    Relevance is scaled from the pool's worst to its best; similarity is the largest cosine to
    what was chosen before, 0 where a vector is missing. Ties go to the smaller place. Formula:
    Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents
    and Producing Summaries" (1998).

    Args:
        relevance: Scores in rank order.
        vectors: Unit vectors in the same order; None where there is none.
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
    similarity = _similarities(vectors)
    left = list(range(len(scaled)))
    nearest = [0.0] * len(scaled)
    chosen: list[int] = []
    while left and len(chosen) < count:
        best = max(
            left,
            key=lambda place: (
                balance * scaled[place] - (1 - balance) * nearest[place],
                -place,
            ),
        )
        left.remove(best)
        chosen.append(best)
        for place in left:
            near = float(similarity[best, place])
            nearest[place] = near if len(chosen) == 1 else max(nearest[place], near)
    return chosen


def near_duplicates(
    texts: Sequence[str], vectors: Sequence[FloatVector | None], *, threshold: float
) -> Mapping[int, list[int]]:
    """Group results that say the same: each kept place with the places it stands for.

    Two results are the same if their texts are equal but for white space and case, or if their
    cosine reaches the threshold. Places are in rank order, so the best of a group is kept.

    Args:
        texts: Contents in rank order.
        vectors: Unit vectors in the same order; None where there is none.
        threshold: Cosine from which two results are the same.
    """
    similarity = _similarities(vectors)
    plain = [" ".join(text.casefold().split()) for text in texts]
    groups: dict[int, list[int]] = {}
    for place in range(len(texts)):
        for kept, others in groups.items():
            if plain[kept] == plain[place] or similarity[kept, place] >= threshold:
                others.append(place)
                break
        else:
            groups[place] = []
    return groups


def _similarities(vectors: Sequence[FloatVector | None]) -> npt.NDArray[np.float32]:
    import numpy as np

    dimension = next((vector.shape[0] for vector in vectors if vector is not None), 1)
    matrix = np.zeros((len(vectors), dimension), dtype=np.float32)
    for place, vector in enumerate(vectors):
        if vector is not None:
            matrix[place] = vector
    # Not BLAS: its threads wait for one another on a busy machine.
    product: npt.NDArray[np.float32] = np.einsum("ik,jk->ij", matrix, matrix)
    return product
