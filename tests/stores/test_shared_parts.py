"""What every store computes in the same way: BM25, candidates, scores of layers, cursors."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from agentmemory.errors import ValidationError
from agentmemory.layering import EvictionPolicy, LayerWord
from agentmemory.records import ScopedRecord, Tier
from agentmemory.requests import CandidateQuery, QueryTerm, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.absence import missing
from agentmemory.stores.bm25 import K1, B, Bm25, Corpus, inverse_frequency
from agentmemory.stores.candidates import assemble
from agentmemory.stores.cursors import read_cursor, write_cursor
from agentmemory.stores.index_fields import FIELD_WEIGHTS, ChunkFields
from agentmemory.stores.layer_scores import (
    LayerChunk,
    best,
    eviction_reason,
    terms_of,
    weigh_words,
)
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.text.analyzer import analyze_query

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KITE, RED, BLUE = QueryTerm("kite"), QueryTerm("red"), QueryTerm("blu", prefix=True)


def fields(**texts: str) -> list[str]:
    chunk = ChunkFields(**{"content": "", **texts})
    return [getattr(chunk, name) for name in FIELD_WEIGHTS.__slots__]


class TestBm25:
    CORPUS = Corpus(10, 40)

    def test_a_score_is_the_formula(self):
        scorer = Bm25(self.CORPUS, {KITE: 2, RED: 5})
        frequency = 2 * FIELD_WEIGHTS.content + FIELD_WEIGHTS.tags
        norm = K1 * (1 - B + B * 4 / 4)
        worth = math.log(1 + (10 - 2 + 0.5) / (2 + 0.5))
        expected = worth * frequency * (K1 + 1) / (frequency + norm)
        assert scorer.score(fields(content="kite fly kite", tags="kite")) == pytest.approx(expected)

    def test_only_whole_words_count_unless_a_prefix_is_asked_for(self):
        scorer = Bm25(self.CORPUS, {KITE: 1, BLUE: 1})
        assert scorer.score(fields(content="kites")) == 0.0
        assert scorer.score(fields(content="blue")) == scorer.score(fields(content="blur")) > 0.0

    def test_a_speaker_s_name_is_worth_nothing(self):
        assert Bm25(self.CORPUS, {KITE: 1}).score(fields(content="x", actor="kite")) == 0.0

    def test_a_rare_word_is_worth_more_and_none_less_than_nothing(self):
        worths = [inverse_frequency(10, held) for held in (1, 5, 10, 11)]
        assert worths == sorted(worths, reverse=True)
        assert worths[2] == worths[3] > 0.0

    def test_a_word_counted_as_held_by_none_is_worth_what_one_chunk_s_is(self):
        chunk = fields(content="kite")
        unseen, once = (Bm25(self.CORPUS, {KITE: held}).score(chunk) for held in (0, 1))
        assert unseen == once > 0.0

    def test_the_best_chunk_of_a_record_counts(self):
        scorer = Bm25(self.CORPUS, {KITE: 1})
        chunks = [(1, fields(content="x")), (1, fields(content="kite")), (2, fields(content="y"))]
        assert scorer.best(chunks) == {1: scorer.score(chunks[1][1]), 2: 0.0}

    def test_an_empty_index_divides_by_nothing(self):
        assert Corpus(0, 0).average == 0.0
        assert Bm25(Corpus(0, 0), {KITE: 1}).score(fields(content="kite")) > 0.0

    async def test_scores_are_those_of_sqlite(self):
        store = SqliteStore(":memory:")
        await store.open()
        texts = ["red kite", "kite kite blue", "blue red car", "nothing at all", "kite"]
        await store.add_records(
            [
                ScopedRecord(
                    id=text, record_type="fact", content=text, created_at=NOW, updated_at=NOW
                )
                for text in texts
            ]
        )
        terms = analyze_query("red kite")
        query = CandidateQuery(
            filter=RecordFilter(scope=ScopeFilter(), now=NOW), pool=10, terms=terms
        )
        found = {item.record.id: item.lexical for item in await store.candidates(query)}
        await store.close()
        held = {term: sum(term.text in text.split() for text in texts) for term in terms}
        tokens = [fields(content=" ".join(word for word in text.split())) for text in texts]
        corpus = Corpus(len(texts), sum(len(text.split()) for text in texts))
        scorer = Bm25(corpus, held)
        for text, chunk in zip(texts, tokens, strict=True):
            assert scorer.score(chunk) == pytest.approx(found.get(text, 0.0), abs=1e-9)


def record(seq: int, **values) -> ScopedRecord:
    return ScopedRecord(
        **{
            "id": f"r{seq}",
            "record_type": "fact",
            "content": "a kite",
            "created_at": NOW,
            "updated_at": NOW,
            "seq": seq,
            **values,
        }
    )


class TestCandidates:
    def query(self, **values):
        scope = ScopeFilter(user=DimensionMatch(False, "ada"), thread=DimensionMatch(False, "t"))
        return CandidateQuery(
            **{
                "filter": RecordFilter(scope=scope, now=NOW),
                "pool": 9,
                "terms": (KITE,),
                **values,
            }
        )

    def test_ranks_are_those_of_each_arm_among_what_is_still_there(self):
        records = {seq: record(seq) for seq in (1, 2, 4)}
        found = assemble(
            self.query(), [3, 2, 1], [4, 3, 1], records, {1: 0.5, 2: 0.5}, {4: 0.9}, {}
        )
        ranks = [(item.record.seq, item.lexical_rank, item.vector_rank) for item in found]
        assert ranks == [(2, 2, None), (1, 1, 2), (4, None, 1)]
        assert [(item.lexical, item.cosine) for item in found] == [
            (0.5, None),
            (0.5, None),
            (0.0, 0.9),
        ]

    def test_without_words_there_is_no_lexical_score(self):
        (found,) = assemble(self.query(terms=()), [], [1], {1: record(1)}, {}, {1: 0.5}, {})
        assert (found.lexical, found.lexical_rank) == (None, None)

    def test_preferred_dimensions_are_counted_and_speakers_recognised(self):
        records = {
            1: record(1, user_id="ada", thread_id="t"),
            2: record(2, record_type="message", actor="Zoe Fox", content="nothing"),
            3: record(3, record_type="message", actor="Bo", content="zoe said so"),
            4: record(4, content="Zoe likes kites", user_id="ada"),
        }
        query = self.query(actor_terms=frozenset({"zoe"}))
        found = assemble(query, [1, 2, 3, 4], [], records, {}, {}, {})
        assert [item.scope_matches for item in found] == [2, 0, 0, 1]
        assert [item.actor_match for item in found] == [False, True, False, True]

    def test_vectors_come_along_when_they_are_wanted(self):
        for wanted in (False, True):
            query = self.query(with_vectors=wanted)
            vector = np.ones(2, dtype=np.float32)
            (found,) = assemble(query, [1], [], {1: record(1)}, {}, {}, {1: vector})
            assert found.vector is (vector if wanted else None)


class TestLayerScores:
    def words(self, *names, **values):
        return [
            LayerWord(
                text=name,
                forms=((QueryTerm(name),), (QueryTerm(f"{name}_other"),)),
                whole=frozenset({name}),
                **values,
            )
            for name in names
        ]

    def weighed(self, *names):
        words = self.words(*names)
        return weigh_words(words, 10, dict.fromkeys(terms_of(words), 1))

    def chunk(self, seq, content="", *tags, hits=0, confidence=1.0):
        return LayerChunk(seq, hits, confidence, tags, content)

    def test_a_word_that_no_chunk_holds_is_none(self):
        words = self.words("kite", "red")
        assert [item.text for item in weigh_words(words, 10, {KITE: 3})] == ["kite"]
        assert weigh_words(words, 10, {}) == []

    def test_tags_count_more_than_parts_of_tags_and_these_more_than_content(self):
        rows = [
            self.chunk(1, "a kite"),
            self.chunk(2, "", "red_kite"),
            self.chunk(3, "", "kite"),
            self.chunk(4, "a kite", "other"),
            self.chunk(5, "nothing"),
        ]
        found = best(rows, self.weighed("kite"), 10)
        assert [item.seq for item in found] == [3, 2, 4, 1]
        assert [item.match for item in found] == pytest.approx([1.0, 0.81, 0.64, 0.64])

    def test_use_breaks_ties_then_age(self):
        rows = [
            self.chunk(1, "kite"),
            self.chunk(2, "kite", hits=3, confidence=0.5),
            self.chunk(3, "kite"),
        ]
        assert [item.seq for item in best(rows, self.weighed("kite"), 10)] == [2, 3, 1]
        assert [item.seq for item in best(rows, self.weighed("kite"), 2)] == [2, 3]

    def test_words_come_in_the_order_of_the_query_from_any_chunk(self):
        rows = [self.chunk(1, "red"), self.chunk(1, "kite")]
        (found,) = best(rows, self.weighed("kite", "red"), 10)
        assert found.words == ("kite", "red")

    def test_reasons_name_what_is_so(self):
        policy = EvictionPolicy()
        idle = timedelta(days=100, hours=5)

        def reason(target, confidence=1.0, review=None):
            return eviction_reason(
                target, policy, confidence=confidence, review_reason=review, idle=idle
            )

        assert reason(Tier.COLD) == "idle for 100 days"
        assert reason(Tier.DEPRECATED, 0.25) == "confidence 0.25 is below 0.3"
        assert reason(Tier.DEPRECATED, 0.5, "depends on x") == "depends on x"


class TestCursors:
    def test_a_cursor_names_its_row_in_its_own_listing_only(self):
        cursor = write_cursor("event:ASC", 12, 34)
        assert read_cursor(cursor, "event:ASC") == (12, 34)
        others: tuple[Any, ...] = (cursor, "", "x", write_cursor("event:DESC", 1, 2)[:-4], 7)
        for bad in others:
            with pytest.raises(ValidationError, match="`cursor` is"):
                read_cursor(bad, "event:DESC")


def test_an_error_names_what_is_missing_without_telling_where_it_is():
    nobody = RecordFilter(
        scope=ScopeFilter(), now=NOW, record_types=("fact", "memory"), ids=("a", "b")
    )
    assert missing(nobody) == "there is no fact or memory 'a', 'b' in this scope"
