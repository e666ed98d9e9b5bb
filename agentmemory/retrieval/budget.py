"""Token budgets on a list of sizes; pure, imports nothing."""

from __future__ import annotations

from collections.abc import Iterable


def select_within_budget(
    sizes: Iterable[int],
    *,
    token_budget: int | None = None,
    soft_token_budget: int | None = None,
) -> list[int]:
    """Return the leading sizes that fit the budgets.

    Whole results only, in rank order, never skipping ahead to a smaller one. A budget that is
    None or not positive is off.

    Args:
        sizes: Tokens of each result in rank order.
        token_budget: The sum of what is kept never exceeds this.
        soft_token_budget: The result that reaches or crosses this sum is the last one kept.
    """
    hard = token_budget if token_budget is not None and token_budget > 0 else None
    soft = soft_token_budget if soft_token_budget is not None and soft_token_budget > 0 else None
    kept: list[int] = []
    total = 0
    for size in sizes:
        total += size
        if hard is not None and total > hard:
            break
        kept.append(size)
        if soft is not None and total >= soft:
            break
    return kept
