"""Both arms of a search on an Oracle store, in two round trips whatever the number of queries.

The first trip asks both arms of every query and how large the store is; the second one reads
what both brought together: records, fields, distances, and how many chunks hold each word. May
import bm25, candidates, lexical, vectors, records, rows and trips.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentmemory.requests import Candidate, CandidateQuery, QueryTerm
from agentmemory.stores.bm25 import Bm25, Corpus
from agentmemory.stores.candidates import assemble
from agentmemory.stores.oracle import lexical, vectors
from agentmemory.stores.oracle.embedder import read_embedder
from agentmemory.stores.oracle.lexical import TermCounts
from agentmemory.stores.oracle.records import records_at
from agentmemory.stores.oracle.rows import record_from_row
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTools:
    """What a search may use.

    Args:
        text_index: Whether there is a text index.
        vector_dimension: Length of the vectors in the vector index; None without one.
        counts: What is remembered of the store.
    """

    text_index: bool
    vector_dimension: int | None
    counts: TermCounts


class Frequencies:
    """Asks on any trip how many chunks hold each of some terms, unless that is remembered.

    Args:
        t: The tables.
        tools: What a search may use.
        terms: The terms, none of them twice.
    """

    def __init__(self, t: Tables, tools: SearchTools, terms: Sequence[QueryTerm]) -> None:
        self._t = t
        self._tools = tools
        self._keys = {lexical.pattern(term): term for term in terms}
        self._asked: list[str] = []
        self._rows: Rows = []
        self._known: dict[str, int] = {}

    def ask(self, trip: Trip) -> None:
        """Let a trip find out what is not remembered."""
        for key in self._keys:
            known = self._tools.counts.frequency(key)
            if known is None:
                self._asked.append(key)
            else:
                self._known[key] = known
        if not self._asked:
            return
        if self._tools.text_index:
            self._rows = trip.add(*lexical.frequencies(self._t, self._asked))
        else:
            needles = [lexical.needle(self._keys[key]) for key in self._asked]
            self._rows = trip.add(lexical.frequencies_by_scan(self._t, needles))

    def answer(self, corpus: Corpus) -> dict[QueryTerm, int]:
        """Return the numbers after the trip, and remember them if the store is large."""
        # One row each from the text index, one row in all from a scan of an empty store or not.
        counted = [value or 0 for row in self._rows for value in row]
        fresh = dict(zip(self._asked, counted, strict=False))
        self._tools.counts.remember(corpus, fresh)
        return {self._keys[key]: count for key, count in {**self._known, **fresh}.items()}


async def find_candidates(
    transaction: Transaction,
    t: Tables,
    tools: SearchTools,
    queries: Sequence[CandidateQuery],
    check_embedder: Callable[[Rows], None],
) -> list[tuple[Candidate, ...]]:
    """Run both arms for queries that differ in their filters and pools only.

    Args:
        transaction: Where to look.
        t: The tables.
        tools: What a search may use.
        queries: They share terms, vector and actor terms.
        check_embedder: Refuses vectors of another embedder, given the rows of `read_embedder`.

    Returns:
        The union of both arms of each query, each candidate with the scores of both.
    """
    first = queries[0]
    arms = _Arms(t, tools, queries)
    trip = Trip()
    embedder = trip.add(read_embedder(t)) if first.vector is not None else []
    sizes = arms.ask(trip)
    await trip.run(transaction)
    check_embedder(embedder)
    corpus = tools.counts.corpus or (lexical.corpus_of(sizes) if sizes else Corpus(0, 0))
    worded, near = arms.answer()

    union = list(dict.fromkeys(seq for pool in (*worded, *near) for seq in pool))
    if not union:
        return [() for _ in queries]
    cosines = (
        {}
        if arms.is_approximate
        else {seq: cosine for pool in near for seq, cosine in pool.items()}
    )
    rest = [seq for seq in union if seq not in cosines]
    rows = trip.add(records_at(t, "search.records", union))
    fields: Rows = []
    frequencies = Frequencies(t, tools, first.terms)
    if first.terms:
        fields = trip.add(lexical.fields(t, union))
        frequencies.ask(trip)
    far = (
        trip.add(vectors.distances(t, first.vector, rest))
        if first.vector is not None and rest
        else []
    )
    await trip.run(transaction)
    records = {record.seq: record for record in map(record_from_row, rows)}
    scores = Bm25(corpus, frequencies.answer(corpus)).best((seq, texts) for seq, texts in fields)
    cosines.update(vectors.cosines(far))
    return [
        assemble(query, words, list(nearest), records, scores, cosines)
        for query, words, nearest in zip(queries, worded, near, strict=True)
    ]


class _Arms:
    """Both arms of each query, asked together."""

    def __init__(self, t: Tables, tools: SearchTools, queries: Sequence[CandidateQuery]) -> None:
        self._t = t
        self._tools = tools
        self._queries = queries
        self._worded: list[Rows] = []
        self._near: list[Rows] = []
        self.is_approximate = False

    def ask(self, trip: Trip) -> Rows:
        """Let a trip ask the arms; returns where the size of the store will arrive, if asked."""
        sizes: Rows = []
        first = self._queries[0]
        if first.terms and self._tools.counts.corpus is None:
            sizes = trip.add(lexical.corpus(self._t))
        for query in self._queries:
            self._worded.append(trip.add(self._pool(query)) if query.terms else [])
            self._near.append(
                trip.add(self._nearest(query, query.vector)) if query.vector is not None else []
            )
        return sizes

    def answer(self) -> tuple[list[list[int]], list[dict[int, float]]]:
        """Return what the arms brought: records by seq, best first, and cosines by seq."""
        worded = [[row[0] for row in rows] for rows in self._worded]
        near = [
            dict(list(vectors.cosines(rows).items())[: query.pool])
            for query, rows in zip(self._queries, self._near, strict=True)
        ]
        return worded, near

    def _pool(self, query: CandidateQuery) -> Statement:
        if self._tools.text_index:
            return lexical.pool(self._t, query)
        return lexical.pool_by_scan(self._t, query)

    def _nearest(self, query: CandidateQuery, vector: FloatVector) -> Statement:
        if self._tools.vector_dimension == len(vector) and not vectors.is_narrow(query.filter):
            self.is_approximate = True
            return vectors.approximate(self._t, query)
        return vectors.nearest(self._t, query)
