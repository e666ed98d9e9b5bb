"""Order between a record and what replaced it; pure, imports nothing of the package."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def replacements_first(
    items: Sequence[T], *, key: Callable[[T], K], replaced_by: Callable[[T], K | None]
) -> list[T]:
    """Move what replaced an item in front of it; otherwise keep the order.

    A query that matches an outdated record well is a query for what replaced it, so the
    replacement takes the place of the better of the two. In a cycle of replacements nothing
    moves.

    Args:
        items: In rank order.
        key: Names an item.
        replaced_by: Names what replaced an item; None if nothing did.
    """
    by_key = {key(item): item for item in items}
    placed: set[K] = set()
    result: list[T] = []
    for item in items:
        chain: list[T] = []
        current: T | None = item
        on_the_way: set[K] = set()
        while current is not None:
            name = key(current)
            if name in placed or name in on_the_way:
                break
            on_the_way.add(name)
            chain.append(current)
            after = replaced_by(current)
            current = None if after is None else by_key.get(after)
        for link in reversed(chain):
            placed.add(key(link))
            result.append(link)
    return result
