"""Names of a store, and what opening one does to the schema under each policy."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import numpy as np
import oracledb
import pytest

from agentmemory.config import SchemaPolicy, SearchIndexSyncMode
from agentmemory.errors import (
    ConfigurationError,
    SchemaMismatchError,
    StoreBusyError,
    StoreError,
    ValidationError,
)
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.requests import CandidateQuery, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.oracle import ddl, index_setup, migrations, reindexing, search_indexes
from agentmemory.stores.oracle.capabilities import VectorIndexKind
from agentmemory.stores.oracle.migrations import Migrator, read_row
from agentmemory.stores.oracle.registry import StoreState, update_registry
from agentmemory.stores.oracle.schema import (
    FILTER_COLUMNS,
    TABLES,
    Tables,
    check_owner,
    check_store_id,
)
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.testing.conformance.base import NOW, record
from agentmemory.text.analyzer import analyze_query
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.server import PASSWORD
from tests.support.oracle.store import DSN, new_pool, oracle_store

CREATE = SchemaPolicy.CREATE_IF_NECESSARY
REQUIRE = SchemaPolicy.REQUIRE_EXISTING
USER = ScopeFilter(user=DimensionMatch(exact=True, value="u1"))
T = Tables("DEFAULT")


async def found_by(store: OracleStore, words: str) -> list[str]:
    query = CandidateQuery(
        filter=RecordFilter(scope=USER, now=NOW), pool=9, terms=tuple(analyze_query(words))
    )
    return [item.record.id for item in await store.candidates(query)]


async def change_row(store: OracleStore, **values) -> None:
    """Make the registry say something else of the store."""
    row = await read_row(store._engine, store._t)
    assert row is not None

    async def work(transaction) -> None:
        await transaction.run(update_registry(store._t, replace(row, **values), NOW))

    await store._engine.write(work)


# Names


@pytest.mark.parametrize("name", ["a", "Notes_2", "X" * 16])
def test_store_ids_are_names_in_capitals(name):
    assert check_store_id(name) == name.upper()


@pytest.mark.parametrize("name", ["", "2a", "a-b", "a b", "X" * 17, "ä", None, 3, "a;b", "a\n"])
def test_other_store_ids_are_refused(name):
    with pytest.raises(ValidationError, match="memory_store_id"):
        check_store_id(name)


@pytest.mark.parametrize("name", ['"a"', "a.b", "", "1a", "a b", 7, "X" * 129])
def test_owners_that_are_no_plain_names_are_refused(name):
    with pytest.raises(ValidationError, match="schema_owner"):
        check_owner(name)


def test_no_two_stores_share_a_name():
    ids = ["A", "A_RECORD", "A_THREAD", "AGENTMEMORY", "A_RECORD_OWNER", "A_CHUNK"]
    names = []
    for name in ids:
        t = Tables(name)
        names += [getattr(t, table) for table in TABLES]
        names += [t.index(index) for index in (*ddl.indexes(), *ddl.unique_indexes())]
        names += [t.index("chunk_text"), t.index("chunk_vector"), t.index("record_hybrid")]
    names.append(Tables("A").registry)
    assert len(names) == len(set(names))
    assert max(len(name) for name in names) < 60


def test_names_carry_their_owner():
    t = Tables("NOTES", "KEEPER")
    assert t.record == "KEEPER.NOTES_RECORD"
    assert t.index("record_owner") == "KEEPER.NOTES_RECORD_OWNER_INDEX"
    assert t.registry == "KEEPER.AGENTMEMORY_STORE"
    with pytest.raises(AttributeError):
        _ = t.memories


def test_chunks_repeat_every_column_that_filters_read():
    columns = {line.split()[0] for line in ddl.columns(T)["chunk"]}
    assert set(FILTER_COLUMNS) <= columns


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"schema_policy": "always"}, "schema_policy"),
        ({"search_index_sync": "hourly"}, "search_index_sync"),
    ],
)
def test_options_that_are_none_are_refused(option, words):
    with pytest.raises(ConfigurationError, match=words):
        OracleStore("oracle://mira:secret@db.example.com/memory", **option)


# Policies


async def test_require_existing_is_the_default_and_creates_nothing(oracle):
    pool = new_pool()
    store = OracleStore(pool)
    with pytest.raises(SchemaMismatchError, match=r"no store 'DEFAULT'.*CREATE_IF_NECESSARY"):
        await store.open()
    assert not any(text.startswith("CREATE") for text in oracle.statements)
    await pool.close(force=True)


@pytest.mark.parametrize("policy", [CREATE, SchemaPolicy.CREATE_IF_EMPTY, SchemaPolicy.RECREATE])
async def test_a_store_is_created_once_and_found_again(oracle, policy):
    async with oracle_store(oracle, schema_policy=policy) as store:
        await store.add_records([record("m1")])
        row = await read_row(store._engine, T)
        assert row is not None
        assert row.state is StoreState.READY
        assert row.lease_owner is None
    before = len([text for text in oracle.statements if text.startswith("CREATE")])
    async with oracle_store(oracle, schema_policy=REQUIRE) as store:
        assert await found_by(store, "kite") == ["m1"]
    async with oracle_store(oracle, schema_policy=SchemaPolicy.CREATE_IF_EMPTY) as store:
        assert await found_by(store, "kite") == ["m1"]
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert await found_by(store, "kite") == ["m1"]
    assert len([text for text in oracle.statements if text.startswith("CREATE")]) == before


async def test_recreate_drops_one_store_and_no_other(oracle):
    async with oracle_store(oracle) as store, oracle_store(oracle, memory_store_id="other") as kept:
        await store.add_records([record("m1")])
        await kept.add_records([record("m2")])
        async with oracle_store(oracle, schema_policy=SchemaPolicy.RECREATE) as anew:
            assert await found_by(anew, "kite") == []
            await anew.add_records([record("m3")])
        assert await found_by(kept, "kite") == ["m2"]


async def test_no_check_opens_what_is_there_without_looking_at_versions(oracle):
    async with oracle_store(oracle) as store:
        await store.add_records([record("m1")])
        await change_row(store, version=99)
    async with oracle_store(oracle, schema_policy=SchemaPolicy.NO_CHECK) as store:
        assert await found_by(store, "kite") == ["m1"]
        assert store._engine.capabilities.text_index


@pytest.mark.parametrize("policy", [REQUIRE, CREATE, SchemaPolicy.RECREATE])
async def test_a_newer_version_is_refused(oracle, policy):
    async with oracle_store(oracle) as store:
        await change_row(store, version=99)
    with pytest.raises(SchemaMismatchError, match=r"version 99.*newer release"):
        async with oracle_store(oracle, schema_policy=policy):
            pass


@pytest.mark.parametrize("policy", [REQUIRE, SchemaPolicy.CREATE_IF_EMPTY])
async def test_an_older_version_is_upgraded_on_request_only(oracle, policy, monkeypatch):
    async with oracle_store(oracle):
        pass
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 2)
    extra = f"CREATE INDEX IF NOT EXISTS {T.index('summary_status')} ON {T.summary} (status)"
    step = migrations.Step("2.more", (ddl._ddl("test.more", extra),))
    monkeypatch.setitem(migrations.MIGRATIONS, 2, lambda _: (step,))
    with pytest.raises(SchemaMismatchError, match="version 1 and needs 2"):
        async with oracle_store(oracle, schema_policy=policy):
            pass
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        row = await read_row(store._engine, T)
    assert row is not None
    assert (row.version, row.state, row.applied) == (2, StoreState.READY, ())
    assert oracle.statements.count(extra) == 1


async def test_a_reader_of_the_tables_can_search(oracle):
    async with oracle_store(oracle) as store:
        await store.add_records([record("m1")])
    oracle.database.add_reader("memory_reader", "memory_app")
    pool = oracledb.create_pool_async(DSN, user="memory_reader", password=PASSWORD)
    store = OracleStore(pool, schema_owner="memory_app")
    try:
        await store.open()
        assert await found_by(store, "kite") == ["m1"]
        assert [
            item.id
            for item in await store.get_records(RecordFilter(scope=USER, now=NOW, ids=("m1",)))
        ] == ["m1"]
        assert (await store.stats(NOW)).records == {"memory": 1}
        await store.close()
    finally:
        await pool.close(force=True)


# Interruptions and company


async def test_a_creation_that_fails_anywhere_is_taken_up_again(oracle):
    """From some definition on, each fails; opening again afterwards finishes the store."""
    failures = []
    for at in range(1, 100, 3):
        store_id = f"S{at}"
        fault = oracle.faults.add(
            FaultKind.ERROR, statement=r"^(CREATE|BEGIN|DROP)", at=at, code=1031, times=1000
        )
        try:
            async with oracle_store(oracle, memory_store_id=store_id):
                pass
        except StoreError as error:
            failures.append(error)
        oracle.faults.planned.remove(fault)
        async with oracle_store(oracle, memory_store_id=store_id) as store:
            row = await read_row(store._engine, store._t)
            assert row is not None
            assert (row.state, row.lease_owner) == (StoreState.READY, None)
            await store.add_records([record("m1")])
            assert await found_by(store, "kite") == ["m1"]
        if fault.seen < at:
            break
    # Tables and indexes are needed; from the text index on a failure is a warning.
    assert 10 < len(failures) < at / 3


async def test_two_processes_create_one_store(oracle):
    async def one(number: int) -> None:
        async with oracle_store(oracle, pool={"max": 1}) as store:
            await store.add_records([record(f"m{number}")])

    # The emulation makes a user's schema at the first login.
    first = new_pool(max=1)
    async with first.acquire() as connection:
        await connection.ping()
    await first.close()

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(one, number)
    async with oracle_store(oracle, schema_policy=REQUIRE) as store:
        assert sorted(await found_by(store, "kite")) == ["m0", "m1", "m2"]


@pytest.mark.parametrize("code", [955, 1])
async def test_who_creates_the_registry_second_goes_on(oracle, code):
    async with oracle_store(oracle, memory_store_id="first"):
        pass
    statement = ddl.create_registry(T).text.partition(" (")[0]
    fault = oracle.faults.add(FaultKind.ERROR, statement=statement, code=code)
    async with oracle_store(oracle) as store:
        await store.add_records([record("m1")])
    assert fault.seen == 1


async def test_without_the_right_to_create_tables_it_says_so(oracle):
    statement = ddl.create_registry(T).text.partition(" (")[0]
    oracle.faults.add(FaultKind.ERROR, statement=statement, code=1031)
    with pytest.raises(StoreError, match="ORA-01031"):
        async with oracle_store(oracle):
            pass


async def test_a_lease_that_is_held_is_waited_for_and_then_refused(oracle, monkeypatch):
    monkeypatch.setattr(migrations, "_WAIT_S", 0.3)
    monkeypatch.setattr(migrations, "_POLL_S", 0.05)
    async with oracle_store(oracle) as store:
        held = Migrator(store._engine, T, schema="MEMORY_APP", owner="somebody else")
        await held.take()
        with pytest.raises(StoreBusyError, match="another process is changing store 'DEFAULT'"):
            async with oracle_store(oracle, schema_policy=SchemaPolicy.RECREATE):
                pass
        await held.give_back()
        async with oracle_store(oracle, schema_policy=SchemaPolicy.RECREATE):
            pass


async def test_a_lease_whose_holder_died_runs_out(oracle):
    async with oracle_store(oracle) as store:
        past = datetime.now(UTC) - migrations.LEASE
        await change_row(store, lease_owner="the dead", lease_until=past)
        async with oracle_store(oracle, schema_policy=SchemaPolicy.RECREATE) as anew:
            assert await found_by(anew, "kite") == []


async def test_who_lost_the_lease_changes_nothing_more(oracle):
    async with oracle_store(oracle) as store:
        slow = Migrator(store._engine, T, schema="MEMORY_APP", owner="slow")
        await slow.take()
        await change_row(store, lease_owner="quick", lease_until=datetime.now(UTC))
        with pytest.raises(StoreBusyError, match="took over"):
            await slow._note(slow.row)


# Indexes for search


async def test_without_oracle_text_words_are_looked_for_in_the_scope(oracle, caplog):
    oracle.faults.add(FaultKind.ERROR, statement="object_name = 'CTX_DDL'", code=942, times=1000)
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        async with oracle_store(oracle) as store:
            await store.add_records([record("m1", "red kites"), record("m2", "a boat")])
            assert await found_by(store, "kite") == ["m1"]
            assert not store._engine.capabilities.text_index
    assert "no Oracle Text index" in caplog.text
    assert not any("INDEXTYPE" in text for text in oracle.statements)
    oracle.faults.planned.clear()
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert store._engine.capabilities.text_index
        assert await found_by(store, "kite") == ["m1"]


async def test_a_text_index_that_cannot_be_made_leaves_nothing_behind(oracle, caplog):
    oracle.faults.add(FaultKind.ERROR, statement="INDEXTYPE IS", code=20000, times=1000)
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        async with oracle_store(oracle) as store:
            await store.add_records([record("m1")])
            assert await found_by(store, "kite") == ["m1"]
    assert "could not be made" in caplog.text
    drops = [text for text in oracle.statements if text.startswith("DROP INDEX")]
    assert drops[-1].endswith("FORCE")


async def test_a_database_that_fails_for_now_is_no_database_without_an_index(oracle):
    fault = oracle.faults.add(FaultKind.ERROR, statement="INDEXTYPE IS", code=54, times=1000)
    with pytest.raises(StoreBusyError):
        async with oracle_store(oracle):
            pass
    drops = [text for text in oracle.statements if text.startswith("DROP INDEX")]
    assert len(drops) == 2, "before the attempt, and after it"
    oracle.faults.planned.remove(fault)
    async with oracle_store(oracle) as store:
        assert store._engine.capabilities.text_index


async def test_a_purge_job_that_cannot_be_made_is_left_to_the_client(oracle, caplog):
    oracle.faults.add(FaultKind.ERROR, statement="CREATE_JOB", code=20000, times=1000)
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        async with oracle_store(oracle) as store:
            assert not store._indexes.purge_job
            await store.add_records([record("m1", expires_at=NOW)])
            assert (await store.purge_expired(NOW)).counts["memory"] == 1
    assert "`purge_expired` does it" in caplog.text


async def test_another_way_of_synchronising_makes_the_text_index_anew(oracle):
    async with oracle_store(oracle):
        pass
    async with oracle_store(oracle, search_index_sync=SearchIndexSyncMode.MANUAL) as store:
        assert store._indexes.text is SearchIndexSyncMode.MANUAL
    made = [text for text in oracle.statements if "INDEXTYPE" in text]
    assert "SYNC (ON COMMIT)" in made[0]
    assert "SYNC (MANUAL)" in made[1]
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert store._indexes.text is SearchIndexSyncMode.MANUAL


def vectors(names, seed=1):
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(len(names), 8)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return dict(zip(names, matrix, strict=True))


FINGERPRINT = EmbedderFingerprint(model="hash", dimension=8)


@pytest.mark.parametrize(
    ("failing", "kind"),
    [(None, VectorIndexKind.HNSW), ("INMEMORY", VectorIndexKind.IVF), ("VECTOR INDEX", None)],
)
async def test_many_vectors_are_indexed_as_the_database_can(oracle, monkeypatch, failing, kind):
    monkeypatch.setattr(index_setup, "VECTORS_TO_INDEX", 5)
    names = [f"m{number}" for number in range(6)]
    async with oracle_store(oracle) as store:
        await store.claim_embedder(FINGERPRINT)
        await store.add_records([record(name) for name in names], vectors=vectors(names))
        assert store._engine.capabilities.vector_index is None
    if failing:
        oracle.faults.add(FaultKind.ERROR, statement=f"CREATE.*{failing}", code=51962, times=1000)
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert store._engine.capabilities.vector_index is kind
        assert store._indexes.dimension == (8 if kind else None)
        everywhere = CandidateQuery(
            filter=RecordFilter(scope=ScopeFilter(), now=NOW),
            pool=1,
            vector=vectors(names)["m3"],
        )
        await store.claim_embedder(FINGERPRINT)
        assert [item.record.id for item in await store.candidates(everywhere)] == ["m3"]


async def test_too_few_vectors_are_compared_one_by_one(oracle, monkeypatch):
    monkeypatch.setattr(index_setup, "VECTORS_TO_INDEX", 5)
    names = ["m1", "m2", "m3", "m4"]
    async with oracle_store(oracle) as store:
        await store.claim_embedder(FINGERPRINT)
        await store.add_records([record(name) for name in names], vectors=vectors(names))
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert store._indexes.vector is None


async def test_vectors_of_two_lengths_are_not_indexed(oracle, monkeypatch):
    monkeypatch.setattr(index_setup, "VECTORS_TO_INDEX", 2)
    async with oracle_store(oracle) as store:
        await store.add_records(
            [record("m1"), record("m2")],
            vectors={**vectors(["m1"]), "m2": np.array([0.6, 0.8], dtype=np.float32)},
        )
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert store._indexes.vector is None


async def test_a_new_embedder_drops_the_vector_index(oracle, monkeypatch):
    monkeypatch.setattr(index_setup, "VECTORS_TO_INDEX", 2)
    async with oracle_store(oracle) as store:
        await store.claim_embedder(FINGERPRINT)
        await store.add_records([record("m1"), record("m2")], vectors=vectors(["m1", "m2"]))
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert store._indexes.vector is not None
        await store.replace_embedder(replace(FINGERPRINT, model="other", dimension=3))
        assert store._indexes.vector is None
        row = await read_row(store._engine, T)
        assert row is not None
        assert row.indexes.vector is None
        assert (await store.stats(NOW)).vectors == 0
    assert oracle.statements.count(search_indexes.drop_vector_index(T)[0].text) == 2


async def test_text_is_analysed_anew_by_another_release(oracle, monkeypatch):
    monkeypatch.setattr(reindexing, "BATCH", 2)
    names = [f"m{number}" for number in range(5)]
    async with oracle_store(oracle) as store:
        await store.claim_embedder(FINGERPRINT)
        await store.add_records([record(name) for name in names], vectors=vectors(names))
        oracle.database.run("UPDATE memory_app.default_chunk SET tokens = ' xold '")
        indexes = replace(store._indexes, analysis="an older one")
        await change_row(store, indexes=indexes)
        assert await found_by(store, "kite") == []
    with pytest.raises(SchemaMismatchError, match="another release"):
        async with oracle_store(oracle, schema_policy=REQUIRE):
            pass
    async with oracle_store(oracle, schema_policy=CREATE) as store:
        assert sorted(await found_by(store, "kite")) == names
        assert set(await store.vectors(names)) == set(names)
    async with oracle_store(oracle, schema_policy=REQUIRE) as store:
        assert len(await found_by(store, "kite")) == 5
