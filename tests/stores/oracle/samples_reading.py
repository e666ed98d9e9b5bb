"""Samples of the statements that read: records, lists, both arms of a search, layers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import numpy as np

from agentmemory.layering import EvictionPolicy, LayerQuery, LayerWord
from agentmemory.records import Layer, Tier
from agentmemory.requests import (
    CandidateQuery,
    ListQuery,
    QueryTerm,
    RecordFilter,
    ThreadQuery,
)
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.cursors import write_cursor
from agentmemory.stores.oracle import (
    hybrid_index,
    layers,
    lexical,
    listing,
    reading,
    records,
    vectors,
)
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LONG = tuple(QueryTerm("z" * 40 + str(number)) for number in range(120))

USER = ScopeFilter(user=DimensionMatch(True, "ada"))
ONE = RecordFilter(scope=USER, now=NOW)
EVERYTHING = RecordFilter(
    scope=ScopeFilter(
        user=DimensionMatch(True, "ada"),
        agent=DimensionMatch(True, "guide"),
        thread=DimensionMatch(True, "t1"),
    ),
    now=NOW,
    record_types=("fact", "preference", "guideline"),
    include_invalid=False,
    metadata={
        "tier": "gold",
        "n": {"$gt": 3, "$ne": 7},
        "tags": {"$array_contains_any": ["a", "b", "c"]},
        "$or": [{"nest": {"city": "Bern"}}, {"note": {"$lte": "long " * 400}}],
    },
    tiers=(Tier.HOT, Tier.WARM),
    layers=(Layer.RULE, Layer.CONTEXT),
    event_after=NOW,
    event_before=NOW,
    created_after=NOW,
    created_before=NOW,
    valid_at=NOW,
    ids=("r1", "r2", "r3"),
    exclude_ids=("r4", "r5"),
)
AS_KNOWN = RecordFilter(
    scope=ScopeFilter(user=DimensionMatch(True, None)),
    now=NOW,
    include_invalid=False,
    known_at=NOW,
    ids=(),
)
EXPIRED = RecordFilter(scope=ScopeFilter(), now=NOW, tiers=tuple(Tier), only_expired=True)
AGENT = RecordFilter(scope=ScopeFilter(agent=DimensionMatch(True, "guide")), now=NOW)
HYBRID = hybrid_index.HybridSearch(filters=True, same_model=True)
LISTED = replace(ONE, ids=tuple(f"r{number}" for number in range(600)))
FILTERS = (ONE, EVERYTHING, AS_KNOWN, EXPIRED, AGENT)


def sample_statements(t: Tables) -> list[Statement]:
    """Return every statement that reads, and those that count use and move tiers."""
    return [
        *_reading(t),
        *_listing(t),
        *_searching(t),
        *_layers(t),
    ]


def _reading(t: Tables) -> list[Statement]:
    return [
        *(
            records.records_where(t, "reading.records", item, short=True)
            for item in (*FILTERS, LISTED)
        ),
        records.records_at(t, "search.records", [1, 2, 3], short=True),
        records.records_at(t, "records.long", [1]),
        reading.neighbours(t, ONE),
        reading.thread_tail(t, "t1"),
        *(reading.actors(t, user) for user in (USER.user, DimensionMatch())),
        vectors.read_vectors(t, ["r1", "r2"]),
    ]


def _listing(t: Tables) -> list[Statement]:
    statements = []
    for order, descending, follows in product(("created", "event"), (False, True), (False, True)):
        kind = f"{order}:{'DESC' if descending else 'ASC'}"
        query = ListQuery(
            filter=ONE,
            order="event" if order == "event" else "created",
            descending=descending,
            after=write_cursor(kind, 7, 9) if follows else None,
        )
        statements.append(listing.records_page(t, query, 100))
    for descending, follows in product((False, True), (False, True)):
        kind = f"thread:{'DESC' if descending else 'ASC'}"
        threads = ThreadQuery(
            user_id="ada",
            agent_id=None,
            metadata={"tier": "gold"},
            descending=descending,
            after=write_cursor(kind, 0, 9) if follows else None,
        )
        statements.append(listing.threads_page(t, threads, 100))
    return [*statements, listing.threads_page(t, ThreadQuery(), 100)]


def _searching(t: Tables) -> list[Statement]:
    vector = np.array([0.6, 0.8], dtype=np.float32)
    terms = (QueryTerm("kite"), QueryTerm("c++"), QueryTerm("凧", prefix=True))
    queries = [CandidateQuery(filter=item, pool=40, terms=terms, vector=vector) for item in FILTERS]
    patterns = [lexical.pattern(term) for term in terms]
    needles = [lexical.needle(term) for term in terms]
    return [
        lexical.corpus(t),
        *lexical.frequencies(t, patterns),
        lexical.frequencies_by_scan(t, needles),
        *(lexical.pool(t, query) for query in queries),
        lexical.pool(t, replace(queries[0], terms=LONG)),
        *(lexical.pool_by_scan(t, query) for query in queries),
        lexical.fields(t, [1, 2, 3]),
        lexical.long_fields(t, [1]),
        *(hybrid_index.search_index(t, HYBRID, query) for query in queries),
        *(vectors.nearest(t, query) for query in queries),
        *(vectors.approximate(t, query) for query in queries),
        vectors.distances(t, vector, [1, 2, 3]),
        vectors.vectors_at(t, [1, 2, 3]),
    ]


def _layers(t: Tables) -> list[Statement]:
    words = (
        LayerWord(
            text="credit limit",
            forms=((QueryTerm("credit"), QueryTerm("limit")), (QueryTerm("信用"),)),
        ),
        LayerWord(text="order", forms=((QueryTerm("order"),),)),
        LayerWord(text="pasted", forms=(LONG, (QueryTerm("pasted"),))),
    )
    queries = [
        LayerQuery(filter=item, words=words, pools={Layer.RULE: 20}, count_to=50)
        for item in (ONE, EVERYTHING, AGENT)
    ]
    policy = EvictionPolicy()
    return [
        *(layers.critical(t, query.filter) for query in queries),
        *(layers.active(t, query) for query in queries),
        *(
            layers.matches(t, query, Layer.RULE, text_index=text_index)
            for query in queries
            for text_index in (True, False)
        ),
        layers.long_matches(t, [1]),
        records.records_at(t, "layers.records", [1, 2], short=True),
        *layers.count_hits(t, replace(ONE, ids=("r1", "r2")), NOW),
        layers.adjustable(t, replace(ONE, ids=("r1", "r2"))),
        layers.adjust(t, {1: 0.5}, NOW),
        *layers.restore(t, [1, 2], NOW),
        records.records_at(t, "layers.adjusted", [1, 2]),
        records.records_where(t, "layers.settled", replace(ONE, ids=("r1",))),
        *(layers.evictable(t, ONE, policy, NOW, lock=lock) for lock in (False, True)),
        *layers.move(t, {1: Tier.COLD}, NOW),
        layers.moved(t, 1, NOW),
    ]
