"""The outbox of a SQLite store: jobs that are leased, renewed, completed or given up.

A job is stored in the transaction of what causes it, and taken away in the transaction of what
it brought, so that each is done exactly once however often its worker dies. Jobs of one thread
run one after another in the order they were stored. Each function runs inside one transaction.
May import requests, query, rows, links, deletes and writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from agentmemory.errors import ConflictError, LeaseLostError, NotFoundError
from agentmemory.records import RecordRelation, Tier, new_id
from agentmemory.requests import Deletion, Job, JobOutcome, JobState, RecordFilter
from agentmemory.scope import ScopeFilter
from agentmemory.stores.sqlite.deletes import retire_derived
from agentmemory.stores.sqlite.indexing import Row
from agentmemory.stores.sqlite.links import insert_link
from agentmemory.stores.sqlite.query import fetch_all, fetch_value
from agentmemory.stores.sqlite.rows import dump_json, from_micros, to_micros
from agentmemory.stores.sqlite.writes import check_expectations, insert_records

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables

_COLUMNS: Final = (
    "id, kind, thread_id, payload, state, attempts, run_after, lease_owner, lease_until, "
    "last_error, created_at, deaths"
)


_OF_KINDS: Final = "(? IS NULL OR j.kind IN (SELECT value FROM json_each(?)))"


def _kinds(kinds: Sequence[str] | None) -> tuple[str | None, str | None]:
    """Return the values that `_OF_KINDS` binds."""
    listed = None if kinds is None else dump_json(list(kinds))
    return listed, listed


def _job_from_row(row: Sequence[Any]) -> Job:
    run_after, created_at = from_micros(row[6]), from_micros(row[10])
    assert run_after is not None  # noqa: S101 - the column is NOT NULL
    assert created_at is not None  # noqa: S101 - the column is NOT NULL
    return Job(
        id=row[0],
        kind=row[1],
        thread_id=row[2],
        payload=orjson.loads(row[3]),
        state=JobState(row[4]),
        attempts=row[5],
        run_after=run_after,
        lease_owner=row[7],
        lease_until=from_micros(row[8]),
        last_error=row[9],
        created_at=created_at,
        deaths=row[11],
    )


def claim(
    connection: apsw.Connection,
    t: Tables,
    *,
    owner: str,
    limit: int,
    lease_until: datetime,
    now: datetime,
    kinds: Sequence[str] | None,
) -> tuple[Job, ...]:
    """Lease the oldest jobs that are due, at most the first open one of each thread."""
    at = to_micros(now)
    rows = fetch_all(
        connection,
        f"UPDATE {t.job} SET state = 'leased', lease_owner = ?, lease_until = ?, "
        f"attempts = attempts + 1, deaths = deaths + (state = 'leased'), updated_at = ? "
        f"WHERE seq IN (SELECT j.seq FROM {t.job} j "
        f"WHERE ((j.state = 'ready' AND j.run_after <= ?) "
        f"OR (j.state = 'leased' AND j.lease_until <= ?)) AND {_OF_KINDS} "
        f"AND NOT EXISTS (SELECT 1 FROM {t.job} e WHERE e.thread_id = j.thread_id "
        f"AND e.seq < j.seq AND e.state IN ('ready', 'leased')) ORDER BY j.seq LIMIT ?) "
        f"RETURNING {_COLUMNS}, seq",
        (owner, to_micros(lease_until), at, at, at, *_kinds(kinds), limit),
    )
    return tuple(_job_from_row(row) for row in sorted(rows, key=lambda row: row[-1]))


def renew(
    connection: apsw.Connection, t: Tables, job_id: str, *, owner: str, lease_until: datetime
) -> None:
    """Hold a lease for longer."""
    connection.execute(
        f"UPDATE {t.job} SET lease_until = ? WHERE id = ? AND lease_owner = ? AND state = 'leased'",
        (to_micros(lease_until), job_id, owner),
    )
    _check_lease(connection, job_id)


def complete(
    connection: apsw.Connection,
    t: Tables,
    job_id: str,
    outcome: JobOutcome,
    *,
    rows: Sequence[Sequence[Row]],
    owner: str,
    now: datetime,
) -> Deletion:
    """Store what a job brought and take the job away; return what it retired.

    `rows` are the index rows of its records, as `draft_rows` made them.
    """
    thread_id = fetch_value(connection, f"SELECT thread_id FROM {t.job} WHERE id = ?", (job_id,))
    connection.execute(
        f"DELETE FROM {t.job} WHERE id = ? AND lease_owner = ? AND state = 'leased'",
        (job_id, owner),
    )
    _check_lease(connection, job_id)
    check_expectations(connection, t, outcome.expects)
    retired = Deletion()
    if outcome.retired_sources:
        retired = retire_derived(connection, t, outcome.retired_sources, now)
    insert_records(
        connection,
        t,
        outcome.records,
        rows=rows,
        vectors=outcome.vectors,
        tail=None,
        jobs=outcome.jobs,
        links=(),
        link_filter=None,
        now=now,
    )
    _insert_links(connection, t, outcome.links, now)
    for record_id, message_ids in outcome.more_sources.items():
        _add_sources(connection, t, record_id, message_ids)
    if outcome.held is not None:
        _hold(connection, t, thread_id, outcome.held, now)
    return retired


def _hold(
    connection: apsw.Connection,
    t: Tables,
    thread_id: str | None,
    message_ids: Sequence[str],
    now: datetime,
) -> None:
    connection.execute(f"DELETE FROM {t.job} WHERE thread_id IS ? AND state = 'held'", (thread_id,))
    if message_ids:
        at = to_micros(now)
        connection.execute(
            f"INSERT INTO {t.job} (id, kind, thread_id, payload, state, attempts, run_after, "
            f"created_at, updated_at) VALUES (?, 'held', ?, ?, 'held', 0, ?, ?, ?)",
            (new_id(), thread_id, dump_json({"messages": list(message_ids)}), at, at, at),
        )


def _insert_links(
    connection: apsw.Connection, t: Tables, links: Sequence[RecordRelation], now: datetime
) -> None:
    everywhere = RecordFilter(scope=ScopeFilter(), now=now, tiers=tuple(Tier))
    for link in links:
        # What a link points at may have gone since it was proposed; the memory stands without.
        with contextlib.suppress(NotFoundError, ConflictError):
            insert_link(connection, t, link, everywhere, now)


def _add_sources(
    connection: apsw.Connection, t: Tables, record_id: str, message_ids: Sequence[str]
) -> None:
    for message_id in message_ids:
        connection.execute(
            f"INSERT INTO {t.source} (record_seq, position, message_id) "
            f"SELECT r.seq, (SELECT coalesce(max(position), -1) + 1 FROM {t.source} "
            f"WHERE record_seq = r.seq), ?2 FROM {t.record} r WHERE r.id = ?1 "
            f"AND EXISTS (SELECT 1 FROM {t.source} WHERE record_seq = r.seq) "
            f"AND NOT EXISTS (SELECT 1 FROM {t.source} "
            f"WHERE record_seq = r.seq AND message_id = ?2)",
            (record_id, message_id),
        )


def give_back(
    connection: apsw.Connection,
    t: Tables,
    job_id: str,
    *,
    owner: str,
    error: str | None,
    run_after: datetime | None,
    now: datetime,
) -> None:
    """Put a job back for later, or among the dead letters; without an error it did not count."""
    state = JobState.DEAD if run_after is None else JobState.READY
    connection.execute(
        f"UPDATE {t.job} SET state = ?1, last_error = coalesce(?2, last_error), "
        f"attempts = attempts - (?2 IS NULL), lease_owner = NULL, lease_until = NULL, "
        f"run_after = coalesce(?3, run_after), updated_at = ?4 "
        f"WHERE id = ?5 AND lease_owner = ?6 AND state = 'leased'",
        (state.value, error, to_micros(run_after), to_micros(now), job_id, owner),
    )
    _check_lease(connection, job_id)


def _check_lease(connection: apsw.Connection, job_id: str) -> None:
    if not connection.changes():
        msg = f"job {job_id!r} is not leased to this worker any more"
        raise LeaseLostError(msg)


def revive(connection: apsw.Connection, t: Tables, *, now: datetime) -> int:
    """Make every dead letter ready again."""
    at = to_micros(now)
    connection.execute(
        f"UPDATE {t.job} SET state = 'ready', attempts = 0, deaths = 0, run_after = ?, "
        f"updated_at = ? WHERE state = 'dead'",
        (at, at),
    )
    return connection.changes()


def list_jobs(
    connection: apsw.Connection,
    t: Tables,
    *,
    thread_id: str | None,
    states: Sequence[JobState],
    limit: int,
) -> tuple[Job, ...]:
    """Return jobs in the order they were stored."""
    marks = dump_json([state.value for state in states])
    rows = fetch_all(
        connection,
        f"SELECT {_COLUMNS} FROM {t.job} WHERE (?1 IS NULL OR thread_id = ?1) "
        f"AND state IN (SELECT value FROM json_each(?2)) ORDER BY seq LIMIT ?3",
        (thread_id, marks, limit),
    )
    return tuple(_job_from_row(row) for row in rows)


def open_jobs(
    connection: apsw.Connection,
    t: Tables,
    *,
    thread_id: str | None,
    until_seq: int | None,
    kinds: Sequence[str] | None,
) -> tuple[int, int]:
    """Return how many jobs are not done yet, and the number of the newest job ever stored.

    Only jobs of `thread_id`, and only those stored up to `until_seq`, unless these are None.
    """
    count = fetch_value(
        connection,
        f"SELECT count(*) FROM {t.job} j WHERE j.state IN ('ready', 'leased') "
        f"AND (? IS NULL OR j.thread_id = ?) AND (? IS NULL OR j.seq <= ?) AND {_OF_KINDS}",
        (thread_id, thread_id, until_seq, until_seq, *_kinds(kinds)),
    )
    newest = fetch_value(connection, f"SELECT coalesce(max(seq), 0) FROM {t.job}")
    return int(count), int(newest)


def next_at(
    connection: apsw.Connection, t: Tables, *, kinds: Sequence[str] | None
) -> datetime | None:
    """Return when the next job is due or the next lease runs out."""
    value = fetch_value(
        connection,
        f"SELECT min(CASE j.state WHEN 'leased' THEN j.lease_until ELSE j.run_after END) "
        f"FROM {t.job} j WHERE j.state IN ('ready', 'leased') AND {_OF_KINDS} "
        f"AND NOT EXISTS (SELECT 1 FROM {t.job} e WHERE e.thread_id = j.thread_id "
        f"AND e.seq < j.seq AND e.state IN ('ready', 'leased'))",
        _kinds(kinds),
    )
    return from_micros(value)
