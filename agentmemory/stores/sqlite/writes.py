"""Writes of records and threads on a SQLite store, each inside one write transaction.

May import records, requests, indexing, rows and where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmemory.errors import ConflictError, NotFoundError, StaleReadError
from agentmemory.records import (
    ImageContent,
    RecordRelation,
    RecordStatus,
    ScopedRecord,
    ThreadRecord,
    Tier,
)
from agentmemory.requests import (
    Expectation,
    JobDraft,
    RecordChanges,
    RecordFilter,
    ThreadChanges,
    ThreadTail,
)
from agentmemory.scope import NOT_SET_MARKER, ScopeFilter
from agentmemory.stores.index_fields import scope_tokens
from agentmemory.stores.sqlite.images import put_image
from agentmemory.stores.sqlite.indexing import (
    IndexChange,
    Row,
    change_index,
    index_new,
    join_neighbours,
    neighbour,
    thread_tail,
)
from agentmemory.stores.sqlite.links import dependants, insert_link, tell_dependants
from agentmemory.stores.sqlite.query import fetch_one
from agentmemory.stores.sqlite.rows import (
    INSERT_COLUMNS,
    THREAD_SELECT,
    dump_json,
    record_from_row,
    record_select,
    record_values,
    thread_from_row,
    to_micros,
)
from agentmemory.stores.sqlite.vector_rows import drop_vectors, put_vectors
from agentmemory.stores.sqlite.where import record_where

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector
    from agentmemory.stores.sqlite.schema import Tables

_TIME_FIELDS = frozenset({"event_time", "valid_from", "valid_to", "expires_at"})
_ROWS_PER_STATEMENT = 50


def insert_thread(connection: apsw.Connection, t: Tables, thread: ThreadRecord) -> ThreadRecord:
    """Store a new thread."""
    taken = fetch_one(connection, f"SELECT 1 FROM {t.thread} WHERE id = ?", (thread.id,))
    if taken:
        msg = f"thread {thread.id!r} exists already; open it with `get_thread`"
        raise ConflictError(msg)
    connection.execute(
        f"INSERT INTO {t.thread} ({THREAD_SELECT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            thread.id,
            thread.user_id,
            thread.agent_id,
            dump_json(thread.metadata),
            dump_json(thread.config),
            to_micros(thread.created_at),
            to_micros(thread.updated_at),
            thread.revision,
        ),
    )
    return thread


def read_thread(connection: apsw.Connection, t: Tables, thread_id: str) -> ThreadRecord:
    """Return a thread."""
    row = fetch_one(
        connection, f"SELECT {THREAD_SELECT} FROM {t.thread} WHERE id = ?", (thread_id,)
    )
    if row is None:
        raise NotFoundError(no_thread(thread_id))
    return thread_from_row(row)


def no_thread(thread_id: str) -> str:
    """Say that a thread is not there."""
    return f"there is no thread {thread_id!r}"


def change_thread(
    connection: apsw.Connection,
    t: Tables,
    thread_id: str,
    changes: ThreadChanges,
    now: datetime,
) -> ThreadRecord:
    """Change what is named of a thread."""
    read_thread(connection, t, thread_id)
    assignments = ["updated_at = ?", "revision = revision + 1"]
    binds: list[Any] = [to_micros(now)]
    for name in ("metadata", "config"):
        value = getattr(changes, name)
        if value is not NOT_SET_MARKER:
            assignments.append(f"{name} = ?")
            binds.append(dump_json(value))
    connection.execute(
        f"UPDATE {t.thread} SET {', '.join(assignments)} WHERE id = ?", (*binds, thread_id)
    )
    return read_thread(connection, t, thread_id)


def insert_records(
    connection: apsw.Connection,
    t: Tables,
    records: Sequence[ScopedRecord],
    *,
    rows: Sequence[Sequence[Row]],
    vectors: Mapping[str, FloatVector] | None,
    tail: ThreadTail | None,
    jobs: Sequence[JobDraft],
    links: Sequence[RecordRelation],
    link_filter: RecordFilter | None,
    now: datetime,
    images: Mapping[str, ImageContent] | None = None,
) -> tuple[ScopedRecord, ...]:
    """Store new records with their index rows and jobs.

    Args:
        connection: In a write transaction.
        t: The store's tables.
        records: What to store; messages at the end of their threads.
        rows: The index rows of each record, as `draft_rows` made them.
        vectors: Vectors by record id.
        tail: What has to be the last message of the thread still.
        jobs: Work to enqueue.
        links: Links to store when the records are there.
        link_filter: What the ends of links have to pass; None: anything.
        now: The time of the change.
        images: Files of images by record id.
    """
    if tail is not None:
        _check_tail(connection, t, tail)
    _check_new(connection, t, records)
    threads = {record.thread_id for record in records if record.record_type == "message"}
    tails = {
        thread_id: found
        for thread_id in sorted(name for name in threads if name is not None)
        if (found := thread_tail(connection, t, thread_id)) is not None
    }
    seqs = _insert_rows(connection, t, records)
    for record, seq in zip(records, seqs, strict=True):
        if record.sources:
            _insert_sources(connection, t, seq, record.sources)
        if images and record.id in images:
            put_image(connection, t, seq, images[record.id])
    index_new(connection, t, records, seqs, rows, tails)
    if vectors:
        put_vectors(connection, t, vectors)
    insert_jobs(connection, t, jobs, now)
    everywhere = RecordFilter(scope=ScopeFilter(), now=now, tiers=tuple(Tier))
    for link in links:
        insert_link(connection, t, link, link_filter or everywhere, now)
    return _by_seq(connection, t, seqs)


def _insert_rows(
    connection: apsw.Connection, t: Tables, records: Sequence[ScopedRecord]
) -> list[int]:
    """Insert records with few statements and return their seqs."""
    row = f"({', '.join('?' * len(INSERT_COLUMNS))})"
    seqs: list[int] = []
    for start in range(0, len(records), _ROWS_PER_STATEMENT):
        batch = records[start : start + _ROWS_PER_STATEMENT]
        connection.execute(
            f"INSERT INTO {t.record} ({', '.join(INSERT_COLUMNS)}) "
            f"VALUES {', '.join([row] * len(batch))}",
            [value for record in batch for value in record_values(record)],
        )
        # Numbers that are given by AUTOINCREMENT to the rows of one statement follow one another.
        last = connection.last_insert_rowid()
        seqs.extend(range(last - len(batch) + 1, last + 1))
    return seqs


def insert_jobs(
    connection: apsw.Connection, t: Tables, jobs: Sequence[JobDraft], now: datetime
) -> None:
    """Enqueue jobs; a job whose id is there already stays as it is."""
    at = to_micros(now)
    for job in jobs:
        connection.execute(
            f"INSERT INTO {t.job} (id, kind, thread_id, payload, state, attempts, run_after, "
            f"created_at, updated_at) VALUES (?, ?, ?, ?, 'ready', 0, ?, ?, ?) "
            f"ON CONFLICT (id) DO NOTHING",
            (job.id, job.kind, job.thread_id, dump_json(job.payload), at, at, at),
        )


def _check_tail(connection: apsw.Connection, t: Tables, tail: ThreadTail) -> None:
    seq = neighbour(connection, t, tail.thread_id, 2**62, -1)
    row = (
        (None, None)
        if seq is None
        else fetch_one(connection, f"SELECT id, revision FROM {t.record} WHERE seq = ?", (seq,))
    )
    if row != (tail.last_message_id, tail.last_revision):
        msg = f"thread {tail.thread_id!r} got another last message meanwhile"
        raise StaleReadError(msg)


def _check_new(connection: apsw.Connection, t: Tables, records: Sequence[ScopedRecord]) -> None:
    ids = [record.id for record in records]
    doubled = [record_id for record_id, count in Counter(ids).items() if count > 1]
    if doubled:
        msg = f"id {doubled[0]!r} stands twice in one call"
        raise ConflictError(msg)
    taken = fetch_one(
        connection,
        f"SELECT id FROM {t.record} WHERE id IN (SELECT value FROM json_each(?)) LIMIT 1",
        (dump_json(ids),),
    )
    if taken:
        msg = f"a record with id {taken[0]!r} exists already; ids are unique in a store"
        raise ConflictError(msg)
    for thread_id, user_id in {(record.thread_id, record.user_id) for record in records}:
        if thread_id is not None and read_thread(connection, t, thread_id).user_id != user_id:
            # In the words of a thread that is not there, so as not to tell that it is.
            raise NotFoundError(no_thread(thread_id))
    _check_profiles(connection, t, records)


def _check_profiles(
    connection: apsw.Connection, t: Tables, records: Sequence[ScopedRecord]
) -> None:
    for record in records:
        if record.record_type not in ("user_profile", "agent_profile"):
            continue
        kind = record.record_type.removesuffix("_profile")
        owner = record.user_id if kind == "user" else record.agent_id
        if fetch_one(
            connection,
            f"SELECT 1 FROM {t.record} WHERE record_type = ? AND {kind}_id = ?",
            (record.record_type, owner),
        ):
            msg = f"{kind} {owner!r} has a profile already; change it with `update_{kind}`"
            raise ConflictError(msg)


def _insert_sources(
    connection: apsw.Connection, t: Tables, seq: int, sources: Sequence[str]
) -> None:
    connection.execute(
        f"INSERT INTO {t.source} (record_seq, position, message_id) "
        f"SELECT ?, key, value FROM json_each(?)",
        (seq, dump_json(sources)),
    )


def _by_seq(
    connection: apsw.Connection, t: Tables, seqs: Sequence[int]
) -> tuple[ScopedRecord, ...]:
    rows = connection.execute(
        f"SELECT {record_select(t)} FROM {t.record} r "
        f"WHERE r.seq IN (SELECT value FROM json_each(?)) ORDER BY r.seq",
        (dump_json(list(seqs)),),
    )
    return tuple(record_from_row(row) for row in rows)


def change_record(
    connection: apsw.Connection,
    t: Tables,
    record_filter: RecordFilter,
    changes: RecordChanges,
    *,
    index: IndexChange,
    now: datetime,
    expects: Sequence[Expectation],
    vectors: Mapping[str, FloatVector] | None,
    jobs: Sequence[JobDraft],
    image: ImageContent | None,
) -> ScopedRecord:
    """Change what is named of one record, and rewrite what depends on it.

    `index` is what `draft_change` made of `changes`.
    """
    check_expectations(connection, t, expects)
    seq, record_type, thread_id = _find_one(connection, t, record_filter)
    given = {
        name: value
        for name in RecordChanges.__slots__
        if (value := getattr(changes, name)) is not NOT_SET_MARKER
    }
    sources = given.pop("sources", None)
    assignments = ["updated_at = ?", "revision = revision + 1"]
    binds: list[Any] = [to_micros(now)]
    for name, value in given.items():
        assignments.append(f"{name} = ?")
        binds.append(_column_value(name, value))
    connection.execute(
        f"UPDATE {t.record} SET {', '.join(assignments)} WHERE seq = ?", (*binds, seq)
    )
    if sources is not None:
        connection.execute(f"DELETE FROM {t.source} WHERE record_seq = ?", (seq,))
        _insert_sources(connection, t, seq, sources)
    if "status" in given:
        invalid = given["status"] is RecordStatus.INVALID
        connection.execute(
            f"UPDATE {t.record} SET invalidated_at = "
            f"CASE WHEN ? THEN coalesce(invalidated_at, ?) END WHERE seq = ?",
            (invalid, to_micros(now), seq),
        )
        tell_dependants(connection, t, seq)
    if "content" in given and record_type != "message":
        _tell_of_change(connection, t, seq)
    if image is not None:
        put_image(connection, t, seq, image)
    scope = _scope_of(connection, t, seq) if "layer" in given else None
    change_index(connection, t, seq, index, scope=scope)
    if "content" in given:
        stale = [seq]
        if record_type == "message":
            before = neighbour(connection, t, thread_id, seq, -1)
            after = neighbour(connection, t, thread_id, seq, 1)
            join_neighbours(connection, t, index, before=before, after=after)
            if after is not None:
                stale.append(after)
            connection.execute(
                f"DELETE FROM {t.summary} WHERE thread_id = ? AND covers_seq >= ?",
                (thread_id, seq),
            )
        drop_vectors(connection, t, stale)
    if vectors:
        put_vectors(connection, t, vectors)
    insert_jobs(connection, t, jobs, now)
    return _by_seq(connection, t, (seq,))[0]


def _scope_of(connection: apsw.Connection, t: Tables, seq: int) -> str:
    row = fetch_one(
        connection,
        f"SELECT user_id, agent_id, thread_id, record_type, layer FROM {t.record} WHERE seq = ?",
        (seq,),
    )
    assert row is not None  # noqa: S101 - found above, in the same transaction
    return scope_tokens(*row)


def _tell_of_change(connection: apsw.Connection, t: Tables, seq: int) -> None:
    """Mark the memories of layers that rest on a rule whose text changed; eviction reads that."""
    places = dependants(connection, t, (seq,))
    if places:
        connection.execute(
            f"UPDATE {t.record} SET review_reason = 'rests on ' || "
            f"(SELECT id FROM {t.record} WHERE seq = ?) || ', whose text was changed' "
            f"WHERE seq IN (SELECT value FROM json_each(?)) AND seq <> ? "
            f"AND layer IS NOT NULL AND review_reason IS NULL",
            (seq, dump_json(places), seq),
        )


def _column_value(name: str, value: Any) -> Any:
    if name in _TIME_FIELDS:
        return to_micros(value)
    if name in ("metadata", "tags"):
        return dump_json(value)
    return value


def check_expectations(
    connection: apsw.Connection, t: Tables, expects: Sequence[Expectation]
) -> None:
    """Raise `StaleReadError` unless every record is as its reader saw it."""
    for expected in expects:
        row = fetch_one(
            connection, f"SELECT revision FROM {t.record} WHERE id = ?", (expected.record_id,)
        )
        if (None if row is None else row[0]) != expected.revision:
            msg = f"record {expected.record_id!r} was changed meanwhile"
            raise StaleReadError(msg)


def _find_one(
    connection: apsw.Connection, t: Tables, record_filter: RecordFilter
) -> tuple[int, str, str | None]:
    where = record_where(record_filter)
    row = fetch_one(
        connection,
        f"SELECT r.seq, r.record_type, r.thread_id FROM {t.record} r WHERE {where.sql} LIMIT 1",
        where.binds,
    )
    if row is None:
        raise NotFoundError(missing(record_filter))
    return row[0], row[1], row[2]


def missing(record_filter: RecordFilter) -> str:
    """Say which record is not there, without telling whether another scope holds it."""
    ids = ", ".join(map(repr, record_filter.ids or ()))
    kinds = " or ".join(record_filter.record_types or ("record",))
    return f"there is no {kinds} {ids} in this scope"
