"""Statements of a delete on an Oracle store; pure. May import requests, scope, where and schema.

What is to go is first gathered in the temporary tables `gone` and `gone_thread`, so that each step
is one statement however many records go, and all of them speak of the same ones, whatever others
commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agentmemory.requests import RecordFilter
from agentmemory.scope import ScopeFilter
from agentmemory.stores.oracle.lists import listed
from agentmemory.stores.oracle.rows import LIFECYCLE_SQL
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind
from agentmemory.stores.oracle.where import Where, add_dimension, record_where

SAMPLE: Final = 16
"""How many of the oldest records that go, of the newest, and of threads, are looked for after."""

PLAN_NOTES: Final[Mapping[str, str]] = {
    "gone.clear": "none: what the transaction itself gathered",
    "gone.clear_threads": "none: what the transaction itself gathered",
    "gone.add_filtered": "unique key of record (id) for ids; record_expiry for what expired; "
    "otherwise the index of the narrowest dimension, record_thread, record_owner or record_agent",
    "gone.add_expired": "record_expiry, read in its order and left after one batch",
    "gone.add_scope": "record_thread, record_owner or record_agent, by the dimensions given",
    "gone.add_of_threads": "record_thread, once for each thread that goes",
    "gone.add_derived_alone": "source_message (message_id) for the sources that are named",
    "gone.add_derived": "full scan of gone, then primary key of record, source_message "
    "(message_id) and the primary key of source for other sources",
    "gone.add_touched": "full scan of gone, then primary key of record and source_message",
    "gone.add_thread": "unique key of thread (id)",
    "gone.add_threads": "thread_owner (user_id, agent_id, seq) or thread_agent; unique key of "
    "thread for one thread",
    "gone.lock_threads": "full scan of gone_thread, then the unique key of thread (id)",
    "gone.lock_talks": "as gone.add_filtered, then the unique key of thread (id)",
    "gone.lock_gathered_talks": "full scan of gone, then primary key of record and unique key of "
    "thread (id)",
    "gone.lock_scope_talks": "as gone.add_scope, then the unique key of thread (id)",
    "gone.lock": "full scan of gone, then the primary key of record",
    "gone.keep": "full scan of gone, then the primary key of record",
    "gone.count": "full scan of gone",
    "gone.count_types": "full scan of gone, then the primary key of record",
    "gone.count_threads": "full scan of gone_thread",
    "gone.count_links": "full scan of gone, then the unique key of link (source_seq, …) and "
    "link_target (target_seq, …)",
    "gone.count_jobs": "full scan of gone_thread, then job_thread (thread_id, seq)",
    "gone.count_summaries": "full scans of gone and gone_thread, then the unique key of summary "
    "(thread_id, revision)",
    "gone.before": "full scan of gone, then record_thread, one probe for each message",
    "gone.after": "full scan of gone, then record_thread, one probe for each message",
    "gone.freed": "full scan of gone, then the unique key of link (source_seq, …)",
    "gone.orphans": "full scan of gone, then link_target (target_seq, relation_type)",
    "gone.partly": "full scan of gone, then primary key of record and source_message",
    "gone.touched": "source_message (message_id) for the messages that are named",
    "gone.among": "full scan of gone",
    "gone.sample": "full scan of gone, then the primary key of record",
    "gone.sample_threads": "full scan of gone_thread",
    "gone.delete_summary": "as gone.count_summaries, then the primary key of summary",
    "gone.delete_job": "full scan of gone_thread, then job_thread (thread_id, seq)",
    "gone.delete_chunk": "full scan of gone, then the unique key of chunk (record_seq, position)",
    "gone.delete_source": "full scan of gone, then the primary key of source",
    "gone.delete_named": "full scan of gone, then primary key of record and source_message",
    "gone.delete_image": "full scan of gone, then the primary key of image",
    "gone.delete_link_from": "full scan of gone, then the unique key of link (source_seq, …)",
    "gone.delete_link_to": "full scan of gone, then link_target (target_seq, …)",
    "gone.delete_record": "full scan of gone, then the primary key of record",
    "gone.delete_thread": "full scan of gone_thread, then the unique key of thread (id)",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users.

The temporary tables hold what one delete removes: mostly one record, a user's few hundred at
times, so they are read whole and drive the joins.
"""


def _dml(name: str, text: str, where: Where | None = None) -> Statement:
    binds = {} if where is None else where.binds
    return Statement(name=f"gone.{name}", text=text, kind=StatementKind.DML, binds=binds)


def _query(name: str, text: str, where: Where | None = None) -> Statement:
    binds = {} if where is None else where.binds
    return Statement(name=f"gone.{name}", text=text, kind=StatementKind.QUERY, binds=binds)


def clear(t: Tables) -> tuple[Statement, Statement]:
    """Forget what this transaction gathered before."""
    return (
        _dml("clear", f"DELETE FROM {t.gone}"),
        _dml("clear_threads", f"DELETE FROM {t.gone_thread}"),
    )


def add_filtered(t: Tables, record_filter: RecordFilter) -> Statement:
    """Gather what a filter lets through."""
    where = record_where(record_filter)
    return _dml(
        "add_filtered",
        f"INSERT INTO {t.gone} (seq) SELECT r.seq FROM {t.record} r WHERE {where.sql}",
        where,
    )


def add_expired(t: Tables, record_filter: RecordFilter, limit: int) -> Statement:
    """Gather what a filter lets through and expired first, up to a number of records."""
    where = record_where(record_filter)
    rows = where.bind("rows", limit)
    return _dml(
        "add_expired",
        f"INSERT INTO {t.gone} (seq) SELECT r.seq FROM {t.record} r WHERE {where.sql} "
        f"ORDER BY r.expires_at NULLS LAST, r.seq FETCH FIRST {rows} ROWS ONLY",
        where,
    )


def _scope_where(scope: ScopeFilter, alias: str, thread_column: str) -> Where:
    where = Where()
    for column, name, match in (
        ("user_id", "user", scope.user),
        ("agent_id", "agent", scope.agent),
        (thread_column, "thread", scope.thread),
    ):
        add_dimension(where, f"{alias}.{column}", name, match)
    return where


def add_scope(t: Tables, scope: ScopeFilter) -> Statement:
    """Gather every record of a scope."""
    where = _scope_where(scope, "r", "thread_id")
    return _dml(
        "add_scope",
        f"INSERT INTO {t.gone} (seq) SELECT r.seq FROM {t.record} r WHERE {where.sql}",
        where,
    )


def add_of_threads(t: Tables) -> Statement:
    """Gather every record of the threads that go."""
    return _dml(
        "add_of_threads",
        f"INSERT INTO {t.gone} (seq) SELECT r.seq FROM {t.record} r "
        f"WHERE r.thread_id IN (SELECT x.id FROM {t.gone_thread} x) "
        f"AND r.seq NOT IN (SELECT g.seq FROM {t.gone} g)",
    )


def add_derived_alone(t: Tables, message_ids: Iterable[str]) -> Statement:
    """Gather the memories that came from some messages and from no others."""
    condition, binds = listed("s.message_id", "message", message_ids)
    where = Where(prefix="", conditions=[condition], binds=binds)
    others = condition.replace("s.message_id", "o.message_id")
    return _dml(
        "add_derived_alone",
        f"INSERT INTO {t.gone} (seq) SELECT DISTINCT s.record_seq FROM {t.source} s "
        f"WHERE {where.sql} AND NOT EXISTS (SELECT 1 FROM {t.source} o "
        f"WHERE o.record_seq = s.record_seq AND NOT {others})",
        where,
    )


def add_derived(t: Tables, *, any_source: bool) -> Statement:
    """Gather the memories that came from what goes: from it alone, unless `any_source`."""
    alone = (
        f" AND NOT EXISTS (SELECT 1 FROM {t.source} o WHERE o.record_seq = s.record_seq "
        f"AND o.message_id NOT IN (SELECT x.id FROM {t.gone} y "
        f"JOIN {t.record} x ON x.seq = y.seq))"
    )
    return _dml(
        "add_touched" if any_source else "add_derived",
        f"INSERT INTO {t.gone} (seq) SELECT DISTINCT s.record_seq FROM {t.gone} g "
        f"JOIN {t.record} m ON m.seq = g.seq JOIN {t.source} s ON s.message_id = m.id "
        f"WHERE s.record_seq NOT IN (SELECT z.seq FROM {t.gone} z)"
        f"{'' if any_source else alone}",
    )


def add_thread(t: Tables, thread_id: str) -> Statement:
    """Gather a thread, if it is there."""
    return Statement(
        name="gone.add_thread",
        text=f"INSERT INTO {t.gone_thread} (id) SELECT th.id FROM {t.thread} th "
        f"WHERE th.id = :thread_id",
        kind=StatementKind.DML,
        binds={"thread_id": thread_id},
    )


def add_threads(t: Tables, scope: ScopeFilter) -> Statement:
    """Gather the threads of a scope."""
    where = _scope_where(scope, "th", "id")
    return _dml(
        "add_threads",
        f"INSERT INTO {t.gone_thread} (id) SELECT th.id FROM {t.thread} th WHERE {where.sql}",
        where,
    )


def lock_threads(t: Tables) -> Statement:
    """Lock the threads that go; a row for each."""
    return _query(
        "lock_threads",
        f"SELECT th.id FROM {t.thread} th "
        f"WHERE th.id IN (SELECT x.id FROM {t.gone_thread} x) ORDER BY th.id FOR UPDATE",
    )


def lock_talks(t: Tables, record_filter: RecordFilter) -> Statement:
    """Lock the threads of the messages that a filter lets through."""
    where = record_where(record_filter)
    return _lock_talks(t, "lock_talks", where)


def lock_gathered_talks(t: Tables) -> Statement:
    """Lock the threads of the messages that were gathered."""
    return _query(
        "lock_gathered_talks",
        f"SELECT th.id FROM {t.thread} th WHERE th.id IN (SELECT r.thread_id FROM {t.gone} g "
        f"JOIN {t.record} r ON r.seq = g.seq WHERE r.record_type = 'message') "
        f"ORDER BY th.id FOR UPDATE",
    )


def lock_scope_talks(t: Tables, scope: ScopeFilter) -> Statement:
    """Lock the threads of the messages of a scope."""
    return _lock_talks(t, "lock_scope_talks", _scope_where(scope, "r", "thread_id"))


def _lock_talks(t: Tables, name: str, where: Where) -> Statement:
    return _query(
        name,
        f"SELECT th.id FROM {t.thread} th WHERE th.id IN (SELECT r.thread_id FROM {t.record} r "
        f"WHERE r.record_type = 'message' AND {where.sql}) ORDER BY th.id FOR UPDATE",
        where,
    )


def lock(t: Tables) -> Statement:
    """Lock the records that go, without a row of them on the wire."""
    return _dml(
        "lock",
        f"UPDATE {t.record} SET revision = revision WHERE seq IN (SELECT g.seq FROM {t.gone} g)",
    )


def keep_changed(t: Tables, record_filter: RecordFilter) -> Statement:
    """Let go of what a filter lets through no more, now that nobody can change it."""
    where = record_where(record_filter)
    return _dml(
        "keep",
        f"DELETE FROM {t.gone} WHERE seq NOT IN (SELECT r.seq FROM {t.gone} g "
        f"JOIN {t.record} r ON r.seq = g.seq WHERE {where.sql})",
        where,
    )


def count(t: Tables) -> Statement:
    """Count what was gathered."""
    return _query("count", f"SELECT COUNT(*) FROM {t.gone}")


def _gone_links(t: Tables) -> str:
    return (
        f"SELECT l.seq FROM {t.gone} g JOIN {t.link} l ON l.source_seq = g.seq UNION "
        f"SELECT l.seq FROM {t.gone} g JOIN {t.link} l ON l.target_seq = g.seq"
    )


def _gone_summaries(t: Tables) -> str:
    """Return the query for summaries of threads that go, or made of a message that goes."""
    return (
        f"SELECT s.seq FROM {t.gone_thread} x JOIN {t.summary} s ON s.thread_id = x.id UNION "
        f"SELECT s.seq FROM {t.gone} g JOIN {t.record} m ON m.seq = g.seq "
        f"JOIN {t.summary} s ON s.thread_id = m.thread_id AND s.covers_seq >= m.seq "
        f"WHERE m.record_type = 'message'"
    )


def count_types(t: Tables) -> Statement:
    """Count the records that go, by type."""
    return _query(
        "count_types",
        f"SELECT r.record_type, COUNT(*) FROM {t.gone} g JOIN {t.record} r ON r.seq = g.seq "
        f"GROUP BY r.record_type",
    )


def counts(t: Tables) -> dict[str, Statement]:
    """Return the statements that count what goes with the records, by what they count."""
    return {
        "thread": _query("count_threads", f"SELECT COUNT(*) FROM {t.gone_thread}"),
        "link": _query("count_links", f"SELECT COUNT(*) FROM ({_gone_links(t)}) v"),
        "job": _query(
            "count_jobs",
            f"SELECT COUNT(*) FROM {t.gone_thread} x JOIN {t.job} j ON j.thread_id = x.id",
        ),
        "summary": _query("count_summaries", f"SELECT COUNT(*) FROM ({_gone_summaries(t)}) v"),
    }


def neighbours(t: Tables, side: str) -> Statement:
    """Read the surviving messages right before or right after those that go, by seq.

    Args:
        t: The store's tables.
        side: "before" or "after".
    """
    picked, sign = ("MAX", "<") if side == "before" else ("MIN", ">")
    return _query(
        side,
        f"SELECT DISTINCT v.seq FROM (SELECT (SELECT {picked}(o.seq) FROM {t.record} o "
        f"WHERE o.thread_id = m.thread_id AND o.record_type = 'message' "
        f"AND o.seq {sign} m.seq) AS seq FROM {t.gone} g JOIN {t.record} m ON m.seq = g.seq "
        f"WHERE m.record_type = 'message' "
        f"AND m.thread_id NOT IN (SELECT x.id FROM {t.gone_thread} x)) v "
        f"WHERE v.seq IS NOT NULL AND v.seq NOT IN (SELECT z.seq FROM {t.gone} z) "
        f"ORDER BY v.seq",
    )


def freed(t: Tables) -> Statement:
    """Read the survivors that a lifecycle link of what goes ends at, by seq."""
    return _query(
        "freed",
        f"SELECT DISTINCT l.target_seq FROM {t.gone} g JOIN {t.link} l ON l.source_seq = g.seq "
        f"WHERE l.relation_type IN {LIFECYCLE_SQL} "
        f"AND l.target_seq NOT IN (SELECT z.seq FROM {t.gone} z) ORDER BY l.target_seq",
    )


def orphans(t: Tables) -> Statement:
    """Read the survivors that depend on what goes directly, each with the id of one cause."""
    return _query(
        "orphans",
        f"SELECT l.source_seq, MIN(r.id) FROM {t.gone} g JOIN {t.record} r ON r.seq = g.seq "
        f"JOIN {t.link} l ON l.target_seq = g.seq AND l.relation_type = 'depends_on' "
        f"WHERE l.source_seq NOT IN (SELECT z.seq FROM {t.gone} z) GROUP BY l.source_seq",
    )


def partly(t: Tables) -> Statement:
    """Read the survivors that came partly from what goes, each with the id of one source."""
    return _query(
        "partly",
        f"SELECT s.record_seq, MIN(m.id) FROM {t.gone} g JOIN {t.record} m ON m.seq = g.seq "
        f"JOIN {t.source} s ON s.message_id = m.id "
        f"WHERE s.record_seq NOT IN (SELECT z.seq FROM {t.gone} z) GROUP BY s.record_seq",
    )


def touched(t: Tables, message_ids: Iterable[str]) -> Statement:
    """Read the survivors that came, among others, from some messages."""
    condition, binds = listed("s.message_id", "message", message_ids)
    return _query(
        "touched",
        f"SELECT DISTINCT s.record_seq FROM {t.source} s WHERE {condition} "
        f"AND s.record_seq NOT IN (SELECT z.seq FROM {t.gone} z)",
        Where(prefix="", binds=binds),
    )


def among(t: Tables, seqs: Iterable[int]) -> Statement:
    """Read which of some records go."""
    condition, binds = listed("g.seq", "seq", seqs)
    return _query(
        "among",
        f"SELECT g.seq FROM {t.gone} g WHERE {condition}",
        Where(prefix="", binds=binds),
    )


def sample(t: Tables) -> Statement:
    """Read seq and id of some of the records that go: the oldest and the newest."""
    return _query(
        "sample",
        f"SELECT v.seq, v.id FROM (SELECT r.seq, r.id, ROW_NUMBER() OVER (ORDER BY r.seq) "
        f"AS place, COUNT(*) OVER () AS total FROM {t.gone} g "
        f"JOIN {t.record} r ON r.seq = g.seq) v "
        f"WHERE v.place <= {SAMPLE} OR v.place > v.total - {SAMPLE} ORDER BY v.seq",
    )


def sample_threads(t: Tables) -> Statement:
    """Read the ids of some of the threads that go."""
    return _query(
        "sample_threads",
        f"SELECT x.id FROM {t.gone_thread} x ORDER BY x.id FETCH FIRST {SAMPLE} ROWS ONLY",
    )


def delete_all(t: Tables) -> tuple[Statement, ...]:
    """Delete what goes, and what belongs to it, in an order that foreign keys allow."""
    records = f"(SELECT g.seq FROM {t.gone} g)"
    threads = f"(SELECT x.id FROM {t.gone_thread} x)"
    return (
        _dml("delete_summary", f"DELETE FROM {t.summary} WHERE seq IN ({_gone_summaries(t)})"),
        _dml("delete_job", f"DELETE FROM {t.job} WHERE thread_id IN {threads}"),
        _dml("delete_chunk", f"DELETE FROM {t.chunk} WHERE record_seq IN {records}"),
        _dml("delete_source", f"DELETE FROM {t.source} WHERE record_seq IN {records}"),
        _dml("delete_image", f"DELETE FROM {t.image} WHERE record_seq IN {records}"),
        _dml("delete_link_from", f"DELETE FROM {t.link} WHERE source_seq IN {records}"),
        _dml("delete_link_to", f"DELETE FROM {t.link} WHERE target_seq IN {records}"),
        _dml("delete_record", f"DELETE FROM {t.record} WHERE seq IN {records}"),
        _dml("delete_thread", f"DELETE FROM {t.thread} WHERE id IN {threads}"),
    )


def delete_named(t: Tables) -> Statement:
    """Delete what goes from the sources of the survivors."""
    return _dml(
        "delete_named",
        f"DELETE FROM {t.source} WHERE message_id IN (SELECT r.id FROM {t.gone} g "
        f"JOIN {t.record} r ON r.seq = g.seq) "
        f"AND record_seq NOT IN (SELECT z.seq FROM {t.gone} z)",
    )
