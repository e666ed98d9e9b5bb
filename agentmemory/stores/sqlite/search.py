"""Both arms of a search on a SQLite store, in one read transaction.

May import requests, lexical, vectors, where and rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentmemory.records import ScopedRecord
from agentmemory.requests import Candidate, CandidateQuery, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.sqlite.lexical import lexical_hits, score_records, weigh
from agentmemory.stores.sqlite.query import fetch_value
from agentmemory.stores.sqlite.rows import dump_json, record_from_row, record_select
from agentmemory.stores.sqlite.schema import Tables
from agentmemory.stores.sqlite.vectors import VectorIndex
from agentmemory.stores.sqlite.where import Where, record_where
from agentmemory.text.analyzer import analyze

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector


def find_candidates(
    connection: apsw.Connection, t: Tables, index: VectorIndex, query: CandidateQuery
) -> tuple[Candidate, ...]:
    """Run both arms and return their union, each candidate with the scores of both."""
    where = record_where(query.filter)
    words = weigh(connection, t, query.terms)
    by_words = lexical_hits(
        connection,
        t,
        query=words,
        record_filter=query.filter,
        where=where,
        pool=query.pool,
    )
    near: dict[int, float] = {}
    if query.vector is not None:
        near = dict(
            _vector_hits(connection, t, index, query.vector, query.filter, where, query.pool)
        )
    union = list(dict.fromkeys((*by_words, *near)))
    lexical = score_records(connection, t, words, union)
    lexical_ranks = _ranks(sorted(by_words, key=lambda seq: (-lexical[seq], seq)))
    vector_ranks = _ranks(near)
    cosines = dict(near)
    if query.vector is not None:
        rest = [seq for seq in by_words if seq not in near]
        cosines.update(index.cosines(connection, query.vector, rest) if rest else {})
    known_actors: dict[str, bool] = {}
    return tuple(
        Candidate(
            record=record,
            lexical=lexical[record.seq] if query.terms else None,
            cosine=cosines.get(record.seq),
            lexical_rank=lexical_ranks.get(record.seq),
            vector_rank=vector_ranks.get(record.seq),
            actor_match=_names_actor(record.actor, query.actor_terms, known_actors),
            scope_matches=_scope_matches(record, query.filter.scope),
        )
        for record in fetch_records(connection, t, union)
    )


def _ranks(seqs: Iterable[int]) -> dict[int, int]:
    return {seq: rank for rank, seq in enumerate(seqs, start=1)}


def _vector_hits(
    connection: apsw.Connection,
    t: Tables,
    index: VectorIndex,
    vector: FloatVector,
    record_filter: RecordFilter,
    where: Where,
    pool: int,
) -> list[tuple[int, float]]:
    """Return the nearest records that pass the filter; exact for any filter.

    The cache ranks all of the user's records; the filter is asked about the best of them, and
    about more only when too few pass.
    """
    user = record_filter.scope.user
    wanted = pool * 4
    while True:
        nearest, complete = index.best(
            connection, vector, user=(user.value,) if user.exact else None, limit=wanted
        )
        passing = {
            row[0]
            for row in connection.execute(
                f"SELECT r.seq FROM json_each(?) j CROSS JOIN {t.record} r ON r.seq = j.value "
                f"WHERE {where.sql}",
                (dump_json([seq for seq, _ in nearest]), *where.binds),
            )
        }
        hits = [hit for hit in nearest if hit[0] in passing]
        if len(hits) >= pool or complete:
            return hits[:pool]
        wanted *= 8


def fetch_records(
    connection: apsw.Connection, t: Tables, seqs: Iterable[int]
) -> list[ScopedRecord]:
    """Return records by seq, in the order given; those that are gone are left out."""
    rows = connection.execute(
        f"SELECT {record_select(t)} FROM json_each(?) j CROSS JOIN {t.record} r ON r.seq = j.value",
        (dump_json(list(seqs)),),
    )
    return [record_from_row(row) for row in rows]


def list_actors(connection: apsw.Connection, t: Tables, scope: ScopeFilter) -> tuple[str, ...]:
    """Return the speakers' names in the scope's user dimension, sorted.

    Steps from name to name through the index, so that the cost grows with the names, not with
    the records.
    """
    where = Where()
    _add_user(where, scope.user)
    names: list[str] = []
    last = ""
    while True:
        name = fetch_value(
            connection,
            f"SELECT min(actor) FROM {t.record} WHERE {where.sql} AND actor > ?",
            (*where.binds, last),
        )
        if name is None:
            return tuple(names)
        last = name
        names.append(name)


def _add_user(where: Where, user: DimensionMatch) -> None:
    if user.exact:
        where.add("user_id IS ?", user.value)
    where.add("actor IS NOT NULL")


def _names_actor(actor: str | None, terms: frozenset[str], known: dict[str, bool]) -> bool:
    if actor is None or not terms:
        return False
    if actor not in known:
        known[actor] = not terms.isdisjoint(analyze(actor))
    return known[actor]


def _scope_matches(record: ScopedRecord, scope: ScopeFilter) -> int:
    pairs = (
        (scope.user, record.user_id),
        (scope.agent, record.agent_id),
        (scope.thread, record.thread_id),
    )
    return sum(
        not match.exact and match.value is not None and match.value == value
        for match, value in pairs
    )
