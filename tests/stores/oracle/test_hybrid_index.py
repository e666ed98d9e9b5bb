"""The hybrid vector index of the database: made, undone, asked, and done without."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.config import SchemaPolicy, SearchIndexSyncMode
from agentmemory.errors import StoreBusyError, StoreUnavailableError, ValidationError
from agentmemory.oracle import OracleDBEmbedder, OracleStore
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.records import Tier
from agentmemory.requests import CandidateQuery, QueryTerm, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.oracle import hybrid_index
from agentmemory.stores.oracle.erasure import TEXT_INDEX, UNSEARCHED
from agentmemory.stores.oracle.hybrid_index import HybridIndex, HybridSearch, expression
from agentmemory.stores.oracle.migrations import read_row
from agentmemory.stores.oracle.schema import Tables
from agentmemory.testing import HashEmbedder
from agentmemory.testing.conformance.base import NOW, record
from agentmemory.text.analyzer import analyze_query
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.store import database_of, new_pool, oracle_store

CREATE = SchemaPolicy.CREATE_IF_NECESSARY
REQUIRE = SchemaPolicy.REQUIRE_EXISTING
T = Tables("DEFAULT")
MODEL = "MINILM"
USER = ScopeFilter(user=DimensionMatch(exact=True, value="u1"))
FINGERPRINT = EmbedderFingerprint(model="hash", dimension=2)
VECTORS = {
    "near": np.array([1.0, 0.0], dtype=np.float32),
    "far": np.array([0.0, 1.0], dtype=np.float32),
    "between": np.array([0.6, 0.8], dtype=np.float32),
}
ASKED = "DBMS_HYBRID_VECTOR.SEARCH"
MADE = "CREATE HYBRID VECTOR INDEX"


def query(words: str = "kite", **filters: Any) -> CandidateQuery:
    options: dict[str, Any] = {"scope": USER, "now": NOW, **filters}
    return CandidateQuery(
        filter=RecordFilter(**options),
        pool=9,
        terms=tuple(analyze_query(words)),
        vector=VECTORS["near"],
    )


async def ids(store: OracleStore, asked: CandidateQuery) -> list[str]:
    return sorted(item.record.id for item in await store.candidates(asked))


async def fill(store: OracleStore) -> None:
    """Store three records of one user and one of another."""
    await store.claim_embedder(FINGERPRINT)
    await store.add_records(
        [record("near", "a red kite"), record("far", "a kite, a kite"), record("between", "boats")],
        vectors=VECTORS,
    )
    await store.add_records(
        [record("alien", "a kite of another", user_id="u2")], vectors={"alien": VECTORS["near"]}
    )


def saying(oracle, words: str) -> list[str]:
    return [text for text in oracle.statements if words in text]


@pytest.fixture
def database(oracle):
    """A database in which the user has a model."""
    database_of(oracle).run(
        "INSERT INTO oracle_sys.all_mining_models VALUES ('MEMORY_APP', 'MINILM', 'EMBEDDING')"
    )
    return oracle


# The name


@pytest.mark.parametrize("name", ["", "a-b", "a'b", '"a"', "a.b.c", "1a", "a b", 7, "X" * 129])
def test_other_names_are_refused(name):
    with pytest.raises(ValidationError, match="hybrid_index_model") as caught:
        OracleStore("oracle://u:p@h/s", hybrid_index_model=name)
    assert caught.value.argument == "hybrid_index_model"


def test_an_embedder_names_its_model():
    embedder = OracleDBEmbedder("oracle://u:p@h/s", "owner.minilm")
    store = OracleStore("oracle://u:p@h/s", hybrid_index_model=embedder)
    assert store._hybrid_model == embedder.model == "OWNER.MINILM"


def test_names_fit():
    t = Tables("X" * 16)
    texts = [item.text for item in hybrid_index.create_hybrid_index(t, index_of())]
    assert all(f"{'X' * 16}_VECTORIZER" in text for text in texts[1:])
    assert len(f"{'X' * 16}_VECTORIZER") <= 30


def index_of(**options: Any) -> HybridIndex:
    return HybridIndex(**{"model": MODEL, "sync": SearchIndexSyncMode.ON_COMMIT, **options})


# Making it


async def test_without_the_option_there_is_no_index_and_no_word_of_one(database):
    async with oracle_store(database) as store:
        await fill(store)
        assert await ids(store, query()) == ["between", "far", "near"]
        row = await read_row(store._engine, T)
    assert row is not None
    assert "hybrid" not in row.indexes.to_settings()
    assert not saying(database, "HYBRID")


async def test_it_is_made_once_and_known_to_who_opens_the_store_later(database):
    for policy in (CREATE, CREATE, REQUIRE):
        async with oracle_store(
            database, schema_policy=policy, hybrid_index_model="minilm"
        ) as store:
            assert store._indexes.hybrid == index_of()
            said = {item.name: item for item in store.capabilities}["hybrid_index"]
            assert said.available
            assert "of the model MINILM" in said.detail
    assert len(saying(database, MADE)) == 1
    (preference,) = saying(database, "DBMS_VECTOR_CHAIN.CREATE_PREFERENCE")
    assert '"model": "MINILM"' in preference


async def test_another_model_or_way_of_synchronising_makes_it_anew(database):
    database_of(database).run(
        "INSERT INTO oracle_sys.all_mining_models VALUES ('KEEPER', 'BGE', 'EMBEDDING')"
    )
    async with oracle_store(database, hybrid_index_model=MODEL):
        pass
    async with oracle_store(
        database, hybrid_index_model=MODEL, search_index_sync=SearchIndexSyncMode.AUTO
    ) as store:
        assert store._indexes.hybrid == index_of(sync=SearchIndexSyncMode.AUTO)
    async with oracle_store(database, hybrid_index_model="keeper.bge") as store:
        assert store._indexes.hybrid == index_of(model="KEEPER.BGE", sync=SearchIndexSyncMode.AUTO)
    assert "MAINTENANCE AUTO" in saying(database, MADE)[1]
    assert len(saying(database, MADE)) == 3


async def test_an_index_that_takes_no_filter_columns_does_without(database, caplog):
    database.faults.add(FaultKind.ERROR, statement="FILTER BY", code=29855, times=1000)
    async with oracle_store(database, hybrid_index_model=MODEL) as store:
        assert store._indexes.hybrid == index_of(filtered=False)
        assert store._hybrid == HybridSearch(filters=False, same_model=False)
        await fill(store)
        assert await ids(store, query()) == ["between", "far", "near"]
        assert not saying(database, ASKED), "the index cannot look within a scope"
        everywhere = query(scope=ScopeFilter())
        assert await ids(store, everywhere) == ["alien", "between", "far", "near"]
        assert saying(database, ASKED)


async def test_one_that_cannot_be_made_is_undone(database, caplog):
    database.faults.add(FaultKind.ERROR, statement=MADE, code=29855, times=1000)
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        async with oracle_store(database, hybrid_index_model=MODEL) as store:
            assert store._indexes.hybrid is None
            await fill(store)
            assert await ids(store, query()) == ["between", "far", "near"]
    assert "could not be made" in caplog.text
    assert "CREATE_IF_NECESSARY makes it" in caplog.text
    of_index = saying(database, "DEFAULT_RECORD_HYBRID_INDEX")
    assert of_index[-1].startswith("DROP INDEX IF EXISTS")
    assert of_index[-1].endswith("FORCE")
    assert "DROP_PREFERENCE" in saying(database, "VECTOR_CHAIN")[-1]


async def test_who_may_not_use_the_package_can_open_the_store(database, caplog):
    database.faults.add(FaultKind.ERROR, statement="VECTOR_CHAIN", code=6550, times=1000)
    async with oracle_store(database, hybrid_index_model=MODEL) as store:
        assert store._indexes.hybrid is None
    assert not saying(database, MADE)


async def test_a_database_that_fails_for_now_is_no_database_without_an_index(database):
    database.faults.add(FaultKind.ERROR, statement=MADE, code=54, times=1000)
    with pytest.raises(StoreBusyError):
        async with oracle_store(database, hybrid_index_model=MODEL):
            pass
    assert saying(database, "DEFAULT_RECORD_HYBRID_INDEX")[-1].endswith("FORCE")


@pytest.mark.parametrize(
    ("arrange", "why"),
    [
        ("DELETE FROM oracle_sys.all_mining_models", "no such model"),
        ("DELETE FROM oracle_sys.all_objects", "needs 23.6 or newer and Oracle Text"),
    ],
)
async def test_without_the_model_or_oracle_text_a_warning_says_why(database, caplog, arrange, why):
    database_of(database).run(arrange)
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        async with oracle_store(database, hybrid_index_model=MODEL) as store:
            await fill(store)
            assert await ids(store, query()) == ["between", "far", "near"]
    assert why in caplog.text
    assert not saying(database, "HYBRID")


async def test_a_store_made_anew_drops_it(database):
    async with oracle_store(database, hybrid_index_model=MODEL):
        pass
    async with oracle_store(database, schema_policy=SchemaPolicy.RECREATE) as store:
        assert store._indexes.hybrid is None
    assert "DROP_PREFERENCE" in saying(database, "VECTOR_CHAIN")[-1]


# Asking it


@pytest.fixture
async def store(database):
    async with oracle_store(database, hybrid_index_model=MODEL) as store:
        await fill(store)
        yield store


async def test_words_and_meaning_are_asked_of_it_by_one_statement(database, store):
    # What the corpus holds of a word is scored alike, so the answers are the same.
    async with oracle_store(database) as plain:
        await plain.claim_embedder(FINGERPRINT)
        wanted = await plain.candidates(query())
    database.forget()
    found = await store.candidates(query())
    assert len(saying(database, ASKED)) == 1
    assert not saying(database, "CONTAINS(c.tokens, :f_")
    assert not saying(database, "ORDER BY distance")
    assert {item.record.id: item for item in found} == {item.record.id: item for item in wanted}
    assert [trip.name for trip in database.trips if trip.name in ("execute", "pipeline")] == [
        "pipeline",
        "pipeline",
    ]


async def test_a_record_that_only_the_index_thinks_a_word_of_is_found_by_its_meaning(
    database, store
):
    # "boats" holds the letters "boat"; our analyzer knows better than letters.
    found = {item.record.id: item for item in await store.candidates(query("oats"))}
    assert saying(database, ASKED)
    assert found["between"].lexical_rank is None
    assert found["between"].vector_rank is not None


async def test_filters_hold_whatever_the_index_returns(database, store):
    await store.add_records(
        [
            record("gone", "a kite", expires_at=NOW - timedelta(days=1)),
            record("rule", "a kite", record_type="guideline"),
            record("gold", "a kite", metadata={"tier": "gold"}),
            record("cold", "a kite", tier=Tier.ARCHIVED),
        ]
    )
    raw = database_of(database).run(
        "SELECT jsonb_array_length(oracle_sys.hybrid_search($1::jsonb))",
        '{"hybrid_index_name": "DEFAULT_RECORD_HYBRID_INDEX", "text": {"contains": "{kite}"}}',
    )
    assert raw == [(8,)], "the index knows no scope"
    found = await ids(store, query())
    assert found == ["between", "far", "gold", "near", "rule"]
    assert await ids(store, query(record_types=("guideline",))) == ["rule"]
    assert await ids(store, query(exclude_ids=("near", "far"))) == ["between", "gold", "rule"]
    other = ScopeFilter(user=DimensionMatch(exact=True, value="u2"))
    assert await ids(store, query(scope=other)) == ["alien"]
    nobody = ScopeFilter(user=DimensionMatch(exact=True, value="u3"))
    assert await ids(store, query(scope=nobody)) == []
    assert len(saying(database, ASKED)) == 5


async def test_what_a_filter_may_have_hidden_is_looked_for_exactly(database, store):
    await store.add_records([record("gold", "a kite", metadata={"tier": "gold"})])
    database.forget()
    assert await ids(store, query(metadata={"tier": "gold"})) == ["gold"]
    assert saying(database, ASKED)
    assert saying(database, "CONTAINS(c.tokens, :f_words1")


async def test_words_alone_meaning_alone_and_listed_ids_are_asked_as_ever(database, store):
    await store.candidates(replace(query(), vector=None))
    await store.candidates(replace(query(), terms=()))
    await store.candidates(query(ids=("near",)))
    assert not saying(database, ASKED)


async def test_a_search_of_the_client_is_two_round_trips(database):
    pool = new_pool()
    store = OracleStore(pool, schema_policy=CREATE, hybrid_index_model=MODEL)
    async with AsyncAgentMemory(store=store, embedder=HashEmbedder(16)) as memory:
        for word in ("red", "blue", "green"):
            await memory.add_memory(f"a {word} kite", user_id="ann", memory_type="fact")
        await memory.search("kite", user_id="ann")
        database.forget()
        found = await memory.search("green kite", user_id="ann")
        asked = [trip.name for trip in database.trips if trip.name in ("execute", "pipeline")]
    assert sorted(item.content for item in found) == ["a blue kite", "a green kite", "a red kite"]
    assert saying(database, ASKED)
    assert asked == ["pipeline", "pipeline"]
    await pool.close(force=True)
    await database.settle()
    database.check_clean()


# Doing without


@pytest.mark.parametrize("code", [29861, 942, 20000, 51803, 29902])
async def test_a_broken_index_is_done_without_and_said_so_once(database, store, caplog, code):
    database.faults.add(FaultKind.ERROR, statement=ASKED, code=code, times=1000)
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        for _ in range(3):
            assert await ids(store, query()) == ["between", "far", "near"]
    assert caplog.text.count("cannot be asked") == 1
    assert len(saying(database, ASKED)) == 1
    assert not any("of the model" in item.detail for item in store.capabilities)


async def test_an_index_that_is_gone_is_done_without(database, store, caplog):
    database_of(database).run("DELETE FROM oracle_sys.domain_indexes WHERE kind = 'HYBRID'")
    assert await ids(store, query()) == ["between", "far", "near"]
    assert "cannot be asked" in caplog.text


async def test_a_database_out_of_reach_says_nothing_of_the_index(database, store, caplog):
    database.faults.add(FaultKind.ERROR, statement=ASKED, code=1033, times=1000)
    with pytest.raises(StoreUnavailableError):
        await store.candidates(query())
    assert store._hybrid is not None
    assert "cannot be asked" not in caplog.text


async def test_what_is_wrong_without_the_index_too_is_told(database, store, caplog):
    database.faults.add(FaultKind.ERROR, statement="embedder'", code=942, times=1000)
    with pytest.raises(Exception, match="ORA-00942"):
        await store.candidates(query())
    assert store._hybrid is not None
    assert "cannot be asked" not in caplog.text


async def test_erased_words_leave_it_too(database, store, caplog):
    erasure = await store.erase_scope(USER, now=NOW)
    assert erasure.scan is not None
    assert erasure.scan.unsearched == UNSEARCHED
    assert len(saying(database, "OPTIMIZE_INDEX('DEFAULT_RECORD_HYBRID_INDEX'")) == 1
    database.faults.add(FaultKind.ERROR, statement="OPTIMIZE.*HYBRID", code=20000)
    erasure = await store.erase_scope(
        ScopeFilter(user=DimensionMatch(exact=True, value="u2")), now=NOW
    )
    assert erasure.scan is not None
    assert erasure.scan.unsearched == (TEXT_INDEX, *UNSEARCHED)


# The request

SEARCH = HybridSearch(filters=True, same_model=False)


def test_words_are_no_operators():
    terms = [
        QueryTerm("kite"),
        QueryTerm("c++"),
        QueryTerm("a}b"),
        QueryTerm("near%_", prefix=True),
    ]
    assert expression(terms) == r"{kite} ACCUM {c++} ACCUM {a}}b} ACCUM near\%\_%"


def test_an_expression_is_no_longer_than_the_database_takes():
    found = expression([QueryTerm("凧" * 40 + str(number)) for number in range(100)])
    assert 3000 < len(found.encode()) <= hybrid_index.MAX_QUERY_BYTES
    assert expression([QueryTerm("z" * 9000)])


def test_a_request_is_as_the_package_takes_it():
    asked = hybrid_index.request(T, SEARCH, query(scope=ScopeFilter()))
    assert asked == {
        "hybrid_index_name": "DEFAULT_RECORD_HYBRID_INDEX",
        "search_fusion": "UNION",
        "search_scorer": "RRF",
        "vector": {
            "search_mode": "DOCUMENT",
            "aggregator": "MAX",
            "rank_penalty": 1,
            "search_text": "kite",
        },
        "text": {"contains": "{kite}", "rank_penalty": 1},
        "return": {
            "topN": 36,
            "values": ["rowid", "score", "vector_score", "text_score"],
            "format": "JSON",
        },
    }
    assert hybrid_index.request(Tables("A", "KEEPER"), SEARCH, query())["hybrid_index_name"] == (
        "KEEPER.A_RECORD_HYBRID_INDEX"
    )


def test_the_words_are_embedded_unless_the_vector_is_of_the_same_model():
    asked = query("red kite")
    vector = hybrid_index.request(T, SEARCH, asked)["vector"]
    assert vector["search_text"] == " ".join(term.text for term in asked.terms)
    assert "search_vector" not in vector
    vector = hybrid_index.request(T, replace(SEARCH, same_model=True), asked)["vector"]
    assert vector["search_vector"] == "[1.0,0.0]"
    assert "search_text" not in vector


async def test_whose_vectors_are_the_models_is_known_by_the_embedder(store):
    assert store._search_tools().hybrid == SEARCH
    await store.replace_embedder(replace(FINGERPRINT, model="oracle/MINILM"))
    assert store._search_tools().hybrid == replace(SEARCH, same_model=True)


def test_scope_and_types_are_said():
    scope = ScopeFilter(
        user=DimensionMatch(True, "u'1"),
        agent=DimensionMatch(True, None),
        thread=DimensionMatch(False, "t"),
    )
    asked = query(scope=scope, record_types=("fact", "memory"))

    def equal(column: str, value: str) -> dict[str, Any]:
        return {"op": "=", "path": column, "type": "string", "args": [value]}

    types = {"op": "OR", "args": [equal("record_type", "fact"), equal("record_type", "memory")]}
    wanted = {"op": "AND", "args": [equal("user_id", "u'1"), types]}
    assert hybrid_index.request(T, SEARCH, asked)["filter_by"] == wanted
    assert "filter_by" not in hybrid_index.request(T, replace(SEARCH, filters=False), asked)
    assert "filter_by" not in hybrid_index.request(T, SEARCH, query(scope=ScopeFilter()))
    assert hybrid_index.request(T, SEARCH, query())["filter_by"] == equal("user_id", "u1")


async def test_an_older_server_is_told_no_conditions(database):
    database.version = (23, 9, 0, 25, 7)
    async with oracle_store(database, hybrid_index_model=MODEL) as store:
        assert store._hybrid == replace(SEARCH, filters=False)
