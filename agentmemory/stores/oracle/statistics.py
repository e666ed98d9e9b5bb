"""What an Oracle store holds, counted; pure but for the reading. May import requests and schema."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from agentmemory.requests import StoreStats
from agentmemory.stores.oracle.schema import SCHEMA_VERSION, Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind, Transaction

PLAN_NOTES: Final[Mapping[str, str]] = {
    "stats.records": "full scan of record, by whoever asks for statistics",
    "stats.jobs": "fast full scan of job_ready: the state is its first column",
    "stats.counts": "fast full scans of the primary keys; chunk itself for the vectors",
    "meta.read": "primary key of meta: one row",
}


def count_records(t: Tables, now: datetime) -> Statement:
    """Count the unexpired records of each type."""
    return Statement(
        name="stats.records",
        text=f"SELECT r.record_type, COUNT(*) FROM {t.record} r "
        "WHERE r.expires_at IS NULL OR r.expires_at > :now "
        "GROUP BY r.record_type ORDER BY r.record_type",
        kind=StatementKind.QUERY,
        binds={"now": now},
    )


def count_jobs(t: Tables) -> Statement:
    """Count the jobs of each state."""
    return Statement(
        name="stats.jobs",
        text=f"SELECT j.state, COUNT(*) FROM {t.job} j GROUP BY j.state ORDER BY j.state",
        kind=StatementKind.QUERY,
    )


def count_rest(t: Tables) -> Statement:
    """Count threads, chunks, vectors and links."""
    return Statement(
        name="stats.counts",
        text=f"SELECT (SELECT COUNT(*) FROM {t.thread}), (SELECT COUNT(*) FROM {t.chunk}), "
        f"(SELECT COUNT(*) FROM {t.chunk} c WHERE c.embedding IS NOT NULL), "
        f"(SELECT COUNT(*) FROM {t.link}) FROM dual",
        kind=StatementKind.QUERY,
    )


def read_meta(t: Tables, name: str) -> Statement:
    """Read one value of the table `meta`."""
    return Statement(
        name="meta.read",
        text=f"SELECT m.value FROM {t.meta} m WHERE m.name = :name",
        kind=StatementKind.QUERY,
        binds={"name": name},
    )


async def read_stats(transaction: Transaction, t: Tables, now: datetime) -> StoreStats:
    """Count what a store holds, in one round trip."""
    records, jobs, counts, embedder = await transaction.run(
        count_records(t, now), count_jobs(t), count_rest(t), read_meta(t, "embedder")
    )
    threads, chunks, vectors, links = counts[0]
    return StoreStats(
        records=dict(records),
        threads=threads,
        chunks=chunks,
        vectors=vectors,
        links=links,
        jobs=dict(jobs),
        size_bytes=None,
        schema_version=SCHEMA_VERSION,
        embedder=embedder[0][0]["model"] if embedder else None,
    )
