"""What only a real Oracle database can show: `nox -s oracle_live`."""

from __future__ import annotations

import math
from array import array
from datetime import UTC, datetime

import numpy as np
import oracledb
import pytest

from agentmemory.client import AsyncAgentMemory
from agentmemory.config import SchemaPolicy
from agentmemory.errors import SchemaMismatchError
from agentmemory.requests import CandidateQuery, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.oracle import ddl, search_indexes
from agentmemory.stores.oracle.capabilities import VectorIndexKind
from agentmemory.stores.oracle.explain import explain
from agentmemory.stores.oracle.migrations import Migrator, read_row
from agentmemory.stores.oracle.registry import StoreState
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.stores.oracle.text_tokens import encode_token
from agentmemory.testing import HashEmbedder
from agentmemory.testing.conformance.base import NOW, record
from agentmemory.text.analyzer import analyze, analyze_query
from tests.support.oracle_live import STORE_ID, T, live_store, rows
from tests.support.oracle_statements import all_statements

pytestmark = [pytest.mark.oracle_live, pytest.mark.timeout(600)]

TEXTS = {
    "symbols": "C++ and C# at v2.3.1 of user_name, see /etc/hosts",
    "numbers": "order 4711 of 2026-05-04 cost 1,234.50",
    "han": "东京的天气很好",
    "kana": "データベースの移行",
    "hangul": "한국어 검색",
    "cyrillic": "достопримечательность",
    "words": "and or not near about within the a",
    "long": "x" * 63 + " " + "ж" * 63,
}


@pytest.fixture
async def store(pool):
    opened = live_store(pool)
    await opened.open()
    yield opened
    await opened.close()


def is_planned(statement, store):
    """Tell whether a database without a model and with few privileges can plan a statement."""
    needs_index = "CONTAINS(" in statement.text
    return not statement.name.startswith(("model.", "probe.")) and (
        store._engine.capabilities.text_index or not needs_index
    )


async def test_the_database_can_plan_every_statement(store):
    statements = [item for item in all_statements(T) if is_planned(item, store)]
    failed = [item.report() async for item in explain(store._engine, statements) if item.error]
    assert failed == []


async def test_the_text_index_keeps_every_word_whole(store, pool):
    if not store._engine.capabilities.text_index:
        pytest.skip("the user may not make an Oracle Text index")
    await store.add_records([record(name, text) for name, text in TEXTS.items()])
    indexed = {
        row[0] for row in await rows(pool, f"SELECT token_text FROM DR${T.index('chunk_text')}$I")
    }
    wanted = {encode_token(token).upper() for text in TEXTS.values() for token in analyze(text)}
    assert wanted - indexed == set()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("C++", "symbols"),
        ("user_name", "symbols"),
        ("4711", "numbers"),
        ("天气", "han"),
        ("京", "han"),
        ("移行", "kana"),
        ("достопримечательность", "cyrillic"),
        ("about", "words"),
        ("ж" * 63, "long"),
    ],
)
async def test_words_of_every_kind_are_found_right_after_the_commit(store, words, found):
    await store.add_records([record(name, text) for name, text in TEXTS.items()])
    scope = ScopeFilter(user=DimensionMatch(exact=True, value="u1"))
    query = CandidateQuery(
        filter=RecordFilter(scope=scope, now=NOW), terms=tuple(analyze_query(words)), pool=5
    )
    assert [item.record.id for item in await store.candidates(query)][:1] == [found]


@pytest.mark.parametrize("kind", list(VectorIndexKind))
async def test_a_vector_index_finds_what_exact_search_finds(store, pool, kind):
    random = np.random.default_rng(7)
    vectors = random.normal(size=(400, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"r{number}" for number in range(400)]
    await store.add_records(
        [record(name) for name in names], vectors=dict(zip(names, vectors, strict=True))
    )
    async with pool.acquire() as connection:
        try:
            for statement in search_indexes.create_vector_index(T, kind):
                await connection.execute(statement.text)
        except oracledb.DatabaseError as error:
            pytest.skip(f"the database cannot make it: {error}")
        try:
            found = await connection.fetchall(
                f"SELECT r.id FROM {T.chunk} c JOIN {T.record} r ON r.seq = c.record_seq "
                "ORDER BY VECTOR_DISTANCE(c.embedding, :v, COSINE) FETCH APPROX FIRST 10 ROWS ONLY",
                {"v": array("f", vectors[0].tolist())},
            )
        finally:
            for statement in search_indexes.drop_vector_index(T):
                await connection.execute(statement.text)
    nearest = {names[place] for place in np.argsort(-(vectors @ vectors[0]))[:10]}
    assert len(nearest & {row[0] for row in found}) >= 8


async def test_an_interrupted_creation_goes_on_where_it_stopped(pool):
    t = Tables("LIVE_HALF")
    store = OracleStore(pool, memory_store_id="LIVE_HALF", schema_policy=SchemaPolicy.RECREATE)
    await store.open()
    try:
        migrator = Migrator(store._engine, t, schema="")
        await migrator.take()
        await migrator._drop()
        async with pool.acquire() as connection:
            for statement in ddl.create_tables(t)[:4]:
                await connection.execute(statement.text)
        await migrator.give_back()
        with pytest.raises(SchemaMismatchError, match="incomplete"):
            await OracleStore(pool, memory_store_id="LIVE_HALF").open()
        again = OracleStore(
            pool, memory_store_id="LIVE_HALF", schema_policy=SchemaPolicy.CREATE_IF_NECESSARY
        )
        await again.open()
        row = await read_row(again._engine, t)
        assert row is not None
        assert row.state is StoreState.READY
        await again.add_records([record("m1")])
        await again.close()
    finally:
        await migrator.take()
        await migrator._drop()
        await migrator.give_back()
        await store.close()


async def test_a_client_searches_with_words_and_vectors(pool):
    embedder = HashEmbedder()
    async with AsyncAgentMemory(
        pool,
        memory_store_id=STORE_ID,
        embedder=embedder,
        schema_policy=SchemaPolicy.REQUIRE_EXISTING,
    ) as memory:
        await memory.add_memory("Mira flies kites at the lake", user_id="mira")
        await memory.add_memory("Jonas repairs clocks", user_id="jonas")
        found = await memory.search("kites", user_id="mira")
        assert [hit.record.content for hit in found] == ["Mira flies kites at the lake"]
        assert math.isfinite(found[0].score)


async def test_the_purge_job_takes_what_has_expired(store, pool):
    if not store._engine.capabilities.create_job:
        pytest.skip("the user may not make scheduler jobs")
    await store.add_records(
        [record("old", expires_at=datetime(2020, 1, 1, tzinfo=UTC)), record("new")]
    )
    async with pool.acquire() as connection:
        await connection.callproc("DBMS_SCHEDULER.RUN_JOB", [T.plain("purge")])
    left = await rows(pool, f"SELECT r.id FROM {T.record} r ORDER BY r.id")
    assert [row[0] for row in left] == ["new"]
