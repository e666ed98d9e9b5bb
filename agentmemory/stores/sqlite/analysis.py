"""Has texts analysed before they are written: short ones at once, long ones in a thread.

May import indexing, records and requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from anyio import to_thread

from agentmemory.records import ScopedRecord
from agentmemory.requests import RecordChanges
from agentmemory.scope import NOT_SET_MARKER
from agentmemory.stores.sqlite.indexing import IndexChange, Row, draft_change, draft_rows

T = TypeVar("T")

_LONG_CHARS: Final = 4000
"""Up to so many characters the loop may stand still; more take longer than a millisecond."""


async def analysed_records(records: Sequence[ScopedRecord]) -> list[list[Row]]:
    """Return the index rows of new records."""
    size = sum(len(record.content) for record in records)
    return await _analysed(partial(draft_rows, records), size)


async def analysed_changes(changes: RecordChanges) -> IndexChange:
    """Return what changes of a record do to its index rows."""
    size = 0 if changes.content is NOT_SET_MARKER else len(changes.content)
    return await _analysed(partial(draft_change, changes), size)


async def _analysed(work: Callable[[], T], size: int) -> T:
    if size <= _LONG_CHARS:
        return work()
    return await to_thread.run_sync(work, abandon_on_cancel=True)
