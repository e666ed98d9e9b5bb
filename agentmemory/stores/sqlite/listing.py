"""Pages of records and threads on a SQLite store; may import requests, cursors, rows and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentmemory.checks import check_int
from agentmemory.records import ScopedRecord, ThreadRecord
from agentmemory.requests import MAX_LIST_LIMIT, ListQuery, Page, ThreadQuery
from agentmemory.stores.cursors import read_cursor, write_cursor
from agentmemory.stores.sqlite.query import fetch_all
from agentmemory.stores.sqlite.rows import (
    THREAD_SELECT,
    record_from_row,
    record_select,
    thread_from_row,
)
from agentmemory.stores.sqlite.where import Where, add_id, add_metadata, record_where

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables


def page_of_records(connection: apsw.Connection, t: Tables, query: ListQuery) -> Page[ScopedRecord]:
    """Return one page of records."""
    limit = check_int(query.limit, argument="limit", minimum=1, maximum=MAX_LIST_LIMIT)
    where = record_where(query.filter)
    by_event = query.order == "event"
    direction = "DESC" if query.descending else "ASC"
    sign = "<" if query.descending else ">"
    kind = f"{query.order}:{direction}"
    if query.after is not None:
        time, seq = read_cursor(query.after, kind)
        if by_event:
            where.add(f"(r.effective_time, r.seq) {sign} (?, ?)", time, seq)
        else:
            where.add(f"r.seq {sign} ?", seq)
    order = f"r.effective_time {direction}, r.seq {direction}" if by_event else f"r.seq {direction}"
    if query.filter.layers is not None:
        # Unary plus: few memories have a layer, and the order of rows must not make the planner
        # walk through all the others instead of sorting these.
        order = f"+{order}"
    rows = fetch_all(
        connection,
        f"SELECT {record_select(t)}, r.effective_time FROM {t.record} r WHERE {where.sql} "
        f"ORDER BY {order} LIMIT ?",
        (*where.binds, limit + 1),
    )
    more = len(rows) > limit
    rows = rows[:limit]
    cursor = write_cursor(kind, rows[-1][-1], rows[-1][0]) if more else None
    return Page(items=tuple(record_from_row(row[:-1]) for row in rows), next_cursor=cursor)


def page_of_threads(
    connection: apsw.Connection, t: Tables, query: ThreadQuery
) -> Page[ThreadRecord]:
    """Return one page of threads in the order of creation."""
    limit = check_int(query.limit, argument="limit", minimum=1, maximum=MAX_LIST_LIMIT)
    where = Where()
    add_id(where, "user_id", query.user_id)
    add_id(where, "agent_id", query.agent_id)
    add_metadata(where, "metadata", query.metadata)
    direction = "DESC" if query.descending else "ASC"
    kind = f"thread:{direction}"
    if query.after is not None:
        _, seq = read_cursor(query.after, kind)
        where.add(f"seq {'<' if query.descending else '>'} ?", seq)
    rows = fetch_all(
        connection,
        f"SELECT {THREAD_SELECT}, seq FROM {t.thread} WHERE {where.sql} "
        f"ORDER BY seq {direction} LIMIT ?",
        (*where.binds, limit + 1),
    )
    more = len(rows) > limit
    rows = rows[:limit]
    cursor = write_cursor(kind, 0, rows[-1][-1]) if more else None
    return Page(items=tuple(thread_from_row(row[:-1]) for row in rows), next_cursor=cursor)
