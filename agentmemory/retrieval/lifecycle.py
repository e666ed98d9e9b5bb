"""A record and what replaced it: which stands first, and what was known when.

Pure; may import records.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from agentmemory.records import RecordStatus, ScopedRecord

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def as_known(record: ScopedRecord, known_at: datetime | None) -> ScopedRecord:
    """Show a record as it stood at a time: valid, if it was made invalid only later.

    Args:
        record: As it is stored.
        known_at: The time; None for now.
    """
    if known_at is None or record.invalidated_at is None or record.invalidated_at <= known_at:
        return record
    return replace(
        record,
        status=RecordStatus.VALID,
        invalidation_reason=None,
        invalidated_at=None,
        replaced_by=None,
    )


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
