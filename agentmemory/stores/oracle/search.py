"""Both arms of a search on an Oracle store, in two round trips whatever the number of queries.

The first trip asks both arms of every query; the second one reads what both brought together:
records, fields, distances, and how many chunks there are and hold each word. A further one is
made only where the vector index finds too few that pass the filter, so that all vectors are
compared, and where a candidate has a text too long for VARCHAR2. May import bm25, candidates,
hybrid_index, lexical, vectors, records, rows and trips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentmemory.requests import Candidate, CandidateQuery, QueryTerm
from agentmemory.stores.bm25 import Bm25, Corpus
from agentmemory.stores.candidates import assemble
from agentmemory.stores.oracle import hybrid_index, lexical, vectors
from agentmemory.stores.oracle.embedder import read_embedder
from agentmemory.stores.oracle.hybrid_index import HybridSearch
from agentmemory.stores.oracle.lexical import ChunkRows, TermCounts
from agentmemory.stores.oracle.records import RecordRows, records_at
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.where import batches

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector


PLAN_NOTES: Final[Mapping[str, str]] = {
    "search.records": "primary key of record, one probe for each candidate; sources by their "
    "primary key",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTools:
    """What a search may use.

    Args:
        text_index: Whether there is a text index.
        vector_dimension: Length of the vectors in the vector index; None without one.
        counts: What is remembered of the store.
        hybrid: How the hybrid vector index is asked; None: it is not.
    """

    text_index: bool
    vector_dimension: int | None
    counts: TermCounts
    hybrid: HybridSearch | None = None


class Statistics:
    """Asks on any trip how many chunks there are and hold each of some terms.

    Args:
        t: The tables.
        tools: What a search may use.
        terms: The terms, none of them twice.
    """

    def __init__(self, t: Tables, tools: SearchTools, terms: Sequence[QueryTerm]) -> None:
        self._t = t
        self._tools = tools
        self._keys = {lexical.pattern(term): term for term in terms}
        self._corpus = tools.counts.corpus
        self._known = {
            key: count for key in self._keys if (count := tools.counts.frequency(key)) is not None
        }
        self._asked = [key for key in self._keys if key not in self._known]
        self._sizes: Rows = []
        self._rows: Rows = []

    def ask(self, trip: Trip) -> None:
        """Let a trip find out what is not remembered."""
        if not self._keys:
            return
        if self._corpus is None:
            self._sizes = trip.add(lexical.corpus(self._t))
        if not self._asked:
            return
        if self._tools.text_index:
            self._rows = trip.add(*lexical.frequencies(self._t, self._asked))
        else:
            needles = [lexical.needle(self._keys[key]) for key in self._asked]
            self._rows = trip.add(lexical.frequencies_by_scan(self._t, needles))

    def answer(self) -> tuple[Corpus, dict[QueryTerm, int]]:
        """Return the numbers after the trip, and remember them if the store is large."""
        size = lexical.corpus_of(self._sizes) if self._sizes else None
        # The text index answers each in a row of its own, a scan all in one, filled up.
        counted = [value or 0 for row in self._rows for value in row]
        fresh = dict(zip(self._asked, counted, strict=False))
        self._tools.counts.remember(size, fresh, rare=not self._tools.text_index)
        counts = {self._keys[key]: count for key, count in {**self._known, **fresh}.items()}
        return self._corpus or size or Corpus(0, 0), counts


async def find_candidates(
    transaction: Transaction,
    t: Tables,
    tools: SearchTools,
    queries: Sequence[CandidateQuery],
    check_embedder: Callable[[Rows], None],
    take_along: Callable[[Trip], None],
) -> list[tuple[Candidate, ...]]:
    """Run both arms for queries that differ in their filters and pools only.

    Args:
        transaction: Where to look.
        t: The tables.
        tools: What a search may use.
        queries: They share terms, vector and actor terms.
        check_embedder: Refuses vectors of another embedder, given the rows of `read_embedder`.
        take_along: Adds to the first trip what else is to be found out.

    Returns:
        The union of both arms of each query, each candidate with the scores of both.
    """
    first = queries[0]
    arms = _Arms(t, tools, queries)
    trip = Trip()
    embedder = trip.add(read_embedder(t)) if first.vector is not None else []
    arms.ask(trip)
    take_along(trip)
    await trip.run(transaction)
    check_embedder(embedder)
    arms.ask_short(trip)
    await trip.run(transaction)
    worded, near = arms.worded(), arms.near()

    union = list(dict.fromkeys(seq for pool in (*worded, *near) for seq in pool))
    if not union:
        return [() for _ in queries]
    cosines = arms.exact_cosines()
    rest = [seq for seq in union if seq not in cosines]
    statistics = Statistics(t, tools, first.terms)
    statistics.ask(trip)
    found = RecordRows(
        t,
        trip.add(*(records_at(t, "search.records", it, short=True) for it in batches(union))),
    )
    worded_chunks = [lexical.fields(t, it) for it in batches(union)] if first.terms else []
    chunks = ChunkRows(t, trip.add(*worded_chunks))
    far: Rows = []
    if first.vector is not None:
        far = trip.add(*(vectors.distances(t, first.vector, part) for part in batches(rest)))
    brought: Rows = []
    if any(query.with_vectors for query in queries):
        brought = trip.add(*(vectors.vectors_at(t, part) for part in batches(union)))
    await trip.run(transaction)
    found.ask_long(trip)
    chunks.ask_long(trip)
    await trip.run(transaction)
    records = {record.seq: record for record in found.records()}
    scores = Bm25(*statistics.answer()).best(chunks.fields())
    cosines.update(vectors.cosines(far))
    held: dict[int, FloatVector] = dict(brought)
    return [
        assemble(query, words, _nearest_first(nearest, cosines), records, scores, cosines, held)
        for query, words, nearest in zip(
            queries, arms.without_other_words(worded, scores), near, strict=True
        )
    ]


def _nearest_first(seqs: Iterable[int], cosines: Mapping[int, float]) -> list[int]:
    """Order records by cosine, ties by seq; those that lost their vector meanwhile are left out."""
    return sorted((seq for seq in seqs if seq in cosines), key=lambda seq: (-cosines[seq], seq))


class _Arms:
    """Both arms of each query, asked together."""

    def __init__(self, t: Tables, tools: SearchTools, queries: Sequence[CandidateQuery]) -> None:
        self._t = t
        self._tools = tools
        self._queries = queries
        self._worded: list[Rows] = []
        self._near: list[Rows] = []
        self._exact: set[int] = set()
        self._hybrid: dict[int, Rows] = {}

    def ask(self, trip: Trip) -> None:
        """Let a trip ask the arms."""
        for place, query in enumerate(self._queries):
            search = self._tools.hybrid
            if search is not None and hybrid_index.fits(search, query):
                self._hybrid[place] = trip.add(hybrid_index.search_index(self._t, search, query))
                self._worded.append([])
                self._near.append([])
                continue
            self._worded.append(trip.add(self._pool(query)) if query.terms else [])
            self._near.append([])
            if self._is_approximate(query):
                self._near[place] = trip.add(vectors.approximate(self._t, query))
            elif query.vector is not None:
                self._ask_exactly(trip, place)

    def ask_short(self, trip: Trip) -> None:
        """Compare all vectors where an index found too few that pass the filter."""
        for place, query in enumerate(self._queries):
            if place in self._hybrid:
                if self._is_short(place):
                    del self._hybrid[place]
                    self._worded[place] = trip.add(self._pool(query))
                    self._ask_exactly(trip, place)
            elif self._is_approximate(query) and len(self._near[place]) < query.pool:
                self._ask_exactly(trip, place)

    def _ask_exactly(self, trip: Trip, place: int) -> None:
        self._near[place] = trip.add(vectors.nearest(self._t, self._queries[place]))
        self._exact.add(place)

    def worded(self) -> list[list[int]]:
        """Return what the lexical arm brought each query: records by seq, best first."""
        return [
            hybrid_index.by_word(self._hybrid[place], query.pool)
            if place in self._hybrid
            else [row[0] for row in self._worded[place]]
            for place, query in enumerate(self._queries)
        ]

    def near(self) -> list[list[int]]:
        """Return what the vector arm brought each query: records by seq, the nearest first."""
        return [
            hybrid_index.by_meaning(self._hybrid[place], query.pool)
            if place in self._hybrid
            else list(vectors.cosines(self._near[place]))[: query.pool]
            for place, query in enumerate(self._queries)
        ]

    def without_other_words(
        self, worded: Sequence[list[int]], scores: Mapping[int, float]
    ) -> list[list[int]]:
        """Leave out what the hybrid index found by words that are none of the query's here."""
        return [
            [seq for seq in seqs if scores.get(seq)] if place in self._hybrid else seqs
            for place, seqs in enumerate(worded)
        ]

    def exact_cosines(self) -> dict[int, float]:
        """Return the cosines that were compared; those of a vector index may be estimates."""
        return {
            seq: cosine
            for place, rows in enumerate(self._near)
            if place in self._exact
            for seq, cosine in vectors.cosines(rows[: self._queries[place].pool]).items()
        }

    def _is_short(self, place: int) -> bool:
        """Tell whether filters may have left out most of what the hybrid index returned."""
        query, search = self._queries[place], self._tools.hybrid
        return (
            search is not None
            and len(self._hybrid[place]) < query.pool
            and hybrid_index.filters_further(search, query.filter)
        )

    def _pool(self, query: CandidateQuery) -> Statement:
        if self._tools.text_index:
            return lexical.pool(self._t, query)
        return lexical.pool_by_scan(self._t, query)

    def _is_approximate(self, query: CandidateQuery) -> bool:
        return (
            query.vector is not None
            and self._tools.vector_dimension == len(query.vector)
            and not vectors.is_narrow(query.filter)
        )
