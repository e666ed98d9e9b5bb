"""Both arms of a search on a SQLite store, in one read transaction.

May import requests, lexical, vectors, the sieve, where and rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from agentmemory.records import ScopedRecord
from agentmemory.requests import Candidate, CandidateQuery
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.drafts import draft_of
from agentmemory.stores.sqlite.lexical import lexical_hits, score_records, weigh
from agentmemory.stores.sqlite.query import fetch_value
from agentmemory.stores.sqlite.rows import dump_json, record_from_row, record_select
from agentmemory.stores.sqlite.schema import Tables
from agentmemory.stores.sqlite.sieve import Sieve
from agentmemory.stores.sqlite.term_counts import Counts
from agentmemory.stores.sqlite.vectors import VectorIndex
from agentmemory.stores.sqlite.where import Where, record_where
from agentmemory.text.analyzer import analyze

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector

_DRAFT: Final = draft_of(Candidate)


def find_candidates(
    connection: apsw.Connection,
    t: Tables,
    counts: Counts,
    index: VectorIndex,
    queries: Sequence[CandidateQuery],
) -> list[tuple[Candidate, ...]]:
    """Run both arms for queries that differ in their filters and pools only.

    The words are looked up once and the vectors compared once for all of them; what one look
    brings is shared out by the filters, and a query that gets too little looks again by itself.
    So the answers are those of separate calls.

    Returns:
        The union of both arms of each query, each candidate with the scores of both.
    """
    first = queries[0]
    sieve = Sieve(connection, t, [record_where(query.filter) for query in queries])
    words = weigh(counts, first.terms)
    by_words = lexical_hits(connection, t, words, queries, sieve)
    near: list[dict[int, float]] = [{} for _ in queries]
    if first.vector is not None:
        near = _vector_hits(connection, index, first.vector, queries, sieve)
    union = list(dict.fromkeys(seq for pool in (*by_words, *near) for seq in pool))
    lexical = score_records(connection, t, words, union)
    cosines = {seq: cosine for pool in near for seq, cosine in pool.items()}
    if first.vector is not None:
        rest = [seq for seq in union if seq not in cosines]
        cosines.update(index.cosines(connection, first.vector, rest) if rest else {})
    vectors: dict[int, FloatVector] = {}
    if any(query.with_vectors for query in queries):
        vectors = index.vectors(connection, union)
    records = sieve.records(union)
    named = _named(first.actor_terms, records.values())
    found = []
    for query, worded, nearest in zip(queries, by_words, near, strict=True):
        listed = list(dict.fromkeys((*worded, *nearest)))
        preferred = _preferred(query.filter.scope, [records[seq] for seq in listed])
        lexical_ranks = _ranks(sorted(worded, key=lambda seq: (-lexical[seq], seq)))
        vector_ranks = _ranks(nearest)
        candidates = []
        for seq in listed:
            draft = object.__new__(_DRAFT)
            draft.record = records[seq]
            draft.lexical = lexical[seq] if first.terms else None
            draft.cosine = cosines.get(seq)
            draft.lexical_rank = lexical_ranks.get(seq)
            draft.vector_rank = vector_ranks.get(seq)
            draft.actor_match = seq in named
            draft.scope_matches = preferred.get(seq, 0)
            draft.vector = vectors.get(seq) if query.with_vectors else None
            draft.__class__ = Candidate
            candidates.append(draft)
        found.append(tuple(candidates))
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
    index: VectorIndex,
    vector: FloatVector,
    queries: Sequence[CandidateQuery],
    sieve: Sieve,
) -> list[dict[int, float]]:
    """Return for each query the nearest records that pass its filter; exact for any filter.

    The cache ranks all of the user's records; the filters are asked about the best of them, and
    about more only when a query gets too few.

    Returns:
        Cosines by seq, the nearest first.
    """
    users = {query.filter.scope.user for query in queries}
    only = next(iter(users)) if len(users) == 1 else DimensionMatch()
    pools = {place: query.pool for place, query in enumerate(queries)}
    wanted = sum(pools.values()) * 4
    while True:
        nearest, complete = index.best(
            connection, vector, user=(only.value,) if only.exact else None, limit=wanted
        )
        hits = sieve.passing(list(nearest), pools)
        if complete or all(len(hits[place]) >= pool for place, pool in pools.items()):
            return [{seq: nearest[seq] for seq in hits[place]} for place in pools]
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


def _preferred(scope: ScopeFilter, records: Sequence[ScopedRecord]) -> Counter[int]:
    """Return how many values of a scope each record has that rank it higher without filtering."""
    pairs = (("user_id", scope.user), ("agent_id", scope.agent), ("thread_id", scope.thread))
    return Counter(
        record.seq
        for name, match in pairs
        if not match.exact and match.value is not None
        for record in records
        if getattr(record, name) == match.value
    )
