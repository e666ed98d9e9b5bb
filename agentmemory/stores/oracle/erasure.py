"""Erasure on an Oracle store: what can be done, what can be checked, and what neither can.

The rows go in one transaction with a note in the audit. A deleted document leaves its words in
the lists of the text index until the index is optimised, so that is done next
(`CTX_DDL.OPTIMIZE_INDEX`, level FULL, which drops what no document holds any more). Then every
table is asked, through its indexes, for what refers to samples of what was deleted.

Beyond the reach of SQL the database keeps copies for purposes of its own: undo (and with it
flashback queries) until its retention is over, redo and archived logs, flashback logs and
archives, blocks whose space is free but not yet overwritten, and backups. How long is for the
database's administrator to set; the receipt names them as not searched. May import audit, requests
and below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from agentmemory.requests import Deletion, ResidualScan
from agentmemory.scope import ScopeFilter
from agentmemory.stores.audit import scope_digest
from agentmemory.stores.oracle.lists import listed
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Rows

PLAN_NOTES: Final[Mapping[str, str]] = {
    "erase.note": "none: one row",
    "erase.find_record": "unique key of record (id), once for each sample",
    "erase.find_chunk": "unique key of chunk (record_seq, position), once for each sample",
    "erase.find_source": "primary key of source (record_seq, position), once for each sample",
    "erase.find_source_of": "source_message (message_id), once for each sample",
    "erase.find_image": "primary key of image (record_seq), once for each sample",
    "erase.find_link_from": "unique key of link (source_seq, …), once for each sample",
    "erase.find_link_to": "link_target (target_seq, …), once for each sample",
    "erase.find_thread": "unique key of thread (id), once for each sample",
    "erase.find_summary": "unique key of summary (thread_id, revision), once for each sample",
    "erase.find_job": "job_thread (thread_id, seq), once for each sample",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""

UNSEARCHED: Final = (
    "undo and flashback data",
    "redo and archived logs",
    "free space of data files",
    "backups",
)
"""Where a database may keep copies of what was deleted, and no statement can look."""

TEXT_INDEX: Final = "text index"


def note_erasure(t: Tables, scope: ScopeFilter, now: datetime, deletion: Deletion) -> Statement:
    """Write into the audit that something was erased: how much, and a digest of whose."""
    return Statement(
        name="erase.note",
        text=f"INSERT INTO {t.audit} (happened_at, action, subject, detail) "
        f"VALUES (:now, 'forget', :subject, :detail)",
        kind=StatementKind.DML,
        binds={
            "now": now,
            "subject": {"scope": scope_digest(scope)},
            "detail": dict(deletion.counts),
        },
        types={"subject": BindType.JSON, "detail": BindType.JSON},
    )


def optimize_text_index(t: Tables) -> Statement:
    """Drop from the text index what belongs to no document any more; commits by itself.

    An index is to be synchronised before: deletes may wait for that too.
    """
    return _optimize("erase.optimize_text_index", t.index("chunk_text"))


def optimize_hybrid_index(t: Tables) -> Statement:
    """Do the same for the hybrid vector index, which is an index of Oracle Text too."""
    return _optimize("erase.optimize_hybrid_index", t.index("record_hybrid"))


def _optimize(name: str, index: str) -> Statement:
    return Statement(
        name=name,
        text=f"BEGIN CTX_DDL.SYNC_INDEX('{index}'); "
        f"CTX_DDL.OPTIMIZE_INDEX('{index}', 'FULL'); END;",
        kind=StatementKind.BLOCK,
    )


def find_residues(
    t: Tables, records: Mapping[int, str], threads: Iterable[str]
) -> dict[str, Statement]:
    """Return the statements that look for what is left, by where they look.

    Args:
        t: The store's tables.
        records: Ids of records that were deleted, by seq.
        threads: Ids of threads that were deleted.
    """
    thread_ids = list(threads)
    found: dict[str, Statement] = {}
    if records:
        seqs, ids = list(records), list(records.values())
        found["record"] = _find(t.record, "record", "id", ids)
        found["chunk"] = _find(t.chunk, "chunk", "record_seq", seqs)
        found["source"] = _find(t.source, "source", "record_seq", seqs)
        found["source of another"] = _find(t.source, "source_of", "message_id", ids)
        found["image"] = _find(t.image, "image", "record_seq", seqs)
        found["link from"] = _find(t.link, "link_from", "source_seq", seqs)
        found["link to"] = _find(t.link, "link_to", "target_seq", seqs)
    if thread_ids:
        found["thread"] = _find(t.thread, "thread", "id", thread_ids)
        found["summary"] = _find(t.summary, "summary", "thread_id", thread_ids)
        found["job"] = _find(t.job, "job", "thread_id", thread_ids)
    return found


def _find(table: str, name: str, column: str, values: Iterable[object]) -> Statement:
    condition, binds = listed(f"x.{column}", "sample", values)
    return Statement(
        name=f"erase.find_{name}",
        text=f"SELECT DISTINCT x.{column} FROM {table} x WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


async def scan(
    transaction: Transaction, t: Tables, records: Rows, threads: Rows, *, text_index: bool
) -> ResidualScan:
    """Look for what is left of samples of what was deleted.

    Args:
        transaction: One that reads.
        t: The store's tables.
        records: Seq and id of records that were deleted.
        threads: Ids of threads that were deleted.
        text_index: Whether nothing can be left in indexes of texts: they were optimised, or there
            are none.
    """
    samples: dict[int, str] = dict(records)
    names = [row[0] for row in threads]
    statements = find_residues(t, samples, names)
    answers = await transaction.run(*statements.values()) if statements else []
    return ResidualScan(
        probes=len(samples) + len(names),
        residues=tuple(
            f"{place} {samples.get(row[0], row[0])}"
            for place, rows in zip(statements, answers, strict=True)
            for row in rows
        ),
        unsearched=UNSEARCHED if text_index else (TEXT_INDEX, *UNSEARCHED),
    )
