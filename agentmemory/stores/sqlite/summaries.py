"""Summaries of threads on a SQLite store; each function runs inside one transaction.

May import requests, query, rows and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import orjson

from agentmemory.errors import StaleReadError
from agentmemory.requests import Expectation, StoredSummary
from agentmemory.stores.sqlite.query import fetch_one, fetch_value
from agentmemory.stores.sqlite.rows import dump_json, from_micros, to_micros
from agentmemory.stores.sqlite.writes import check_expectations, read_thread

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables

KEPT: Final = 20
"""How many summaries of a thread are kept, so that an edit falls back on one before it."""


def latest(
    connection: apsw.Connection, t: Tables, thread_id: str, *, before_seq: int | None
) -> StoredSummary | None:
    """Return the latest summary of a thread, or None."""
    row = fetch_one(
        connection,
        f"SELECT thread_id, revision, content, topics, covers_seq, created_at FROM {t.summary} "
        f"WHERE thread_id = ?1 AND (?2 IS NULL OR covers_seq < ?2) "
        f"ORDER BY covers_seq DESC, revision DESC LIMIT 1",
        (thread_id, before_seq),
    )
    if row is None:
        return None
    created_at = from_micros(row[5])
    assert created_at is not None  # noqa: S101 - the column is NOT NULL
    return StoredSummary(
        thread_id=row[0],
        revision=row[1],
        content=row[2],
        topics=tuple(orjson.loads(row[3])),
        covers_seq=row[4],
        created_at=created_at,
    )


def put(
    connection: apsw.Connection,
    t: Tables,
    summary: StoredSummary,
    *,
    expected_revision: int | None,
    expects: Sequence[Expectation],
) -> StoredSummary:
    """Store a summary if the latest one is still what its writer saw."""
    read_thread(connection, t, summary.thread_id)
    check_expectations(connection, t, expects)
    seen = latest(connection, t, summary.thread_id, before_seq=None)
    if (None if seen is None else seen.revision) != expected_revision:
        msg = f"thread {summary.thread_id!r} got another summary meanwhile"
        raise StaleReadError(msg)
    # Counted over the whole table and never reused, so that a summary that was made of a message
    # that changed and went is not taken for the one that came after it.
    revision = 1 + int(
        fetch_value(
            connection,
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?",
            (t.summary.strip('"'),),
        )
    )
    connection.execute(
        f"INSERT INTO {t.summary} (thread_id, revision, content, topics, covers_seq, status, "
        f"created_at) VALUES (?, ?, ?, ?, ?, 'valid', ?)",
        (
            summary.thread_id,
            revision,
            summary.content,
            dump_json(summary.topics),
            summary.covers_seq,
            to_micros(summary.created_at),
        ),
    )
    connection.execute(
        f"DELETE FROM {t.summary} WHERE thread_id = ?1 AND seq <= (SELECT seq FROM {t.summary} "
        f"WHERE thread_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET {KEPT})",
        (summary.thread_id,),
    )
    stored = latest(connection, t, summary.thread_id, before_seq=None)
    assert stored is not None  # noqa: S101 - it was stored just now
    return stored
