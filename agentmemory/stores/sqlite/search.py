"""Both arms of a search on a SQLite store, in one read transaction.

May import requests, lexical, vectors, where and rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentmemory.records import ScopedRecord
from agentmemory.requests import Candidate, CandidateQuery
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.sqlite.lexical import lexical_hits, score_records, weigh
from agentmemory.stores.sqlite.query import fetch_all, fetch_value
from agentmemory.stores.sqlite.rows import dump_json, record_from_row, record_select
from agentmemory.stores.sqlite.schema import Tables
from agentmemory.stores.sqlite.vectors import VectorIndex
from agentmemory.stores.sqlite.where import Where, record_where
from agentmemory.text.analyzer import analyze

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector


def find_candidates(
    connection: apsw.Connection, t: Tables, index: VectorIndex, queries: Sequence[CandidateQuery]
) -> list[tuple[Candidate, ...]]:
    """Run both arms for queries that differ in their filters and pools only.

    The words are looked up once and the vectors compared once for all of them; what one look
    brings is shared out by the filters, and a query that gets too little looks again by itself.
    So the answers are those of separate calls.

    Returns:
        The union of both arms of each query, each candidate with the scores of both.
    """
    first = queries[0]
    wheres = [record_where(query.filter) for query in queries]
    words = weigh(connection, t, first.terms)
    by_words = lexical_hits(connection, t, words, queries, wheres)
    near: list[dict[int, float]] = [{} for _ in queries]
    if first.vector is not None:
        near = [
            dict(hits) for hits in _vector_hits(connection, t, index, first.vector, queries, wheres)
        ]
    union = list(dict.fromkeys(seq for pool in (*by_words, *near) for seq in pool))
    lexical = score_records(connection, t, words, union)
    cosines = {seq: cosine for pool in near for seq, cosine in pool.items()}
    if first.vector is not None:
        rest = [seq for seq in union if seq not in cosines]
        cosines.update(index.cosines(connection, first.vector, rest) if rest else {})
    records = {record.seq: record for record in fetch_records(connection, t, union)}
    named = _named(first.actor_terms, records.values())
    found = []
    for query, worded, nearest in zip(queries, by_words, near, strict=True):
        preferred = _preferences(query.filter.scope)
        lexical_ranks = _ranks(sorted(worded, key=lambda seq: (-lexical[seq], seq)))
        vector_ranks = _ranks(nearest)
        found.append(
            tuple(
                Candidate(
                    record=records[seq],
                    lexical=lexical[seq] if first.terms else None,
                    cosine=cosines.get(seq),
                    lexical_rank=lexical_ranks.get(seq),
                    vector_rank=vector_ranks.get(seq),
                    actor_match=seq in named,
                    scope_matches=sum(
                        getattr(records[seq], name) == value for name, value in preferred
                    ),
                )
                for seq in dict.fromkeys((*worded, *nearest))
            )
        )
    return found


def _named(terms: frozenset[str], records: Iterable[ScopedRecord]) -> set[int]:
    """Return the records that the named persons said, or that are about them.

    A message is what its speaker says; any other record is about whom its text names.
    """
    if not terms:
        return set()
    known: dict[str, bool] = {}
    found = set()
    for record in records:
        text = record.actor if record.record_type == "message" else record.content
        if text is None:
            continue
        if text not in known:
            known[text] = not terms.isdisjoint(analyze(text))
        if known[text]:
            found.add(record.seq)
    return found


def _ranks(seqs: Iterable[int]) -> dict[int, int]:
    return {seq: rank for rank, seq in enumerate(seqs, start=1)}


def _vector_hits(
    connection: apsw.Connection,
    t: Tables,
    index: VectorIndex,
    vector: FloatVector,
    queries: Sequence[CandidateQuery],
    wheres: Sequence[Where],
) -> list[list[tuple[int, float]]]:
    """Return for each query the nearest records that pass its filter; exact for any filter.

    The cache ranks all of the user's records; the filters are asked about the best of them, and
    about more only when a query gets too few.
    """
    users = {query.filter.scope.user for query in queries}
    only = next(iter(users)) if len(users) == 1 else DimensionMatch()
    wanted = sum(query.pool for query in queries) * 4
    while True:
        nearest, complete = index.best(
            connection, vector, user=(only.value,) if only.exact else None, limit=wanted
        )
        listed = [seq for seq, _ in nearest]
        passing = passing_seqs(connection, t, listed, wheres)
        hits = [
            [hit for hit in nearest if hit[0] in passed][: query.pool]
            for query, passed in zip(queries, passing, strict=True)
        ]
        short = any(len(found) < query.pool for found, query in zip(hits, queries, strict=True))
        if complete or not short:
            return hits
        wanted *= 8


def passing_seqs(
    connection: apsw.Connection, t: Tables, seqs: Sequence[int], wheres: Sequence[Where]
) -> list[set[int]]:
    """Return for each filter which of the records it lets through, in one statement."""
    flags = ", ".join(f"({where.sql})" for where in wheres)
    binds = [value for where in wheres for value in where.binds]
    rows = fetch_all(
        connection,
        # CROSS JOIN keeps the planner from walking the whole scope instead of the list.
        f"SELECT r.seq, {flags} FROM json_each(?) j CROSS JOIN {t.record} r ON r.seq = j.value",
        (*binds, dump_json(list(seqs))),
    )
    return [{row[0] for row in rows if row[place]} for place in range(1, len(wheres) + 1)]


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


def _preferences(scope: ScopeFilter) -> list[tuple[str, str]]:
    """Return the fields and values that rank a record higher instead of filtering."""
    pairs = (("user_id", scope.user), ("agent_id", scope.agent), ("thread_id", scope.thread))
    return [
        (name, match.value) for name, match in pairs if not match.exact and match.value is not None
    ]
