"""What a search of a SQLite store is made of: rows, counts, scores, filters behind the arms."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import AsyncIterator
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import apsw
import numpy as np
import pytest

from agentmemory import AsyncAgentMemory, SchemaPolicy
from agentmemory.records import Layer, RecordType, ScopedRecord, Stability, Tier
from agentmemory.requests import Candidate, CandidateQuery, ListQuery, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.sqlite.listing import page_of_records
from agentmemory.stores.sqlite.schema import Tables
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.text.analyzer import analyze, analyze_query

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
MINE = ScopeFilter(user=DimensionMatch(exact=True, value="u1"))
HERE = RecordFilter(scope=MINE, now=NOW)


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    store = SqliteStore(":memory:")
    await store.open()
    yield store
    await store.close()


def memory(record_id: str, content: str, **values: Any) -> ScopedRecord:
    given = {"created_at": NOW, "updated_at": NOW, "user_id": "u1", "record_type": "memory"}
    return ScopedRecord(id=record_id, content=content, **{**given, **values})


async def test_a_record_comes_back_with_every_field_as_a_plain_frozen_value(
    store: SqliteStore,
) -> None:
    full = memory(
        "full",
        "The ferry leaves at nine.",
        metadata={"harbour": {"name": "Skagen", "piers": [1, 2]}},
        role="user",
        actor="Mira",
        compressed="ferry 9:00",
        tier=Tier.COLD,
        layer=Layer.RULE,
        tags=("ferry", "departure"),
        confidence=0.25,
        hit_count=3,
        last_hit_at=NOW - timedelta(hours=1),
        stability=Stability.VOLATILE,
        trust="document",
        event_time=NOW - timedelta(days=3, microseconds=1),
        valid_from=NOW - timedelta(days=2),
        valid_to=NOW + timedelta(days=2),
        updated_at=NOW + timedelta(seconds=1),
        expires_at=NOW + timedelta(days=9),
        revision=7,
        agent_id="a1",
        review_reason="what it rests on changed",
    )
    await store.add_records([full, memory("bare", "Nothing else.")])
    found = {
        record.id: record for record in await store.get_records(replace(HERE, ids=("full", "bare")))
    }
    for record, given in ((found["full"], full), (found["bare"], memory("bare", "Nothing else."))):
        assert type(record) is ScopedRecord
        # Read one by one, so that a field that was never set is found.
        read = {field.name: getattr(record, field.name) for field in fields(ScopedRecord)}
        assert record == ScopedRecord(**read)
        assert replace(record, seq=0) == given
        assert pickle.loads(pickle.dumps(record)) == record
        for name in ("content", "user_id", "no_field"):
            with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
                setattr(record, name, "changed")


TEXTS = (
    "tea tea tea",
    "tea",
    "green tea with lemon and more tea",
    "coffee with lemon",
    "teapot",
    "a lemon tree, a lemon tree, a tree",
)


async def test_the_lexical_score_is_bm25_of_all_occurrences(store: SqliteStore) -> None:
    await store.add_records([memory(f"r{n}", text) for n, text in enumerate(TEXTS)])
    terms = analyze_query("tea lemon tree")
    candidates = await store.candidates(CandidateQuery(filter=HERE, pool=10, terms=terms))
    tokens = [analyze(text) for text in TEXTS]
    average = sum(map(len, tokens)) / len(tokens)
    for item in candidates:
        mine = tokens[int(item.record.id[1:])]
        expected = 0.0
        for term in terms:
            held = sum(term.text in others for others in tokens)
            count = mine.count(term.text)
            idf = math.log1p((len(TEXTS) - held + 0.5) / (held + 0.5))
            norm = 1.2 * (1 - 0.75 + 0.75 * len(mine) / average)
            expected += idf * count * 2.2 / (count + norm)
        assert item.lexical == pytest.approx(expected, rel=1e-9), item.record.content
    assert {item.record.id for item in candidates} == {"r0", "r1", "r2", "r3", "r5"}


async def scores(memory: AsyncAgentMemory) -> dict[str, float | None]:
    hits = await memory.search("amber kite", user_id="u1", max_results=50)
    return {hit.id: hit.explain.lexical for hit in hits}


async def test_counts_that_were_kept_are_those_of_a_client_that_counts_anew(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"

    async def agrees() -> None:
        async with AsyncAgentMemory(path, embedder=None) as fresh:
            assert await scores(watcher) == await scores(fresh)

    async with AsyncAgentMemory(path, embedder=None) as other:
        await other.add_memory("an amber kite", user_id="u1", memory_id="m1")
        await other.add_memory("a red kite", user_id="u1", memory_id="m2")
        watcher = AsyncAgentMemory(path, embedder=None)
        await agrees()
        # As many words in the place of others, more than once: closing may analyse the file.
        for content in ("an amber owl", "a red kite", "an amber kite", "a red owl"):
            await other.update_memory("m2", content=content)
            await agrees()
        await other.add_memory("a blue kite", user_id="u1", memory_id="m3")
        await agrees()
        await other.delete_memory("m3")
        await agrees()
        await other.add_memory("an amber heron", user_id="u1", memory_id="m3")
        await agrees()
    await watcher.close()


async def test_counts_of_a_store_that_was_made_anew_are_not_those_of_the_old_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    async with AsyncAgentMemory(path, embedder=None) as watcher:
        for number, text in enumerate(("an amber kite", "an amber owl", "a red kite")):
            await watcher.add_memory(text, user_id="u1", memory_id=f"m{number}")
        before = await scores(watcher)
        async with AsyncAgentMemory(
            path, embedder=None, schema_policy=SchemaPolicy.RECREATE
        ) as fresh:
            for number, text in enumerate(("a black kite", "an amber tern", "a green kite")):
                await fresh.add_memory(text, user_id="u1", memory_id=f"m{number}")
            after = await scores(fresh)
            assert await scores(watcher) == after
    assert after != before


@pytest.mark.parametrize("one_in", [1, 3, 40, 10_000])
async def test_whatever_a_filter_leaves_out_the_best_of_the_rest_are_found(
    store: SqliteStore, one_in: int
) -> None:
    """Both arms, for several filters at once as for each of them alone."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(900, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    chosen = random.Random(2)
    types: list[RecordType] = ["memory", "fact", "preference"]
    records = [
        memory(
            f"r{n:03}",
            "kite " * chosen.randint(1, 9) + f"number {n}",
            record_type=chosen.choice(types),
            metadata={"mark": chosen.randrange(one_in) == 0},
        )
        for n in range(len(vectors))
    ]
    await store.add_records(
        records, vectors={record.id: vectors[n] for n, record in enumerate(records)}
    )
    asked = vectors[0]
    nearest = np.argsort(-(vectors @ asked), kind="stable").tolist()
    queries = [
        CandidateQuery(
            filter=replace(HERE, record_types=(name,), metadata={"mark": True}),
            pool=pool,
            terms=analyze_query("kite"),
            vector=asked,
        )
        for name, pool in zip(types, (4, 20, 1), strict=True)
    ]
    together = await store.candidates_together(queries)
    for name, query, found in zip(types, queries, together, strict=True):
        assert await store.candidates(query) == found
        passing = [
            n for n in nearest if records[n].metadata["mark"] and records[n].record_type == name
        ]
        by_vector = sorted((c for c in found if c.vector_rank), key=lambda c: c.vector_rank or 0)
        assert [c.record.id for c in by_vector] == [f"r{n:03}" for n in passing[: query.pool]]
        assert len([c for c in found if c.lexical_rank]) == min(query.pool, len(passing))


async def test_a_candidate_is_a_plain_frozen_value_with_every_field(store: SqliteStore) -> None:
    await store.add_records([memory("m1", "amber kite", agent_id="a1")])
    scope = ScopeFilter(user=MINE.user, agent=DimensionMatch(exact=False, value="a1"))
    query = CandidateQuery(
        filter=RecordFilter(scope=scope, now=NOW),
        pool=3,
        terms=analyze_query("kite"),
        actor_terms=frozenset({"amber"}),
    )
    (found,) = await store.candidates(query)
    assert type(found) is Candidate
    read = {field.name: getattr(found, field.name) for field in fields(Candidate)}
    assert read.pop("record").id == "m1"
    assert read.pop("lexical") > 0
    assert read == {
        "cosine": None,
        "lexical_rank": 1,
        "vector_rank": None,
        "actor_match": True,
        "scope_matches": 1,
        "vector": None,
    }
    with pytest.raises(FrozenInstanceError):
        found.cosine = 1.0  # type: ignore[misc]


async def test_a_list_of_a_layer_reads_the_layer_alone(store: SqliteStore) -> None:
    """However many other memories there are; a plan that walks through all of them is refused."""
    await store.add_records(
        [memory(f"m{n}", "note", agent_id="a1") for n in range(50)]
        + [memory("c1", "critical note", agent_id="a1", layer=Layer.CRITICAL)]
    )
    scope = ScopeFilter(user=MINE.user, agent=DimensionMatch(exact=True, value="a1"))

    def plan(connection: apsw.Connection) -> list[str]:
        statements: list[tuple[str, Any]] = []

        def note(_: apsw.Cursor, sql: str, binds: Any) -> bool:
            statements.append((sql, binds))
            return True

        connection.exec_trace = note
        try:
            page = page_of_records(connection, Tables("DEFAULT"), query)
        finally:
            connection.exec_trace = None
        assert [record.id for record in page.items] == ["c1"]
        (statement,) = statements
        return [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement[0]}", statement[1])
        ]

    orders: tuple[Literal["created", "event"], ...] = ("created", "event")
    for order in orders:
        query = ListQuery(
            filter=RecordFilter(scope=scope, now=NOW, layers=(Layer.CRITICAL,)),
            limit=10,
            order=order,
        )
        plans = await store._engine.read(plan)
        assert "DEFAULT_record_layer_index" in plans[0], plans
