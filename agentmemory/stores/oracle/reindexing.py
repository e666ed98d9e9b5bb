"""Indexes every record of an Oracle store anew, after a release that analyses text otherwise.

May import engine, indexing, schema and statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from agentmemory.stores.index_fields import TokenMemo
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.indexing import from_row, index_anew, read_sources
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind, Transaction

BATCH: Final = 200
"""How many records are indexed in one transaction."""

PLAN_NOTES: Final[Mapping[str, str]] = {
    "schema.records_after": "primary key of record, a range in its order",
}


def records_after(t: Tables, seq: int) -> Statement:
    """Return the seqs of the next records in the order of writing."""
    return Statement(
        name="schema.records_after",
        text=f"SELECT r.seq FROM {t.record} r WHERE r.seq > :after_seq "
        "ORDER BY r.seq FETCH FIRST :batch ROWS ONLY",
        kind=StatementKind.QUERY,
        binds={"after_seq": seq, "batch": BATCH},
    )


async def reindex_all(engine: OracleEngine, t: Tables, hold: Callable[[], Awaitable[None]]) -> int:
    """Rewrite the chunks of every record and keep the vectors.

    Args:
        engine: Open.
        t: The store's tables.
        hold: Renews the store's lease; called after each batch.

    Returns:
        How many records there were.
    """
    done, last = 0, 0

    async def work(transaction: Transaction) -> list[int]:
        (rows,) = await transaction.run(records_after(t, last))
        seqs = [row[0] for row in rows]
        if seqs:
            (sources,) = await transaction.run(read_sources(t, seqs))
            await transaction.finish(*index_anew(t, map(from_row, sources), TokenMemo()))
        return seqs

    while seqs := await engine.write(work):
        done, last = done + len(seqs), seqs[-1]
        await hold()
    return done
