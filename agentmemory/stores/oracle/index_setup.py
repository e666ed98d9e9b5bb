"""Makes the indexes for search that an Oracle store can have, and says which it cannot.

May import capabilities, engine, hybrid_index, schema, search_indexes, statement and config.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from agentmemory.config import SearchIndexSyncMode
from agentmemory.errors import StoreError
from agentmemory.stores.oracle.capabilities import VectorIndexKind
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.hybrid_index import (
    HybridIndex,
    create_hybrid_index,
    drop_hybrid_index,
)
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.search_indexes import (
    SearchIndexes,
    create_purge_job,
    create_text_index,
    create_vector_index,
    drop_purge_job,
    drop_text_index,
    drop_vector_index,
)
from agentmemory.stores.oracle.statement import Statement, StatementKind, Transaction

VECTORS_TO_INDEX: Final = 10_000
"""From how many vectors on they are indexed; fewer are compared one by one in milliseconds."""

DDL_TIMEOUT_S: Final = 4 * 3600.0
"""Seconds one statement may take: an index on a large table."""

_GRAPH_OVERHEAD: Final = 1.3
"""Size of a graph index for each byte of vectors, by Oracle's guide to the vector memory pool."""

_logger = logging.getLogger("agentmemory")

PLAN_NOTES: Final[Mapping[str, str]] = {
    "schema.count_vectors": "full scan of chunk, once, when the owner opens a store without a "
    "vector index; it stops at the number from which one is made",
    "schema.size_of_vectors": "full scan of chunk, once, before a vector index is made",
}


def count_vectors(t: Tables) -> Statement:
    """Count the vectors, as far as it matters whether they are worth an index."""
    return Statement(
        name="schema.count_vectors",
        text=f"SELECT COUNT(*) FROM (SELECT c.id FROM {t.chunk} c WHERE c.embedding IS NOT NULL "
        "ORDER BY c.id FETCH FIRST :enough ROWS ONLY)",
        kind=StatementKind.QUERY,
        binds={"enough": VECTORS_TO_INDEX},
    )


def size_of_vectors(t: Tables) -> Statement:
    """Return how many vectors there are, and the smallest and largest of their lengths."""
    return Statement(
        name="schema.size_of_vectors",
        text="SELECT COUNT(*), MIN(VECTOR_DIMENSION_COUNT(c.embedding)), "
        f"MAX(VECTOR_DIMENSION_COUNT(c.embedding)) FROM {t.chunk} c "
        "WHERE c.embedding IS NOT NULL",
        kind=StatementKind.QUERY,
    )


async def run_each(engine: OracleEngine, statements: tuple[Statement, ...]) -> None:
    """Run statements that commit by themselves, one after the other."""
    for statement in statements:

        async def work(transaction: Transaction, statement: Statement = statement) -> None:
            await transaction.run(statement)

        await engine.write(work, timeout_s=DDL_TIMEOUT_S)


async def missing_indexes(
    engine: OracleEngine,
    t: Tables,
    indexes: SearchIndexes,
    sync: SearchIndexSyncMode | None,
    hybrid_model: str | None = None,
) -> bool:
    """Tell whether `make_indexes` would have anything to try.

    Args:
        engine: Open.
        t: The store's tables.
        indexes: Which indexes the store has.
        sync: When the text index is to be brought up to date; None: as it is.
        hybrid_model: Model of the hybrid vector index; None: there need be none.
    """
    able = engine.capabilities
    if hybrid_model is not None and able.embeds_with(hybrid_model):
        wanted = _hybrid_wanted(hybrid_model, indexes, sync)
        if indexes.hybrid not in (wanted, replace(wanted, filtered=False)):
            return True
    if able.oracle_text and (indexes.text is None or sync not in (None, indexes.text)):
        return True
    if able.create_job and not indexes.purge_job:
        return True
    return indexes.vector is None and await _enough_vectors(engine, t)


async def make_indexes(
    engine: OracleEngine,
    t: Tables,
    indexes: SearchIndexes,
    sync: SearchIndexSyncMode | None,
    hybrid_model: str | None = None,
) -> SearchIndexes:
    """Make what is missing and can be made; the caller holds the store's lease.

    A failure is no error: the store works without, slower, and a warning says so.

    Returns:
        Which indexes the store has now.
    """
    indexes = await _text_index(engine, t, indexes, sync)
    indexes = await _vector_index(engine, t, indexes)
    if hybrid_model is not None and engine.capabilities.embeds_with(hybrid_model):
        indexes = await _hybrid_index(
            engine, t, indexes, _hybrid_wanted(hybrid_model, indexes, sync)
        )
    if engine.capabilities.create_job and not indexes.purge_job:
        made = await _attempt(
            engine,
            create_purge_job(t),
            drop_purge_job(t),
            "The job that deletes expired records could not be made (%s); `purge_expired` does it.",
        )
        indexes = replace(indexes, purge_job=made)
    return indexes


async def _text_index(
    engine: OracleEngine, t: Tables, indexes: SearchIndexes, sync: SearchIndexSyncMode | None
) -> SearchIndexes:
    wanted = sync or indexes.text or SearchIndexSyncMode.ON_COMMIT
    if wanted is indexes.text:
        return indexes
    if not engine.capabilities.oracle_text:
        _logger.warning(
            "Store %s has no Oracle Text index, for want of Oracle Text or of the role CTXAPP; "
            "keyword searches look at every chunk of their scope.",
            t.store_id,
        )
        return indexes
    made = await _attempt(
        engine,
        create_text_index(t, wanted),
        drop_text_index(t),
        "The Oracle Text index could not be made (%s); keyword searches look at every chunk of "
        "their scope.",
    )
    return replace(indexes, text=wanted if made else None)


async def _vector_index(engine: OracleEngine, t: Tables, indexes: SearchIndexes) -> SearchIndexes:
    if indexes.vector is not None or not await _enough_vectors(engine, t):
        return indexes

    async def work(transaction: Transaction) -> tuple[int, int, int]:
        ((row,),) = await transaction.run(size_of_vectors(t))
        return row[0], row[1], row[2]

    count, shortest, longest = await engine.read(work, timeout_s=DDL_TIMEOUT_S)
    if shortest != longest:
        # Those of another embedder are still being replaced.
        return indexes
    kinds = [VectorIndexKind.IVF]
    if count * longest * 4 * _GRAPH_OVERHEAD <= (engine.capabilities.vector_memory_bytes or 0):
        kinds.insert(0, VectorIndexKind.HNSW)
    for kind in kinds:
        made = await _attempt(
            engine,
            create_vector_index(t, kind),
            drop_vector_index(t),
            f"The {kind.upper()} vector index could not be made (%s).",
        )
        if made:
            return replace(indexes, vector=kind, dimension=longest)
    return indexes


def _hybrid_wanted(
    model: str, indexes: SearchIndexes, sync: SearchIndexSyncMode | None
) -> HybridIndex:
    """Return the hybrid vector index a store should have, brought up to date as its words are."""
    return HybridIndex(model=model, sync=sync or indexes.text or SearchIndexSyncMode.ON_COMMIT)


async def _hybrid_index(
    engine: OracleEngine, t: Tables, indexes: SearchIndexes, wanted: HybridIndex
) -> SearchIndexes:
    """Make the hybrid vector index, without columns to filter by if it takes none."""
    choices = (wanted, replace(wanted, filtered=False))
    if indexes.hybrid in choices:
        return indexes
    drop_index, drop_preference = drop_hybrid_index(t)
    for index in choices:
        what = "" if index.filtered else " without columns to filter by either"
        made = await _attempt(
            engine,
            create_hybrid_index(t, index),
            (drop_index,),
            f"The hybrid vector index could not be made{what} (%s).",
        )
        if made:
            return replace(indexes, hybrid=index)
    # A preference that stays does no harm, and who may not make one may not drop one either.
    with contextlib.suppress(StoreError):
        await run_each(engine, (drop_preference,))
    return replace(indexes, hybrid=None)


async def _enough_vectors(engine: OracleEngine, t: Tables) -> bool:
    async def work(transaction: Transaction) -> bool:
        ((row,),) = await transaction.run(count_vectors(t))
        return bool(row[0] >= VECTORS_TO_INDEX)

    return await engine.read(work)


async def _attempt(
    engine: OracleEngine,
    statements: tuple[Statement, ...],
    undo: tuple[Statement, ...],
    message: str,
) -> bool:
    """Run statements; after a failure undo what they left, for a broken index stops writes."""
    try:
        await run_each(engine, statements)
    except StoreError as error:
        if error.retryable:
            with contextlib.suppress(StoreError):
                await run_each(engine, undo)
            raise
        _logger.warning(message, error)
        await run_each(engine, undo)
        return False
    return True
