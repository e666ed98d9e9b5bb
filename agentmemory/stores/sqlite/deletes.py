"""Deletes on a SQLite store, with everything that was derived from what goes.

What is to go is first gathered in the table `temp.gone`, so that each step is one statement
however many records go. Runs inside a write transaction. May import outbox, requests, indexing,
links, rows, where and writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from agentmemory.outbox import renewals
from agentmemory.requests import Deletion, RecordFilter
from agentmemory.scope import ScopeFilter
from agentmemory.stores.sqlite.indexing import edit_rows, renew_edges
from agentmemory.stores.sqlite.links import mark_orphans, settle
from agentmemory.stores.sqlite.query import fetch_all, fetch_value
from agentmemory.stores.sqlite.rows import LIFECYCLE_SQL, dump_json
from agentmemory.stores.sqlite.vector_rows import drop_vectors, note_changes, put_vectors
from agentmemory.stores.sqlite.where import Where, add_dimension, record_where
from agentmemory.stores.sqlite.writes import insert_jobs

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector
    from agentmemory.stores.sqlite.schema import Tables

_GONE: Final = "(SELECT seq FROM temp.gone)"


def remove_records(
    connection: apsw.Connection,
    t: Tables,
    record_filter: RecordFilter,
    *,
    vectors: Mapping[str, FloatVector] | None = None,
    derived: bool = True,
) -> Deletion:
    """Delete what the filter lets through and rewrite what others held of it.

    Args:
        connection: In a write transaction.
        t: The store's tables.
        record_filter: What goes.
        vectors: New vectors of survivors by record id.
        derived: Whether memories that came from what goes follow it; not when it expired, for a
            memory may outlive the talk it came from.
    """
    where = record_where(record_filter)
    _start(connection, f"SELECT r.seq FROM {t.record} r WHERE {where.sql}", where.binds)
    if derived:
        _gather_derived(connection, t, any_source=False)
    return _remove(connection, t, record_filter.now, vectors=vectors or {}, derived=derived)


def retire_derived(
    connection: apsw.Connection, t: Tables, message_ids: Sequence[str], now: datetime
) -> Deletion:
    """Delete what came from some messages alone; mark for review what came partly from them.

    The messages themselves stay: they say something else now.
    """
    listed = dump_json(list(message_ids))
    of_these = "(SELECT value FROM json_each(?1))"
    _start(
        connection,
        f"SELECT DISTINCT s.record_seq FROM {t.source} s WHERE s.message_id IN {of_these} "
        f"AND NOT EXISTS (SELECT 1 FROM {t.source} o WHERE o.record_seq = s.record_seq "
        f"AND o.message_id NOT IN {of_these})",
        (listed,),
    )
    partly = fetch_all(
        connection,
        f"SELECT DISTINCT s.record_seq FROM {t.source} s WHERE s.message_id IN {of_these} "
        f"AND s.record_seq NOT IN {_GONE}",
        (listed,),
    )
    for (seq,) in partly:
        connection.execute(
            f"UPDATE {t.record} SET review_reason = ? WHERE seq = ?",
            ("came partly from a message that was changed", seq),
        )
    return _remove(connection, t, now)


def remove_thread(
    connection: apsw.Connection, t: Tables, thread_id: str, now: datetime
) -> Deletion:
    """Delete a thread, every record in it and what came from its messages alone."""
    _start(connection, f"SELECT seq FROM {t.record} WHERE thread_id = ?", (thread_id,))
    _gather_derived(connection, t, any_source=False)
    return _remove(connection, t, now, threads=(thread_id,))


def remove_scope(
    connection: apsw.Connection,
    t: Tables,
    scope: ScopeFilter,
    now: datetime,
    *,
    any_source: bool,
    dry_run: bool,
) -> Deletion:
    """Delete every thread and record of a scope, whatever its status, tier or expiry.

    Args:
        connection: In a write transaction.
        t: The store's tables.
        scope: Its exact dimensions bound what goes.
        now: The time of the change.
        any_source: Whether a memory that came from a deleted message goes although it came from
            others too.
        dry_run: Count, and change nothing.
    """
    gather_scope(connection, t, scope, any_source=any_source)
    threads = threads_of(connection, t, scope)
    if dry_run:
        return Deletion(counts=_nonzero(_count(connection, t, threads)))
    return _remove(connection, t, now, threads=threads)


def gather_scope(
    connection: apsw.Connection, t: Tables, scope: ScopeFilter, *, any_source: bool
) -> None:
    """Put every record of a scope and of its threads into `temp.gone`, and what came from them."""
    where = Where()
    for column, match in (
        ("user_id", scope.user),
        ("agent_id", scope.agent),
        ("thread_id", scope.thread),
    ):
        add_dimension(where, column, match)
    threads = threads_of(connection, t, scope)
    _start(
        connection,
        f"SELECT seq FROM {t.record} WHERE {where.sql} UNION "
        f"SELECT seq FROM {t.record} WHERE thread_id IN (SELECT value FROM json_each(?))",
        (*where.binds, dump_json(threads)),
    )
    _gather_derived(connection, t, any_source=any_source)


def threads_of(connection: apsw.Connection, t: Tables, scope: ScopeFilter) -> tuple[str, ...]:
    """Return the ids of the threads of a scope; a thread is never "without a thread"."""
    if scope.thread.exact and scope.thread.value is None:
        return ()
    where = Where()
    for column, match in (("user_id", scope.user), ("agent_id", scope.agent), ("id", scope.thread)):
        add_dimension(where, column, match)
    rows = fetch_all(
        connection, f"SELECT id FROM {t.thread} WHERE {where.sql} ORDER BY seq", where.binds
    )
    return tuple(row[0] for row in rows)


def _start(connection: apsw.Connection, select: str, binds: Sequence[Any]) -> None:
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS gone (seq INTEGER PRIMARY KEY)")
    connection.execute("DELETE FROM temp.gone")
    connection.execute(f"INSERT INTO temp.gone {select}", binds)


def _gather_derived(connection: apsw.Connection, t: Tables, *, any_source: bool) -> None:
    """Add the memories that came from what goes; from it alone unless `any_source`."""
    other = (
        ""
        if any_source
        else f"AND NOT EXISTS (SELECT 1 FROM {t.source} o WHERE o.record_seq = s.record_seq "
        f"AND o.message_id NOT IN (SELECT r.id FROM temp.gone g "
        f"JOIN {t.record} r ON r.seq = g.seq))"
    )
    while True:
        connection.execute(
            f"INSERT OR IGNORE INTO temp.gone SELECT DISTINCT s.record_seq FROM temp.gone g "
            f"CROSS JOIN {t.record} m ON m.seq = g.seq "
            f"CROSS JOIN {t.source} s ON s.message_id = m.id "
            f"WHERE s.record_seq NOT IN {_GONE} {other}"
        )
        if not connection.changes():
            return


def _count(connection: apsw.Connection, t: Tables, threads: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter(
        dict(
            fetch_all(
                connection,
                f"SELECT r.record_type, count(*) FROM temp.gone g "
                f"CROSS JOIN {t.record} r ON r.seq = g.seq GROUP BY r.record_type",
            )
        )
    )
    listed = (dump_json(threads),)
    of_threads = "thread_id IN (SELECT value FROM json_each(?))"
    counts["thread"] = len(threads)
    counts["link"] = fetch_value(
        connection,
        f"SELECT count(*) FROM {t.link} WHERE source_seq IN {_GONE} OR target_seq IN {_GONE}",
    )
    counts["job"] = fetch_value(
        connection, f"SELECT count(*) FROM {t.job} WHERE {of_threads}", listed
    )
    counts["summary"] = fetch_value(
        connection,
        f"SELECT count(*) FROM {t.summary} s WHERE s.{of_threads} OR {_covers_gone(t)}",
        listed,
    )
    return counts


def _covers_gone(t: Tables) -> str:
    """Return the condition that a summary `s` was made of a message that goes."""
    return (
        f"EXISTS (SELECT 1 FROM temp.gone g CROSS JOIN {t.record} m ON m.seq = g.seq "
        f"WHERE m.thread_id = s.thread_id AND m.record_type = 'message' "
        f"AND m.seq <= s.covers_seq)"
    )


def _remove(
    connection: apsw.Connection,
    t: Tables,
    now: datetime,
    *,
    threads: Sequence[str] = (),
    vectors: Mapping[str, FloatVector] | None = None,
    derived: bool = True,
) -> Deletion:
    counts = _count(connection, t, threads)
    before, after = _neighbours(connection, t, threads)
    freed = [
        row[0]
        for row in fetch_all(
            connection,
            f"SELECT DISTINCT l.target_seq FROM temp.gone g CROSS JOIN {t.link} l "
            f"ON l.source_seq = g.seq AND l.relation_type IN {LIFECYCLE_SQL} "
            f"WHERE l.target_seq NOT IN {_GONE} ORDER BY 1",
        )
    ]
    counts["review"] = mark_orphans(connection, t)
    if derived:
        counts["review"] += _forget_sources(connection, t)
    listed = (dump_json(threads),)
    of_threads = "thread_id IN (SELECT value FROM json_each(?))"
    connection.execute(
        f"DELETE FROM {t.summary} AS s WHERE s.{of_threads} OR {_covers_gone(t)}", listed
    )
    connection.execute(f"DELETE FROM {t.job} WHERE {of_threads}", listed)
    edit_rows(
        connection,
        t,
        f"DELETE FROM {t.fts}",
        f"SELECT c.id FROM temp.gone g CROSS JOIN {t.chunk} c ON c.record_seq = g.seq",
    )
    note_changes(
        connection,
        t,
        f"SELECT v.record_seq FROM temp.gone g CROSS JOIN {t.vector} v ON v.record_seq = g.seq",
    )
    for table, column in (
        (t.chunk, "record_seq"),
        (t.vector, "record_seq"),
        (t.source, "record_seq"),
        (t.image, "record_seq"),
        (t.link, "source_seq"),
        (t.link, "target_seq"),
        (t.record, "seq"),
    ):
        connection.execute(f"DELETE FROM {table} WHERE {column} IN {_GONE}")
    connection.execute(
        f"DELETE FROM {t.thread} WHERE id IN (SELECT value FROM json_each(?))", listed
    )
    settle(connection, t, freed, now)
    dropped = fetch_all(
        connection,
        f"SELECT r.id FROM json_each(?) j CROSS JOIN {t.vector} v ON v.record_seq = j.value "
        f"CROSS JOIN {t.record} r ON r.seq = j.value ORDER BY r.seq",
        (dump_json(after),),
    )
    drop_vectors(connection, t, after)
    renew_edges(connection, t, before, "following")
    renew_edges(connection, t, after, "previous")
    counts["reindexed"] = len({*before, *after})
    connection.execute("DELETE FROM temp.gone")
    renewed = vectors or {}
    if renewed:
        put_vectors(connection, t, renewed)
    lacking = [name for (name,) in dropped if name not in renewed]
    insert_jobs(connection, t, renewals(lacking), now)
    stale = fetch_all(
        connection,
        f"SELECT id FROM {t.record} WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (dump_json(after),),
    )
    return Deletion(
        counts=_nonzero(counts), stale=tuple(row[0] for row in stale if row[0] not in renewed)
    )


def _neighbours(
    connection: apsw.Connection, t: Tables, threads: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Return the surviving messages right before and right after those that go."""

    def survivors(sign: str, order: str) -> list[int]:
        rows = fetch_all(
            connection,
            f"SELECT DISTINCT n FROM (SELECT (SELECT o.seq FROM {t.record} o "
            f"WHERE o.thread_id = m.thread_id AND o.record_type = 'message' "
            f"AND o.seq {sign} m.seq ORDER BY o.seq {order} LIMIT 1) AS n "
            f"FROM temp.gone g CROSS JOIN {t.record} m ON m.seq = g.seq "
            f"WHERE m.record_type = 'message' "
            f"AND m.thread_id NOT IN (SELECT value FROM json_each(?))) "
            f"WHERE n IS NOT NULL AND n NOT IN {_GONE} ORDER BY n",
            (dump_json(threads),),
        )
        return [row[0] for row in rows]

    return survivors("<", "DESC"), survivors(">", "ASC")


def _forget_sources(connection: apsw.Connection, t: Tables) -> int:
    """Take what goes out of the sources of memories that stay, and mark those for review.

    Returns:
        How many memories were marked.
    """
    rows = fetch_all(
        connection,
        f"SELECT s.record_seq, min(m.id) FROM temp.gone g CROSS JOIN {t.record} m ON m.seq = g.seq "
        f"CROSS JOIN {t.source} s ON s.message_id = m.id "
        f"WHERE s.record_seq NOT IN {_GONE} GROUP BY s.record_seq",
    )
    for seq, cause in rows:
        connection.execute(
            f"DELETE FROM {t.source} WHERE record_seq = ? AND message_id IN "
            f"(SELECT r.id FROM temp.gone g JOIN {t.record} r ON r.seq = g.seq)",
            (seq,),
        )
        connection.execute(
            f"UPDATE {t.record} SET review_reason = ? WHERE seq = ?",
            (f"came partly from {cause}, which was deleted", seq),
        )
    return len(rows)


def _nonzero(counts: Counter[str]) -> dict[str, int]:
    return {kind: count for kind, count in sorted(counts.items()) if count}
