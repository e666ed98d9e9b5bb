"""Token budgets on a list of sizes; pure, imports nothing."""

from __future__ import annotations

from collections.abc import Sequence


def kept_within(sizes: Sequence[int], *, soft: int | None = None, hard: int | None = None) -> int:
    """Return how many leading results fit the budgets.

    Whole results only, in rank order, never skipping ahead to a smaller one. A budget that is
    None or not positive is off.

    Args:
        sizes: Tokens of each result in rank order.
        soft: The result that reaches or crosses this sum is the last one kept.
        hard: The sum of what is kept never exceeds this.
    """
    total = 0
    for index, size in enumerate(sizes):
        total += size
        if hard is not None and hard > 0 and total > hard:
            return index
        if soft is not None and soft > 0 and total >= soft:
            return index + 1
    return len(sizes)
