"""What stands in a card whatever is asked: CRITICAL in full, then guidelines and other layers.

May import requests, records, scope and protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from agentmemory.protocols import MemoryStore, TokenCounter
from agentmemory.records import MEMORY_TYPES, Layer, ScopedRecord
from agentmemory.requests import MAX_LIST_LIMIT, ListQuery, RecordFilter
from agentmemory.scope import ScopeFilter

ALWAYS: Final = (Layer.CRITICAL,)
"""The layers that stand in every card."""

MAX_ALWAYS_ON: Final = 50
"""Most records besides CRITICAL that are shown whatever is asked, the oldest first."""


async def standing_records(
    store: MemoryStore,
    scope: ScopeFilter,
    *,
    now: datetime,
    layers: Sequence[Layer],
    with_guidelines: bool,
    token_budget: int | None,
    counter: TokenCounter,
) -> list[ScopedRecord]:
    """Return all of CRITICAL, then the rest as it fits.

    Both in the order in which they were written, so that what is added changes nothing before it.

    Args:
        store: Where they are.
        scope: Whose they are.
        now: Only what holds at this time.
        layers: Which layers; CRITICAL is in any case.
        with_guidelines: Whether every valid guideline belongs to them.
        token_budget: What all may cost together; CRITICAL is never cut. None: no limit.
        counter: Measures them.
    """
    standing = RecordFilter(
        scope=scope,
        now=now,
        record_types=MEMORY_TYPES,
        include_invalid=False,
        valid_at=now,
        layers=ALWAYS,
    )
    critical: list[ScopedRecord] = []
    after: str | None = None
    while True:
        page = await store.list_records(
            ListQuery(filter=standing, limit=MAX_LIST_LIMIT, after=after)
        )
        critical.extend(page.items)
        after = page.next_cursor
        if after is None:
            break
    wanted = []
    others = tuple(layer for layer in layers if layer not in ALWAYS)
    if others:
        wanted.append(replace(standing, layers=others))
    if with_guidelines:
        wanted.append(replace(standing, layers=None, record_types=("guideline",)))
    found: dict[str, ScopedRecord] = {}
    for record_filter in wanted:
        # CRITICAL guidelines are among these, and must not take the place of others.
        limit = min(MAX_LIST_LIMIT, MAX_ALWAYS_ON + len(critical))
        page = await store.list_records(ListQuery(filter=record_filter, limit=limit))
        found.update((record.id, record) for record in page.items)
    rest = [record for record in found.values() if record.layer not in ALWAYS]
    rest = sorted(rest, key=lambda record: record.seq)[:MAX_ALWAYS_ON]
    if token_budget is not None:
        left = token_budget - _cost(critical, counter)
        while rest and _cost(rest, counter) > left:
            rest.pop()
    return [*critical, *rest]


def _cost(records: Iterable[ScopedRecord], counter: TokenCounter) -> int:
    return sum(counter.count(record.content) for record in records)
