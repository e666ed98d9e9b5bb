"""Pages of records and threads on an Oracle store; may import requests, cursors, rows and where."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from agentmemory.checks import check_int
from agentmemory.records import ThreadRecord
from agentmemory.requests import MAX_LIST_LIMIT, ListQuery, Page, ThreadQuery
from agentmemory.stores.cursors import read_cursor, write_cursor
from agentmemory.stores.oracle.records import select_records
from agentmemory.stores.oracle.rows import THREAD_SELECT, thread_from_row
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind
from agentmemory.stores.oracle.trips import Rows
from agentmemory.stores.oracle.where import Where, add_id, add_metadata, record_where

PLAN_NOTES: Final[Mapping[str, str]] = {
    "listing.records": "record_owner (user_id, record_type, seq), read in its order and left when "
    "the page is full: one type of one user needs no sort; record_thread for a thread, "
    "record_event (user_id, effective_time, seq) for the order of events",
    "listing.threads": "thread_owner (user_id, agent_id, seq); primary key of thread without a "
    "scope",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def records_page(t: Tables, query: ListQuery, limit: int) -> Statement:
    """Read one page of records, and one more to tell whether another page follows.

    Plan: an index that holds the scope and ends in the order of the page.
    """
    where = record_where(query.filter)
    direction, sign = _direction(descending=query.descending)
    by_event = query.order == "event"
    if query.after is not None:
        micros, seq = read_cursor(query.after, _records_kind(query))
        after_seq = where.bind("after_seq", seq)
        if by_event:
            at = where.bind("after_time", _EPOCH + micros * _MICROSECOND)
            where.add(
                f"(r.effective_time {sign} {at} "
                f"OR (r.effective_time = {at} AND r.seq {sign} {after_seq}))"
            )
        else:
            where.add(f"r.seq {sign} {after_seq}")
    order = f"r.effective_time {direction}, r.seq {direction}" if by_event else f"r.seq {direction}"
    return select_records(
        t,
        "listing.records",
        f"SELECT r.seq FROM {t.record} r WHERE {where.sql} ORDER BY {order} "
        f"FETCH FIRST {where.bind('rows', limit + 1)} ROWS ONLY",
        where.binds,
        extra=("r.effective_time",),
        order=order,
        short=True,
    )


def cursor_of_records(rows: Rows, query: ListQuery, limit: int) -> str | None:
    """Return the cursor behind the page of some rows of `records_page`; None on the last page."""
    if len(rows) <= limit:
        return None
    last = rows[limit - 1]
    return write_cursor(_records_kind(query), (last[-1] - _EPOCH) // _MICROSECOND, last[0])


def threads_page(t: Tables, query: ThreadQuery, limit: int) -> Statement:
    """Read one page of threads in the order of creation, and one more.

    Plan: the index of the owner, whose last column is the order.
    """
    where = Where()
    add_id(where, "h.user_id", "user", query.user_id)
    add_id(where, "h.agent_id", "agent", query.agent_id)
    add_metadata(where, "h.metadata_terms", query.metadata)
    direction, sign = _direction(descending=query.descending)
    if query.after is not None:
        _, seq = read_cursor(query.after, f"thread:{direction}")
        where.add(f"h.seq {sign} {where.bind('after_seq', seq)}")
    columns = ", ".join(f"h.{name}" for name in THREAD_SELECT.split(", "))
    return Statement(
        name="listing.threads",
        text=f"SELECT {columns}, h.seq FROM {t.thread} h WHERE {where.sql} "
        f"ORDER BY h.seq {direction} FETCH FIRST {where.bind('rows', limit + 1)} ROWS ONLY",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def page_of_threads(rows: Rows, query: ThreadQuery, limit: int) -> Page[ThreadRecord]:
    """Return the page that the rows of `threads_page` make."""
    shown = rows[:limit]
    direction, _ = _direction(descending=query.descending)
    cursor = write_cursor(f"thread:{direction}", 0, shown[-1][-1]) if len(rows) > limit else None
    return Page(items=tuple(thread_from_row(row[:-1]) for row in shown), next_cursor=cursor)


def check_limit(limit: object) -> int:
    """Accept the number of items of a page.

    Raises:
        ValidationError: It is no whole number from 1 to `MAX_LIST_LIMIT`.
    """
    return check_int(limit, argument="limit", minimum=1, maximum=MAX_LIST_LIMIT)


def _records_kind(query: ListQuery) -> str:
    return f"{query.order}:{_direction(descending=query.descending)[0]}"


def _direction(*, descending: bool) -> tuple[str, str]:
    """Return the direction of the order, and the sign of what follows in it."""
    return ("DESC", "<") if descending else ("ASC", ">")
