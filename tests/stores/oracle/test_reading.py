"""What reads on an Oracle store answers as on SQLite, in as few round trips as promised."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pytest

from agentmemory.config import SearchIndexSyncMode
from agentmemory.errors import (
    EmbedderMismatchError,
    NotFoundError,
    ValidationError,
)
from agentmemory.layering import EvictionPolicy, LayerQuery, LayerWord
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.records import Layer, ScopedRecord, Tier
from agentmemory.requests import CandidateQuery, ListQuery, QueryTerm, RecordFilter, ThreadQuery
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.oracle import lexical
from agentmemory.stores.oracle.capabilities import VectorIndexKind
from agentmemory.stores.oracle.search_indexes import SearchIndexes
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.text.analyzer import analyze_query
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.pair import (
    NOW,
    WORDS,
    Pair,
    fill,
    random_filter,
    records,
    sentence,
    tokens,
    unit_vector,
)
from tests.support.oracle.store import WITH_STORE, make_store_template, oracle_server, oracle_store

COUNT = 60
EVERYTHING = RecordFilter(scope=ScopeFilter(), now=NOW, tiers=tuple(Tier))
TEXT = SearchIndexes(text=SearchIndexSyncMode.ON_COMMIT)
NONE = SearchIndexes()
NEAR = SearchIndexes(vector=VectorIndexKind.HNSW, dimension=8)

LONG = {
    "content": "kite 凧 😀 " * 400,
    "metadata": {"text": "kite 😀" * 900, "n": [1.5, 1e300, 2**62, 2.0, True, None]},
    "tags": tuple(f"tag{number}" for number in range(900)),
    "sources": tuple(f"message-{number:0100}" for number in range(40)),
    "compressed": "kite " * 400,
}


@pytest.fixture
async def database():
    await make_store_template()
    with oracle_server(WITH_STORE) as server:
        yield server
        await server.settle()
        server.check_clean()


@pytest.fixture
async def pair(database):
    async with opened(database, COUNT) as pair:
        yield pair


@asynccontextmanager
async def opened(database, count):
    random = Random(7)
    sqlite = SqliteStore(":memory:")
    await sqlite.open()
    async with oracle_store(database) as oracle:
        pair = Pair(sqlite, oracle, records(count, random))
        await fill(pair, random)
        yield pair
    await sqlite.close()


def use(pair: Pair, indexes: SearchIndexes) -> None:
    """Have searches of the Oracle store use just these indexes."""
    pair.oracle._indexes = indexes


def trips(database) -> int:
    """Return how many round trips somebody waited for; a connection is cleaned when it is back."""
    return database.count() - database.count("rollback", "connect")


def same(ours, theirs) -> None:
    """Compare candidates: all of each, numbers to a millionth."""
    found = {candidate.record.id: candidate for candidate in ours}
    assert found.keys() == {candidate.record.id for candidate in theirs}
    for their in theirs:
        our = found[their.record.id]
        assert our.lexical == pytest.approx(their.lexical, abs=1e-6)
        assert our.cosine == pytest.approx(their.cosine, abs=1e-6)
        assert replace(our, lexical=None, cosine=None) == replace(their, lexical=None, cosine=None)


class TestSearches:
    @pytest.mark.parametrize("indexes", [TEXT, NONE, NEAR], ids=["text", "none", "vector"])
    async def test_both_arms_bring_and_score_as_on_sqlite(self, pair, database, indexes):
        use(pair, indexes)
        random = Random(11)
        compared = 0
        for number in range(12):
            terms = analyze_query(sentence(random, random.randint(1, 4)))
            if number % 4 == 0:
                terms = (*terms, QueryTerm("co", prefix=True))
            vector = unit_vector(random) if number % 3 else None
            queries = [
                CandidateQuery(
                    filter=random_filter(random, COUNT),
                    pool=500,
                    terms=() if number % 5 == 1 else terms,
                    vector=vector,
                    actor_terms=frozenset(tokens("Ada")),
                    with_vectors=number % 2 == 0,
                )
                for _ in range(3)
            ]
            theirs = await pair.sqlite.candidates_together(queries)
            database.forget()
            ours = await pair.oracle.candidates_together(queries)
            # Where a vector index finds fewer than asked for, all are compared; vectors arrive
            # after the trip that asks for them.
            most = 2 + (indexes is NEAR and vector is not None) + queries[0].with_vectors
            assert trips(database) <= most
            for our, their in zip(ours, theirs, strict=True):
                same(our, their)
                compared += len(their)
        assert compared > 300

    async def test_a_query_longer_than_a_bind_finds_what_a_short_one_does(self, pair):
        use(pair, TEXT)
        filler = tuple(QueryTerm(f"凧{number:04}" * 9) for number in range(250))
        query = CandidateQuery(filter=EVERYTHING, pool=500, terms=(*filler, QueryTerm("zebra")))
        ours, theirs = await pair.oracle.candidates(query), await pair.sqlite.candidates(query)
        assert theirs
        same(ours, theirs)

    async def test_the_pool_holds_what_has_most_of_the_words(self, database):
        async with opened(database, 0) as pair:
            texts = ["one two three four five six", "one two", "one", "five six four"]
            await pair.oracle.add_records(
                [
                    ScopedRecord(
                        id=f"{text}{number}",
                        record_type="fact",
                        content=text,
                        created_at=NOW,
                        updated_at=NOW,
                    )
                    for text in texts
                    for number in range(3)
                ]
            )
            terms = analyze_query("one two three")
            for indexes in (TEXT, NONE):
                use(pair, indexes)
                query = CandidateQuery(filter=EVERYTHING, pool=4, terms=terms)
                found = await pair.oracle.candidates(query)
                assert [item.record.content for item in found] == [texts[0]] * 3 + [texts[1]]

    async def test_what_a_vector_index_finds_too_few_of_is_compared(self, pair, database):
        use(pair, NEAR)
        query = CandidateQuery(filter=EVERYTHING, pool=5, vector=unit_vector(Random(1)))
        database.forget()
        full = await pair.oracle.candidates(query)
        assert (len(full), trips(database)) == (5, 2)
        assert any("FETCH APPROX" in text for text in database.statements)
        database.forget()
        short = await pair.oracle.candidates(replace(query, pool=1_000))
        assert (len(short), trips(database)) == (
            len(await pair.oracle.vectors([record.id for record in pair.records])),
            3,
        )

    async def test_a_user_s_vectors_are_all_compared(self, pair, database):
        use(pair, NEAR)
        mine = replace(EVERYTHING, scope=ScopeFilter(user=DimensionMatch(True, "ada")))
        database.forget()
        query = CandidateQuery(filter=mine, pool=5, vector=unit_vector(Random(1)))
        same(await pair.oracle.candidates(query), await pair.sqlite.candidates(query))
        assert not any("FETCH APPROX" in text for text in database.statements)

    async def test_a_vector_of_another_length_is_near_to_nothing(self, pair):
        query = CandidateQuery(
            filter=EVERYTHING,
            pool=50,
            terms=(QueryTerm("zebra"),),
            vector=np.array([1, 0], dtype=np.float32),
        )
        ours = await pair.oracle.candidates(query)
        same(ours, await pair.sqlite.candidates(query))
        assert ours
        assert all(item.cosine is None and item.vector_rank is None for item in ours)

    async def test_a_record_that_goes_between_the_trips_is_left_out(self, pair, database):
        use(pair, TEXT)
        query = CandidateQuery(
            filter=EVERYTHING, pool=500, terms=(QueryTerm("zebra"),), vector=unit_vector(Random(3))
        )
        before = await pair.oracle.candidates(query)
        gone = before[0].record
        run, trips = pair.oracle._engine.read, []

        async def read(work):
            async def watched(transaction):
                class Watched:
                    async def run(self, *statements):
                        answers = await transaction.run(*statements)
                        trips.append(len(statements))
                        if len(trips) == 1:
                            await pair.oracle.delete_records(replace(EVERYTHING, ids=(gone.id,)))
                        return answers

                return await work(Watched())

            return await run(watched)

        pair.oracle._engine.read = read
        after = await pair.oracle.candidates(query)
        assert len(trips) == 2
        assert gone.id not in {item.record.id for item in after}
        assert len(after) == len(before) - 1
        for ranks in ("lexical_rank", "vector_rank"):
            held = sorted(rank for item in after if (rank := getattr(item, ranks)) is not None)
            assert held == list(range(1, len(held) + 1))

    async def test_another_embedder_s_vectors_are_not_compared(self, pair):
        await pair.oracle.claim_embedder(EmbedderFingerprint(model="one", dimension=8))
        async with oracle_store_of(pair) as other:
            await other.replace_embedder(EmbedderFingerprint(model="two", dimension=8))
        query = CandidateQuery(filter=EVERYTHING, pool=5, vector=unit_vector(Random(1)))
        with pytest.raises(EmbedderMismatchError, match="'one'"):
            await pair.oracle.candidates(query)
        words = replace(query, vector=None, terms=(QueryTerm("zebra"),))
        assert await pair.oracle.candidates(words)

    async def test_a_vector_index_of_another_embedder_refuses_the_query(self, pair, database):
        use(pair, NEAR)
        query = CandidateQuery(filter=EVERYTHING, pool=5, vector=unit_vector(Random(1)))
        database.faults.add(FaultKind.ERROR, statement="FETCH APPROX", code=51803)
        with pytest.raises(EmbedderMismatchError, match="another length"):
            await pair.oracle.candidates(query)

    async def test_counts_of_a_large_store_are_asked_for_once(self, pair, database, monkeypatch):
        monkeypatch.setattr(lexical, "LARGE_STORE", 1)
        monkeypatch.setattr(lexical, "COMMON", 1)
        query = CandidateQuery(filter=EVERYTHING, pool=500, terms=(QueryTerm("zebra"),))
        for indexes in (TEXT, NONE):
            use(pair, indexes)
            pair.oracle._counts = None
            first = await pair.oracle.candidates(query)
            database.forget()
            assert await pair.oracle.candidates(query) == first
            assert not any(" COUNT(" in text for text in database.statements)
            assert not any("SUM(CASE" in text for text in database.statements)
            same(first, await pair.sqlite.candidates(query))

    async def test_a_search_that_loses_its_connection_is_made_again(self, pair, database):
        query = CandidateQuery(filter=EVERYTHING, pool=50, terms=(QueryTerm("zebra"),))
        before = await pair.oracle.candidates(query)
        database.faults.add(FaultKind.LOST_AFTER, trip="pipeline")
        assert await pair.oracle.candidates(query) == before
        assert database.faults.came


@asynccontextmanager
async def oracle_store_of(pair: Pair):
    from tests.support.oracle.server import current_server

    async with oracle_store(current_server()) as store:
        yield store


class TestLongTexts:
    """What VARCHAR2 does not hold takes one trip more, and comes whole."""

    @pytest.mark.parametrize("name", [*LONG, "none"])
    async def test_a_record_comes_whole_however_long_a_part_of_it_is(self, database, name):
        values: dict[str, Any] = {"content": "kite", "layer": Layer.RULE, name: LONG.get(name)}
        values.pop("none", None)
        record = ScopedRecord(
            id="a", record_type="fact", created_at=NOW, updated_at=NOW, user_id="ada", **values
        )
        query = CandidateQuery(filter=EVERYTHING, pool=5, terms=(QueryTerm("kite"),))
        layers = LayerQuery(
            filter=EVERYTHING,
            words=(LayerWord(text="kite", forms=((QueryTerm("kite"),),)),),
            pools={Layer.RULE: 5},
        )
        async with opened(database, 0) as pair:
            for store in (pair.sqlite, pair.oracle):
                await store.add_records([record])
            await pair.oracle.candidates(query)
            database.forget()
            same(await pair.oracle.candidates(query), await pair.sqlite.candidates(query))
            assert database.count("pipeline", "execute") == (2 if name == "none" else 3)
            one = replace(EVERYTHING, ids=("a",))
            assert await pair.oracle.get_records(one) == await pair.sqlite.get_records(one)
            listing = ListQuery(filter=EVERYTHING)
            assert await pair.oracle.list_records(listing) == await pair.sqlite.list_records(
                listing
            )
            found = await pair.oracle.match_layers(layers)
            assert found == await pair.sqlite.match_layers(layers)
            assert len(found.matches[Layer.RULE]) == 1

    async def test_a_field_longer_than_a_column_is_scored_whole(self, database):
        record = ScopedRecord(
            id="a",
            record_type="fact",
            content="short kite",
            metadata={"text": " ".join(f"word{number}" for number in range(900))},
            created_at=NOW,
            updated_at=NOW,
        )
        async with opened(database, 0) as pair:
            for store in (pair.sqlite, pair.oracle):
                await store.add_records([record])
            for word in ("kite", "word899"):
                query = CandidateQuery(filter=EVERYTHING, pool=5, terms=(QueryTerm(word),))
                ours = await pair.oracle.candidates(query)
                assert ours[0].lexical > 0
                same(ours, await pair.sqlite.candidates(query))


class TestLists:
    @pytest.mark.parametrize("order", ["created", "event"])
    @pytest.mark.parametrize("descending", [False, True])
    async def test_pages_and_cursors_are_those_of_sqlite(self, pair, database, order, descending):
        random = Random(5)
        for _ in range(2):
            query = ListQuery(
                filter=random_filter(random, COUNT), limit=7, order=order, descending=descending
            )
            while True:
                theirs = await pair.sqlite.list_records(query)
                database.forget()
                ours = await pair.oracle.list_records(query)
                assert trips(database) == 1
                assert (ours.items, ours.next_cursor) == (theirs.items, theirs.next_cursor)
                if ours.next_cursor is None:
                    break
                query = replace(query, after=ours.next_cursor)

    async def test_threads_come_in_pages_too(self, pair):
        for query in (
            ThreadQuery(limit=1),
            ThreadQuery(limit=1, descending=True),
            ThreadQuery(user_id="bo"),
            ThreadQuery(agent_id=None, metadata={"a": {"$exists": False}}),
            ThreadQuery(user_id=None),
        ):
            theirs = await pair.sqlite.list_threads(query)
            assert await pair.oracle.list_threads(query) == theirs
            if theirs.next_cursor is not None:
                rest = replace(query, after=theirs.next_cursor)
                assert await pair.oracle.list_threads(rest) == await pair.sqlite.list_threads(rest)

    async def test_bad_limits_and_cursors_are_refused_before_the_database_is_asked(
        self, pair, database
    ):
        event = (await pair.oracle.list_records(ListQuery(filter=EVERYTHING, limit=1))).next_cursor
        database.forget()
        for ask, query, argument in (
            (pair.oracle.list_records, ListQuery(filter=EVERYTHING, limit=0), "limit"),
            (pair.oracle.list_records, ListQuery(filter=EVERYTHING, after="x"), "cursor"),
            (
                pair.oracle.list_records,
                ListQuery(filter=EVERYTHING, after=event, descending=True),
                "cursor",
            ),
            (pair.oracle.list_threads, ThreadQuery(limit=1_001), "limit"),
            (pair.oracle.list_threads, ThreadQuery(after=event), "cursor"),
        ):
            with pytest.raises(ValidationError, match=f"`{argument}`") as caught:
                await ask(query)
            assert caught.value.argument == argument
        assert database.count() == 0


class TestRecords:
    async def test_records_come_by_id_in_the_order_asked_for(self, pair, database):
        names = tuple(record.id for record in reversed(pair.records))
        wanted = replace(EVERYTHING, ids=(*names, "nobody", names[0]))
        database.forget()
        ours = await pair.oracle.get_records(wanted)
        assert trips(database) == 1
        assert ours == await pair.sqlite.get_records(wanted)
        assert len(ours) == COUNT + 1
        assert await pair.oracle.get_records(replace(EVERYTHING, ids=())) == ()

    async def test_a_message_stands_between_its_neighbours(self, pair, database):
        for record in pair.records[:12]:
            one = replace(EVERYTHING, ids=(record.id,))
            database.forget()
            assert await pair.oracle.neighbourhood(one) == await pair.sqlite.neighbourhood(one)
            assert trips(database) == 1
        with pytest.raises(NotFoundError, match="no record 'nobody' in this scope"):
            await pair.oracle.neighbourhood(replace(EVERYTHING, ids=("nobody",)))

    async def test_the_last_message_of_a_thread_is_its_tail(self, pair):
        for thread in ("t1", "t2", "t3"):
            assert await pair.oracle.thread_tail(thread) == await pair.sqlite.thread_tail(thread)
        assert await pair.oracle.thread_tail("t3") is None

    async def test_vectors_come_by_id(self, pair):
        names = [record.id for record in pair.records]
        ours, theirs = await pair.oracle.vectors(names), await pair.sqlite.vectors(names)
        assert ours.keys() == theirs.keys()
        assert len(ours) < COUNT
        for name, vector in theirs.items():
            assert ours[name].dtype == np.float32
            assert np.array_equal(ours[name], vector)
        assert await pair.oracle.vectors([]) == {}

    async def test_speakers_are_sorted_by_code_point(self, pair):
        await pair.oracle.add_records(
            [
                ScopedRecord(
                    id=f"spoken{name}",
                    record_type="message",
                    content="x",
                    actor=name,
                    user_id="ada",
                    thread_id="t1",
                    created_at=NOW,
                    updated_at=NOW,
                )
                for name in ("zoe", "Émile", "alf")
            ]
        )
        assert await pair.oracle.actors(EVERYTHING) == ("Ada", "Bo", "alf", "zoe", "Émile")
        theirs = replace(EVERYTHING, scope=ScopeFilter(user=DimensionMatch(True, "bo")))
        assert await pair.oracle.actors(theirs) == await pair.sqlite.actors(theirs)


class TestLayers:
    @pytest.mark.parametrize("indexes", [TEXT, NONE], ids=["text", "none"])
    async def test_layers_match_as_on_sqlite(self, pair, database, indexes):
        use(pair, indexes)
        random = Random(13)
        found = 0
        for _ in range(10):
            words = tuple(
                LayerWord(
                    text=word,
                    forms=(tuple(map(QueryTerm, tokens(word))), (QueryTerm("river"),)),
                    whole=frozenset({" ".join(tokens(word))}),
                    weight=random.choice([1.0, 0.5]),
                )
                for word in random.sample(WORDS, 2)
            )
            query = LayerQuery(
                filter=random_filter(random, COUNT),
                words=words,
                pools={Layer.RULE: 50, Layer.CONTEXT: 50, Layer.CRITICAL: 5},
                count_to=random.choice([0, 3, 1_000]),
            )
            theirs = await pair.sqlite.match_layers(query)
            database.forget()
            ours = await pair.oracle.match_layers(query)
            assert trips(database) <= 2
            assert (ours.critical, ours.active) == (theirs.critical, theirs.active)
            assert ours.matches.keys() == theirs.matches.keys()
            for layer, items in theirs.matches.items():
                assert [item.record for item in ours.matches[layer]] == [
                    item.record for item in items
                ]
                for our, their in zip(ours.matches[layer], items, strict=True):
                    assert our.match == pytest.approx(their.match, abs=1e-6)
                    assert sorted(our.words) == sorted(their.words)
                found += len(items)
        assert found > 20

    async def test_without_words_only_critical_comes(self, pair, database):
        query = LayerQuery(filter=EVERYTHING, words=(), pools={Layer.RULE: 5})
        database.forget()
        assert await pair.oracle.match_layers(query) == await pair.sqlite.match_layers(query)
        assert trips(database) == 1

    async def test_hits_confidence_and_eviction_end_as_on_sqlite(self, pair, database):
        later = NOW + timedelta(days=40)
        three = replace(EVERYTHING, ids=("r1", "r2", "r9"))
        for store in (pair.sqlite, pair.oracle):
            assert await store.count_hits(three, now=later) == 3
            with pytest.raises(NotFoundError, match="no record 'nobody' in this scope"):
                await store.adjust_confidence(
                    replace(EVERYTHING, ids=("r1", "nobody")), 0.1, now=later
                )
        for delta in (-0.2, -0.5, 0.4):
            theirs = await pair.sqlite.adjust_confidence(three, delta, now=later)
            database.forget()
            assert await pair.oracle.adjust_confidence(three, delta, now=later) == theirs
            assert database.count("pipeline", "execute") == 2
        ada = replace(EVERYTHING, scope=ScopeFilter(user=DimensionMatch(True, "ada")), now=later)
        reports: list[Any] = []
        for record_filter in (ada, replace(EVERYTHING, now=later)):
            for dry_run in (True, False, False):
                reports = [
                    await store.evict(record_filter, EvictionPolicy(), now=later, dry_run=dry_run)
                    for store in (pair.sqlite, pair.oracle)
                ]
                assert reports[0] == reports[1]
        assert not reports[1].changes
        every = replace(EVERYTHING, ids=tuple(record.id for record in pair.records))
        ours = await pair.oracle.get_records(every)
        assert ours == await pair.sqlite.get_records(every)
        tiers = database.database.run(
            "SELECT r.id, c.tier FROM memory_app.default_record r "
            "JOIN memory_app.default_chunk c ON c.record_seq = r.seq"
        )
        assert {(record.id, record.tier.value) for record in ours} == set(tiers)

    async def test_twice_the_patience_is_for_more_than_twice_as_long(self, database):
        async with opened(database, 0) as pair:
            policy = EvictionPolicy(warm_after=1, cold_after=2, archive_after=3)
            microsecond = timedelta(microseconds=1)
            ages = [
                timedelta(days=days) + step * microsecond
                for days in (1, 2, 3, 4, 6)
                for step in (-1, 0, 1, 2)
            ]
            made = [
                ScopedRecord(
                    id=f"a{number}h{hits}{kind}",
                    record_type=kind,
                    content="x",
                    layer=Layer.RULE,
                    hit_count=hits,
                    created_at=NOW - age,
                    updated_at=NOW - age,
                )
                for number, age in enumerate(ages)
                for hits in (1, 2)
                for kind in ("fact", "guideline")
            ]
            reports = []
            for store in (pair.sqlite, pair.oracle):
                await store.add_records(made)
                reports.append(await store.evict(EVERYTHING, policy, now=NOW, dry_run=True))
            assert reports[0] == reports[1]
            assert set(reports[0].counts) == {"warm", "cold", "archived"}


class TestUnknownOutcomes:
    """The answer to a commit is lost: the database is asked whether it took effect."""

    @pytest.mark.parametrize("kind", [FaultKind.LOST_BEFORE, FaultKind.LOST_AFTER])
    async def test_nothing_is_done_twice_or_left_out(self, pair, database, kind):
        later = NOW + timedelta(days=400)
        three = replace(EVERYTHING, ids=("r1", "r2", "r9"))
        before = await pair.oracle.get_records(three)

        database.faults.add(kind, statement="hit_count = ")
        assert await pair.oracle.count_hits(three, now=later) == 3
        database.faults.add(kind, statement="SET confidence")
        changed = await pair.oracle.adjust_confidence(three, -0.125, now=later)
        database.faults.add(kind, statement="SET tier")
        report = await pair.oracle.evict(
            replace(EVERYTHING, now=NOW), EvictionPolicy(), now=later, dry_run=False
        )
        assert len(database.faults.came) == 3
        assert report.changes
        after = {record.id: record for record in await pair.oracle.get_records(three)}
        for old, new in zip(before, changed, strict=True):
            assert new.hit_count == old.hit_count + 1
            assert new.confidence == pytest.approx(old.confidence - 0.125)
            assert new.revision == old.revision + 1
            assert after[old.id].hit_count == new.hit_count
        moved = replace(EVERYTHING, ids=tuple(change.id for change in report.changes))
        tiers = {record.id: record.tier for record in await pair.oracle.get_records(moved)}
        assert tiers == {change.id: change.after for change in report.changes}
