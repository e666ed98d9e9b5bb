"""The lexical arm of a SQLite store: BM25 over the fields of each chunk.

May import text, requests, index_fields, the counts
and the sieve. The text index only chooses the pool, by its own
BM25; every candidate, whichever arm brought it, is then scored by `score_records`. Two reasons:
a record the vector arm brought needs the same score, and FTS5 drops the weight of every word
that more than half of the chunks hold, which in a young memory is most words.

Formula: BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009) with k1 1.2
and b 0.75, the frequency of a word being the sum of its occurrences weighted by field, and the
inverse document frequency in Lucene's form, ln(1 + (N - n + 0.5) / (n + 0.5)), never negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final

from agentmemory.records import RecordType
from agentmemory.requests import CandidateQuery, QueryTerm, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.index_fields import (
    FIELD_WEIGHTS,
    agent_token,
    thread_token,
    user_token,
    user_type_token,
)
from agentmemory.stores.sqlite.query import fetch_all
from agentmemory.stores.sqlite.rows import dump_json
from agentmemory.stores.sqlite.schema import FTS_COLUMNS, Tables
from agentmemory.stores.sqlite.sieve import Sieve
from agentmemory.stores.sqlite.term_counts import SCORED_COLUMNS, Counts
from agentmemory.text.fts5 import fts5_match

if TYPE_CHECKING:
    import apsw

K1: Final = 1.2
B: Final = 0.75

_WEIGHTS: Final[tuple[float, ...]] = astuple(FIELD_WEIGHTS)
_CHOICE_PER_PLACE: Final = 20
"""How many chunks the choosing words should hold for each place in the pool."""

_LOOK_PER_PLACE: Final = 2
"""How many chunks a look for several queries takes for each place in their pools."""

_NARROWING_SHARE: Final = 0.3
"""A scope that leaves a smaller share of the chunks is looked up in the index."""

_WEIGHTS_SQL: Final = ", ".join(str(weight) for weight in (0.0, *_WEIGHTS))


@dataclass(frozen=True, slots=True)
class WeighedTerm:
    """A term of the query with the number of chunks that hold it, and its weight."""

    term: QueryTerm
    frequency: int
    idf: float


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A query as the index of one store sees it in one snapshot.

    Args:
        terms: The terms that any chunk holds, the rarest first.
        counts: What the index holds.
    """

    terms: tuple[WeighedTerm, ...]
    counts: Counts


def weigh(counts: Counts, terms: Sequence[QueryTerm]) -> LexicalQuery:
    """Look up how often the terms of a query occur."""
    held = counts.of_terms(terms)
    weighed = []
    for term in terms:
        frequency = held[term]
        if frequency:
            idf = math.log1p((counts.chunks - frequency + 0.5) / (frequency + 0.5))
            weighed.append(WeighedTerm(term, frequency, idf))
    weighed.sort(key=lambda item: (item.frequency, item.term.text))
    return LexicalQuery(tuple(weighed), counts)


def lexical_hits(
    connection: apsw.Connection,
    t: Tables,
    words: LexicalQuery,
    queries: Sequence[CandidateQuery],
    sieve: Sieve,
) -> list[list[int]]:
    """Return for each query the seqs the index ranks best, best first; exact for any filter.

    The rarest words choose first: words that most chunks hold are only used when the rarer ones
    do not fill the pool. The index is asked for more chunks than needed, without a filter, once
    for all queries; what each filter lets through is kept. A query that gets too little that
    way asks by itself, narrowed by its own scope.
    """
    if not words.terms:
        return [[] for _ in queries]
    if len(queries) == 1:
        return [_hits_of_one(connection, t, words, queries[0], sieve, 0)]
    pool = sum(query.pool for query in queries)
    shared, share = _scope_of(words.counts, _common(queries))
    terms = [item.term for item in words.terms]
    chosen = terms[: _choosing(words, share, pool)]
    ranked, complete = _ranked_records(connection, t, chosen, shared, pool * _LOOK_PER_PLACE)
    # Whoever looked by himself would find what is here already.
    complete = complete and len(chosen) == len(terms)
    found = sieve.passing(ranked, {place: query.pool for place, query in enumerate(queries)})
    return [
        found[place]
        if complete or len(found[place]) >= query.pool
        else _hits_of_one(connection, t, words, query, sieve, place)
        for place, query in enumerate(queries)
    ]


def _hits_of_one(
    connection: apsw.Connection,
    t: Tables,
    words: LexicalQuery,
    query: CandidateQuery,
    sieve: Sieve,
    place: int,
) -> list[int]:
    scope, share = _scope_of(words.counts, query.filter)
    terms = [item.term for item in words.terms]
    choosing = _choosing(words, share, query.pool)
    hits: list[int] = []
    for chosen in (terms[:choosing], terms):
        wanted = query.pool * 4
        while True:
            ranked, complete = _ranked_records(connection, t, chosen, scope, wanted)
            hits = sieve.passing(ranked, {place: query.pool})[place]
            if len(hits) >= query.pool or complete:
                break
            wanted *= 8
        if len(hits) >= query.pool or choosing == len(terms):
            break
    return hits


def _common(queries: Sequence[CandidateQuery]) -> RecordFilter:
    """Return a filter that lets through whatever any of the queries' filters does, by scope."""
    filters = [query.filter for query in queries]
    users = {item.scope.user for item in filters}
    threads = {item.scope.thread for item in filters}
    types = [item.record_types for item in filters]
    named: list[RecordType] = [name for listed in types if listed is not None for name in listed]
    return RecordFilter(
        scope=ScopeFilter(
            user=users.pop() if len(users) == 1 else DimensionMatch(),
            thread=threads.pop() if len(threads) == 1 else DimensionMatch(),
        ),
        now=filters[0].now,
        record_types=None if None in types else tuple(dict.fromkeys(named)),
    )


def _choosing(query: LexicalQuery, share: float, pool: int) -> int:
    """Return how many of the rarest terms are expected to fill the pool many times over."""
    expected = 0.0
    for index, item in enumerate(query.terms, start=1):
        expected += item.frequency * share
        if expected >= pool * _CHOICE_PER_PLACE:
            return index
    return len(query.terms)


def _ranked_records(
    connection: apsw.Connection,
    t: Tables,
    terms: Sequence[QueryTerm],
    scope: Sequence[str],
    wanted: int,
) -> tuple[list[int], bool]:
    """Return the owners of the chunks that the index ranks best, best first.

    Returns:
        Records by seq, each at its best chunk's place, and whether there are no more chunks.
    """
    words = fts5_match(terms, columns=SCORED_COLUMNS)
    expression = " AND ".join(f"({part})" for part in (words, *scope))
    rows = fetch_all(
        connection,
        f"SELECT c.record_seq FROM "
        f"(SELECT rowid AS id, bm25({t.fts}, {_WEIGHTS_SQL}) AS score FROM {t.fts} "
        f"WHERE {t.fts} MATCH ? ORDER BY score, rowid LIMIT ?) m "
        f"CROSS JOIN {t.chunk} c ON c.id = m.id ORDER BY m.score, m.id",
        (expression, wanted),
    )
    return list(dict.fromkeys(row[0] for row in rows)), len(rows) < wanted


def _scope_of(counts: Counts, record_filter: RecordFilter) -> tuple[list[str], float]:
    """Return index expressions that narrow by scope, and the share of chunks they leave.

    A token that most chunks carry costs more than it saves; the filter decides in any case.
    """
    scope = record_filter.scope
    groups: list[list[str]] = []
    if scope.user.exact:
        types = record_filter.record_types
        if types is None:
            groups.append([user_token(scope.user.value)])
        else:
            groups.append([user_type_token(scope.user.value, name) for name in types])
    if scope.thread.exact:
        groups.append([thread_token(scope.thread.value)])
    if scope.agent.exact and not scope.user.exact:
        groups.append([agent_token(scope.agent.value)])
    expressions = []
    share = 1.0
    for tokens in groups:
        held = counts.of_tokens(tokens)
        part = held / counts.chunks if counts.chunks else 0.0
        share = min(share, part)
        if part < _NARROWING_SHARE:
            listed = " OR ".join(f'"{token}"' for token in tokens)
            expressions.append(f"{{scope}} : ({listed})")
    return expressions, share


def score_records(
    connection: apsw.Connection, t: Tables, query: LexicalQuery, seqs: Iterable[int]
) -> dict[int, float]:
    """Return the BM25 of the best chunk of each record; 0.0 where no word matches."""
    listed = list(seqs)
    scores = dict.fromkeys(listed, 0.0)
    if not listed or not query.terms:
        return scores
    average = query.counts.average
    words = [(needle(item.term), item.idf) for item in query.terms]
    # The table behind the index holds what the index would return, at less than its price.
    columns = ", ".join(f"f.c{FTS_COLUMNS.index(name)}" for name in SCORED_COLUMNS)
    cursor = connection.execute(
        f"SELECT c.record_seq, {columns} FROM json_each(?) j "
        f"CROSS JOIN {t.chunk} c ON c.record_seq = j.value "
        f"CROSS JOIN {t.fts}_content f ON f.id = c.id",
        (dump_json(listed),),
    )
    row: tuple[Any, ...]
    for row in cursor:
        seq, *fields = row
        text = f" {' '.join(fields)} "
        # Most chunks lack most words, and looking for a substring is fast.
        present = [word for word in words if word[0] in text]
        if not present:
            continue
        # Two spaces between tokens, for a word that follows itself needs its own on either side.
        length = 0
        spaced = []
        for weight, field in zip(_WEIGHTS, fields, strict=True):
            if field:
                length += field.count(" ") + 1
                spaced.append((weight, f" {field.replace(' ', '  ')} "))
        norm = K1 * (1 - B + B * length / average)
        score = 0.0
        for sought, idf in present:
            frequency = 0.0
            for weight, field in spaced:
                frequency += weight * field.count(sought)
            if frequency:
                score += idf * frequency * (K1 + 1) / (frequency + norm)
        scores[seq] = max(scores[seq], score)
    return scores


def needle(term: QueryTerm) -> str:
    """Return what to look for in tokens with a space on either side of each."""
    return f" {term.text}" if term.prefix else f" {term.text} "
