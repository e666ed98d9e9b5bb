"""Samples of the statements of schema, registry, search indexes and statistics."""

from __future__ import annotations

from datetime import UTC, datetime

from agentmemory.config import SearchIndexSyncMode
from agentmemory.stores.oracle import (
    ddl,
    embedder_model,
    hybrid_index,
    index_setup,
    registry,
    reindexing,
    search_indexes,
    statistics,
)
from agentmemory.stores.oracle.capabilities import VectorIndexKind
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement

HYBRID_INDEXES = (
    *(hybrid_index.HybridIndex(model="MINILM", sync=sync) for sync in SearchIndexSyncMode),
    hybrid_index.HybridIndex(
        model="MODELS.MINILM", sync=SearchIndexSyncMode.ON_COMMIT, filtered=False
    ),
)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def sample_statements(t: Tables) -> list[Statement]:
    """Return every statement that makes, changes and counts a store."""
    row = registry.RegistryRow(version=1, state=registry.StoreState.READY)
    return [
        ddl.create_registry(t),
        *ddl.create_tables(t),
        *ddl.create_indexes(t),
        *ddl.drop_tables(t),
        *(
            statement
            for mode in SearchIndexSyncMode
            for statement in search_indexes.create_text_index(t, mode)
        ),
        *(
            statement
            for kind in VectorIndexKind
            for statement in search_indexes.create_vector_index(t, kind)
        ),
        *(
            statement
            for index in HYBRID_INDEXES
            for statement in hybrid_index.create_hybrid_index(t, index)
        ),
        search_indexes.sync_text_index(t),
        *search_indexes.create_purge_job(t),
        registry.read_registry(t),
        registry.lock_registry(t),
        registry.insert_registry(t, row, NOW),
        registry.update_registry(t, row, NOW),
        index_setup.count_vectors(t),
        reindexing.records_after(t, 200),
        index_setup.size_of_vectors(t),
        embedder_model.embed_texts("MINILM", "DATA", ["a kite", "a boat"]),
        statistics.count_records(t, NOW),
        statistics.count_jobs(t),
        statistics.count_rest(t),
        statistics.read_meta(t, "embedder"),
    ]
