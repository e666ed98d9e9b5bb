"""Summaries of threads on an Oracle store. May import requests, writes, trips and schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentmemory.errors import NotFoundError, StaleReadError
from agentmemory.requests import Expectation, StoredSummary
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Trip
from agentmemory.stores.oracle.writes import (
    check_expectations,
    lock_expected,
    lock_threads,
    no_thread,
)

KEPT: Final = 20
"""How many summaries of a thread are kept, so that an edit falls back on one before it."""

PLAN_NOTES: Final[Mapping[str, str]] = {
    "summary.latest": "unique key of summary (thread_id, revision), a range: a thread keeps a few",
    "summary.insert": "none: maintains the unique key of summary",
    "summary.number": "unique key of summary (thread_id, revision)",
    "summary.prune": "unique key of summary (thread_id, revision), a range",
}
"""The index each statement is meant to use, for a store of any size."""


def latest(t: Tables, thread_id: str, *, before_seq: int | None) -> Statement:
    """Read the latest summary of a thread, or the latest that covers less than a message."""
    before = "" if before_seq is None else " AND s.covers_seq < :before_seq"
    binds: dict[str, Any] = {"thread_id": thread_id}
    if before_seq is not None:
        binds["before_seq"] = before_seq
    return Statement(
        name="summary.latest",
        text=f"SELECT s.thread_id, s.revision, s.content, s.topics, s.covers_seq, s.created_at "
        f"FROM {t.summary} s WHERE s.thread_id = :thread_id{before} "
        f"ORDER BY s.covers_seq DESC, s.revision DESC FETCH FIRST 1 ROWS ONLY",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def summary_from_row(row: Sequence[Any]) -> StoredSummary:
    """Build a summary from a row of `latest`."""
    return StoredSummary(
        thread_id=row[0],
        revision=row[1],
        content=row[2] or "",
        topics=tuple(row[3]),
        covers_seq=row[4],
        created_at=row[5],
    )


def insert_summary(t: Tables, summary: StoredSummary) -> tuple[Statement, Statement]:
    """Store a summary, and number it.

    Its revision is its seq, which is never used again, so that a summary that was made of a
    message that changed and went is not taken for the one that came after it. Until it is known,
    the summary has a revision that no other one has, for the thread is locked.
    """
    return (
        Statement(
            name="summary.insert",
            text=f"INSERT INTO {t.summary} (thread_id, revision, content, topics, covers_seq, "
            f"status, created_at) VALUES (:thread_id, -1, :content, :topics, :covers_seq, "
            f"'valid', :created_at)",
            kind=StatementKind.DML,
            binds={
                "thread_id": summary.thread_id,
                "content": summary.content,
                "topics": list(summary.topics),
                "covers_seq": summary.covers_seq,
                "created_at": summary.created_at,
            },
            types={"content": BindType.CLOB, "topics": BindType.JSON},
        ),
        Statement(
            name="summary.number",
            text=f"UPDATE {t.summary} SET revision = seq "
            f"WHERE thread_id = :thread_id AND revision = -1",
            kind=StatementKind.DML,
            binds={"thread_id": summary.thread_id},
        ),
    )


def prune(t: Tables, thread_id: str) -> Statement:
    """Delete all but the last `KEPT` summaries of a thread."""
    return Statement(
        name="summary.prune",
        text=f"DELETE FROM {t.summary} WHERE thread_id = :thread_id AND seq <= ("
        f"SELECT s.seq FROM {t.summary} s WHERE s.thread_id = :thread_id "
        f"ORDER BY s.seq DESC OFFSET {KEPT} ROWS FETCH NEXT 1 ROWS ONLY)",
        kind=StatementKind.DML,
        binds={"thread_id": thread_id},
    )


async def put(
    transaction: Transaction,
    t: Tables,
    summary: StoredSummary,
    *,
    expected_revision: int | None,
    expects: Sequence[Expectation],
) -> StoredSummary:
    """Store a summary if the latest one is still what its writer saw, and commit."""
    thread_id = summary.thread_id
    trip = Trip()
    threads = trip.add(lock_threads(t, (thread_id,)))
    revisions = trip.add(lock_expected(t, expects)) if expects else []
    seen = trip.add(latest(t, thread_id, before_seq=None))
    await trip.run(transaction)
    if not threads:
        raise NotFoundError(no_thread(thread_id))
    check_expectations(expects, revisions)
    if (seen[0][1] if seen else None) != expected_revision:
        msg = f"thread {thread_id!r} got another summary meanwhile"
        raise StaleReadError(msg)
    trip.add(*insert_summary(t, summary), prune(t, thread_id))
    stored = trip.add(latest(t, thread_id, before_seq=None))
    await trip.finish(transaction)
    return summary_from_row(stored[0])
