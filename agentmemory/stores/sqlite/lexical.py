"""The lexical arm of a SQLite store: BM25 over the fields of each chunk.

May import text, requests and index_fields. The text index only chooses the pool, by its own
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
from agentmemory.stores.sqlite.query import fetch_all, fetch_one, fetch_value
from agentmemory.stores.sqlite.rows import dump_json
from agentmemory.stores.sqlite.schema import FTS_COLUMNS, Tables
from agentmemory.stores.sqlite.where import Where
from agentmemory.text.fts5 import fts5_match

if TYPE_CHECKING:
    import apsw

K1: Final = 1.2
B: Final = 0.75

_SCORED_COLUMNS: Final = FTS_COLUMNS[1:]
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
        chunks: Number of chunks.
        average: Mean length of a chunk in tokens.
    """

    terms: tuple[WeighedTerm, ...]
    chunks: int
    average: float


def weigh(connection: apsw.Connection, t: Tables, terms: Sequence[QueryTerm]) -> LexicalQuery:
    """Look up how often the terms of a query occur."""
    chunks, average = _statistics(connection, t)
    weighed = []
    for term in terms:
        frequency = _document_frequency(connection, t, term)
        if frequency:
            idf = math.log1p((chunks - frequency + 0.5) / (frequency + 0.5))
            weighed.append(WeighedTerm(term, frequency, idf))
    weighed.sort(key=lambda item: (item.frequency, item.term.text))
    return LexicalQuery(tuple(weighed), chunks, average)


def lexical_hits(
    connection: apsw.Connection,
    t: Tables,
    words: LexicalQuery,
    queries: Sequence[CandidateQuery],
    wheres: Sequence[Where],
) -> list[list[int]]:
    """Return for each query the seqs the index ranks best, best first; exact for any filter.

    The rarest words choose first: words that most chunks hold are only used when the rarer ones
    do not fill the pool. The index is asked for more chunks than needed, without a join, once
    for all queries; what each filter lets through is kept. A query that gets too little that
    way asks by itself, narrowed by its own scope.
    """
    if not words.terms:
        return [[] for _ in queries]
    if len(queries) == 1:
        return [_hits_of_one(connection, t, words, queries[0], wheres[0])]
    pool = sum(query.pool for query in queries)
    shared, share = _scope_of(connection, t, _common(queries), words.chunks)
    terms = [item.term for item in words.terms]
    chosen = terms[: _choosing(words, share, pool)]
    chunks = _ranked_chunks(connection, t, chosen, shared, pool * _LOOK_PER_PLACE)
    found = _passing(connection, t, chunks, wheres)
    return [
        hits[: query.pool]
        if len(hits) >= query.pool
        else _hits_of_one(connection, t, words, query, where)
        for query, where, hits in zip(queries, wheres, found, strict=True)
    ]


def _hits_of_one(
    connection: apsw.Connection,
    t: Tables,
    words: LexicalQuery,
    query: CandidateQuery,
    where: Where,
) -> list[int]:
    scope, share = _scope_of(connection, t, query.filter, words.chunks)
    terms = [item.term for item in words.terms]
    choosing = _choosing(words, share, query.pool)
    hits: list[int] = []
    for chosen in (terms[:choosing], terms):
        wanted = query.pool * 4
        while True:
            chunks = _ranked_chunks(connection, t, chosen, scope, wanted)
            hits = _passing(connection, t, chunks, (where,))[0]
            if len(hits) >= query.pool or len(chunks) < wanted:
                break
            wanted *= 8
        if len(hits) >= query.pool or choosing == len(terms):
            break
    return hits[: query.pool]


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


def _ranked_chunks(
    connection: apsw.Connection,
    t: Tables,
    terms: Sequence[QueryTerm],
    scope: Sequence[str],
    wanted: int,
) -> list[int]:
    words = fts5_match(terms, columns=_SCORED_COLUMNS)
    expression = " AND ".join(f"({part})" for part in (words, *scope))
    rows = fetch_all(
        connection,
        f"SELECT rowid FROM {t.fts} WHERE {t.fts} MATCH ? "
        f"ORDER BY bm25({t.fts}, {_WEIGHTS_SQL}), rowid LIMIT ?",
        (expression, wanted),
    )
    return [row[0] for row in rows]


def _scope_of(
    connection: apsw.Connection, t: Tables, record_filter: RecordFilter, chunks: int
) -> tuple[list[str], float]:
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
        held = sum(_token_frequency(connection, t, token) for token in tokens)
        part = held / chunks if chunks else 0.0
        share = min(share, part)
        if part < _NARROWING_SHARE:
            listed = " OR ".join(f'"{token}"' for token in tokens)
            expressions.append(f"{{scope}} : ({listed})")
    return expressions, share


def _passing(
    connection: apsw.Connection, t: Tables, chunks: Sequence[int], wheres: Sequence[Where]
) -> list[list[int]]:
    """Return for each filter the records behind the chunks that it lets through, in order."""
    flags = ", ".join(f"({where.sql})" for where in wheres)
    binds = [value for where in wheres for value in where.binds]
    rows = fetch_all(
        connection,
        # CROSS JOIN keeps the planner from walking the whole scope instead of the list.
        f"SELECT c.id, r.seq, {flags} FROM json_each(?) j "
        f"CROSS JOIN {t.chunk} c ON c.id = j.value "
        f"CROSS JOIN {t.record} r ON r.seq = c.record_seq",
        (*binds, dump_json(list(chunks))),
    )
    found = []
    for place in range(2, len(wheres) + 2):
        owners = {row[0]: row[1] for row in rows if row[place]}
        found.append(list(dict.fromkeys(owners[chunk] for chunk in chunks if chunk in owners)))
    return found


def score_records(
    connection: apsw.Connection, t: Tables, query: LexicalQuery, seqs: Iterable[int]
) -> dict[int, float]:
    """Return the BM25 of the best chunk of each record; 0.0 where no word matches."""
    listed = list(seqs)
    scores = dict.fromkeys(listed, 0.0)
    if not listed or not query.terms:
        return scores
    weighted = [(item.term, item.idf) for item in query.terms]
    columns = ", ".join(f"f.{name}" for name in _SCORED_COLUMNS)
    cursor = connection.execute(
        f"SELECT c.record_seq, {columns} FROM json_each(?) j "
        f"CROSS JOIN {t.chunk} c ON c.record_seq = j.value "
        f"CROSS JOIN {t.fts} f ON f.rowid = c.id",
        (dump_json(listed),),
    )
    row: tuple[Any, ...]
    for row in cursor:
        seq, *fields = row
        text = " ".join(fields)
        # An empty field adds a space of its own.
        length = text.count(" ") + 1 - fields.count("")
        norm = K1 * (1 - B + B * length / query.average)
        score = 0.0
        for term, idf in weighted:
            # Most chunks lack most words, and looking for a substring is fast.
            if term.text in text:
                frequency = _frequency(term, fields)
                if frequency:
                    score += idf * frequency * (K1 + 1) / (frequency + norm)
        scores[seq] = max(scores[seq], score)
    return scores


def _frequency(term: QueryTerm, fields: Sequence[str]) -> float:
    total = 0.0
    text = term.text
    for field, weight in zip(fields, _WEIGHTS, strict=True):
        if not weight or text not in field:
            continue
        tokens = field.split(" ")
        if term.prefix:
            count = sum(token.startswith(text) for token in tokens)
        else:
            count = tokens.count(text)
        total += weight * count
    return total


def _document_frequency(connection: apsw.Connection, t: Tables, term: QueryTerm) -> int:
    if not term.prefix:
        return _token_frequency(connection, t, term.text)
    # Chunks with several of the words would be counted once for each by the vocabulary.
    sql = f"SELECT count(*) FROM {t.fts} WHERE {t.fts} MATCH ?"
    return int(fetch_value(connection, sql, (fts5_match((term,), columns=_SCORED_COLUMNS),)))


def _token_frequency(connection: apsw.Connection, t: Tables, token: str) -> int:
    return fetch_value(connection, f"SELECT doc FROM {t.vocabulary} WHERE term = ?", (token,)) or 0


def _statistics(connection: apsw.Connection, t: Tables) -> tuple[int, float]:
    """Return the number of chunks and their mean length in tokens, scope tokens left out.

    FTS5 keeps both in its data table under id 1 as variable-length integers: the number of
    rows, then the total number of tokens of each column.
    """
    row = fetch_one(connection, f"SELECT block FROM {t.fts}_data WHERE id = 1")
    numbers = _varints(row[0]) if row else [0]
    rows, tokens = (numbers[0] if numbers else 0), sum(numbers[2:])
    return rows, (tokens / rows if rows else 0.0)


def _varints(blob: bytes) -> list[int]:
    """Decode SQLite's variable-length integers (https://www.sqlite.org/fileformat.html)."""
    numbers = []
    place = 0
    while place < len(blob):
        value = 0
        for used in range(9):
            byte = blob[place]
            place += 1
            if used == 8:
                value = value << 8 | byte
                break
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                break
        numbers.append(value)
    return numbers
