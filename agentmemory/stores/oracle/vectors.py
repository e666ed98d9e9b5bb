"""The vector arm of an Oracle store: which records lie nearest to a query.

The vector of a record stands in its first chunk, beside the columns that filters ask for. Within
the records of one user or thread every vector is compared; only a search across users asks the
vector index, which is approximate. May import where, schema, statement and requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agentmemory.requests import CandidateQuery, RecordFilter
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind
from agentmemory.stores.oracle.where import Where, add_list, chunk_where

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

OVERFETCH: Final = 2
"""How many rows of an approximate search are asked for each place in the pool: the graph is
searched wider for more rows, and so finds more of those that are wanted."""

_DISTANCE: Final = (
    # Vectors of another length, which a change of the embedder leaves for a while, have none.
    "CASE WHEN VECTOR_DIMENSION_COUNT(c.embedding) = :dimension "
    "THEN VECTOR_DISTANCE(c.embedding, :query, COSINE) END"
)

PLAN_NOTES: Final[Mapping[str, str]] = {
    "vectors.nearest": "chunk_owner (user_id, record_type): the chunks of one user are some "
    "hundred of a million, and comparing each with the query is exact and takes less than a walk "
    "through a graph that is filtered afterwards; chunk_thread for a thread. Without a vector "
    "index, a search across users scans chunk",
    "vectors.approximate": "vector index chunk_vector: no dimension of the scope leaves few of a "
    "million chunks; the database filters before, while or after walking the index by its own "
    "estimate",
    "vectors.distances": "unique key of chunk (record_seq, position), one probe for each listed "
    "record",
    "vectors.of_candidates": "unique key of chunk (record_seq, position), one probe for each "
    "listed record; only for a search that looks for diversity",
    "vectors.read": "unique key of record (id), then unique key of chunk (record_seq, position)",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""


def is_narrow(record_filter: RecordFilter) -> bool:
    """Tell whether a filter leaves so few records that each can be compared."""
    scope = record_filter.scope
    return (
        record_filter.ids is not None
        or (scope.user.exact and scope.user.value is not None)
        or (scope.thread.exact and scope.thread.value is not None)
    )


def nearest(t: Tables, query: CandidateQuery) -> Statement:
    """Compare every vector that the filter lets through; the nearest first, ties by seq.

    Plan: the index of the scope on chunk.
    """
    where = chunk_where(t, query.filter)
    where.add("c.embedding IS NOT NULL")
    return Statement(
        name="vectors.nearest",
        text=f"SELECT c.record_seq, {_DISTANCE} AS distance "
        f"FROM {t.chunk} c WHERE {where.sql} ORDER BY distance, c.record_seq "
        f"FETCH FIRST {where.bind('pool', query.pool)} ROWS ONLY",
        kind=StatementKind.QUERY,
        binds={**where.binds, **_query_binds(query.vector)},
        types={"query": BindType.VECTOR},
    )


def approximate(t: Tables, query: CandidateQuery) -> Statement:
    """Ask the vector index for the nearest that the filter lets through.

    The number of rows stands in the text, for the optimizer has to see it; it comes from a
    checked whole number. Nothing but the distance may order the rows, or the index is not used.

    Plan: the vector index; the metric is that of the index.
    """
    where = chunk_where(t, query.filter)
    return Statement(
        name="vectors.approximate",
        text=f"SELECT c.record_seq, VECTOR_DISTANCE(c.embedding, :query, COSINE) AS distance "
        f"FROM {t.chunk} c WHERE {where.sql} ORDER BY distance "
        f"FETCH APPROX FIRST {int(query.pool) * OVERFETCH} ROWS ONLY",
        kind=StatementKind.QUERY,
        binds={**where.binds, "query": query.vector},
        types={"query": BindType.VECTOR},
    )


def distances(t: Tables, vector: FloatVector, seqs: Sequence[int]) -> Statement:
    """Compare the vectors of listed records.

    Plan: the unique key of chunk; the vector is in the first chunk.
    """
    where = Where("")
    add_list(where, "c.record_seq", "seq", seqs)
    return Statement(
        name="vectors.distances",
        text=f"SELECT c.record_seq, {_DISTANCE} AS distance "
        f"FROM {t.chunk} c WHERE {where.sql} AND c.position = 0 AND c.embedding IS NOT NULL "
        f"ORDER BY c.record_seq",
        kind=StatementKind.QUERY,
        binds={**where.binds, **_query_binds(vector)},
        types={"query": BindType.VECTOR},
    )


def vectors_at(t: Tables, seqs: Sequence[int]) -> Statement:
    """Read the vectors of records by seq.

    Plan: the unique key of chunk; the vector is in the first chunk.
    """
    where = Where("")
    add_list(where, "c.record_seq", "seq", seqs)
    return Statement(
        name="vectors.of_candidates",
        text=f"SELECT c.record_seq, c.embedding FROM {t.chunk} c WHERE {where.sql} "
        f"AND c.position = 0 AND c.embedding IS NOT NULL ORDER BY c.record_seq",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def _query_binds(vector: FloatVector | None) -> dict[str, Any]:
    return {"query": vector, "dimension": 0 if vector is None else len(vector)}


def cosines(rows: Sequence[Sequence[Any]]) -> dict[int, float]:
    """Return the cosine of each record, in the order of the rows; those without are left out."""
    return {seq: 1.0 - distance for seq, distance in rows if distance is not None}


def read_vectors(t: Tables, record_ids: Sequence[str]) -> Statement:
    """Read the vectors of records by id.

    Plan: the unique key on the id, then that of chunk.
    """
    where = Where("")
    add_list(where, "r.id", "id", record_ids)
    return Statement(
        name="vectors.read",
        text=f"SELECT r.id, c.embedding FROM {t.record} r "
        f"JOIN {t.chunk} c ON c.record_seq = r.seq AND c.position = 0 "
        f"WHERE {where.sql} AND c.embedding IS NOT NULL ORDER BY r.id",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )
